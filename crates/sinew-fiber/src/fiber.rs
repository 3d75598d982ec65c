//! `Fiber`: a body with a stack of its own, resumed, cancelled and dropped by its owner.
//!
//! Beside this file: [`body`] lays a fiber out on its stack and runs its body, [`result`] has what
//! the body may return, [`resume`] continues it, [`stop`] is what the resumer gets,
//! [`propagate`](mod@propagate) stops the resumer likewise, [`end`] ends it.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use sinew_core::{Mask, Signal, Status};

use crate::builder::Builder;
use crate::memory::StackError;
use crate::raised::Raised;
use crate::record::{Home, Record};
use crate::value::Value;
use crate::view::FiberRef;

mod body;
mod end;
mod propagate;
mod result;
mod resume;
mod stop;

pub use propagate::propagate;
pub use result::BodyResult;
pub use stop::Stop;

/// A body with a stack of its own that can stop in the middle and be continued.
///
/// Its owner [resumes](Fiber::resume) it and gets the [`Stop`]: with which [`Signal`] the fiber
/// stopped (it yielded, it returned, it failed…) and with which value. The fiber's [mask](Mask)
/// says which of its signals the resumer catches; any other stops the resumer too.
///
/// ```
/// use sinew_fiber::{Error, Fiber, yield_as};
///
/// let fiber = Fiber::new(|first| {
///     let second = yield_as::<u32>(first)?;
///     Ok::<_, Error>(second * 2)
/// })?;
/// assert_eq!(fiber.resume(1_u32)?.get::<u32>()?, 1);
/// assert_eq!(fiber.resume(21_u32)?.get::<u32>()?, 42);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// Dropping a suspended fiber ends it: the error [`Cancelled`](crate::Cancelled) is raised where it stopped, so its
/// destructors and [`defer`](crate::defer)s run.
///
/// A fiber stays on its thread:
///
/// ```compile_fail,E0277
/// # use sinew_fiber::Fiber;
/// let fiber = Fiber::new(|_| ()).unwrap();
/// std::thread::spawn(move || fiber.resume(()));
/// ```
///
/// ```compile_fail,E0277
/// # use sinew_fiber::Fiber;
/// let fiber = Fiber::new(|_| ()).unwrap();
/// std::thread::scope(|scope| { scope.spawn(|| fiber.status()); });
/// ```
#[must_use = "a fiber does nothing until it is resumed, and ends when it is dropped"]
pub struct Fiber {
    record: *const Record,
    /// `!Send` and `!Sync`: the record is shared with its thread's other fibers without locks.
    _thread: PhantomData<Rc<()>>,
}

impl Fiber {
    /// Creates a fiber with default [options](Fiber::builder). The body gets the value of the first
    /// resume. If it returns `Err`, the fiber ends with an error signal: see [`BodyResult`].
    ///
    /// # Errors
    ///
    /// If there is no memory for a stack.
    #[inline]
    #[track_caller]
    pub fn new<F, R>(body: F) -> Result<Fiber, StackError>
    where
        F: FnOnce(Value) -> R + 'static,
        R: BodyResult,
    {
        Fiber::builder().build(body)
    }

    /// The options of a new fiber: name, mask, bindings, stack size.
    #[inline]
    pub fn builder() -> Builder {
        Builder::default()
    }

