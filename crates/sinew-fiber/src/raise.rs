//! Raising a signal: who catches it, and how the fibers on the way stop.
//!
//! A resumable signal looks up the chain, from the fiber that raises it to the root, for the first fiber
//! with the signal in its mask; that fiber's resumer catches it. Then the
//! signal is the status of every fiber from the raiser to that one, and one switch leads from the raiser to the
//! resumer. If there is no
//! such fiber, await, interrupt and debug go to the root's hook, and anything else is refused before
//! anything has changed.
//!
//! A terminal signal unwinds the raiser's stack instead (see [`crate::unwind`]); where it goes from there is
//! decided by the resumer's call of `resume`, level by level, because each stack on the way has destructors
//! to run.
//!
//! The functions at the top are the fast path, for a signal that the raiser's own resumer catches; all
//! else is up to [`decide`]. Whatever switches is inlined into the frame that raises: a function of ours that
//! is entered before a switch and returns after it would have its return address mispredicted.

use std::panic::Location;

use sinew_core::Signal;

use crate::control::Cancelled;
use crate::error::{Operation, Reason, Refused};
use crate::fiber::Fiber;
use crate::quarantine;
use crate::record::{Delivery, Record, Scope};
use crate::switch::switch;
use crate::thread::{self, Slot};
use crate::trace::Trace;
use crate::unwind::{Raised, unwind};
use crate::value::{IntoValue, Value};
use crate::wait::{reach_root, take_interrupts};

/// How often a body that is being ended may go on to raise a signal before it is quarantined.
const MAX_SWALLOWED: u16 = 8;

/// The same for a body inside a shield, whose signals are refused rather than unwinding.
const MAX_REFUSED: u16 = 1000;

/// Pauses the running fiber with `value` for its resumer, and returns what it is resumed with.
///
/// # Errors
///
/// Refused if nobody in the chain catches yields, while the thread is unwinding, and if the yield would
/// cross an [`ffi_scope`](crate::ffi_scope) or leave a fiber that is being dropped.
#[inline(always)]
#[track_caller]
pub fn yield_(value: impl IntoValue) -> Result<Value, Refused> {
    stop(Signal::Yield, value.into_value())
}

/// Raises `signal`. A resumable one returns what the fiber is resumed with; a terminal one
/// ([`Signal::is_terminal`]) unwinds the fiber and does not return.
///
/// # Errors
///
/// As for [`yield_`]; await and interrupt are seen by the root even if nobody catches them, and so is
/// debug.
#[inline(always)]
#[track_caller]
pub fn signal(signal: Signal, value: impl IntoValue) -> Result<Value, Refused> {
    if signal.is_terminal() {
        raise(signal, value.into_value());
    }
    if signal == Signal::Debug {
        return debug(value);
    }
    stop(signal, value.into_value())
}

/// Ends the running fiber with an error. Its stack is unwound, so destructors run; nothing is printed.
#[cold]
#[track_caller]
pub fn error(value: impl IntoValue) -> ! {
    raise(Signal::Error, value.into_value())
}

/// A breakpoint: stops for whoever catches debug, and goes on at once if nobody does. Whoever catches it finds
/// a trace of the place in [`Fiber::take_raised`].
///
/// # Errors
///
/// As for [`yield_`], but never for want of a catcher.
#[cold]
#[track_caller]
pub fn debug(value: impl IntoValue) -> Result<Value, Refused> {
    /// A trace is of this stop only, also if the stop ends with an error.
    struct Traced<'a>(&'a Record);
    impl Drop for Traced<'_> {
        fn drop(&mut self) {
            self.0.trace.set(None);
        }
    }
    let me = thread::slot().get();
    take_interrupts(me);
    if let Way::Caught(_) = find_way(me, Signal::Debug) {
        me.trace.set(Some(Trace::capture(me, Location::caller())));
    }
    let _traced = Traced(me);
    stop(Signal::Debug, value.into_value())
}

/// Unwinds the running fiber with `signal`.
#[inline(always)]
#[track_caller]
pub(crate) fn raise(signal: Signal, value: Value) -> ! {
    let me = thread::slot().get();
    let trace = Trace::capture(me, Location::caller());
    unwind(me, Raised { signal, value, trace: Some(trace) })
}

