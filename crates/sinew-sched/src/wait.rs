//! Waiting: nodes on the stacks of those who wait, in the queues of what they wait for.
//!
//! Whatever a task or thread can wait for (a lock, an event, the end of a task) has a [`Queue`] under a lock of its
//! own. The protocol is the same for all:
//!
//! 1. The waiter takes the lock, looks whether it has to wait, puts a [`Node`] into the queue and releases the lock.
//! 2. It calls [`Node::wait`], which returns when it was told, at its deadline, or when its task is cancelled.
//! 3. A waker takes the lock, takes a node out by [`Queue::tell`], releases the lock and wakes the [`Waiter`] that it
//!    got. The node is told before the lock is released, and not touched after: the waiter may be gone.
//! 4. A waiter that was not told takes the lock again and takes its node out by [`Queue::remove`]. If that says no, it
//!    was told meanwhile: it has what it waited for, and has to use it or to hand it on.
//!
//! So a node is in a queue or told, never both, and the lock says which; and a wake-up that comes late finds no node.
//! [`Waiting`] does steps 2 and 4. A waiter that was told at the moment at which it wanted to give up has what it
//! waited for, and returns it; one that unwinds cannot, so what waits are for says how to hand it on ([`Awaited`]).
//!
//! `told` releases, and the waiter's load acquires: what the waker did before is seen. It also says how: a lock may
//! tell a waiter that it has it, or that it may try.
//!
//! A waker that tells many does so in batches, and releases the lock to wake each: [`tell_each`].
//!
//! A waiter may wait for several things at once, with a node for each: then a node is claimed before it is told
//! ([`crate::group`]), and one that cannot be claimed is dead.

mod queue;

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::DerefMut;
use std::ptr;
use std::task::Waker;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sync::atomic::{AtomicU8, Ordering};
use sinew_sync::capacity;
use sinew_sync::thread::{self, Thread};

use crate::blocked::Blocked;
use crate::clock::{now, system_now};
use crate::countdown::wait_for;
use crate::group::{Group, Pair};
use crate::notes::What;
use crate::task::{Kind, TaskRef};
use crate::timers::with_alarm;
use crate::waker::{task_of, wake_caught};
use crate::worker;
pub use queue::{Partner, Queue};

/// What a node was told by whoever has only one thing to say.
pub const TOLD: u8 = 1;

/// How many waiters a waker tells before it wakes them.
pub(crate) const BATCH: usize = capacity(16, 2);

/// A task, a thread or a future that waits.
#[derive(Clone)]
pub struct Waiter(Woken);

#[derive(Clone)]
enum Woken {
    Task(TaskRef),
    Thread(Thread),
    /// A future that is polled by another executor.
    Foreign(Waker),
}

impl Waiter {
    /// The running task, or thread.
    pub fn current() -> Waiter {
        match worker::current_task_and_worker() {
            Some((task, worker)) => Waiter(Woken::Task(task.reference().on(worker))),
            None => Waiter::thread(),
        }
    }

    #[cold]
    fn thread() -> Waiter {
        Waiter(Woken::Thread(thread::current()))
    }

    /// Whoever `waker` wakes.
    pub fn of(waker: &Waker) -> Waiter {
        match task_of(waker) {
            Some(task) => Waiter(Woken::Task(task)),
            None => Waiter(Woken::Foreign(waker.clone())),
        }
    }

    /// Wakes it, unless it is a future of another executor: then returns its waker, which may be anybody's code.
    pub(crate) fn wake_own(self) -> Option<Waker> {
        match self.0 {
            Woken::Foreign(waker) => Some(waker),
            _ => {
                self.wake();
                None
            }
        }
    }

    /// Wakes it.
    #[inline]
    pub fn wake(self) {
        match self.0 {
            Woken::Task(task) => worker::unpark(task),
            Woken::Thread(thread) => thread.unpark(),
            Woken::Foreign(waker) => wake_caught(waker),
        }
    }
}

