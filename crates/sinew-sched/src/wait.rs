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

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;

use sinew_core::Instant;
use sinew_fiber::{Refused, await_};
use sinew_sync::atomic::{AtomicU8, Ordering};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Mutex, capacity};

use crate::clock::{now, system_now};
use crate::task::TaskRef;
use crate::time::with_alarm;
use crate::worker;

/// What a node was told by whoever has only one thing to say.
pub(crate) const TOLD: u8 = 1;

/// How many waiters a waker tells before it wakes them.
const BATCH: usize = capacity(16, 2);

/// Who waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Task(TaskRef),
    Thread(Thread),
}

impl Waiter {
    /// The running task, or thread.
    pub(crate) fn current() -> Waiter {
        match worker::current_task() {
            Some(task) => Waiter::Task(task.reference()),
            None => Waiter::Thread(thread::current()),
        }
    }

    pub(crate) fn wake(self) {
        match self {
            Waiter::Task(task) => worker::unpark(task),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

/// One wait of one waiter.
pub(crate) struct Node {
    /// Zero until told.
    told: AtomicU8,
    waiter: Cell<Option<Waiter>>,
    /// What it waits for, for the kind of queue that it is in: a number of permits, a reader or a writer…
    pub(crate) wants: usize,
    queued: Cell<bool>,
    previous: Cell<*const Node>,
    next: Cell<*const Node>,
}

impl Node {
    /// A wait of whoever calls.
    pub(crate) fn new(wants: usize) -> Node {
        Node {
            told: AtomicU8::new(0),
            waiter: Cell::new(Some(Waiter::current())),
            wants,
            queued: Cell::new(false),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        }
    }

    /// True once somebody has told it.
    pub(crate) fn is_told(&self) -> bool {
        self.told() != 0
    }

    /// What it was told; zero if nothing yet.
    pub(crate) fn told(&self) -> u8 {
        self.told.load(Ordering::Acquire)
    }

    /// Waits until told. False at the deadline; an error if the task is cancelled, or must not block here.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<bool, Refused> {
        match deadline {
            _ if self.is_told() => Ok(true),
            None => {
                while !self.is_told() {
                    match worker::current_task() {
                        Some(_) => drop(await_(())?),
                        None => {
                            may_block()?;
                            thread::park();
                        }
                    }
                }
                Ok(true)
            }
            Some(deadline) => self.wait_until(deadline),
        }
    }

    #[cold]
    fn wait_until(&self, deadline: Instant) -> Result<bool, Refused> {
        if worker::current_task().is_none() {
            while !self.is_told() {
                let left = deadline - system_now();
                if left.is_zero() {
                    return Ok(false);
                }
                may_block()?;
                sinew_sync::park_timeout(left);
            }
            return Ok(true);
        }
        with_alarm(deadline, || {
            while !self.is_told() {
                if now() >= deadline {
                    return Ok(false);
                }
                await_(())?;
            }
            Ok(true)
        })
    }

    /// Parks the running task until told, whatever the fibers say that it runs in.
    pub(crate) fn park(&self) {
        while !self.is_told() {
            worker::park();
        }
    }

    /// Waits until told, for a waiter that could not take its node back in time: the waker is between finding the
    /// node and telling it, on another thread, and does not block there.
    pub(crate) fn wait_out(&self) {
        while !self.is_told() {
            thread::yield_now();
        }
    }

    /// Tells a node that is in no queue; returns whom to wake.
    ///
    /// # Safety
    ///
    /// `node` is valid up to this call, which is the only one for it.
    pub(crate) unsafe fn tell(node: *const Node, what: u8) -> Waiter {
        // SAFETY: the waiter does not leave before `told` is stored, and its name is taken out before that.
        unsafe {
            let waiter = (*node).waiter.take().expect("a node is told once");
            (*node).told.store(what, Ordering::Release);
            waiter
        }
    }
}

/// Whether a thread that is no worker may block here: not inside the poll of a future. A model has no fibers to ask.
fn may_block() -> Result<(), Refused> {
    if sinew_sync::MODEL { Ok(()) } else { sinew_fiber::raw::may_await() }
}

/// Nodes that wait for the same thing, first come first told. Its owner keeps it under a lock.
pub(crate) struct Queue {
    first: *const Node,
    last: *const Node,
}

// SAFETY: the nodes are reached under the lock that the queue is kept under, by one thread at a time.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { first: ptr::null(), last: ptr::null() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// What the first node in the queue wants.
    pub(crate) fn first_wants(&self) -> Option<usize> {
        // SAFETY: nodes in the queue are valid.
        unsafe { self.first.as_ref() }.map(|node| node.wants)
    }

    /// True if there is exactly one node in the queue.
    pub(crate) fn has_one(&self) -> bool {
        !self.is_empty() && self.first == self.last
    }

    /// Puts `node` at the head of the queue.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    pub(crate) unsafe fn push_first(&mut self, node: *const Node) {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            (*node).queued.set(true);
            (*node).next.set(self.first);
            match self.first.as_ref() {
                Some(first) => first.previous.set(node),
                None => self.last = node,
            }
        }
        self.first = node;
    }

    /// Puts `node` at the end of the queue.
    ///
    /// # Safety
    ///
    /// `node` is new, and stays where it is until it was told or removed.
    pub(crate) unsafe fn push(&mut self, node: *const Node) {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            (*node).queued.set(true);
            (*node).previous.set(self.last);
            match self.last.as_ref() {
                Some(last) => last.next.set(node),
                None => self.first = node,
            }
        }
        self.last = node;
    }

    /// Takes `node` out. False if it was told: then it is not in the queue.
    ///
    /// # Safety
    ///
    /// `node` was pushed into this queue.
    pub(crate) unsafe fn remove(&mut self, node: *const Node) -> bool {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            let node = &*node;
            if !node.queued.replace(false) {
                return false;
            }
            let (previous, next) = (node.previous.get(), node.next.get());
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.first = next,
            }
            match next.as_ref() {
                Some(next) => next.previous.set(previous),
                None => self.last = previous,
            }
        }
        true
    }

    /// Takes the first node out and tells it. Whoever waits has to be woken when the lock is released.
    #[must_use = "the waiter has to be woken"]
    pub(crate) fn tell(&mut self, what: u8) -> Option<Waiter> {
        let first = self.first;
        if first.is_null() {
            return None;
        }
        // SAFETY: the node is in the queue, so it is valid until it is told.
        unsafe {
            self.remove(first);
            Some(Node::tell(first, what))
        }
    }
}

