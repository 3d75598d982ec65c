//! The operations that raise a signal: yield, signal, error, debug.
//!
//! A resumable signal looks up the chain for who catches it ([`crate::way`]) and stops the fibers on
//! the way ([`crate::suspend`]). A terminal signal unwinds the raiser's stack instead (see
//! [`crate::terminal`]); where it goes from there is decided by the resumer's call of `resume`, level
//! by level, because each stack on the way has destructors to run.
//!
//! [`stop`] and [`yield_to`] have the fast path, for a signal that the raiser's own resumer catches;
//! all else is up to [`decide`]. Whatever switches is inlined into the frame that raises: see
//! [`crate::suspend`].

use std::panic::Location;

use sinew_core::Signal;

use crate::error::Error;
use crate::outside::{reach_root, take_interrupts};
use crate::record::{Record, Scope};
use crate::refused::Refused;
use crate::suspend::suspend;
use crate::terminal::raise;
use crate::thread;
use crate::value::{IntoValue, Value};
use crate::way::{Decision, Way, decide, find_way};

/// Pauses the running fiber with `value` for its resumer, and returns what it is resumed with,
/// whatever its type. [`yield_as`] returns it as a `T`.
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

/// Pauses the running fiber with `value` for its resumer, and returns what it is resumed with, as a
/// `T`.
///
/// ```
/// use sinew_fiber::{Error, Fiber, yield_as};
///
/// let echo = Fiber::new(|_| {
///     let mut line = String::new();
///     loop {
///         line = yield_as::<String>(line.to_uppercase())?;
///         if line.is_empty() {
///             return Ok::<_, Error>(());
///         }
///     }
/// })?;
/// let _ = echo.resume(())?; // runs up to the first yield
/// assert_eq!(echo.resume("hello".to_owned())?.get::<String>()?, "HELLO");
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Refused`] as for [`yield_`]. [`Error::Downcast`] if the fiber is resumed with a value
/// of another type; the error names both types.
#[inline(always)]
#[track_caller]
pub fn yield_as<T: Send + 'static>(value: impl IntoValue) -> Result<T, Error> {
    Ok(yield_(value)?.downcast()?)
}

/// Raises `signal`. A resumable one returns what the fiber is resumed with; a terminal one
/// ([`Signal::is_terminal`]) unwinds the fiber and does not return.
///
/// [`Signal::Ok`] makes the running fiber return `value`, from any depth of calls. It is no error:
/// [`protect`](crate::protect), [`try_`](crate::try_) and the other functions that run a body let it pass.
///
/// ```
/// use sinew_fiber::{Fiber, Signal, protect, signal};
///
/// let fiber = Fiber::new(|_| {
///     let _ = protect(|| signal(Signal::Ok, "early"));
///     unreachable!("the fiber has returned")
/// })?;
/// assert_eq!(fiber.resume(())?.get::<&str>()?, "early");
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// A task returns `value` as its result, which has to be of the type that its body returns. On a
/// root of [`run_as_root`](crate::run_as_root) the outcome is a [`Raised`](crate::Raised) with
/// `Signal::Ok`, and on a thread's own root there is a panic: no fiber is there that could return.
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
/// a trace of the place in [`Fiber::take_raised`](crate::Fiber::take_raised).
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
        me.trace.set(Some(me.capture_trace(Location::caller())));
    }
    let _traced = Traced(me);
    stop(Signal::Debug, value.into_value())
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
