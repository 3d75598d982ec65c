//! Stretches of code inside which a fiber is not cancelled ([`shield`]) or not suspended ([`ffi_scope`]).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::record::{Record, Scope};
use crate::thread;
use crate::unwind::{Raised, classify};

/// Counts one more open scope in `count` and sets its flag, until dropped.
struct Open<'a> {
    record: &'a Record,
    count: &'a Cell<u16>,
    scope: Scope,
}

impl<'a> Open<'a> {
    fn new(record: &'a Record, count: &'a Cell<u16>, scope: Scope) -> Open<'a> {
        count.set(count.get().checked_add(1).expect("fewer than 65,536 nested scopes"));
        record.own.set(record.own.get().and(scope));
        Open { record, count, scope }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        if self.count.get() == 0 {
            self.record.own.set(self.record.own.get().without(self.scope));
        }
    }
}

/// Runs `body` with cancellation deferred: neither level of [`Control`](crate::Control) is seen inside, the
/// fiber cannot be [cancelled](crate::Fiber::cancel), and if it is being dropped, its signals are refused
/// instead of unwinding. What was asked meanwhile takes effect at the first blocking call after it.
///
/// Use it for cleanup that has to wait; [`defer`](crate::defer) and [`with`](crate::with) do.
pub fn shield<T>(body: impl FnOnce() -> T) -> T {
    let me = thread::slot().get();
    let _open = Open::new(me, &me.shields, Scope::SHIELD);
    body()
}

/// Runs `body` as the body of a callback from foreign code: no signal and no unwind leaves it. Resumable
/// signals that would stop the running fiber are refused inside
/// ([`Reason::FfiScope`](crate::Reason::FfiScope)), and whatever unwinds is returned.
///
/// Frames of another language lie between the callback and its fiber; unwinding through them would abort the
/// process.
///
/// ```
/// use sinew_fiber::{Value, error, ffi_scope};
///
/// extern "C" fn callback() -> i32 {
///     match ffi_scope(|| { error("no good") }) {
///         Ok(()) => 0,
///         Err(_raised) => -1,
///     }
/// }
/// # let fiber = sinew_fiber::Fiber::new(|_| assert_eq!(callback(), -1))?;
/// # assert_eq!(fiber.resume(())?, sinew_fiber::Signal::Ok);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// # Errors
///
/// The terminal signal or panic that ended `body`.
pub fn ffi_scope<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    let me = thread::slot().get();
    let _open = Open::new(me, &me.ffi_scopes, Scope::FFI);
    let unwinding = me.unwinding.get();
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let raised = classify(me, payload);
        me.unwinding.set(unwinding); // we may be in a destructor: the unwind around us goes on
        raised
    })
}