/// Something with a queue, as whoever waits in it leaves it.
pub(crate) trait Awaited {
    /// Takes `node` out of the queue that it was pushed into, under the lock. False if it was told, or would have been:
    /// then the wait is over, and it is in no queue either.
    fn withdraw(&self, node: &Node) -> bool;

    /// Gives on what `node` was told that it has, because its waiter unwinds.
    fn hand_on(&self, node: &Node);
}

/// A node in a queue, for the time of its wait: it does not stay there on any way out.
#[must_use = "it waits when it is told to"]
pub(crate) struct Waiting<'a, A: Awaited> {
    awaited: &'a A,
    node: &'a Node,
}

impl<'a, A: Awaited> Waiting<'a, A> {
    /// `node` was pushed into the queue of `awaited`.
    pub(crate) fn new(awaited: &'a A, node: &'a Node) -> Waiting<'a, A> {
        Waiting { awaited, node }
    }

    /// Waits until told, as [`Node::wait`] does. Otherwise the node was not told, and is in no queue any more.
    pub(crate) fn wait(self, deadline: Option<Instant>) -> Result<bool, Refused> {
        self.wait_by(|node| node.wait(deadline))
    }

    /// The same, by `wait`.
    pub(crate) fn wait_by(self, wait: impl FnOnce(&Node) -> Result<bool, Refused>) -> Result<bool, Refused> {
        let outcome = wait(self.node);
        let this = ManuallyDrop::new(self);
        match outcome {
            Ok(true) => Ok(true),
            given_up if this.awaited.withdraw(this.node) => given_up,
            _ => Ok(true),
        }
    }
}

impl<A: Awaited> Drop for Waiting<'_, A> {
    /// Only on the way of an unwind.
    fn drop(&mut self) {
        if !self.awaited.withdraw(self.node) {
            self.awaited.hand_on(self.node);
        }
    }
}

/// Tells nodes by `tell`, under `lock`, until it returns none, and wakes them without it.
pub(crate) fn tell_each<Q>(lock: &Mutex<Q>, mut tell: impl FnMut(&mut Q) -> Option<Waiter>) {
    loop {
        let mut batch = [const { None }; BATCH];
        let mut queue = lock.lock();
        let more = batch.iter_mut().all(|place| {
            *place = tell(&mut queue);
            place.is_some()
        });
        drop(queue);
        batch.into_iter().flatten().for_each(Waiter::wake);
        if !more {
            return;
        }
    }
}
