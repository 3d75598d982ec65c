//! Terminal signals on their way out: what a stack is unwound with, and how it is read at the end.
//!
//! A terminal signal is a [`Raised`] that travels as the payload of an unwind, started by
//! `std::panic::resume_unwind`, so destructors run and no panic hook prints. Bodies and roots catch it at
//! their first frame. A panic that user code starts arrives at the same place and becomes an error signal
//! whose value is a [`Panic`]; its place was noted by our panic hook (see [`crate::faults`]).

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, Location};

use sinew_core::Signal;

use crate::raised::Raised;
use crate::record::{Record, Scope};
use crate::thread;
use crate::unwind::{Panic, message_of};
use crate::value::Value;

/// What the unwind that ended `record` carried.
#[cold]
pub(crate) fn classify(record: &Record, payload: Box<dyn Any + Send>) -> Raised {
    record.unwinding.set(false);
    let payload = match payload.downcast::<Raised>() {
        Ok(raised) => return raised.only_terminal(),
        Err(payload) => payload,
    };
    let message = message_of(&*payload);
    // An older panic that the body caught itself may have left its site behind.
    let site = record.panic_site.take().filter(|site| site.message == message);
    let (location, trace) = match site {
        Some(site) => (Some(site.trace.raised_at()), Some(site.trace)),
        None => (None, None),
    };
    Raised { signal: Signal::Error, value: Value::new(Panic { message, location, payload }), trace }
}

/// Runs `body` and returns what it unwinds with, if it does: the fiber is not unwinding any more then, unless it was
/// before. What [`re_raise`] raises again.
///
/// # Errors
///
/// The terminal signal or panic that ended `body`.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    let me = thread::slot().get();
    let unwinding = me.unwinding.get();
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let raised = classify(me, payload);
        me.unwinding.set(unwinding); // we may be in a destructor: the unwind around us goes on
        raised
    })
}

/// Goes on unwinding with what [`catch`] returned. On a thread's own root a panic goes on as itself: it was told already.
#[track_caller]
pub fn re_raise(raised: Raised) -> ! {
    let me = thread::slot().get();
    if me.of_thread.get() && raised.value.is::<Panic>() {
        let panic = raised.value.downcast::<Panic>().expect("it is one");
        me.unwinding.set(true);
        panic::resume_unwind(panic.payload);
    }
    unwind(me, raised)
}

/// Unwinds the running fiber with `signal`.
#[inline(always)]
#[track_caller]
pub(crate) fn raise(signal: Signal, value: Value) -> ! {
    let me = thread::slot().get();
    let trace = me.capture_trace(Location::caller());
    unwind(me, Raised { signal, value, trace: Some(trace) })
}

/// Unwinds the running fiber, `record`, with `raised`. On a thread's own root, where nobody could catch it,
/// this is an ordinary panic that says what was raised.
///
/// Inlined into whoever raises: each frame of ours would be one more to unwind.
#[inline(always)]
#[track_caller]
pub(crate) fn unwind(record: &Record, raised: Raised) -> ! {
    panic::resume_unwind(payload(record, raised))
}

#[cold]
#[inline(never)]
#[track_caller]
fn payload(record: &Record, raised: Raised) -> Box<dyn Any + Send> {
    if record.of_thread.get() && !record.own.get().any(Scope::FFI) {
        let mask = match raised.signal {
            Signal::Ok => {
                panic!("uncaught {raised:#}\n  no fiber runs here that could return: raise it inside one")
            }
            Signal::Error => "Mask::ERROR",
            _ => "Mask::TERMINATION",
        };
        panic!(
            "uncaught {raised:#}\n  nobody caught it: add {mask} to the mask of the fiber, or call it inside `protect`"
        );
    }
    record.unwinding.set(true);
    Box::new(raised)
}
