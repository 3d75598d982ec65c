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
//! A task that unwinds has to do step 4 as well: [`Waiting`] does it when it is dropped.
//!
//! `told` releases, and the waiter's load acquires: what the waker did before is seen.

use std::cell::Cell;
use std::ptr;

use sinew_core::Instant;
use sinew_fiber::{Refused, await_};
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::thread::{self, Thread};

use crate::clock::{now, system_now};
use crate::task::TaskRef;
use crate::time::with_alarm;
use crate::worker;

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
    told: AtomicBool,
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
            told: AtomicBool::new(false),
            waiter: Cell::new(Some(Waiter::current())),
            wants,
            queued: Cell::new(false),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        }
    }

    /// True once somebody has told it.
    pub(crate) fn is_told(&self) -> bool {
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
                        None => thread::park(),
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
    pub(crate) unsafe fn tell(node: *const Node) -> Waiter {
        // SAFETY: the waiter does not leave before `told` is stored, and its name is taken out before that.
        unsafe {
            let waiter = (*node).waiter.take().expect("a node is told once");
            (*node).told.store(true, Ordering::Release);
            waiter
        }
    }
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
    pub(crate) fn tell(&mut self) -> Option<Waiter> {
        let first = self.first;
        if first.is_null() {
            return None;
        }
        // SAFETY: the node is in the queue, so it is valid until it is told.
        unsafe {
            self.remove(first);
            Some(Node::tell(first))
        }
    }
}
