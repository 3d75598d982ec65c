//! A request for backtraces of parked tasks, which workers answer between two turns: see `dump/backtrace.rs`.

use sinew_fiber::raw::Inside;
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::thread::{self, Thread};

use crate::task_id::TaskId;

/// What was asked of the workers.
pub(crate) struct BacktraceRequest {
    /// How many more tasks may be looked at.
    tasks: AtomicUsize,
    /// The workers that have not answered yet.
    pub(crate) left: Mutex<Vec<usize>>,
    pub(crate) found: Mutex<Vec<(TaskId, Inside)>>,
    asker: Thread,
}

impl BacktraceRequest {
    /// A request of the calling thread to these workers, for so many tasks.
    pub(crate) fn new(workers: Vec<usize>, tasks: usize) -> BacktraceRequest {
        let (tasks, left) = (AtomicUsize::new(tasks), Mutex::new(workers));
        BacktraceRequest { tasks, left, found: Mutex::new(Vec::new()), asker: thread::current() }
    }

    /// True if one more task may be looked at.
    pub(crate) fn take_one(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.tasks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    pub(crate) fn answered(&self, worker: usize) {
        self.left.lock().retain(|left| *left != worker);
        self.asker.unpark();
    }
}
