//! Catching whatever unwinds, on the same stack: for code that has to clean up outside the unwind.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::thread;
use crate::unwind::{Raised, classify, unwind};

/// Runs `body`, and returns what it unwound with, if it did: a signal, or a panic as an error signal. Unlike
/// [`protect`](crate::protect) it needs no fiber and catches every signal; whoever uses it sees to it that what is not its
/// own is [raised again](reraise).
///
/// # Errors
///
/// The terminal signal or panic that ended `body`.
pub fn catching<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    let unwinding = thread::slot().get().unwinding.get();
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let me = thread::slot().get();
        let raised = classify(me, payload);
        me.unwinding.set(unwinding); // we may be in a destructor: the unwind around us goes on
        raised
    })
}

/// Unwinds on with what [`catching`] caught, its trace included.
#[track_caller]
pub fn reraise(raised: Raised) -> ! {
    unwind(thread::slot().get(), raised)
}
