//! What other languages build in, as short functions over [`Fiber::new`](crate::Fiber::new), `resume`,
//! `status` and `propagate`.
//!
//! Their bodies may borrow, although a fiber's body may not: each of these functions runs its fiber to the
//! end before it returns. Nothing but the end of the fiber continues the function's frame (the masks catch
//! terminal signals only), so what the body borrows outlives it; and if the frame is never continued because
//! the fiber around it is quarantined, what it borrows stays as well.
//!
//! A body that raises `ok` has made the fiber that called the function return, not the one that the function made:
//! the value is a [`Value`], and the function's result is a `T`.

use std::cell::Cell;
use std::fmt;

use sinew_core::{Bindings, Mask, Signal, Status};

use crate::binding_table::Binding;
use crate::bindings;
use crate::builder::Builder;
use crate::fiber::Fiber;
use crate::outside::take_interrupts;
use crate::raised::Raised;
use crate::scopes::shield;
use crate::terminal::{raise, unwind};
use crate::thread;
use crate::value::Value;

/// A fiber that ran a body to its end, and the result if it returned; or why there was no fiber to run it in.
type Ran<T> = Result<(Fiber, Option<T>), Value>;

#[track_caller]
fn run<T>(options: Builder, bindings: impl IntoIterator<Item = Binding>, body: impl FnOnce() -> T) -> Ran<T> {
    debug_assert!(!options.mask.contains(Signal::Yield), "see the module's prose");
    let mut result = None;
    let to = &mut result;
    // SAFETY: `start` comes back, or unwinds, only when the fiber has ended or was refused before it
    // started (module prose), so it has ended when `result` and what `body` borrows go.
    let fiber = unsafe {
        Fiber::with_borrowing_body(options, move |_| {
            take_interrupts(thread::slot().get());
            *to = Some(body());
        })
    };
    let fiber = fiber.map_err(Value::new)?;
    bindings::bind(fiber.record(), bindings);
    match fiber.start() {
        Ok(_) => Ok((fiber, result)),
        Err(refused) => Err(Value::new(refused)),
    }
}

/// Goes on as the body did.
#[track_caller]
fn go_on<T>(ran: Ran<T>) -> T {
    match ran {
        Ok((_, Some(result))) => result,
        Ok((fiber, None)) => re_raise(&fiber),
        Err(no_fiber) => raise(Signal::Error, no_fiber),
    }
}

fn catching(mask: Mask) -> Builder {
    Fiber::builder().mask(mask).bindings(Bindings::Shared)
}

/// Runs `body` and returns its result, or the error or panic that ended it. Any other signal passes through.
///
/// ```
/// use sinew_fiber::{error, protect};
///
/// assert_eq!(protect(|| 42).unwrap(), 42);
/// let raised = protect(|| -> u32 { error("boom") }).unwrap_err();
/// assert_eq!(raised.value.downcast::<&str>().unwrap(), "boom");
/// let panicked = protect(|| [1, 2, 3].iter().position(|x| *x == 4).unwrap()).unwrap_err();
/// assert!(panicked.to_string().contains("called `Option::unwrap()` on a `None` value"));
/// ```
///
/// # Errors
///
/// The error signal, or panic, that `body` ended with.
#[track_caller]
pub fn protect<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    match run(catching(Mask::ERROR), [], body) {
        Ok((_, Some(result))) => Ok(result),
        Ok((fiber, None)) if fiber.status() == Status::Dead => re_raise(&fiber), // a return is no error
        Ok((fiber, None)) => Err(fiber.take_raised()),
        Err(no_fiber) => raise(Signal::Error, no_fiber),
    }
}

/// Runs `body`; if it ends with an error or panic, the result is that of `catch`.
///
/// ```
/// use sinew_fiber::{error, try_};
///
/// let text = try_(|| error("boom"), |raised| format!("caught {:?}", raised.value));
/// assert_eq!(text, "caught \"boom\"");
/// ```
#[track_caller]
pub fn try_<T>(body: impl FnOnce() -> T, catch: impl FnOnce(Raised) -> T) -> T {
    protect(body).unwrap_or_else(catch)
}

