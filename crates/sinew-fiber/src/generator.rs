//! Iteration: a fiber is an iterator over what it yields, and `Generator` is the typed form of it.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use sinew_core::{Bindings, Mask, Signal};

use crate::builder::Builder;
use crate::fiber::Fiber;
use crate::memory::StackError;
use crate::raise::yield_to;
use crate::raised::Raised;
use crate::refused::Reason;
use crate::terminal::raise;
use crate::value::Value;
use crate::view::FiberRef;

/// What the fiber stops with, resumable and caught, one after the other; the return value is no item. An
/// error that the mask does not catch is one `Err`, and the last item; a caught one just ends it. If the
/// resume is refused (another task's fiber, too deep a chain), the [`Refused`](crate::Refused) is the value
/// of an `Err`, and the fiber is as it was.
///
/// ```
/// use sinew_fiber::{Fiber, error, yield_};
///
/// let mut fiber = Fiber::new(|_| {
///     yield_(1u32).unwrap();
///     error("enough");
/// })?;
/// assert_eq!(fiber.next().unwrap().unwrap().downcast::<u32>()?, 1);
/// assert_eq!(fiber.next().unwrap().unwrap_err().value.downcast::<&str>()?, "enough");
/// assert!(fiber.next().is_none());
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
impl Iterator for Fiber {
    type Item = Result<Value, Raised>;

    fn next(&mut self) -> Option<Result<Value, Raised>> {
        match self.resume_catching(Value::UNIT) {
            Ok(Ok(signal)) if signal.is_terminal() => None,
            Ok(Ok(_)) => Some(Ok(self.take_value())),
            Ok(Err(raised)) => Some(Err(raised)),
            Err(refused) if refused.reason() == Reason::Status => None,
            Err(refused) => {
                Some(Err(Raised { signal: Signal::Error, value: Value::new(refused), trace: None }))
            }
        }
    }
}

/// A fiber that produces items of type `T`; an ordinary iterator for whoever reads it.
///
/// The body runs between two items, on a stack of its own, so it may yield from any depth, from inside loops,
/// recursion and callbacks. An error or panic in the body ends the reader as well. Dropping a generator in
/// the middle runs the destructors on its stack.
///
/// ```
/// use sinew_fiber::Generator;
///
/// fn walk(tree: &[&[u32]], out: &sinew_fiber::Yielder<u32>) {
///     for branch in tree {
///         for leaf in *branch {
///             out.yield_(*leaf);
///         }
///     }
/// }
///
/// let leaves = Generator::new(|out| walk(&[&[1, 2], &[3]], out))?;
/// assert_eq!(leaves.collect::<Vec<_>>(), [1, 2, 3]);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// ```compile_fail,E0277
/// # use sinew_fiber::Generator;
/// let numbers = Generator::<u32>::new(|out| out.yield_(1)).unwrap();
/// std::thread::spawn(move || numbers.count()); // a fiber stays on its thread
/// ```
#[must_use = "a generator does nothing until it is read"]
pub struct Generator<T> {
    fiber: Fiber,
    item: Rc<Cell<Option<T>>>,
}

/// The way out for the items of a [`Generator`].
pub struct Yielder<T> {
    fiber: FiberRef,
    item: Rc<Cell<Option<T>>>,
}

impl<T: 'static> Generator<T> {
    /// A generator with default options.
    ///
    /// # Errors
    ///
    /// If there is no memory for a stack.
    #[track_caller]
    pub fn new(body: impl FnOnce(&Yielder<T>) + 'static) -> Result<Generator<T>, StackError> {
        Generator::with(Fiber::builder(), body)
    }

    /// A generator with the name and stack size of `options`; it catches yields and shares its creator's
    /// bindings.
    ///
    /// # Errors
    ///
    /// If there is no memory for a stack.
    #[track_caller]
    pub fn with(
        options: Builder,
        body: impl FnOnce(&Yielder<T>) + 'static,
    ) -> Result<Generator<T>, StackError> {
        let item = Rc::new(Cell::new(None));
        let to = item.clone();
        let options = options.mask(Mask::YIELD).bindings(Bindings::Shared);
        let fiber = options.build(move |_| body(&Yielder { fiber: crate::current(), item: to }))?;
        Ok(Generator { fiber, item })
    }
}

/// A [`Generator`] of what `body` yields: `generate(|out| for i in 0..3 { out.yield_(i) })`.
///
/// # Errors
///
/// If there is no memory for a stack.
#[track_caller]
pub fn generate<T: 'static>(body: impl FnOnce(&Yielder<T>) + 'static) -> Result<Generator<T>, StackError> {
    Generator::new(body)
}

impl<T> Iterator for Generator<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if !self.fiber.can_resume() {
            return None;
        }
        match self.fiber.resume(Value::UNIT).map(|stop| stop.signal()) {
            Ok(Signal::Yield) => Some(self.item.take().unwrap_or_else(|| {
                raise(Signal::Error, Value::new("a generator's body called `yield_` itself: it yields through the `Yielder` that it gets"))
            })),
            Ok(_) => None,
            Err(refused) => raise(Signal::Error, Value::new(refused)),
        }
    }
}

impl<T> std::iter::FusedIterator for Generator<T> {}

impl<T> fmt::Debug for Generator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Generator").field(&self.fiber).finish()
    }
}

impl<T> Yielder<T> {
    /// Hands `item` to the reader and returns when it wants the next.
    ///
    /// Raises an error if the yield is refused: outside the body of its generator, inside a generator nested
    /// in that body, and from a destructor while the thread unwinds.
    #[inline(always)]
    #[track_caller]
    pub fn yield_(&self, item: T) {
        self.item.set(Some(item));
        if let Err(refused) = yield_to(self.fiber.record(), Value::UNIT) {
            raise(Signal::Error, Value::new(refused));
        }
    }
}

impl<T> fmt::Debug for Yielder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Yielder").field(&self.fiber).finish()
    }
}
