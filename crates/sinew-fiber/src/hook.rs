//! `Hook`: what is called when a signal reaches a root.
//!
//! The pointer to it in the record of a root is valid while something runs under that root: see
//! [`run_as_root`](crate::run_as_root) and, for tasks, [`run_task`](crate::task::run_task).

use std::any::Any;

use sinew_core::Signal;

use crate::control::Remote;
use crate::value::Value;

/// What stops when a signal reaches a root.
///
/// Await, interrupt and debug reach the root if no fiber on the way catches them; any other resumable
/// signal does if it is in the root's mask.
pub trait Hook {
    /// The whole chain of fibers stops on `signal` and goes on, with the returned value as the result of
    /// the operation that raised it, when this returns. It runs on the stack of the fiber that raised the
    /// signal and may switch away from it, as long as it returns on the same thread.
    fn stop(&self, signal: Signal, payload: Value) -> Value;

    /// How other threads reach the task, and its number there. Called on the task's thread, while it runs.
    #[doc(hidden)]
    fn remote(&self) -> Option<(&'static dyn Remote, u64)> {
        None
    }

    /// What the running task has to unwind with, now that its word is tripped; nothing if it may go on. Called on the
    /// task's stack, at a blocking call or checkpoint outside all shields. It neither waits nor unwinds.
    #[doc(hidden)]
    fn tripped(&self) -> Option<Value> {
        None
    }

    /// The hook itself, for code of its task that looks for it: see `raw::with_hook`.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