/// One wait of one waiter. What a waker on another processor touches comes first: see [`OnOneLine`].
#[repr(C)]
pub struct Node {
    /// Zero until told.
    told: AtomicU8,
    queued: Cell<bool>,
    waiter: Cell<Option<Waiter>>,
    /// The waits of which this is one, and its number among them. Null if it is the only one.
    group: *const Group,
    /// Where what it waits for is put, or taken from.
    pub place: Cell<*const ()>,
    next: Cell<*const Node>,
    /// What it waits for, for the kind of queue that it is in: a number of permits, a reader or a writer…
    pub wants: Cell<usize>,
    previous: Cell<*const Node>,
    number: usize,
}

/// A node on a stack, all that a waker on another processor touches on one cache line. Those in futures have no such place: it
/// would cost each more memory than the node.
#[repr(align(64))]
pub struct OnOneLine(pub Node);

impl Node {
    /// A wait of whoever puts it into a queue.
    #[inline(always)]
    pub fn new(wants: usize) -> Node {
        Node::of(None, wants)
    }

    /// A wait of `waiter`.
    #[inline(always)]
    pub fn of(waiter: Option<Waiter>, wants: usize) -> Node {
        Node {
            told: AtomicU8::new(0),
            waiter: Cell::new(waiter),
            group: ptr::null(),
            number: 0,
            wants: Cell::new(wants),
            place: Cell::new(ptr::null()),
            queued: Cell::new(false),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        }
    }

    /// One of several waits of whoever calls.
    ///
    /// # Safety
    ///
    /// The group outlives the node.
    pub unsafe fn in_group(group: *const Group, number: usize) -> Node {
        Node { group, number, ..Node::new(0) }
    }

    /// Has it wake whoever calls, unless it knows whom to wake.
    #[inline(always)]
    pub fn wake_caller(&self) {
        let waiter = self.waiter.as_ptr();
        // SAFETY: the node is not in a queue yet, so it is the caller's alone; what is overwritten needs no drop.
        unsafe {
            if (*waiter).is_none() {
                waiter.write(Some(Waiter::current()));
            }
        }
    }

    #[inline(always)]
    fn group(&self) -> Option<&Group> {
        // SAFETY: the promise of `in_group`.
        unsafe { self.group.as_ref() }
    }

    /// The right to be told, which its waiter takes for itself: it has found that it need not wait. False if another node
    /// of its group was told.
    #[inline]
    pub fn claim(&self) -> bool {
        self.group().is_none_or(Group::claim)
    }

    /// Claims `other`, which waits for the opposite, and itself, which is not in the queue yet.
    #[inline]
    fn claim_with(&self, other: &Node) -> Pair {
        match (self.group(), other.group()) {
            (_, None) if self.claim() => Pair::Claimed,
            (_, None) => Pair::OwnTaken,
            (None, Some(group)) if group.claim() => Pair::Claimed,
            (None, Some(_)) => Pair::OtherTaken,
            (Some(own), Some(group)) => Group::claim_both(own, group),
        }
    }

    /// Whether its task waits on `worker`, and will go on there. None if that is not known: a thread, a future, or
    /// a body that awaits one.
    ///
    /// # Safety
    ///
    /// The caller has the lock of the queue that the node is in.
    unsafe fn waits_on(&self, worker: usize) -> Option<bool> {
        // SAFETY: nobody replaces the waiter without the lock.
        match unsafe { &*self.waiter.as_ptr() } {
            Some(Waiter(Woken::Task(task))) if task.task.table().kind == Kind::Thunk && task.is_placed() => {
                Some(task.worker() == worker)
            }
            _ => None,
        }
    }

    /// Another waiter for the same wait. Under the lock of the queue, while it was not told; returns the old one.
    pub fn replace_waiter(&self, waiter: Waiter) -> Option<Waiter> {
        self.waiter.replace(Some(waiter))
    }

    /// True once somebody has told it.
    pub fn is_told(&self) -> bool {
        self.told() != 0
    }

    /// What it was told; zero if nothing yet.
    pub fn told(&self) -> u8 {
        self.told.load(Ordering::Acquire)
    }

    /// Waits until told, for `what`. False at the deadline; an error if the task is cancelled, or must not block here.
    ///
    /// In the frame of whoever waits: each frame between that and the switch is a return that the processor predicts wrongly.
    #[inline(always)]
    pub fn wait(&self, deadline: Option<Instant>, what: What) -> Result<bool, Refused> {
        wait(|| self.is_told(), deadline, what)
    }

