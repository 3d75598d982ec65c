//! Tasks: roots that a scheduler runs on stacks of its own, one task after the other.
//!
//! ```text
//! top      record of the root
//!          place for what the scheduler keeps with the stack
//!          first frame, then the frames of the loop and of the task that it runs, downwards
//! limit    ...
//!          guard
//! ```
//!
//! The record owns the stack, as that of a fiber does: it goes back to the pool with the last reference to the record.
//! The scheduler has one, as a [`Root`]; each fiber that was first resumed under the root has one, and may outlive its
//! task (in a thread-local, say) and the scheduler's use of the stack. There is nothing on the heap.
//!
//! Tasks of one root have nothing in common but the record. Each run has a number of its own (`belongs_to`), and a fiber
//! belongs to the one that resumed it first: to the next it is a fiber of another task, which may be ended and nothing
//! else. Whoever ends it lends it its control word and its hook (see [`crate::record`] on `word`, and
//! [`Record::running_root`]); those of the task that it belonged to are not looked at again.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;

use sinew_core::{Mask, Signal, Status};

use crate::bindings::{self, Inherited};
use crate::control::Word;
use crate::faults;
use crate::hook::Hook;
use crate::memory::Stack;
use crate::outside::{awaits_freely, end_if_asked};
use crate::raised::Raised;
use crate::record::{Home, Record, below};
use crate::refused::Refused;
use crate::root::Root;
use crate::terminal::classify;
use crate::thread::{self, Slot};

/// Makes the root of the tasks that will run on `stack`, at its top. Returns it with a place for a `C`, which is not
/// initialised, and with where the frames may start: 16-byte aligned, as [`prepare`](crate::raw::prepare) wants it.
///
/// # Safety
///
/// The root is run by [`run_task`] only. The place is used for as long as the root is there and no longer, and nothing
/// runs on the stack when the root is dropped. A `C` is small enough to leave room for frames.
pub unsafe fn place_task_root<C>(stack: Stack) -> (Root, *mut C, *mut u8) {
    faults::prepare();
    let record = Record::place_in(&stack);
    let place = below::<C>(record.cast());
    let top = place.cast::<u8>().map_addr(|address| address & !15);
    let fresh = Record::new(thread::next_id(), None, Mask::NONE, Location::caller(), Home::Stack(stack));
    // SAFETY: the top of the stack, which is ours, is page aligned, so the place is aligned for a record.
    unsafe {
        record.write(fresh);
        (*record).root.set(record);
    }
    (Root { record }, place, top)
}

/// What a task is run with.
#[derive(Clone, Copy)]
pub struct TaskSetup {
    /// Through which it is cancelled and interrupted.
    pub word: *const Word,
    /// What the signals that reach its root are handed to.
    pub hook: *const dyn Hook,
    /// Its number, for traces and messages.
    pub id: u64,
}

/// Runs `body` like [`run_as_root`](crate::run_as_root), as a task. Bindings, name and mask end with it. Leaves the
/// root as the running fiber: the caller is a loop that runs nothing but tasks.
///
/// # Safety
///
/// `root` came from [`place_task_root`] and is used by nobody else. It and what `setup` points to stay valid and in place
/// until this returns. From then on, the thread runs no other code that uses fibers before the next task or
/// [`leave_tasks`].
#[inline]
pub unsafe fn run_task<T>(root: &Root, setup: &TaskSetup, body: impl FnOnce() -> T) -> Result<T, Raised> {
    let record = root.record();
    record.own_status.set(Status::Alive);
    record.unwinding.set(false);
    record.id.set(setup.id);
    record.hook.set(Some(setup.hook));
    record.word.set(setup.word);
    let number = thread::next_id_after(record.belongs_to.get());
    record.task.set(number);
    record.belongs_to.set(number);
    thread::slot().set(record);
    // A branch for each outcome: the result of a short body stays in registers.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => {
            undress(record);
            Ok(result)
        }
        Err(payload) => {
            let raised = classify(record, payload);
            undress(record);
            Err(raised)
        }
    }
}

