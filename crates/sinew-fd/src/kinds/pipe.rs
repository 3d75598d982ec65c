//! A pipe of bytes, between actors of a node or within one.
//!
//! Both ends share one state under one lock and have watchers of their own. A call on one end changes the state, releases the
//! lock, and notifies the watchers of the other: a write that finds the pipe empty sets `IN` there, a read that finds
//! it full sets `OUT`, and a close hangs up.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use sinew_core::Errno;

use crate::bits::Events;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::watchers::Watchers;

/// Creates a pipe that holds up to `capacity` bytes (at least one), and returns its two ends.
///
/// ```
/// use sinew_fd::{FdTable, Flags, pipe};
///
/// let (reader, writer) = pipe(4096);
/// let table = FdTable::new(16);
/// let (reader, writer) = (table.open(reader, Flags::NONE)?, table.open(writer, Flags::NONE)?);
/// table.write(writer, b"hello")?;
/// table.close(writer)?;
/// let mut buffer = [0; 16];
/// assert_eq!(table.read(reader, &mut buffer)?, 5);
/// assert_eq!(table.read(reader, &mut buffer)?, 0);
/// # Ok::<(), sinew_fd::Errno>(())
/// ```
pub fn pipe(capacity: usize) -> (Arc<PipeReader>, Arc<PipeWriter>) {
    let state = PipeState {
        bytes: VecDeque::new(),
        capacity: capacity.max(1),
        reader_closed: false,
        writer_closed: false,
    };
    let shared = Arc::new(Shared {
        state: ObjectLock::new(state),
        reader_watchers: Watchers::new(),
        writer_watchers: Watchers::new(),
    });
    let reader = PipeReader { shared: shared.clone(), counters: Counters::default() };
    (Arc::new(reader), Arc::new(PipeWriter { shared, counters: Counters::default() }))
}

#[derive(Debug)]
struct Shared {
    state: ObjectLock<PipeState>,
    reader_watchers: Watchers,
    writer_watchers: Watchers,
}

#[derive(Debug)]
struct PipeState {
    bytes: VecDeque<u8>,
    capacity: usize,
    reader_closed: bool,
    writer_closed: bool,
}

impl Shared {
    fn metrics(&self, counters: &Counters, watchers: &Watchers) -> Metrics {
        let (queue_depth, queue_limit) = {
            let state = self.state.lock();
            (state.bytes.len() as u64, state.capacity as u64)
        };
        Metrics { queue_depth, queue_limit, wakeups: watchers.wakeups(), ..counters.metrics() }
    }
}

/// The end of a [`pipe`] that is read. Ready for `IN` while there are bytes; when the writer is closed, for `IN` and `HUP`,
/// and a read of an empty pipe returns zero.
#[derive(Debug)]
pub struct PipeReader {
    shared: Arc<Shared>,
    counters: Counters,
}

impl FdObject for PipeReader {
    fn kind(&self) -> &'static str {
        "PipeRead"
    }

    fn watchers(&self) -> &Watchers {
        &self.shared.reader_watchers
    }

    fn poll_mask(&self) -> Events {
        let state = self.shared.state.lock();
        match (state.reader_closed, state.writer_closed) {
            (true, _) => Events::HUP,
            (false, true) => Events::IN | Events::HUP,
            (false, false) if state.bytes.is_empty() => Events::NONE,
            (false, false) => Events::IN,
        }
    }

    fn close(&self) {
        let bytes = {
            let mut state = self.shared.state.lock();
            state.reader_closed = true;
            std::mem::take(&mut state.bytes)
        };
        drop(bytes);
        self.shared.reader_watchers.notify(Events::HUP);
        self.shared.writer_watchers.notify(Events::ALWAYS);
    }

    fn metrics(&self) -> Metrics {
        self.shared.metrics(&self.counters, &self.shared.reader_watchers)
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let (count, was_full) = {
            let mut state = self.shared.state.lock();
            if state.reader_closed {
                return Err(Errno::EBADF);
            }
            if state.bytes.is_empty() && !state.writer_closed {
                return Err(Errno::EAGAIN);
            }
            let was_full = state.bytes.len() == state.capacity;
            (state.bytes.read(buffer).map_err(|_| Errno::EIO)?, was_full)
        };
        self.counters.count_read(count);
        if was_full {
            self.shared.writer_watchers.notify(Events::OUT);
        }
        Ok(count)
    }
}

/// The end of a [`pipe`] that is written. Ready for `OUT` while there is room for a byte; when the reader is closed, for
/// `ERR` and `HUP`, and a write fails with `EPIPE`.
#[derive(Debug)]
pub struct PipeWriter {
    shared: Arc<Shared>,
    counters: Counters,
}

impl FdObject for PipeWriter {
    fn kind(&self) -> &'static str {
        "PipeWrite"
    }

    fn watchers(&self) -> &Watchers {
        &self.shared.writer_watchers
    }

    fn poll_mask(&self) -> Events {
        let state = self.shared.state.lock();
        match (state.writer_closed, state.reader_closed) {
            (true, _) => Events::HUP,
            (false, true) => Events::ALWAYS,
            (false, false) if state.bytes.len() < state.capacity => Events::OUT,
            (false, false) => Events::NONE,
        }
    }

    fn close(&self) {
        self.shared.state.lock().writer_closed = true;
        self.shared.writer_watchers.notify(Events::HUP);
        self.shared.reader_watchers.notify(Events::IN | Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        self.shared.metrics(&self.counters, &self.shared.writer_watchers)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let (count, was_empty) = {
            let mut state = self.shared.state.lock();
            if state.writer_closed {
                return Err(Errno::EBADF);
            }
            if state.reader_closed {
                return Err(Errno::EPIPE);
            }
            let count = bytes.len().min(state.capacity - state.bytes.len());
            if count == 0 && !bytes.is_empty() {
                return Err(Errno::EAGAIN);
            }
            let was_empty = state.bytes.is_empty();
            state.bytes.extend(&bytes[..count]);
            (count, was_empty)
        };
        self.counters.count_write(count);
        if was_empty && count > 0 {
            self.shared.reader_watchers.notify(Events::IN);
        }
        Ok(count)
    }
}
