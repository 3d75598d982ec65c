//! Standard input, which is at its end, and standard output and error, which hand lines to a function.

use std::fmt;
use std::sync::Arc;

use sinew_core::Errno;
use sinew_sync::atomic::{AtomicBool, Ordering};

use crate::bits::Events;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::watchers::Watchers;

/// Bytes of a line that are kept until its end comes. A longer line is handed on in pieces of this length.
const LINE_LIMIT: usize = 8 * 1024;

/// Standard input that is at its end: ready for `IN` and `HUP`, and every read returns zero.
#[derive(Debug)]
pub struct Stdin {
    watchers: Watchers,
    counters: Counters,
    closed: AtomicBool,
}

impl Stdin {
    /// Creates a standard input.
    #[allow(clippy::new_ret_no_self, reason = "objects are shared from the start")]
    pub fn new() -> Arc<dyn FdObject> {
        Arc::new(Stdin {
            watchers: Watchers::new(),
            counters: Counters::default(),
            closed: AtomicBool::new(false),
        })
    }
}

impl FdObject for Stdin {
    fn kind(&self) -> &'static str {
        "Stdin"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        if self.closed.load(Ordering::Acquire) { Events::HUP } else { Events::IN | Events::HUP }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        Metrics { wakeups: self.watchers.wakeups(), ..self.counters.metrics() }
    }

    fn read(&self, _: &mut [u8]) -> Result<usize, Errno> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF);
        }
        self.counters.count_read(0);
        Ok(0)
    }

    fn is_sendable(&self) -> bool {
        false
    }
}

type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Standard output or error: always ready for `OUT`. Each line that is complete goes to a function, without its line
/// break; so does what is left when the object is closed. Lines of more than 8 KiB are handed on in pieces.
///
/// The function is called by the writer and must not wait. Lines of two writers at the same time may arrive in either
/// order; lines of one writer keep theirs.
pub struct Output {
    sink: Sink,
    state: ObjectLock<OutputState>,
    watchers: Watchers,
    counters: Counters,
}

struct OutputState {
    /// The beginning of a line whose end has not been written.
    partial: Vec<u8>,
    closed: bool,
}

impl Output {
    /// Creates an output that hands its lines to `sink`.
    #[allow(clippy::new_ret_no_self, reason = "objects are shared from the start")]
    pub fn new(sink: impl Fn(&[u8]) + Send + Sync + 'static) -> Arc<dyn FdObject> {
        Arc::new(Output {
            sink: Box::new(sink),
            state: ObjectLock::new(OutputState { partial: Vec::new(), closed: false }),
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }
}

impl FdObject for Output {
    fn kind(&self) -> &'static str {
        "Stdout"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        if self.state.lock().closed { Events::HUP } else { Events::OUT }
    }

    fn close(&self) {
        let rest = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.partial)
        };
        if !rest.is_empty() {
            (self.sink)(&rest);
        }
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        let queue_depth = self.state.lock().partial.len() as u64;
        let wakeups = self.watchers.wakeups();
        Metrics { queue_depth, queue_limit: LINE_LIMIT as u64, wakeups, ..self.counters.metrics() }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut complete = Vec::new();
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Errno::EBADF);
            }
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (text, ends) = match piece.split_last() {
                    Some((b'\n', text)) => (text, true),
                    _ => (piece, false),
                };
                state.partial.extend_from_slice(text);
                while state.partial.len() > LINE_LIMIT {
                    let rest = state.partial.split_off(LINE_LIMIT);
                    complete.push(std::mem::replace(&mut state.partial, rest));
                }
                if ends {
                    complete.push(std::mem::take(&mut state.partial));
                }
            }
        }
        self.counters.count_write(bytes.len());
        complete.iter().for_each(|line| (self.sink)(line));
        Ok(bytes.len())
    }

    fn is_sendable(&self) -> bool {
        false
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}
