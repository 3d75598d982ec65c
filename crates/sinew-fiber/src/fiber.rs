//! `Fiber`: a body with a stack of its own, resumed, cancelled and dropped by its owner.
//!
//! # The life of a stack
//!
//! A fiber's record lies in the top page of its stack, its body right below:
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
//! ([`run_body`]) and left for good. If the owner drops a suspended fiber, [`Fiber::end`] therefore resumes
//! it with an error that it raises at once, and again for each signal that it raises on the way, until it
//! ends; a body that goes on and on is quarantined: its record and stack are never touched again.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::rc::Rc;

use sinew_core::{Bindings, Mask, Signal, Status};

use crate::builder::Builder;
use crate::control::Cancelled;
use crate::error::{Operation, Reason, Refused};
use crate::memory::{Stack, StackError};
use crate::quarantine;
use crate::raise;
use crate::record::{Delivery, Home, Record, Scope};
use crate::switch::{self, Entry};
use crate::thread::{self, Slot};
use crate::trace::{Link, Trace};
use crate::unwind::{self, Raised, classify};
use crate::value::{IntoValue, Value};

/// The greatest number of fibers in a chain, the root not counted.
pub const MAX_DEPTH: u16 = 1024;

/// A body with a stack of its own that can stop in the middle and be continued.
///
/// Its owner [resumes](Fiber::resume) it and is told with which [`Signal`] it stopped: it yielded, it
/// returned, it failed… The fiber's [mask](Mask) says which of its signals the resumer catches; any other
/// stops the resumer too. What the signal carries is kept in the fiber: [`take_value`](Fiber::take_value).
///
/// ```
/// use sinew_fiber::{Fiber, Signal, yield_};
///
/// let fiber = Fiber::new(|first| {
///     let second = yield_(first).unwrap().downcast::<u32>().unwrap();
///     second * 2
/// })?;
/// assert_eq!(fiber.resume(1u32)?, Signal::Yield);
/// assert_eq!(fiber.take_value().downcast::<u32>()?, 1);
/// assert_eq!(fiber.resume(21u32)?, Signal::Ok);
/// assert_eq!(fiber.take_value().downcast::<u32>()?, 42);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// Dropping a suspended fiber ends it: the error [`Cancelled`] is raised where it stopped, so its
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
    /// A new fiber with default [options](Fiber::builder). The body gets the value of the first resume.
    ///
    /// # Errors
    ///
    /// If there is no memory for a stack.
    #[inline]
    #[track_caller]
    pub fn new<F, R>(body: F) -> Result<Fiber, StackError>
    where
        F: FnOnce(Value) -> R + 'static,
        R: IntoValue,
    {
        Fiber::builder().build(body)
    }

    /// The options of a new fiber: name, mask, bindings, stack size.
    #[inline]
    pub fn builder() -> Builder {
        Builder::default()
    }

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
        R: IntoValue,
    {
        thread::prepare();
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
        R: IntoValue,
    {
        let top = stack.top().as_ptr();
        let record = top.wrapping_sub(size_of::<Record>().next_multiple_of(64)).cast::<Record>();
        let place = body_place::<F>(record);
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
            crate::bindings::inherit(fiber.record(), options.bindings);
        }
        fiber
    }

    #[inline]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: `self` owns a reference to the record.
        unsafe { &*self.record }
    }

    /// Starts or continues the fiber, and says with which signal it stopped. The value is the argument of
    /// the body, or the result of the operation on which the fiber had stopped.
    ///
    /// If the fiber stopped together with fibers that it had resumed, the innermost gets the value.
    ///
    /// A signal that is not in the fiber's mask is not returned: if it is terminal, the caller ends with it
    /// as well, else the caller stops with it and this call goes on when the caller is resumed. On a
    /// thread's own root, outside all fibers, a terminal signal that nobody caught is a panic.
    ///
    /// # Errors
    ///
    /// Refused if the fiber has ended, is running, is stopped below another fiber, belongs to another task,
    /// or if the chain would be too deep.
    #[inline(always)]
    pub fn resume(&self, value: impl IntoValue) -> Result<Signal, Refused> {
        let value = value.into_value();
        let slot = thread::slot();
        let me = slot.get();
        let leaf = if self.is_at_rest(me) {
            self.record().adopt(me);
            self.record().put(value);
            self.record()
        } else {
            self.prepare(me, Operation::Resume, value)?
        };
        self.enter(slot, me, leaf);
        Ok(self.stopped(me))
    }

    /// True if the fiber, alone, can be resumed by `me`, and nothing is in the way: the common case.
    #[inline(always)]
    fn is_at_rest(&self, me: &Record) -> bool {
        let record = self.record();
        let status = record.own_status.get();
        // SAFETY: the control word of the running fiber's root is valid.
        let quiet = unsafe { (*me.word.get()).is_quiet() };
        quiet
            && !status.is_terminal()
            && status != Status::Alive
            && record.is_empty()
            && record.parent.get().is_null()
            && record.child.get().is_null()
            && me.depth.get() < MAX_DEPTH
            && (ptr::eq(record.root.get(), me.root.get()) || record.bind(me))
    }

    /// Continues the fiber with an error: the innermost of the fibers that are stopped here raises `value` at
    /// once. Says, like [`resume`](Fiber::resume), how the fiber stopped after that: it may have caught
    /// the error and gone on. A new fiber ends without having run.
    ///
    /// An error that the body does not catch and the fiber's mask does not either is the caller's as well, as
    /// with `resume`: put [`Mask::ERROR`] into the mask of what you mean to cancel, or drop it instead.
    ///
    /// # Errors
    ///
    /// As for [`resume`](Fiber::resume), and if one of the fibers that are stopped here is inside a
    /// [`shield`](crate::shield).
    #[track_caller]
    pub fn cancel(&self, value: impl IntoValue) -> Result<Signal, Refused> {
        let value = value.into_value();
        let me = thread::slot().get();
        raise::take_interrupts(me);
        self.admit(me, Operation::Cancel)?;
        let record = self.record();
        if record.leaf().is_shielded_within(record) {
            return Err(self.refuse(Operation::Cancel, Reason::Shielded));
        }
        if record.status() == Status::New {
            self.link(me);
            record.trace.set(Some(Trace::capture(record, Location::caller())));
            self.unlink(me);
            self.end_unstarted(value);
        } else {
            let leaf = self.prepare(me, Operation::Cancel, value)?;
            leaf.delivery.set(Delivery::Error);
            self.enter(thread::slot(), me, leaf);
        }
        Ok(self.stopped(me))
    }

    /// Like [`resume`](Fiber::resume), but a terminal signal that the mask does not catch is returned
    /// instead of ending the caller.
    pub(crate) fn resume_catching(&self, value: Value) -> Result<Result<Signal, Raised>, Refused> {
        let me = thread::slot().get();
        let leaf = self.prepare(me, Operation::Resume, value)?;
        self.enter(thread::slot(), me, leaf);
        let signal = self.signal();
        Ok(if self.escapes(signal) { Err(self.take_raised()) } else { Ok(signal) })
    }

    /// Starts a new fiber without stopping for interrupts first: those are for the body to take, so that what
    /// is raised in such a stop is raised inside.
    #[inline]
    pub(crate) fn start(&self) -> Result<Signal, Refused> {
        let slot = thread::slot();
        let me = slot.get();
        let leaf = if self.is_at_rest(me) {
            self.record().adopt(me);
            self.record().put(Value::UNIT);
            self.record()
        } else {
            self.prepare_now(me, Operation::Resume, Value::UNIT)?
        };
        self.enter(slot, me, leaf);
        Ok(self.stopped(me))
    }

    /// All that comes before continuing the chain that starts here, whatever its state: stops for interrupts,
    /// refuses what has to be refused, makes the chain run below `me`. Returns its leaf, with `value` in it.
    #[cold]
    fn prepare(&self, me: &Record, operation: Operation, value: Value) -> Result<&Record, Refused> {
        raise::take_interrupts(me);
        self.prepare_now(me, operation, value)
    }

    /// The same without stopping for interrupts.
    #[cold]
    fn prepare_now(&self, me: &Record, operation: Operation, value: Value) -> Result<&Record, Refused> {
        self.admit(me, operation)?;
        if let Some(unread) = self.record().leaf().value.take() {
            drop(unread); // its destructor may do anything, also with this fiber
            self.admit(me, operation)?;
        }
        let leaf = self.record().leaf();
        self.adopt_chain(me);
        leaf.put(value);
        Ok(leaf)
    }

    /// Makes the chain that starts here run below `me`.
    fn adopt_chain(&self, me: &Record) {
        let record = self.record();
        record.bind(me);
        let place = || (record.depth.get(), record.inherited.get());
        let before = place();
        let own = record.own.get();
        record.leaf().own_status.set(Status::Alive);
        record.adopt(me);
        // What the others inherit changes only with what this one does.
        if place() != before || own.any(Scope::ENDING) {
            for below in record.descendants().skip(1) {
                below.adopt(below.parent().expect("all but the first have a parent"));
            }
        }
    }

    /// Checks all that may speak against resuming, cancelling or propagating from the fiber.
    pub(crate) fn admit(&self, me: &Record, operation: Operation) -> Result<(), Refused> {
        let record = self.record();
        let status = record.status();
        let refused = |reason| Err(self.refuse(operation, reason));
        if !status.can_resume() || status == Status::Alive {
            return refused(Reason::Status);
        }
        if !record.parent.get().is_null() {
            return refused(Reason::Linked);
        }
        if self.belongs_elsewhere(me) {
            return refused(Reason::OtherTask);
        }
        let below = record.leaf().depth.get() - record.depth.get();
        if me.depth.get() + 1 + below > MAX_DEPTH {
            return refused(Reason::TooDeep);
        }
        Ok(())
    }

    /// True if the fiber was first resumed under another root than that of `me`.
    pub(crate) fn belongs_elsewhere(&self, me: &Record) -> bool {
        let root = self.record().root.get();
        !root.is_null() && !ptr::eq(root, me.root.get())
    }

    #[cold]
    fn refuse(&self, operation: Operation, reason: Reason) -> Refused {
        Refused::new(operation, self.record().label(), self.status(), reason)
    }

    #[inline(always)]
    pub(crate) fn link(&self, me: &Record) {
        self.record().parent.set(me);
        me.child.set(self.record);
    }

    #[inline(always)]
    pub(crate) fn unlink(&self, me: &Record) {
        self.record().parent.set(ptr::null());
        me.child.set(ptr::null());
    }

    /// Goes on in `leaf`, the innermost fiber of the chain that starts here and has its value already, and
    /// comes back when this fiber stops or ends.
    #[inline(always)]
    fn enter(&self, slot: Slot, me: &Record, leaf: &Record) {
        let record = self.record();
        self.link(me);
        slot.set(leaf);
        // SAFETY: `leaf` is suspended or fresh: our callers saw a status that says so for `record`, and a
        // stopped chain stops as a whole. Nobody else continues it, since it is linked below us now.
        // `record.resumer` is read when `record` stops; the handle that we borrow keeps it until then.
        unsafe { switch::switch(record.resumer.as_ptr(), leaf.sp.get()) };
        self.unlink(me);
    }

    /// What the resumer does about the signal with which the fiber has stopped: a terminal one that the
    /// mask does not catch is the resumer's as well.
    #[inline(always)]
    pub(crate) fn stopped(&self, me: &Record) -> Signal {
        let signal = self.signal();
        if self.escapes(signal) {
            unwind::unwind(me, self.take_raised());
        }
        signal
    }

    #[inline(always)]
    fn escapes(&self, signal: Signal) -> bool {
        signal.is_terminal() && signal != Signal::Ok && !self.mask().contains(signal)
    }

    /// The signal of a fiber that has stopped.
    #[inline(always)]
    fn signal(&self) -> Signal {
        self.record().status().signal().expect("a fiber that stopped has a signal")
    }

    /// The number of the last signal, or new, or alive.
    #[inline]
    pub fn status(&self) -> Status {
        self.record().status()
    }

    /// False once the fiber has ended. (A running fiber counts as resumable, as in the seed; resuming it is
    /// refused for as long as it runs.)
    pub fn can_resume(&self) -> bool {
        self.status().can_resume()
    }

    /// The signals that whoever resumes this fiber catches.
    #[inline]
    pub fn mask(&self) -> Mask {
        self.record().mask.get()
    }

    /// Takes what the last signal or the return carried. [`Value::UNIT`] if it was taken before, and while
    /// the fiber is new or runs.
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

    /// The most bytes of its stack that this fiber, or another that had the same stack before, has used;
    /// in whole pages.
    pub fn stack_high_water(&self) -> usize {
        match &self.record().home {
            Home::Stack(stack) => stack.high_water(),
            Home::Box => unreachable!("a root is no `Fiber`"),
        }
    }

    /// Ends the fiber as dropping it does, and says how it ended: `Err` if with anything but a return or the
    /// error [`Cancelled`] that ends it.
    ///
    /// # Errors
    ///
    /// The signal that it ended with instead, for example the panic of a destructor.
    pub fn end(self) -> Result<(), Raised> {
        self.end_now();
        match self.take_raised() {
            Raised { signal: Signal::Ok, .. } => Ok(()),
            raised if raised.is_cancelled() => Ok(()),
            raised => Err(raised),
        }
    }

    /// Ends a new fiber with the error `value` and drops its body.
    #[cold]
    #[inline(never)]
    fn end_unstarted(&self, value: Value) {
        let record = self.record();
        record.own_status.set(Status::Error);
        record.value.set(Some(value));
        if let Some((body, drop_body)) = record.body.take() {
            // SAFETY: the body of a fiber that never ran, taken so that nobody drops or runs it again.
            unsafe { drop_body(body) };
        }
    }

    #[cold]
    fn end_now(&self) {
        let record = self.record();
        match record.status() {
            status if status.is_terminal() => return,
            Status::New => return self.end_unstarted(Value::new(Cancelled)),
            _ if record.quarantined.get() => return,
            // Its resumer borrows the handle that is being dropped: only leaks get here.
            _ if !record.parent.get().is_null() => return quarantine::give_up(record),
            _ => (),
        }
        let slot = thread::slot();
        let me = slot.get();
        record.own.set(record.own.get().and(Scope::ENDING));
        let leaf = record.leaf();
        self.adopt_chain(me);
        let shielded = leaf.is_shielded_within(record);
        leaf.delivery.set(if shielded { Delivery::Ending } else { Delivery::Error });
        let _unread = leaf.value.replace(Some(Value::new(Cancelled)));
        self.enter(slot, me, leaf);
    }
}

