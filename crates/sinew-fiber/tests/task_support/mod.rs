//! Runs code as a scheduler runs its tasks.
#![allow(dead_code, reason = "not every family needs all of it")]

use sinew_fiber::raw::{Place, TaskSetup, Word, place_task_root, run_task};
use sinew_fiber::{Hook, Raised, Root, Stack, StackSize};

/// A root for tasks that run one after the other, on the stack of whoever asks.
pub(crate) struct Tasks(Root);

impl Tasks {
    pub(crate) fn new() -> Tasks {
        let stack = Stack::take(StackSize::KiB64).unwrap();
        // SAFETY: nothing runs on the stack, and the root is only used for tasks, below.
        Tasks(unsafe { place_task_root::<()>(stack).0 })
    }

    /// Runs `body` as a task.
    pub(crate) fn run<T>(
        &self,
        word: &Word,
        hook: &impl Hook,
        body: impl FnOnce() -> T,
    ) -> Result<T, Raised> {
        let hook: *const (dyn Hook + '_) = hook;
        // SAFETY: only the lifetime changes, and the hook outlives the call.
        let hook =
            unsafe { std::mem::transmute::<*const (dyn Hook + '_), *const (dyn Hook + 'static)>(hook) };
        // SAFETY: used on this thread.
        let place = unsafe { Place::here() };
        let here = place.running();
        // SAFETY: all of it outlives the call, and the thread leaves the tasks right after it.
        let outcome = unsafe { run_task(&self.0, &TaskSetup { word, hook, id: 7 }, body) };
        place.restore(here);
        outcome
    }

    /// The root that they run under.
    pub(crate) fn root(&self) -> &Root {
        &self.0
    }
}
