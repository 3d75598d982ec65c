//! Continuing a fiber: who may, what changes for the fibers that go on, and what the resumer does afterwards.

use std::panic::Location;
use std::ptr;

use sinew_core::{Signal, Status};

use super::{Fiber, Stop};
use crate::outside::take_interrupts;
use crate::raised::Raised;
use crate::record::{Delivery, Record, Scope};
use crate::refused::{MAX_DEPTH, Operation, Reason, Refused};
use crate::switch;
use crate::terminal::unwind;
use crate::thread::{self, Slot};
use crate::value::{IntoValue, Value};

impl Fiber {
    /// Starts or continues the fiber, and returns the signal and the value with which it stopped.
    /// `value` is the argument of the body, or the result of the operation on which the fiber had
    /// stopped.
    ///
    /// If the fiber stopped together with fibers that it had resumed, the innermost gets the value.
    ///
    /// A signal that is not in the fiber's mask is not returned: if it is terminal, the caller ends with it
    /// as well, else the caller stops with it and this call goes on when the caller is resumed. On a
    /// thread's own root, outside all fibers, a terminal signal that nobody caught is a panic.
    ///
    /// # Errors
    ///
    /// Refused if the fiber has ended, is running, is stopped below another fiber, belongs to another task,
    /// or if the chain would be too deep.
    #[inline(always)]
    #[track_caller]
    pub fn resume(&self, value: impl IntoValue) -> Result<Stop<'_>, Refused> {
        let value = value.into_value();
        let slot = thread::slot();
        let me = slot.get();
        let (slot, leaf) = if self.is_at_rest(me) {
            self.record().adopt_at_rest(me);
            self.record().put(value);
            (slot, self.record())
        } else {
            let leaf = self.prepare(me, Operation::Resume, value)?;
            (thread::slot(), leaf) // `prepare` may have switched
        };
        self.enter(slot, me, leaf);
        Ok(Stop::new(self, self.stopped(me)))
    }

    /// True if the fiber, alone, can be resumed by `me`, and nothing is in the way: the common case.
    #[inline(always)]
    fn is_at_rest(&self, me: &Record) -> bool {
        let record = self.record();
        let status = record.own_status.get();
        // SAFETY: the control word of the running fiber's root is valid.
        let quiet = unsafe { (*me.word.get()).is_quiet() };
        quiet
            && !status.is_terminal()
            && status != Status::Alive
            && record.is_empty()
            && record.parent.get().is_null()
            && record.child.get().is_null()
            && me.depth.get() < MAX_DEPTH
            && !std::thread::panicking()
            && (record.task.get() == me.task.get() || record.bind(me))
    }

    /// Continues the fiber with an error: the innermost of the fibers that are stopped here raises
    /// `value` at once. Returns, like [`resume`](Fiber::resume), how the fiber stopped after that:
    /// it may have caught the error and gone on. A new fiber ends without having run.
    ///
    /// An error that the body does not catch and the fiber's mask does not either is the caller's as well, as
    /// with `resume`: put [`Mask::ERROR`](sinew_core::Mask::ERROR) into the mask of what you mean to cancel, or drop it instead.
    ///
    /// # Errors
    ///
    /// As for [`resume`](Fiber::resume), and if one of the fibers that are stopped here is inside a
    /// [`shield`](crate::shield).
    #[track_caller]
    pub fn cancel(&self, value: impl IntoValue) -> Result<Stop<'_>, Refused> {
        let value = value.into_value();
        let me = thread::slot().get();
        take_interrupts(me);
        self.admit(me, Operation::Cancel)?;
        let record = self.record();
        if record.leaf().is_shielded_within(record) {
            return Err(record.refuse(Operation::Cancel, Reason::Shielded));
        }
        if record.status() == Status::New {
            self.link(me);
            record.trace.set(Some(record.capture_trace(Location::caller())));
            self.unlink(me);
            self.end_unstarted(value);
        } else {
            let leaf = self.prepare(me, Operation::Cancel, value)?;
            leaf.delivery.set(Delivery::Error);
            self.enter(thread::slot(), me, leaf);
        }
        Ok(Stop::new(self, self.stopped(me)))
    }

    /// Like [`resume`](Fiber::resume), but a terminal signal that the mask does not catch is returned
    /// instead of ending the caller.
    pub(crate) fn resume_catching(&self, value: Value) -> Result<Result<Signal, Raised>, Refused> {
        let me = thread::slot().get();
        let leaf = self.prepare(me, Operation::Resume, value)?;
        self.enter(thread::slot(), me, leaf);
        let signal = self.signal();
        Ok(if self.escapes(signal) { Err(self.take_raised()) } else { Ok(signal) })
    }

    /// Starts a new fiber without stopping for interrupts first: those are for the body to take, so that what
    /// is raised in such a stop is raised inside.
    #[inline]
    pub(crate) fn start(&self) -> Result<Signal, Refused> {
        let slot = thread::slot();
        let me = slot.get();
        let leaf = if self.is_at_rest(me) {
            self.record().adopt_at_rest(me);
            self.record().put(Value::UNIT);
            self.record()
        } else {
            self.prepare_now(me, Operation::Resume, Value::UNIT)?
        };
        self.enter(slot, me, leaf);
        Ok(self.stopped(me))
    }

    /// All that comes before continuing the chain that starts here, whatever its state: stops for interrupts,
    /// refuses what has to be refused, makes the chain run below `me`. Returns its leaf, with `value` in it.
    #[cold]
    fn prepare(&self, me: &Record, operation: Operation, value: Value) -> Result<&Record, Refused> {
        take_interrupts(me);
        self.prepare_now(me, operation, value)
    }

    /// The same without stopping for interrupts.
    #[cold]
    fn prepare_now(&self, me: &Record, operation: Operation, value: Value) -> Result<&Record, Refused> {
        self.admit(me, operation)?;
        if let Some(unread) = self.record().leaf().value.take() {
            drop(unread); // its destructor may do anything, also with this fiber
            self.admit(me, operation)?;
        }
        let leaf = self.record().leaf();
        self.adopt_chain(me);
        leaf.put(value);
        Ok(leaf)
    }

    /// Makes the chain that starts here run below `me`.
    pub(super) fn adopt_chain(&self, me: &Record) {
        let record = self.record();
        record.bind(me);
        let place = || (record.depth.get(), record.inherited.get(), record.word.get());
        let before = place();
        let own = record.own.get();
        record.leaf().own_status.set(Status::Alive);
        record.adopt(me);
        // What the others inherit changes only with what this one does.
        if place() != before || own.any(Scope::ENDING) {
            for below in record.descendants().skip(1) {
                below.adopt(below.parent().expect("all but the first have a parent"));
            }
        }
    }

    /// Checks all that may speak against resuming, cancelling or propagating from the fiber.
    pub(super) fn admit(&self, me: &Record, operation: Operation) -> Result<(), Refused> {
        let record = self.record();
        let status = record.status();
        let refused = |reason| Err(record.refuse(operation, reason));
        if !status.can_resume() || status == Status::Alive {
            return refused(Reason::Status);
        }
        if !record.parent.get().is_null() {
            return refused(Reason::Linked);
        }
        if self.belongs_elsewhere(me) {
            return refused(Reason::OtherTask);
        }
        let below = record.leaf().depth.get() - record.depth.get();
        if me.depth.get() + 1 + below > MAX_DEPTH {
            return refused(Reason::TooDeep);
        }
        Ok(())
    }

    /// True if the fiber was first resumed by another task than that of `me`.
    pub(super) fn belongs_elsewhere(&self, me: &Record) -> bool {
        let theirs = self.record().belongs_to.get();
        theirs != 0 && theirs != me.belongs_to.get()
    }

    #[inline(always)]
    pub(super) fn link(&self, me: &Record) {
        self.record().parent.set(me);
        me.child.set(self.record);
    }

    #[inline(always)]
    pub(super) fn unlink(&self, me: &Record) {
        self.record().parent.set(ptr::null());
        me.child.set(ptr::null());
    }

    /// Goes on in `leaf`, the innermost fiber of the chain that starts here and has its value already, and
    /// comes back when this fiber stops or ends.
    #[inline(always)]
    pub(super) fn enter(&self, slot: Slot, me: &Record, leaf: &Record) {
        let record = self.record();
        self.link(me);
        slot.set(leaf);
        // SAFETY: `leaf` is suspended or fresh: our callers saw a status that says so for `record`, and a
        // stopped chain stops as a whole. Nobody else continues it, since it is linked below us now.
        // `record.resumer` is read when `record` stops; the handle that we borrow keeps it until then.
        unsafe { switch::switch(record.resumer.as_ptr(), leaf.sp.get()) };
        self.unlink(me);
    }

    /// What the resumer does about the signal with which the fiber has stopped: a terminal one that the
    /// mask does not catch is the resumer's as well.
    #[inline(always)]
    #[track_caller]
    pub(super) fn stopped(&self, me: &Record) -> Signal {
        let signal = self.signal();
        if self.escapes(signal) {
            unwind(me, self.take_raised());
        }
        signal
    }

    #[inline(always)]
    fn escapes(&self, signal: Signal) -> bool {
        signal.is_terminal() && signal != Signal::Ok && !self.mask().contains(signal)
    }

    /// The signal of a fiber that has stopped.
    #[inline(always)]
    fn signal(&self) -> Signal {
        self.record().status().signal().expect("a fiber that stopped has a signal")
    }
}

