//! Where a task meets the world outside: it waits, and others interrupt it, cancel it or trip it.
//!
//! A signal that reaches the root is handed to its hook, on the stack that raised it; without a hook an await
//! blocks the thread. Before and after, and at every checkpoint, the task looks at its control word: interrupts stop
//! it once each, and what it is asked to end by (see [`crate::control`]) fails or unwinds the call. A shield defers that,
//! and so does an unwind, which nothing can be raised in.

use std::time::Duration;

use sinew_core::Signal;

use crate::control::{Cancelled, Level};
use crate::error::{Reason, Refused};
use crate::raise::{Decision, Way, decide, find_way, raise, refuse, suspend};
use crate::record::{Record, Scope};
use crate::thread;
use crate::value::{IntoValue, Value};

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

/// True if nobody but the root has a say in an await of the running fiber.
#[inline]
pub(crate) fn awaits_freely(me: &Record) -> bool {
    let concerned = Scope::AWAITS.and(Scope::FFI).and(Scope::POLL).and(Scope::ENDING);
    !me.scope().any(concerned) && !std::thread::panicking()
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
        Way::Refused(reason) => Err(refuse(Signal::Await, me, reason)),
        Way::Ending(_) => Err(refuse(Signal::Await, me, Reason::Ending)),
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

/// The task stops on `signal` until its hook returns.
#[track_caller]
pub(crate) fn reach_root(
    me: &Record,
    root: &Record,
    signal: Signal,
    value: Value,
    timeout: Option<Duration>,
) -> Result<Value, Refused> {
    end_if_asked(me, signal)?;
    let value = call_hook(me, root, signal, value, timeout);
    end_if_asked(me, signal)?;
    Ok(value)
}

fn call_hook(me: &Record, root: &Record, signal: Signal, value: Value, timeout: Option<Duration>) -> Value {
    let value = match root.hook.get() {
        // SAFETY: whatever runs something under `root` keeps the hook for as long as it does.
        Some(hook) => unsafe { (*hook).stop(signal, value) },
        None if signal == Signal::Await => {
            let control = root.control.as_ref().expect("a root without a hook has a control word of its own");
            control.block(me.scope().any(Scope::SHIELD), timeout);
            Value::UNIT
        }
        None => Value::UNIT,
    };
    thread::slot().set(me); // the hook may have run other tasks
    value
}

/// How the running fiber is asked to end.
enum Asked {
    /// Whatever it calls unwinds with this.
    Unwind(Value),
    /// A call that can fail does, any other unwinds.
    End,
}

/// What is asked of the running fiber, `me`, if it can be asked anything now.
fn asked(me: &Record) -> Option<Asked> {
    // SAFETY: the control word of the running fiber's root is valid.
    let word = unsafe { &*me.word.get() };
    // In a destructor nothing can be raised; only a signal that nobody wants gets here from one.
    if word.is_quiet() || me.scope().any(Scope::SHIELD) || std::thread::panicking() {
        return None;
    }
    let level = word.level();
    if level == Some(Level::Kill) {
        return Some(Asked::Unwind(Value::new(Cancelled)));
    }
    if word.is_tripped()
        && let Some(hook) = me.running_root().hook.get()
        // SAFETY: as in `call_hook`.
        && let Some(value) = unsafe { (*hook).tripped() }
    {
        return Some(Asked::Unwind(value));
    }
    level.map(|_| Asked::End)
}

#[track_caller]
pub(crate) fn end_if_asked(me: &Record, signal: Signal) -> Result<(), Refused> {
    match asked(me) {
        None => Ok(()),
        Some(Asked::End) if signal == Signal::Await => Err(refuse(signal, me, Reason::Cancelled)),
        Some(Asked::End) => raise(Signal::Error, Value::new(Cancelled)),
        Some(Asked::Unwind(value)) => raise(Signal::Error, value),
    }
}

/// Stops once for each interrupt that is counted, if there is anybody to stop for. Where there is not, and
/// where the fiber must not stop, the count stays for later. True if a fiber caught one: other code of the task has run.
#[track_caller]
pub(crate) fn take_interrupts(me: &Record) -> bool {
    let mut caught = false;
    // SAFETY: the control word of the running fiber's root is valid.
    while !unsafe { (*me.word.get()).is_quiet() } {
        let way = find_way(me, Signal::Interrupt);
        // SAFETY: the control word of the running fiber's root is valid.
        let take = || unsafe { (*me.word.get()).take_interrupt() };
        // A refusal says that the fiber is being ended or cancelled, which its next signal is told as well.
        let _ = match way {
            Way::Caught(top) if take() => {
                caught = true;
                suspend(thread::slot(), me, top, Signal::Interrupt, Value::UNIT)
            }
            Way::Root(root) if !me.scope().any(Scope::ENDING) && take() => {
                Ok(call_hook(me, root, Signal::Interrupt, Value::UNIT, None))
            }
            _ => return caught,
        };
    }
    caught
}