#[inline(always)]
#[track_caller]
fn stop(signal: Signal, value: Value) -> Result<Value, Refused> {
    let slot = thread::slot();
    let me = slot.get();
    if me.mask.get().contains(signal) && !disturbed(me) {
        return suspend(slot, me, me, signal, value);
    }
    stop_by_rule(me, signal, value, None)
}

/// Yields to the resumer of `catcher`, which must be the fiber that catches it.
#[inline(always)]
#[track_caller]
pub(crate) fn yield_to(catcher: &Record, value: Value) -> Result<Value, Refused> {
    let slot = thread::slot();
    let me = slot.get();
    if std::ptr::eq(me, catcher) && !disturbed(me) {
        return suspend(slot, me, me, Signal::Yield, value);
    }
    stop_by_rule(me, Signal::Yield, value, Some(catcher))
}

/// Stops as [`decide`] says.
#[inline(always)]
#[track_caller]
fn stop_by_rule(
    me: &Record,
    signal: Signal,
    value: Value,
    expected: Option<&Record>,
) -> Result<Value, Refused> {
    take_interrupts(me);
    match decide(me, signal, expected)? {
        Decision::Suspend(top) | Decision::Abandon(top) => suspend(thread::slot(), me, top, signal, value),
        Decision::Root(root) => reach_root(me, root, signal, value, None),
    }
}

/// True if anything but the mask has a say in whether the running fiber may stop.
#[inline(always)]
fn disturbed(me: &Record) -> bool {
    // SAFETY: the control word of the running fiber's root is valid.
    let quiet = unsafe { (*me.word.get()).is_quiet() };
    !quiet || me.own.get().any(Scope::KEPT) || std::thread::panicking()
}

/// Stops the fibers from `me`, which runs, up to `top`, and goes on in the resumer of `top`. Returns when
/// `me` is continued.
#[inline(always)]
#[track_caller]
pub(crate) fn suspend(
    slot: Slot,
    me: &Record,
    top: &Record,
    signal: Signal,
    value: Value,
) -> Result<Value, Refused> {
    me.own_status.set(signal.into());
    if !std::ptr::eq(me, top) {
        top.leaf.set(me);
    }
    me.put(value);
    slot.set(top.parent.get());
    // SAFETY: `top` runs or waits below its parent, so its parent is suspended at `top.resumer` in
    // `Fiber::enter`, whose frame stays until `top` stops; nobody else knows that pointer. `me.sp` is read
    // by whoever continues `me`, and the record outlives that.
    unsafe { switch(me.sp.as_ptr(), top.resumer.get()) };
    match me.delivery.get() {
        Delivery::Value => Ok(me.value.take().expect("a continued fiber got a value")),
        other => continued_to_end(me, signal, other),
    }
}

#[cold]
#[track_caller]
fn continued_to_end(me: &Record, signal: Signal, delivery: Delivery) -> Result<Value, Refused> {
    me.delivery.set(Delivery::Value);
    let value = me.value.take().expect("a continued fiber got a value");
    if delivery == Delivery::Ending {
        return Err(refuse(signal, me, Reason::Ending));
    }
    raise(Signal::Error, value)
}

