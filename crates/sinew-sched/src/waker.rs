//! Wakers of tasks, and calls of wakers that are not ours.
//!
//! A waker of ours is the id of a task, so it needs no memory, and is known by the address of its table.

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use sinew_fiber::raw::{catch, polling, report};

use crate::task::TaskRef;
use crate::task_id::TaskId;
use crate::worker;

/// Its address identifies wakers of ours. A static has one; a constant would have one in each crate that polls futures.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake, |_| ());

fn clone_waker(id: *const ()) -> RawWaker {
    RawWaker::new(id, &VTABLE)
}

fn wake(id: *const ()) {
    worker::unpark(TaskRef::of(TaskId::from_u64(id.addr() as u64)));
}

/// A waker for the task with this id.
pub(crate) fn waker_of(id: TaskId) -> Waker {
    // SAFETY: the data is a number, which everybody may copy and use from any thread at any time; it is that of a
    // task, so it has a slot.
    unsafe { Waker::from_raw(RawWaker::new(ptr::without_provenance(id.as_u64() as usize), &VTABLE)) }
}

/// The task that `waker` wakes, if it is one of ours.
pub(crate) fn task_of(waker: &Waker) -> Option<TaskRef> {
    let ours = ptr::eq(waker.vtable(), &VTABLE);
    ours.then(|| TaskRef::of(TaskId::from_u64(waker.data().addr() as u64)))
}

/// Calls a waker that is not ours. It may be any code: it must not block, and if it panics nobody else suffers.
#[cold]
pub(crate) fn wake_caught(waker: Waker) {
    if sinew_sync::MODEL {
        return waker.wake(); // a model has no fibers
    }
    if let Err(raised) = catch(|| polling(|| waker.wake())) {
        let told = catch(|| {
            report(format_args!("a waker has panicked: {raised:#}"));
            drop(raised);
        });
        std::mem::forget(told.err()); // what it raised may raise again
    }
}

/// Calls wakers that are not ours: in a task of this worker, since they may be any code, which may panic, or try to block.
/// On a thread that is no worker at once: there it is its `block_on` that calls.
pub(crate) fn wake_foreign(wakers: Vec<Waker>) {
    let wake_all = move || wakers.into_iter().for_each(wake_caught);
    match worker::current() {
        Some(worker) => worker.shared.run_detached(wake_all),
        None => wake_all(),
    }
}
