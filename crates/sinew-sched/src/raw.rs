//! Wait objects and the reactor, for the crates that build channels, locks and I/O on the scheduler.
//!
//! Not part of the public API: it changes without notice. Users find all of it in the crates above.

use std::io;

pub use crate::bell::{Bell, checked};
pub use crate::blocking::{BlockingCaller, Submitted, refused_io};
pub use crate::case::{Async, Attempt, Case, Enrolled, Sending, attempt_or_block, block, block_by};
pub use crate::clock::system_now;
pub use crate::countdown::Limit;
pub use crate::cpu::{parallelism, unbind};
pub use crate::group::Group;
pub use crate::join::{Ended, enter, take_back};
pub use crate::notes::What;
pub use crate::os_signal;
pub use crate::reactor::{Interest, Readiness, Registration, Slot, forget_everywhere};
pub use crate::task::Task;
pub use crate::wait::{
    Awaited, Node, OnOneLine, Partner, Queue, TOLD, Waiter, Waiting, may_block, tell_each, tell_each_from,
    wait,
};
pub use crate::worker::{Prepaid, announce, charge, poll_charge};

use crate::join::JoinHandle;
use crate::wait_kind::WaitKind;
use crate::worker;

/// Returns true if the caller runs as a task, whose waits suspend it and not its thread.
#[inline]
pub fn is_task() -> bool {
    worker::current_task().is_some()
}

/// Returns true if the running task was cancelled or killed.
pub fn is_cancelled() -> bool {
    worker::current_task().is_some_and(|task| task.word.level().is_some())
}

/// Notes the kinds of the cases that the running task is about to wait for, for dumps.
pub fn note_cases(kinds: impl Iterator<Item = WaitKind>) {
    if let Some(task) = worker::current_task() {
        task.notes.set_cases(kinds);
    }
}

/// Returns the number of workers of the caller's runtime. None on a thread that is no worker.
pub fn workers() -> Option<usize> {
    worker::current().map(|worker| worker.shared.inboxes.len())
}

/// Registers `fd` with the reactor of the caller's runtime. None on a thread that is no worker.
pub fn register(fd: std::os::fd::RawFd) -> Option<io::Result<Registration>> {
    let worker = worker::current()?;
    Some(worker.shared.reactor().and_then(|reactor| reactor.register(fd)))
}

impl Registration {
    /// Returns true if the reactor is that of the caller's runtime, or the caller is no worker.
    pub fn is_of_caller(&self) -> bool {
        worker::current().is_none_or(|worker| worker.shared.is_served_by(self.reactor))
    }
}

/// Returns the task of `handle`, for waits for its end.
pub fn task_of<T>(handle: &JoinHandle<T>) -> &'static Task {
    handle.task()
}

/// A task that nobody runs, for models of waits for its end.
#[cfg(any(loom, shuttle))]
pub fn model_task() -> &'static Task {
    Box::leak(Box::new(Task::new(0)))
}

/// Takes the last step of a [`model_task`].
#[cfg(any(loom, shuttle))]
pub fn end_model_task(task: &Task) {
    if let crate::task::Settled::Waits(waiter) = task.settle() {
        waiter.wake();
    }
}

/// Returns true if a [`model_task`] has ended.
#[cfg(any(loom, shuttle))]
pub fn has_ended(task: &Task) -> bool {
    task.join.load(sinew_sync::atomic::Ordering::Acquire) == crate::task::DONE
}