/// Where a signal goes.
pub(crate) enum Way<'a> {
    /// The resumer of this fiber catches it.
    Caught(&'a Record),
    /// The hook of this root gets it, or for want of one the thread blocks.
    Root(&'a Record),
    /// It reaches this root, where nobody wants it: it goes on at once.
    Nobody(&'a Record),
    /// It would stop this fiber, which is being ended.
    Ending(&'a Record),
    /// It is refused.
    Refused(Reason),
}

/// Looks up the chain for who catches `signal`, and for whoever would be stopped on the way but must not be.
pub(crate) fn find_way(me: &Record, signal: Signal) -> Way<'_> {
    let panicking = std::thread::panicking();
    let (mut ending, mut forbidden, mut open) = (None, None, false);
    let mut record = me;
    let way = loop {
        let own = record.own.get();
        if panicking && record.is_unwinding() {
            forbidden = forbidden.or(Some(Reason::Unwinding));
        }
        if own.any(Scope::KEPT) {
            if own.any(Scope::FFI) {
                forbidden = forbidden.or(Some(Reason::FfiScope));
            }
            if own.any(Scope::POLL) {
                forbidden = forbidden.or(Some(Reason::InsidePoll));
            }
            open |= own.any(Scope::OPEN) && signal != Signal::Await;
            if own.any(Scope::ENDING) {
                ending = ending.or(Some(record));
            }
        }
        if record.mask.get().contains(signal) {
            break Way::Caught(record);
        }
        match record.parent() {
            Some(parent) => record = parent,
            None => break way_at_root(record, signal),
        }
    };
    match (way, forbidden, ending) {
        (way @ (Way::Nobody(_) | Way::Refused(_)), None, _) | (way @ Way::Nobody(_), _, _) => way,
        (_, Some(reason), _) => Way::Refused(reason),
        // A shield of the fiber lets it wait; one of whoever drops it has no say.
        (Way::Root(root), None, Some(ended)) if me.is_shielded_within(ended) => Way::Root(root),
        (_, None, Some(ended)) => Way::Ending(ended),
        (Way::Caught(_), None, None) if open => Way::Refused(Reason::OpenScope),
        (way, None, None) => way,
    }
}

fn way_at_root(root: &Record, signal: Signal) -> Way<'_> {
    let hooked = root.hook.get().is_some();
    match signal {
        Signal::Await => Way::Root(root),
        Signal::Interrupt | Signal::Debug if hooked => Way::Root(root),
        Signal::Interrupt | Signal::Debug => Way::Nobody(root),
        signal if hooked && root.hook_mask.get().contains(signal) => Way::Root(root),
        _ => Way::Refused(Reason::Uncaught),
    }
}

/// What to do about a signal that is not refused.
pub(crate) enum Decision<'a> {
    /// Stop all up to this fiber.
    Suspend(&'a Record),
    /// The same, for ever: the fiber has been given up.
    Abandon(&'a Record),
    /// Call the hook of this root.
    Root(&'a Record),
}

/// The whole rule; `expected` is the only fiber that may catch the signal, if there is such a demand.
#[cold]
#[track_caller]
pub(crate) fn decide<'a>(
    me: &'a Record,
    signal: Signal,
    expected: Option<&Record>,
) -> Result<Decision<'a>, Refused> {
    match find_way(me, signal) {
        Way::Refused(Reason::Unwinding) if me.scope().any(Scope::ENDING) => refuse_while_ending(me, signal),
        Way::Refused(reason) => Err(refuse(signal, me, reason)),
        Way::Caught(top) if expected.is_some_and(|expected| !std::ptr::eq(top, expected)) => {
            Err(refuse(signal, me, Reason::Uncaught))
        }
        Way::Caught(top) => Ok(Decision::Suspend(top)),
        Way::Root(_) | Way::Nobody(_) if expected.is_some() => Err(refuse(signal, me, Reason::Uncaught)),
        Way::Root(root) | Way::Nobody(root) => Ok(Decision::Root(root)),
        Way::Ending(ended) => go_on_ending(me, ended, signal),
    }
}

/// `ended` is being dropped and `me`, in its chain, raised a signal that would stop it: cancel again, and
/// after too many times give the chain's stacks up.
#[cold]
#[track_caller]
fn go_on_ending<'a>(me: &Record, ended: &'a Record, signal: Signal) -> Result<Decision<'a>, Refused> {
    let shielded = me.is_shielded_within(ended);
    let (count, most) =
        if shielded { (&ended.refused, MAX_REFUSED) } else { (&ended.swallowed, MAX_SWALLOWED) };
    count.set(count.get() + 1);
    if count.get() > most {
        quarantine::give_up(ended);
        return Ok(Decision::Abandon(ended));
    }
    if shielded {
        return Err(refuse(signal, me, Reason::Ending));
    }
    raise(Signal::Error, Value::new(Cancelled))
}

