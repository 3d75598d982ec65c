//! A fiber on its stack: where its record and body lie, and the first function that runs there.
//!
//! ```text
//! top      record
//!          body (until the first resume)
//!          first frame, then the body's frames, downwards
//! limit    ...
//!          guard
//! ```
//!
//! A stack that has started is only given back after its body has returned or unwound to the first frame
//! ([`run_body`]) and left for good.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;

use sinew_core::{Bindings, Signal};

use super::{BodyResult, Fiber};
use crate::bindings;
use crate::builder::Builder;
use crate::faults;
use crate::memory::{Stack, StackError};
use crate::raised::Raised;
use crate::record::{Home, Record, below};
use crate::switch::{self, Entry};
use crate::terminal::classify;
use crate::thread;
use crate::value::Value;

impl Builder {
    /// Creates the fiber. The body gets the value of the first resume, and returns a value or a
    /// `Result` of one: see [`BodyResult`].
    ///
    /// # Errors
    ///
    /// If there is no memory for the stack, or the custom size is out of range.
    #[inline]
    #[track_caller]
    pub fn build<F, R>(self, body: F) -> Result<Fiber, StackError>
    where
        F: FnOnce(Value) -> R + 'static,
        R: BodyResult,
    {
        // SAFETY: a body that borrows nothing.
        unsafe { Fiber::with_borrowing_body(self, body) }
    }
}

impl Fiber {
    /// A new fiber whose body may borrow.
    ///
    /// # Safety
    ///
    /// The fiber must have ended, or be leaked together with all that the body borrows, before anything
    /// that the body borrows is gone.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn with_borrowing_body<F, R>(options: Builder, body: F) -> Result<Fiber, StackError>
    where
        F: FnOnce(Value) -> R,
        R: BodyResult,
    {
        faults::prepare();
        let stack = Stack::take(options.stack)?;
        if size_of::<F>() > stack.size() / 8 || align_of::<F>() > stack.size() / 8 {
            let body = Box::new(body);
            // SAFETY: the caller's promise, and the box is small enough for the place that is left.
            return Ok(unsafe { Fiber::place(options, stack, body) });
        }
        // SAFETY: the caller's promise; the body and the gap that aligns it take up at most a quarter of the
        // stack. (A body without a size may be aligned to more than a whole stack.)
        Ok(unsafe { Fiber::place(options, stack, body) })
    }

    /// Lays record, body and first frame out at the top of `stack`.
    ///
    /// # Safety
    ///
    /// As for [`Fiber::with_borrowing_body`]; and the body fits into the stack with room to spare.
    #[inline]
    #[track_caller]
    unsafe fn place<F, R>(options: Builder, stack: Stack, body: F) -> Fiber
    where
        F: FnOnce(Value) -> R,
        R: BodyResult,
    {
        let record = Record::place_in(&stack);
        let place = below::<F>(record.cast());
        // SAFETY: the addresses lie in the stack, which is ours, in its order from the top (module prose);
        // each is aligned for what is written there, the record because a stack's top is page aligned, the
        // body and the first frame because their addresses were rounded down.
        unsafe {
            let fresh = Record::new(
                thread::next_id(),
                options.name,
                options.mask,
                Location::caller(),
                Home::Stack(stack),
            );
            record.write(fresh);
            place.write(body);
            let frame = place.cast::<u8>().map_addr(|address| address & !15);
            let entry: Entry = run_body::<F, R>;
            (*record).sp.set(switch::prepare(frame, entry, record.cast()));
            (*record).body.set(Some((place.cast(), drop_body::<F>)));
        }
        let fiber = Fiber { record, _thread: PhantomData };
        if options.bindings != Bindings::None {
            bindings::give(fiber.record(), bindings::inherit_bindings(options.bindings));
        }
        fiber
    }
}

/// # Safety
///
/// `body` must point to an initialised `F` that is not used again.
unsafe fn drop_body<F>(body: *mut ()) {
    // SAFETY: the caller's promise.
    unsafe { body.cast::<F>().drop_in_place() };
}

/// The first function on a fiber's stack: runs the body and leaves for the resumer with its end.
///
/// # Safety
///
/// Called once, by the first switch to a stack that [`Fiber::place`] laid out for `F` and `R`.
unsafe extern "C" fn run_body<F, R>(record: *mut ()) -> !
where
    F: FnOnce(Value) -> R,
    R: BodyResult,
{
    // SAFETY: `place` gave us the record, which outlives the stack's use.
    let record = unsafe { &*record.cast::<Record>() };
    record.body.set(None);
    // SAFETY: the body is where `place` put it, and nobody reads it again: `body` was reset just now.
    let body = unsafe { below::<F>(ptr::from_ref(record).cast_mut().cast()).read() };
    let argument = record.value.take().expect("a fiber is started with a value");
    let outcome = catch_unwind(AssertUnwindSafe(|| body(argument).into_outcome()));
    let (signal, value) = match outcome {
        Ok(Ok(value)) => (Signal::Ok, value),
        Ok(Err(raised)) => ended_by(record, returned_error(record, raised)),
        Err(payload) => ended_by(record, classify(record, payload)),
    };
    record.put(value);
    record.own_status.set(signal.into());
    thread::slot().set(record.parent.get());
    // SAFETY: the resumer is suspended in `enter` or `propagate`. Nothing on this stack has a destructor to
    // run any more: what was moved into `record` is all there is.
    unsafe { switch::leave(record.resumer.get()) }
}

/// Completes the signal that a body returned instead of raising it.
#[cold]
fn returned_error(record: &Record, raised: Raised) -> Raised {
    let raised = raised.only_terminal();
    let trace = raised.trace.or_else(|| Some(record.capture_trace(record.created)));
    Raised { trace, ..raised }
}

/// Keeps the trace of the signal that ended `record`, and returns the rest.
fn ended_by(record: &Record, raised: Raised) -> (Signal, Value) {
    record.trace.set(raised.trace);
    (raised.signal, raised.value)
}