    #[inline]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: `self` owns a reference to the record.
        unsafe { &*self.record }
    }

    /// The number of the last signal, or new, or alive.
    #[inline]
    pub fn status(&self) -> Status {
        self.record().status()
    }

    /// False once the fiber has ended. (A running fiber counts as resumable; resuming it is
    /// refused for as long as it runs.)
    pub fn can_resume(&self) -> bool {
        self.status().can_resume()
    }

    /// The signals that whoever resumes this fiber catches.
    #[inline]
    pub fn mask(&self) -> Mask {
        self.record().mask.get()
    }

    /// Takes the value of the last signal or of the return, whatever its type. Returns
    /// [`Value::UNIT`] if it was taken before, and while the fiber is new or runs. [`Stop::get`]
    /// takes it as a known type.
    #[inline]
    pub fn take_value(&self) -> Value {
        let leaf = self.record().leaf();
        if leaf.own_status.get() == Status::Alive {
            return Value::UNIT;
        }
        leaf.value.take().unwrap_or(Value::UNIT)
    }

    /// Looks at what the last signal or the return carried, and leaves it there; nothing if it was taken,
    /// and while the fiber is new or runs.
    pub fn last_value<T>(&self, look: impl FnOnce(Option<&Value>) -> T) -> T {
        let leaf = self.record().leaf();
        if leaf.own_status.get() == Status::Alive {
            return look(None);
        }
        /// Puts the value back, also if `look` unwinds; unless `look` let the fiber go on, which then has a
        /// newer one, or runs. Keeps the record: a leaf that went on may have ended and be gone.
        struct Lent {
            leaf: FiberRef,
            value: Option<Value>,
        }
        impl Drop for Lent {
            fn drop(&mut self) {
                let leaf = self.leaf.record();
                if leaf.own_status.get() != Status::Alive && leaf.is_empty() {
                    leaf.value.set(self.value.take());
                }
            }
        }
        let lent = Lent { leaf: FiberRef::of(leaf), value: leaf.value.take() };
        look(lent.value.as_ref())
    }

    /// Takes the signal with which the fiber stopped, with its value and, if it ended or stopped at a
    /// breakpoint, its trace.
    pub fn take_raised(&self) -> Raised {
        Raised {
            signal: self.status().signal().unwrap_or(Signal::Ok),
            value: self.take_value(),
            trace: self.record().leaf().trace.take(),
        }
    }

    /// The fibers that are stopped here, from this one to the one that raised the signal.
    pub fn lineage(&self) -> Vec<FiberRef> {
        self.record().descendants().map(FiberRef::of).collect()
    }

    /// A view of this fiber that does not own it.
    pub fn view(&self) -> FiberRef {
        FiberRef::of(self.record())
    }

    /// Gives the memory that the fiber, while it is stopped, does not need of its stack back to the system: what
    /// deeper calls have touched before. Does nothing while it runs. Worth its system call for a fiber that went deep
    /// and will wait for long.
    ///
    /// ```
    /// use sinew_fiber::{Fiber, yield_};
    ///
    /// #[inline(never)]
    /// fn goes_deep() {
    ///     std::hint::black_box([1u8; 100_000]);
    /// }
    ///
    /// let fiber = Fiber::new(|_| {
    ///     goes_deep();
    ///     yield_(())
    /// })?;
    /// let _ = fiber.resume(())?;
    /// let deep = fiber.stack_high_water();
    /// fiber.trim_stack();
    /// assert!(fiber.stack_high_water() < deep);
    /// # Ok::<(), sinew_fiber::Error>(())
    /// ```
    pub fn trim_stack(&self) {
        let record = self.record();
        if matches!(self.status(), Status::Alive) {
            return;
        }
        // Where the frames that are still needed end: at the fiber's own stop, or at its call of `resume`.
        let sp = record.child().map_or(record.sp.get(), |child| child.resumer.get());
        if let (Home::Stack(stack), false) = (&record.home, self.status().is_terminal()) {
            // SAFETY: the fiber is stopped, on this thread, and nobody continues it meanwhile. All that is live on
            // its stack lies above the saved stack pointer; 128 bytes more are what a leaf may use below it.
            unsafe { stack.decommit_below(sp.wrapping_sub(128)) };
        }
    }

    /// The most bytes of its stack that this fiber, or another that had the same stack before, has used;
    /// in whole pages.
    pub fn stack_high_water(&self) -> usize {
        match &self.record().home {
            Home::Stack(stack) => stack.high_water(),
            Home::Box => unreachable!("a root is no `Fiber`"),
        }
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fiber({}, {})", self.record().label(), self.status())
    }
}