impl Record {
    /// Notes whether `self` runs in the task that it belongs to, now that it runs below `above`.
    #[inline]
    fn enter_task_of(&self, above: &Record) {
        let own = self.belongs_to.get();
        self.task.set(if above.task.get() == own { own } else { self.id.get() });
        self.word.set(above.word.get());
    }

    /// Makes `self`, which was never resumed, a fiber of the task of `me` for good. False if it is one of some
    /// task already.
    #[inline]
    fn bind(&self, me: &Record) -> bool {
        if self.belongs_to.get() != 0 {
            return false;
        }
        // SAFETY: the root of the running fiber is valid.
        unsafe { (*me.root.get()).add_ref() };
        self.root.set(me.root.get());
        self.belongs_to.set(me.belongs_to.get());
        self.enter_task_of(me);
        true
    }

    /// Makes `self` run below `above`, in the common case: nobody is unwinding or being ended.
    #[inline(always)]
    fn adopt_at_rest(&self, above: &Record) {
        self.own_status.set(Status::Alive);
        self.depth.set(above.depth.get() + 1);
        self.inherited.set(above.scope());
    }

    /// Makes `self` run below `above`.
    fn adopt(&self, above: &Record) {
        self.own_status.set(Status::Alive);
        self.hang_below(above);
    }

    /// Gives `self`, which keeps its status, its place below `above`.
    #[inline]
    pub(super) fn hang_below(&self, above: &Record) {
        self.depth.set(above.depth.get().saturating_add(1));
        self.enter_task_of(above);
        let mut inherited = above.scope();
        if self.own.get().any(Scope::ENDING) {
            inherited = inherited.without(Scope::SHIELD); // of whoever drops it: that keeps itself only
        }
        if std::thread::panicking() {
            inherited = inherited.and(Scope::IN_DESTRUCTOR);
            self.unwinding.set(false); // it is stopped or new: whatever it had caught is over
        }
        self.inherited.set(inherited);
    }
}