/// Leaves the running fiber for ever, if it is in the chain of one that is being dropped: that one is quarantined, and
/// whoever drops it goes on. For code that must not return because others borrow from its stack.
///
/// Returns false if there is no such fiber; and if one of those that would be left is unwinding, because then the
/// thread would be unwinding for ever.
pub fn abandon() -> bool {
    let me = thread::slot().get();
    for record in me.ancestors() {
        if record.is_unwinding() {
            return false;
        }
        if record.own.get().any(Scope::ENDING) {
            quarantine::give_up(record);
            let _ = suspend(thread::slot(), me, record, Signal::Await, Value::UNIT);
            unreachable!("a quarantined fiber is not continued");
        }
    }
    false
}

/// `me` is in the chain of a fiber that is being dropped by a destructor, and may be unwinding itself. A body
/// that ignores the refusal for ever would hang the drop, so it is given up in the end.
#[cold]
fn refuse_while_ending<'a>(me: &'a Record, signal: Signal) -> Result<Decision<'a>, Refused> {
    let ended = me.ancestors().find(|record| record.own.get().any(Scope::ENDING)).expect("it is inherited");
    ended.refused.set(ended.refused.get() + 1);
    if ended.refused.get() > MAX_REFUSED {
        quarantine::give_up(ended);
        return Ok(Decision::Abandon(ended));
    }
    Err(refuse(signal, me, Reason::Unwinding))
}

#[cold]
pub(crate) fn refuse(signal: Signal, record: &Record, reason: Reason) -> Refused {
    Refused::new(Operation::Signal(signal), record.label(), record.status(), reason)
}

/// Re-raises the signal that `fiber` stopped with from the running fiber, with `value` and with the trace of
/// the first raise.
///
/// - `fiber` ended with an error or user0 to user4: the running fiber ends the same way.
/// - `fiber` returned: the running fiber returns `value`.
/// - `fiber` is paused: the running fiber stops the same way; resuming it resumes `fiber` first, and what
///   `fiber` then stops with is the result here.
///
/// # Errors
///
/// Refused if `fiber` is new or running, or is the child of another, or if the signal is refused.
#[track_caller]
pub fn propagate(value: impl IntoValue, fiber: &Fiber) -> Result<Value, Refused> {
    let value = value.into_value();
    let me = thread::slot().get();
    take_interrupts(me);
    let record = fiber.record();
    let status = record.status();
    let refused = |reason| Err(Refused::new(Operation::Propagate, record.label(), status, reason));
    let Some(signal) = status.signal() else { return refused(Reason::Status) };
    if signal == Signal::Ok && me.is_root() {
        return refused(Reason::Status);
    }
    if signal.is_terminal() {
        if fiber.belongs_elsewhere(me) {
            return refused(Reason::OtherTask);
        }
        unwind(me, Raised { signal, value, trace: record.trace.take() });
    }
    fiber.admit(me, Operation::Propagate)?;
    // No interrupt is taken from here on: while `me` is stopped for one, anything may happen to `fiber`.
    match decide(me, signal, None)? {
        Decision::Suspend(top) => {
            // `me` stops as if `fiber`, which it resumed, had just raised the signal.
            let leaf = record.leaf();
            let _unread = leaf.value.replace(Some(value));
            top.leaf.set(leaf);
            fiber.link(me);
            for below in record.descendants() {
                below.hang_below(below.parent().expect("`me` is the first one's"));
            }
            let slot = thread::slot();
            slot.set(top.parent.get());
            // SAFETY: as in `suspend`; `record` is linked below `me`, so whoever stops it next goes on at
            // `record.resumer`, which is here.
            unsafe { switch(record.resumer.as_ptr(), top.resumer.get()) };
            fiber.unlink(me);
            let _ = fiber.stopped(me);
            Ok(fiber.take_value())
        }
        // `fiber` is not lost with it: it stays as it was, for whoever else has it.
        Decision::Abandon(ended) => suspend(thread::slot(), me, ended, signal, value),
        Decision::Root(root) => {
            let value = reach_root(me, root, signal, value, None)?;
            let _ = fiber.resume(value)?;
            Ok(fiber.take_value())
        }
    }
}