impl Drop for Fiber {
    #[inline]
    fn drop(&mut self) {
        /// Gives the owner's reference up, also if what a body that never ran had captured panics when it is
        /// dropped.
        struct Owned(*const Record);
        impl Drop for Owned {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the owner's reference keeps the record.
                let record = unsafe { &*self.0 };
                if record.status().is_terminal() || record.quarantined.get() {
                    // SAFETY: the owner's reference. The body has ended, or the record is quarantined, which
                    // holds a reference for ever.
                    unsafe { Record::release(self.0) };
                }
            }
        }
        let owned = Owned(self.record);
        if !self.status().is_terminal() {
            self.end_now();
        }
        drop(owned);
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fiber({}, {})", self.record().label(), self.status())
    }
}

impl Record {
    /// Makes `self`, which was never resumed, a fiber of the task of `me` for good. False if it is one of some
    /// task already.
    #[inline]
    fn bind(&self, me: &Record) -> bool {
        if !self.root.get().is_null() {
            return false;
        }
        // SAFETY: the root of the running fiber is valid.
        unsafe { (*me.root.get()).add_ref() };
        self.root.set(me.root.get());
        self.word.set(me.word.get());
        true
    }

    /// Makes `self` run below `above`.
    #[inline(always)]
    fn adopt(&self, above: &Record) {
        self.own_status.set(Status::Alive);
        self.hang_below(above);
    }