/// The task is over: what it had of its own goes.
#[inline(always)]
fn undress(record: &Record) {
    if record.bindings.borrow().is_some() {
        drop_bindings(record);
    }
    if record.adorned.get() {
        strip(record);
    }
}

/// Drops the bindings of a task that has ended, as part of it: the destructor of a value may block. What it raises has
/// nobody to go to.
#[cold]
fn drop_bindings(record: &Record) {
    let bindings = record.bindings.take();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(bindings))) {
        std::mem::forget(classify(record, payload));
    }
}

/// Takes back what [`set_task_name`] and [`set_task_mask`] gave.
#[cold]
fn strip(record: &Record) {
    record.adorned.set(false);
    record.name.set(None);
    record.hook_mask.set(Mask::NONE);
}

/// The root of the running task, which has not started a fiber yet.
fn of_running_task() -> &'static Record {
    let record = thread::slot().get();
    debug_assert!(record.is_root() && record.runs_tasks(), "called first of all in a task");
    record
}

/// Which resumable signals reach the hook of the running task, besides await, interrupt and debug.
pub fn set_task_mask(mask: Mask) {
    let record = of_running_task();
    record.adorned.set(true);
    record.hook_mask.set(mask);
}

/// Names the running task.
pub fn set_task_name(name: Cow<'static, str>) {
    let record = of_running_task();
    record.adorned.set(true);
    record.name.set(Some(name));
}

/// Gives the running task bindings from whoever spawned it.
pub fn set_task_bindings(inherited: Inherited) {
    bindings::give(of_running_task(), Some(inherited));
}

/// True if the code that asks runs under a task, and not under a root of somebody's own inside it, or a thread's.
pub fn in_task() -> bool {
    // SAFETY: the root of the running fiber is valid.
    unsafe { &*thread::slot().get().root.get() }.runs_tasks()
}

/// True if the fiber with this number is the running one, or one above it.
pub fn is_running(id: u64) -> bool {
    thread::slot().get().ancestors().any(|record| record.id.get() == id)
}

/// The running fiber, for a scheduler that is about to leave its stack.
#[derive(Clone, Copy)]
pub struct Running(*const Record);

impl Running {
    /// What to do when the fiber goes on after a wait that it was alone concerned with ([`Place::awaits_alone`]).
    ///
    /// # Errors
    ///
    /// If its task is cancelled. Unwinds if it is killed, or out of time.
    #[inline]
    #[track_caller]
    pub fn has_waited(self) -> Result<(), Refused> {
        // SAFETY: it runs, so it and its control word are valid.
        let me = unsafe { &*self.0 };
        // SAFETY: as above.
        if unsafe { (*me.word.get()).is_quiet() } { Ok(()) } else { end_if_asked(me, Signal::Await) }
    }
}

/// Where a thread keeps its running fiber, for a scheduler that looks often.
#[derive(Clone, Copy)]
pub struct Place(Slot);

impl Place {
    /// That of this thread.
    ///
    /// # Safety
    ///
    /// It is used on this thread only.
    pub unsafe fn here() -> Place {
        Place(thread::slot())
    }

    /// What runs now.
    #[inline]
    pub fn running(self) -> Running {
        Running(self.0.get())
    }

    /// Makes `running` the running fiber again, when its stack goes on.
    #[inline]
    pub fn restore(self, running: Running) {
        self.0.set(running.0);
    }

    /// True if the code that runs is that of the task with this control word, and not under a root of somebody's own
    /// inside it.
    #[inline]
    pub fn is_under(self, word: &Word) -> bool {
        ptr::eq(self.0.get().word.get(), word)
    }

    /// The running fiber, if nothing but a park is needed for it to wait: it is one of the task with this control word,
    /// nobody between it and the task's root catches an await, and nothing is asked of the task.
    #[inline]
    pub fn awaits_alone(self, word: &Word) -> Option<Running> {
        let me = self.0.get();
        (self.is_under(word) && word.is_quiet() && awaits_freely(me)).then_some(Running(me))
    }
}

/// Makes the thread's own root the running fiber again, for a scheduler that has left its stacks.
pub fn leave_tasks() {
    thread::reset();
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
