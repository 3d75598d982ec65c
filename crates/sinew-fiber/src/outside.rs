//! Where a task meets the world outside: it waits, and others interrupt it, cancel it or trip it.
//!
//! A signal that reaches the root is handed to its hook, on the stack that raised it; without a
//! hook an await blocks the thread. Before and after, and at every checkpoint, the task looks at
//! its control word: interrupts stop it once each, and what it is asked to end by (see
//! [`mod@crate::control`]) fails or unwinds the call. A shield defers that, and so does an unwind,
//! which nothing can be raised in.

use std::time::Duration;

use sinew_core::Signal;

use crate::control::{CancelLevel, Cancelled};
use crate::record::{Record, Scope};
use crate::refused::{Reason, Refused};
use crate::suspend::suspend;
use crate::terminal::raise;
use crate::thread;
use crate::value::Value;
use crate::way::{Way, find_way};

/// True if nobody but the root has a say in an await of the running fiber.
#[inline]
pub(crate) fn awaits_freely(me: &Record) -> bool {
    let concerned = Scope::AWAITS.and(Scope::FFI).and(Scope::POLL).and(Scope::ENDING);
    !me.scope().any(concerned) && !std::thread::panicking()
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
pub(crate) enum Asked {
    /// Whatever it calls unwinds with this.
    Unwind(Value),
    /// A call that can fail does, any other unwinds.
    End,
}

/// What is asked of the running fiber, `me`, if it can be asked anything now.
pub(crate) fn asked(me: &Record) -> Option<Asked> {
    // SAFETY: the control word of the running fiber's root is valid.
    let word = unsafe { &*me.word.get() };
    // In a destructor nothing can be raised; only a signal that nobody wants gets here from one.
    if word.is_quiet() || me.scope().any(Scope::SHIELD) || std::thread::panicking() {
        return None;
    }
    let level = word.level();
    if level == Some(CancelLevel::Kill) {
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
        Some(Asked::End) if signal == Signal::Await => Err(me.refuse_signal(signal, Reason::Cancelled)),
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