    /// Waits until told, for `what`, for up to `timeout`; else as [`Node::wait`].
    #[inline]
    pub fn wait_for(&self, timeout: Duration, what: What) -> Result<bool, Refused> {
        wait_for(|| self.is_told(), timeout, what)
    }

    /// Parks the running task until told, whatever the fibers say that it runs in.
    pub fn park(&self, what: What) {
        while !self.is_told() {
            worker::park_for(what);
        }
    }

    /// Waits until told, for a waiter that could not take its node back in time: the waker is between finding the
    /// node and telling it, on another thread, and does not block there.
    pub fn wait_out(&self) {
        while !self.is_told() {
            thread::yield_now();
        }
    }

    /// Tells a node that was claimed and is in no queue; returns whom to wake.
    ///
    /// # Safety
    ///
    /// `node` is valid up to this call, which is the only one for it.
    #[inline]
    pub unsafe fn tell(node: *const Node, what: u8) -> Waiter {
        // SAFETY: the waiter does not leave before it is told, and its name is taken out before that. One of a group
        // leaves when the group says so, and the group stays until then.
        unsafe {
            let waiter = (*node).waiter.take().expect("a node is told once");
            let (group, number) = ((*node).group, (*node).number);
            (*node).told.store(what, Ordering::Release);
            if let Some(group) = group.as_ref() {
                group.tell(number);
            }
            waiter
        }
    }

    /// Claims and tells a node that is in no queue and whose waiter waits for that ([`Node::wait_out`]) if it gives up.
    ///
    /// # Safety
    ///
    /// As for [`Node::tell`].
    pub unsafe fn claim_and_tell(node: *const Node, what: u8) -> Option<Waiter> {
        // SAFETY: the caller's promise. One that cannot be claimed has a waiter that gives up, and leaves when it is told.
        unsafe {
            if (*node).claim() {
                return Some(Node::tell(node, what));
            }
            let waiter = (*node).waiter.take();
            (*node).told.store(what, Ordering::Release);
            drop(waiter);
            None
        }
    }
}

/// Waits until `is_told`, for `what`. False at the deadline; an error if the task is cancelled, or must not block here.
#[inline(always)]
pub fn wait(is_told: impl Fn() -> bool, deadline: Option<Instant>, what: What) -> Result<bool, Refused> {
    if let Some(deadline) = deadline {
        return wait_until(is_told, deadline, what);
    }
    while !is_told() {
        match worker::current() {
            Some(worker) => worker.wait(what)?,
            None => block_thread()?,
        }
    }
    Ok(true)
}

#[cold]
fn wait_until(is_told: impl Fn() -> bool, deadline: Instant, what: What) -> Result<bool, Refused> {
    if is_told() {
        return Ok(true);
    }
    let Some(task) = worker::current_task() else {
        // A root of the user's own inside a task blocks its thread; the clock of its runtime may stand still then.
        let until = system_now() + (deadline - now());
        while !is_told() {
            let left = until - system_now();
            if left.is_zero() {
                return Ok(false);
            }
            may_block()?;
            sinew_sync::park_timeout(left);
        }
        return Ok(true);
    };
    if now() >= deadline {
        worker::charge();
        return Ok(is_told());
    }
    task.notes.set_deadline(deadline);
    with_alarm(deadline, || {
        while !is_told() {
            if now() >= deadline {
                return Ok(false);
            }
            worker::await_for(what.with_deadline())?;
        }
        Ok(true)
    })
}

/// Blocks the thread until it is unparked, for a wait that is not a task's.
#[cold]
pub(crate) fn block_thread() -> Result<(), Refused> {
    may_block()?;
    let _blocked = Blocked::new();
    thread::park();
    Ok(())
}

/// Whether a thread that is no worker may block here: not inside the poll of a future. A model has no fibers to ask.
pub fn may_block() -> Result<(), Refused> {
    if sinew_sync::MODEL { Ok(()) } else { sinew_fiber::raw::may_await() }
}

