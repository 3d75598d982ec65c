//! What a guest may take of the host.

use std::time::Duration;

/// The limits of a guest. Exceeding one is the documented error of a host call, or ends the guest with
/// [`ExitReason::Limit`](sinew_kernel::ExitReason::Limit); it never fails the host.
///
/// ```
/// use std::time::Duration;
/// use sinew_wasm::Limits;
///
/// Limits::default().memory(1 << 20).message_cpu(Duration::from_millis(200));
/// ```
#[derive(Clone, Debug)]
#[must_use = "limits apply to the guest that they are given to"]
pub struct Limits {
    pub(crate) memory: usize,
    pub(crate) table_elements: usize,
    pub(crate) slice: Duration,
    pub(crate) weight: u32,
    pub(crate) start_cpu: Duration,
    pub(crate) message_cpu: Option<Duration>,
    pub(crate) total_cpu: Option<Duration>,
    pub(crate) copy: usize,
    pub(crate) message_bytes: usize,
    pub(crate) payload_area: usize,
    pub(crate) log_lines: u32,
    pub(crate) state_bytes: usize,
    pub(crate) children: u32,
    pub(crate) fds: usize,
}

/// The CPU weight that has exactly one slice a turn.
pub(crate) const DEFAULT_WEIGHT: u32 = 100;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 64 << 20,
            table_elements: 100_000,
            slice: Duration::from_millis(10),
            weight: DEFAULT_WEIGHT,
            start_cpu: Duration::from_secs(1),
            message_cpu: None,
            total_cpu: None,
            copy: 16 << 20,
            message_bytes: 64 << 10,
            payload_area: 64 << 10,
            log_lines: 1_000,
            state_bytes: 1 << 20,
            children: 16,
            fds: 64,
        }
    }
}

impl Limits {
    /// Limits the bytes of its linear memories. Defaults to 64 MiB. `memory.grow` returns -1 beyond it.
    pub fn memory(mut self, bytes: usize) -> Limits {
        self.memory = bytes;
        self
    }

    /// Limits the elements of its tables. Defaults to 100,000. `table.grow` returns -1 beyond it.
    pub fn table_elements(mut self, elements: usize) -> Limits {
        self.table_elements = elements;
        self
    }

    /// Sets the CPU time after which a computing guest lets others run. Defaults to 10 ms. A guest
    /// without a stack ([`StackClass::None`](crate::StackClass::None)) cannot be interrupted: its
    /// slice is its limit for one message.
    pub fn slice(mut self, slice: Duration) -> Limits {
        self.slice = slice;
        self
    }

    /// Sets its share of the CPU among the guests that compute on a worker. Defaults to 100: with 300 a
    /// guest gets three times the time of one with 100. At least 1.
    pub fn weight(mut self, weight: u32) -> Limits {
        self.weight = weight.max(1);
        self
    }

    /// Limits the CPU time of its start function and of `_initialize`. Defaults to one second.
    pub fn start_cpu(mut self, time: Duration) -> Limits {
        self.start_cpu = time;
        self
    }

    /// Limits the CPU time that it spends on one message. Not limited by default.
    pub fn message_cpu(mut self, time: Duration) -> Limits {
        self.message_cpu = Some(time);
        self
    }

    /// Limits the CPU time of its whole life. Not limited by default.
    pub fn total_cpu(mut self, time: Duration) -> Limits {
        self.total_cpu = Some(time);
        self
    }

    /// Limits the bytes that one host call copies. Defaults to 16 MiB. Reads and writes beyond it are short; other
    /// calls fail.
    pub fn copy(mut self, bytes: usize) -> Limits {
        self.copy = bytes;
        self
    }

    /// Limits the bytes of a message that it sends. Defaults to 64 KiB: `mk_send` returns 0 for more.
    pub fn message_bytes(mut self, bytes: usize) -> Limits {
        self.message_bytes = bytes;
        self
    }

    /// Sets the size of the area in its memory that payloads are placed in, if the module exports no
    /// allocator. Defaults to 64 KiB.
    pub fn payload_area(mut self, bytes: usize) -> Limits {
        self.payload_area = bytes;
        self
    }

    /// Limits the lines that it logs in a second. Defaults to 1,000; the others are counted and dropped.
    pub fn log_lines(mut self, lines: u32) -> Limits {
        self.log_lines = lines;
        self
    }

    /// Limits the bytes of one value of its state, and of its key. Defaults to 1 MiB.
    pub fn state_bytes(mut self, bytes: usize) -> Limits {
        self.state_bytes = bytes;
        self
    }

    /// Limits the children that it has at a time. Defaults to 16.
    pub fn children(mut self, children: u32) -> Limits {
        self.children = children;
        self
    }

    /// Limits its file descriptors: their numbers are below `fds`, of which 0 to 2 are its standard streams. Defaults
    /// to 64. A call that opens one more fails with `EMFILE`.
    pub fn fds(mut self, fds: usize) -> Limits {
        self.fds = fds;
        self
    }
}