/// Runs `body`, then `cleanup`, however `body` ended: by returning, with an error, a terminal user signal or
/// a panic, or because it was cancelled or dropped. Then goes on as `body` did.
///
/// The cleanup runs outside the unwind and inside a [`shield`], so it may wait. If it raises a signal
/// itself, that takes the place of the first one. It also runs if there was no fiber to run `body` in: no
/// memory for a stack, or too deep a chain.
///
/// ```
/// use sinew_fiber::{defer, error, protect};
///
/// let mut cleaned = false;
/// let result = protect(|| defer(|| cleaned = true, || error("boom")));
/// assert!(result.is_err() && cleaned);
/// ```
#[track_caller]
pub fn defer<T>(cleanup: impl FnOnce(), body: impl FnOnce() -> T) -> T {
    let ran = run(catching(Mask::TERMINATION), [], body);
    shield(cleanup);
    go_on(ran)
}

/// Like [`defer`], but the cleanup only runs if `body` does not return. Raising [`Signal::Ok`] is a return.
#[track_caller]
pub fn edefer<T>(cleanup: impl FnOnce(), body: impl FnOnce() -> T) -> T {
    let ran = run(catching(Mask::TERMINATION), [], body);
    if !ran.as_ref().is_ok_and(|(fiber, _)| fiber.status() == Status::Dead) {
        shield(cleanup);
    }
    go_on(ran)
}

/// Lends `resource` to `body`, then gives it to `close`, however `body` ended.
///
/// ```
/// use sinew_fiber::with;
///
/// let mut closed = None;
/// let sum: i32 = with(vec![1, 2, 3], |numbers| closed = Some(numbers), |numbers| numbers.iter().sum());
/// assert_eq!((sum, closed), (6, Some(vec![1, 2, 3])));
/// ```
#[track_caller]
pub fn with<R, T>(mut resource: R, close: impl FnOnce(R), body: impl FnOnce(&mut R) -> T) -> T {
    let ran = run(catching(Mask::TERMINATION), [], || body(&mut resource));
    shield(|| close(resource));
    go_on(ran)
}

/// Ends the running fiber as `fiber` ended.
#[track_caller]
fn re_raise(fiber: &Fiber) -> ! {
    unwind(thread::slot().get(), fiber.take_raised())
}

/// A place to [`return_to`] with a `T`, as [`prompt`] makes it.
pub struct Prompt<T> {
    id: u64,
    result: Cell<Option<T>>,
}

/// The payload of `user0` on its way to a prompt: the prompt's number.
struct Return(u64);

/// Runs `body` with a place that code below it, at any depth, may [`return_to`] at once.
///
/// ```
/// use sinew_fiber::{prompt, return_to};
///
/// let found = prompt(|here| {
///     for (row, line) in [[1, 2], [3, 4]].into_iter().enumerate() {
///         for (column, number) in line.into_iter().enumerate() {
///             if number == 3 {
///                 return_to(here, Some((row, column)));
///             }
///         }
///     }
///     None
/// });
/// assert_eq!(found, Some((1, 0)));
/// ```
#[track_caller]
pub fn prompt<T>(body: impl FnOnce(&Prompt<T>) -> T) -> T {
    let here = Prompt { id: thread::next_id(), result: Cell::new(None) };
    let ran = run(catching(Mask::of(Signal::User0)), [], || body(&here));
    let Ok((fiber, None)) = &ran else { return go_on(ran) };
    let to = fiber.last_value(|value| value.and_then(|value| value.downcast_ref()).map(|Return(to)| *to));
    match here.result.take() {
        Some(result) if to == Some(here.id) => result,
        _ => go_on(ran),
    }
}

/// Unwinds to the [`prompt`] that made `place`, which returns `result`.
#[track_caller]
pub fn return_to<T>(place: &Prompt<T>, result: T) -> ! {
    place.result.set(Some(result));
    raise(Signal::User0, Value::new(Return(place.id)))
}

impl<T> fmt::Debug for Prompt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prompt({})", self.id)
    }
}

/// Runs `body` with dynamic bindings of its own over those of the running fiber.
///
/// ```
/// use sinew_fiber::{Key, with_bindings};
///
/// static DEPTH: Key<u32> = Key::new("depth");
/// let inner = with_bindings([DEPTH.to(1)], || *DEPTH.get().unwrap());
/// assert_eq!((inner, DEPTH.get()), (1, None));
/// ```
#[track_caller]
pub fn with_bindings<T>(bindings: impl IntoIterator<Item = Binding>, body: impl FnOnce() -> T) -> T {
    let options = Fiber::builder().mask(Mask::NONE).bindings(Bindings::Layered);
    go_on(run(options, bindings, body))
}