/// Something with a queue, as whoever waits in it leaves it.
pub trait Awaited {
    /// Takes `node` out of the queue that it was pushed into, under the lock. False if it was told, or would have been:
    /// then the wait is over, and it is in no queue either.
    ///
    /// # Safety
    ///
    /// `node` was pushed into the queue of this very object, or enrolled with it, which has returned
    /// [`Enrolled::Queued`](crate::case::Enrolled::Queued). It was not withdrawn since; it may have been told.
    unsafe fn withdraw(&self, node: &Node) -> bool;

    /// Gives on what `node` was told that it has, because its waiter unwinds.
    ///
    /// # Safety
    ///
    /// `node` was pushed into the queue of this very object, or enrolled with it, and its wait is over: it was told, or
    /// would have been. That was neither handed on nor [settled](crate::case::Attempt::settle) before.
    unsafe fn hand_on(&self, node: &Node);
}

/// A node in a queue, for the time of its wait: it does not stay there on any way out.
#[must_use = "it waits when it is told to"]
pub struct Waiting<'a, A: Awaited> {
    awaited: &'a A,
    node: &'a Node,
}

impl<'a, A: Awaited> Waiting<'a, A> {
    /// The wait of `node` in the queue of `awaited`.
    ///
    /// # Safety
    ///
    /// `node` was pushed into the queue of `awaited`, or enrolled with it, and nobody else ends its wait: as for
    /// [`Awaited::withdraw`] and [`Awaited::hand_on`]. It is one of no group: a group says itself when its node was
    /// told.
    pub unsafe fn new(awaited: &'a A, node: &'a Node) -> Waiting<'a, A> {
        Waiting { awaited, node }
    }

    /// Waits until told, as [`Node::wait`] does. Otherwise the node was not told, and is in no queue any more.
    pub fn wait(self, deadline: Option<Instant>, what: What) -> Result<bool, Refused> {
        // SAFETY: `Node::wait` returns true only if the node was told.
        unsafe { self.wait_by(|node| node.wait(deadline, what)) }
    }

    /// The same, by `wait`.
    ///
    /// # Safety
    ///
    /// `wait` returns `Ok(true)` only if the node was told.
    #[inline(always)]
    pub unsafe fn wait_by(self, wait: impl FnOnce(&Node) -> Result<bool, Refused>) -> Result<bool, Refused> {
        let outcome = wait(self.node);
        let this = ManuallyDrop::new(self);
        match outcome {
            Ok(true) => Ok(true),
            // SAFETY: the promise of `new`. This is not dropped, so it is not withdrawn twice.
            given_up if unsafe { this.awaited.withdraw(this.node) } => given_up,
            _ => Ok(true),
        }
    }
}

impl<A: Awaited> Drop for Waiting<'_, A> {
    /// Only on the way of an unwind.
    fn drop(&mut self) {
        // SAFETY: the promise of `new`; the wait was not ended otherwise, since that does not drop this. A node that
        // cannot be withdrawn was told, and nobody has settled that: its waiter unwinds out of the wait.
        unsafe {
            if !self.awaited.withdraw(self.node) {
                self.awaited.hand_on(self.node);
            }
        }
    }
}

/// Tells nodes by `tell`, under what `lock` returns, until it returns none, and wakes them without the lock.
pub fn tell_each<G, Q>(lock: impl Fn() -> G, tell: impl FnMut(&mut Q) -> Option<Waiter>)
where
    G: DerefMut<Target = Q>,
{
    tell_each_from(lock(), lock, tell, Waiter::wake);
}

/// [`tell_each`] for a caller that has locked it already, with a way to wake them.
pub fn tell_each_from<G, Q>(
    mut queue: G,
    lock: impl Fn() -> G,
    mut tell: impl FnMut(&mut Q) -> Option<Waiter>,
    mut wake: impl FnMut(Waiter),
) where
    G: DerefMut<Target = Q>,
{
    loop {
        let mut batch = [const { None }; BATCH];
        let more = batch.iter_mut().all(|place| {
            *place = tell(&mut queue);
            place.is_some()
        });
        drop(queue);
        batch.into_iter().flatten().for_each(&mut wake);
        if !more {
            return;
        }
        queue = lock();
    }
}
