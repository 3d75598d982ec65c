//! The operations that wait, or check whether the task may wait or is asked to end.
//!
//! What they share with raising other signals is in [`crate::outside`].

use std::time::Duration;

use sinew_core::Signal;

use crate::control::Cancelled;
use crate::outside::{Asked, asked, awaits_freely, end_if_asked, reach_root, take_interrupts};
use crate::refused::{Reason, Refused};
use crate::suspend::suspend;
use crate::terminal::raise;
use crate::thread;
use crate::value::{IntoValue, Value};
use crate::way::{Decision, Way, decide, find_way};

/// Waits for an event: stops the whole task until its root's hook lets it go on, and returns what the hook
/// returned. Without a hook the thread blocks until somebody unparks it.
///
/// May return early (an unpark that was meant for somebody else, a resumer that catches await and
/// continues the fiber by hand, or an interrupt, whose handling may have used up the unpark), so check what you wait for
/// in a loop.
///
/// # Errors
///
/// [`Reason::Cancelled`] once the task is cancelled; else as for [`yield_`](crate::yield_), but never for want of a
/// catcher.
#[track_caller]
pub fn await_(payload: impl IntoValue) -> Result<Value, Refused> {
    wait(payload.into_value(), None)
}

/// Waits as [`await_`] does; where no hook does the waiting, the thread blocks for at most `timeout`.
///
/// # Errors
///
/// As for [`await_`].
#[track_caller]
pub fn await_for(timeout: Option<Duration>) -> Result<(), Refused> {
    wait(Value::UNIT, timeout).map(drop)
}

#[inline(always)]
#[track_caller]
fn wait(payload: Value, timeout: Option<Duration>) -> Result<Value, Refused> {
    let me = thread::slot().get();
    let caught = take_interrupts(me);
    if awaits_freely(me) && !caught {
        // SAFETY: the root of the running fiber is valid.
        return reach_root(me, unsafe { &*me.root.get() }, Signal::Await, payload, timeout);
    }
    match decide(me, Signal::Await, None)? {
        Decision::Suspend(top) | Decision::Abandon(top) => {
            suspend(thread::slot(), me, top, Signal::Await, payload)
        }
        // Whoever caught the interrupt may have waited, and been woken in our place: our caller looks again.
        Decision::Root(_) if caught => end_if_asked(me, Signal::Await).map(|()| Value::UNIT),
        Decision::Root(root) => reach_root(me, root, Signal::Await, payload, timeout),
    }
}

/// Whether the running fiber may wait where it is, whatever its task is asked to do. Changes nothing.
///
/// # Errors
///
/// The refusal that an [`await_`] would get.
pub fn may_await() -> Result<(), Refused> {
    let me = thread::slot().get();
    if awaits_freely(me) {
        return Ok(());
    }
    match find_way(me, Signal::Await) {
        Way::Refused(reason) => Err(me.refuse_signal(Signal::Await, reason)),
        Way::Ending(_) => Err(me.refuse_signal(Signal::Await, Reason::Ending)),
        Way::Caught(_) | Way::Root(_) | Way::Nobody(_) => Ok(()),
    }
}

/// Whether the running fiber may begin what it will have to wait for: it may wait, and is not asked to end. Unwinds as an
/// [`await_`] would.
///
/// # Errors
///
/// The refusal that an [`await_`] would get.
#[track_caller]
pub fn ready_to_await() -> Result<(), Refused> {
    may_await()?;
    end_if_asked(thread::slot().get(), Signal::Await)
}

/// A place where the task can be stopped from outside: takes one interrupt, if there is one, and unwinds if
/// the task is cancelled or killed.
#[inline]
#[track_caller]
pub fn checkpoint() {
    let me = thread::slot().get();
    // SAFETY: the control word of the running fiber's root is valid.
    if unsafe { (*me.word.get()).is_quiet() } {
        return;
    }
    take_interrupts(me);
    match asked(me) {
        None => (),
        Some(Asked::Unwind(value)) => raise(Signal::Error, value),
        Some(Asked::End) => raise(Signal::Error, Value::new(Cancelled)),
    }
}
