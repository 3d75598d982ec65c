//! How a task is woken, from anywhere, and where it is queued then; how a slot is freed.

use std::ptr;

use super::{Worker, current};
use crate::shared::{RuntimeId, Shared};
use crate::slots;
use crate::task::{Home, Kind, Task, TaskRef};

/// Makes sure that the task runs once more, if it is still the one that is meant.
pub(crate) fn unpark(task: TaskRef) {
    let here = current();
    if let Some(worker) = here
        && worker.index != task.worker()
        && let Some(inbox) = worker.shared.inboxes.get(task.worker())
    {
        inbox.fetch_to_push(); // at the same time as the task
    }
    if task.task.state.unpark(task.generation()) {
        queue(task.task, here);
    }
}

/// The same for one that is mostly between two turns.
#[inline]
pub(crate) fn unpark_turn(task: TaskRef) {
    if !task.task.state.unpark(task.generation()) {
        return;
    }
    match task.task.between_turns() {
        Some(shared) => queue_anywhere(shared, task.task),
        None => queue_blocked(task.task),
    }
}

/// Queues a body whose turn has blocked.
#[cold]
fn queue_blocked(task: &'static Task) {
    queue(task, current());
}

/// Queues a task that was parked, from the worker `here`. It does not run before it is queued: it is the caller's.
#[inline(always)]
fn queue(task: &'static Task, here: Option<&Worker>) {
    match task.home() {
        Home::Core(core) if task.table().kind != Kind::Migrating => match here {
            Some(worker) if ptr::eq(worker.shared, core.shared) && worker.index == core.worker.get() => {
                worker.wakes.set(worker.wakes.get() + 1);
                worker.push_ready(task);
            }
            Some(worker) if ptr::eq(worker.shared, core.shared) => {
                worker.wakes_elsewhere.set(worker.wakes_elsewhere.get() + 1);
                core.shared.push_to(core.worker.get(), task);
            }
            worker => {
                if let Some(worker) = worker {
                    worker.wakes_elsewhere.set(worker.wakes_elsewhere.get() + 1);
                }
                // The runtime may end as soon as the task is queued.
                core.shared.keep().push_to(core.worker.get(), task);
            }
        },
        Home::Core(core) => queue_anywhere(core.shared, task),
        Home::Runtime(shared) => queue_anywhere(shared, task),
        Home::None => unreachable!("a task that has parked has somewhere to go on"),
    }
}

/// How many tasks were woken by what has run on this worker: those that are queued here, and those of others.
pub(crate) fn wakes() -> (u64, u64) {
    current().map_or((0, 0), |worker| (worker.wakes.get(), worker.wakes_elsewhere.get()))
}

/// Queues a task that may go on anywhere.
fn queue_anywhere(shared: &'static Shared, task: &'static Task) {
    match current() {
        Some(worker) if ptr::eq(worker.shared, shared) => {
            worker.wakes.set(worker.wakes.get() + 1);
            worker.push_woken(task);
        }
        _ => shared.keep().inject(task), // the runtime may end as soon as the task is queued
    }
}

/// Makes the slot of a task that has ended, and whose result is gone, free for another of its runtime.
pub(crate) fn free(task: &'static Task, runtime: RuntimeId) {
    task.state.recycle();
    match current() {
        Some(worker) if worker.runtime == runtime => worker.give_slot(task),
        _ => free_elsewhere(task, runtime),
    }
}

/// The second half of [`free`] on a thread that is no worker of the runtime, which may be gone.
#[cold]
fn free_elsewhere(task: &'static Task, runtime: RuntimeId) {
    match runtime.upgrade() {
        Some(shared) => shared.give_slots([task]),
        None => slots::give_loose([task]),
    }
}