    /// Gives `self`, which keeps its status, its place below `above`.
    #[inline]
    pub(crate) fn hang_below(&self, above: &Record) {
        self.depth.set(above.depth.get().saturating_add(1));
        let mut inherited = above.scope();
        if std::thread::panicking() {
            inherited = inherited.and(Scope::IN_DESTRUCTOR);
            self.unwinding.set(false); // it is stopped or new: whatever it had caught is over
        }
        self.inherited.set(inherited);
    }
}

/// Where the body of a fiber lies until it runs.
#[inline]
fn body_place<F>(record: *mut Record) -> *mut F {
    let align = align_of::<F>();
    record.cast::<u8>().wrapping_sub(size_of::<F>()).map_addr(|address| address & !(align - 1)).cast()
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
    R: IntoValue,
{
    // SAFETY: `place` gave us the record, which outlives the stack's use.
    let record = unsafe { &*record.cast::<Record>() };
    record.body.set(None);
    // SAFETY: the body is where `place` put it, and nobody reads it again: `body` was reset just now.
    let body = unsafe { body_place::<F>(ptr::from_ref(record).cast_mut()).read() };
    let argument = record.value.take().expect("a fiber is started with a value");
    let outcome = catch_unwind(AssertUnwindSafe(|| body(argument).into_value()));
    let (signal, value) = match outcome {
        Ok(value) => (Signal::Ok, value),
        Err(payload) => {
            let raised = classify(record, payload);
            record.trace.set(raised.trace);
            (raised.signal, raised.value)
        }
    };
    record.put(value);
    record.own_status.set(signal.into());
    thread::slot().set(record.parent.get());
    // SAFETY: the resumer is suspended in `enter` or `propagate`. Nothing on this stack has a destructor to
    // run any more: what was moved into `record` is all there is.
    unsafe { switch::leave(record.resumer.get()) }
}

/// A view of a fiber or a root that does not own it: names it, shows its status, and keeps nothing running.
///
/// ```compile_fail,E0277
/// let view = sinew_fiber::current();
/// std::thread::spawn(move || view.id()); // like the fiber, it stays on its thread
/// ```
#[derive(PartialEq, Eq)]
pub struct FiberRef {
    record: *const Record,
    _thread: PhantomData<Rc<()>>,
}

impl FiberRef {
    pub(crate) fn of(record: &Record) -> FiberRef {
        record.add_ref();
        FiberRef { record, _thread: PhantomData }
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: `self` owns a reference.
        unsafe { &*self.record }
    }

    /// The number of the fiber, unique in the process.
    pub fn id(&self) -> u64 {
        self.record().id
    }

    /// The name that it was given.
    pub fn name(&self) -> Option<&str> {
        self.record().name.as_deref()
    }

    /// The number of the last signal, or new, or alive.
    pub fn status(&self) -> Status {
        self.record().status()
    }

    /// False once the fiber has ended.
    pub fn can_resume(&self) -> bool {
        self.status().can_resume()
    }

    /// The signals that whoever resumes the fiber catches; of a root, those that its hook is called for.
    pub fn mask(&self) -> Mask {
        self.record().mask.get() | self.record().hook_mask
    }

    /// Its name and where it was created.
    pub fn link(&self) -> Link {
        Link::of(self.record())
    }
}

impl Clone for FiberRef {
    fn clone(&self) -> FiberRef {
        FiberRef::of(self.record())
    }
}

impl Drop for FiberRef {
    fn drop(&mut self) {
        // SAFETY: our own reference. The owner's is given up only after the body has ended, so if ours is the
        // last it has.
        unsafe { Record::release(self.record) };
    }
}

impl fmt::Debug for FiberRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FiberRef({}, {})", self.record().label(), self.status())
    }
}
