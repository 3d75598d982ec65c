//! Stretches of code inside which a fiber is not cancelled ([`shield`]) or not suspended: not at all ([`ffi_scope`],
//! [`polling`]), or by nothing but await ([`open_scope`]).

use crate::raised::Raised;
use crate::record::{Record, Scope};
use crate::terminal::catch;
use crate::thread;

/// Marks a fiber until dropped, unless it was marked before.
struct Open<'a> {
    record: &'a Record,
    outermost: Scope,
}

impl<'a> Open<'a> {
    fn new(record: &'a Record, scope: Scope) -> Open<'a> {
        let own = record.own.get();
        record.own.set(own.and(scope));
        Open { record, outermost: scope.without(own) }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.record.own.set(self.record.own.get().without(self.outermost));
    }
}

/// Runs `body` with cancellation deferred: neither level of [`Control`](crate::Control) is seen inside, the
/// fiber cannot be [cancelled](crate::Fiber::cancel), and if it is being dropped, its signals are refused
/// instead of unwinding. What was asked meanwhile takes effect at the first blocking call after it.
///
/// Use it for cleanup that has to wait; [`defer`](crate::defer) and [`with`](crate::with) do.
pub fn shield<T>(body: impl FnOnce() -> T) -> T {
    let me = thread::slot().get();
    let _open = Open::new(me, Scope::SHIELD);
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
    let _open = Open::new(thread::slot().get(), Scope::FFI);
    catch(body)
}

/// Runs `body`, a poll of a future, as code that must not block: whatever would stop the running fiber is refused inside
/// ([`Reason::InsidePoll`](crate::Reason::InsidePoll)), await as well. What fibers inside raise and catch among
/// themselves works as always, and what unwinds passes through.
#[inline]
pub fn polling<T>(body: impl FnOnce() -> T) -> T {
    let _open = Open::new(thread::slot().get(), Scope::POLL);
    body()
}

/// Runs `body` as code that others borrow from the stack of: of the signals that a resumer would catch only await stops
/// the running fiber, any other is refused ([`Reason::OpenScope`](crate::Reason::OpenScope)).
pub fn open_scope<T>(body: impl FnOnce() -> T) -> T {
    let _open = Open::new(thread::slot().get(), Scope::OPEN);
    body()
}

/// True if cancellation is deferred where this is called.
pub fn is_shielded() -> bool {
    thread::slot().get().scope().any(Scope::SHIELD)
}
