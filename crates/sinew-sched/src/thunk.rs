//! Bodies that are functions without options, and tasks of the scheduler's own that run one.

use std::any::type_name;

use sinew_sync::atomic::Ordering;

use crate::core::Core;
use crate::returned::{ByType, outcome_of};
use crate::shared::Shared;
use crate::task::{DETACHED, Kind, Ran, Table, Task, drop_result, never_blocks, no_options, no_tag};

/// The table of a body of type `F` that returns a `T`.
pub(crate) fn thunk_table<F, T>() -> &'static Table
where
    F: FnOnce() -> T,
    T: 'static,
{
    const {
        &Table {
            kind: Kind::Thunk,
            configured: false,
            run: run_thunk::<F, T>,
            drop_result: drop_result::<T>(),
            options: no_options,
            blocks: never_blocks,
            tag: no_tag,
            type_name: type_name::<F>,
            size: size_of::<F>(),
        }
    }
}

/// # Safety
///
/// The caller has claimed the task, and its body, of type `F`, has not run.
unsafe fn run_thunk<F, T>(task: &'static Task, core: &Core) -> Ran
where
    F: FnOnce() -> T,
    T: 'static,
{
    // SAFETY: the caller's promise.
    let body = unsafe { task.take::<F>() };
    let outcome = core.run(task, body).or_else(outcome_of::<T, ByType>);
    // SAFETY: the body was taken out, so nothing is there; the task is still ours.
    unsafe { task.end::<T>(outcome) };
    Ran::Ended
}

impl Shared {
    /// Runs `body`, which does not unwind or block, in a task without a handle; at once if the runtime has ended.
    #[track_caller]
    pub(crate) fn run_detached<F: FnOnce() + Send + 'static>(&'static self, body: F) {
        if !self.count_outside() {
            return body();
        }
        let task = self.take_slot();
        // SAFETY: a fresh slot, prepared for a body that returns nothing.
        unsafe { task.prepare(body, thunk_table::<F, ()>(), self, self.stamp()) };
        task.join.store(DETACHED, Ordering::Relaxed); // it is published by `inject`
        self.admit(task);
        self.inject(task);
    }
}
