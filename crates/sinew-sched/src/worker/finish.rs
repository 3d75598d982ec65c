//! The end of a task on its worker.

use super::{Worker, free, here};
use crate::children::Children;
use crate::core::Core;
use crate::counters::count;
use crate::reach;
use crate::task::{Settled, Task};

impl Worker {
    /// The last step of a task: settles with its handle who frees the slot. A result that nobody wants is dropped as
    /// part of the task: its destructor may block, and raise.
    #[inline]
    pub(super) fn finish(&self, task: &'static Task, core: &Core) {
        match task.settle() {
            Settled::Kept => (),
            Settled::Waits(waiter) => waiter.wake(),
            Settled::Detached => {
                if let Some(drop_result) = task.table().drop_result {
                    // SAFETY: the body has ended, and its handle is gone.
                    let outcome = core.run(task, || unsafe { drop_result(task) });
                    // There is nobody to tell, and what was raised may raise again when it is dropped.
                    std::mem::forget(outcome.err());
                }
                unreach(core, task);
                free(task, self.runtime);
            }
        }
        // The destructor may have blocked, and a task that migrates may have gone on elsewhere.
        let worker = here();
        worker.run_nothing();
        count(&worker.inbox.own.ended);
    }

    /// The last step of a child of a scope.
    #[cold]
    pub(super) fn finish_in(&self, task: &'static Task, core: &Core, children: &Children) {
        match task.settle() {
            Settled::Kept => (),
            Settled::Waits(waiter) => waiter.wake(),
            Settled::Detached => {
                let error = if task.has_raised() {
                    // SAFETY: the body has ended, and its handle is gone.
                    Some(unsafe { task.take_raised() })
                } else {
                    let drop_result = task.table().drop_result;
                    // SAFETY: as above.
                    drop_result.and_then(|drop_result| core.run(task, || unsafe { drop_result(task) }).err())
                };
                // A failure that the scope does not want is dropped as a result is.
                let unwanted = children.failed(error);
                if unwanted.is_some() {
                    std::mem::forget(core.run(task, || drop(unwanted)));
                }
                unreach(core, task);
                free(task, self.runtime);
            }
        }
        children.ended();
        let worker = here();
        worker.run_nothing();
        count(&worker.inbox.own.ended);
    }
}

/// The task on `core` is about to be freed: nobody reaches it any more, should it have let somebody since it ended.
fn unreach(core: &Core, task: &Task) {
    if core.reached.replace(false) {
        reach::forget(task.id());
    }
}
