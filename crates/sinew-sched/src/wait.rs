//! Waiting for one thing: a node on the waiter's stack, told once.
//!
//! Whoever has to wait makes a [`Node`], puts it where the waker finds it, and calls [`Node::wait`]. The waker
//! copies the name of the waiter, stores the word, and wakes the waiter; after the store it does not touch the node
//! again, since the waiter may have returned. The store releases and the waiter's load acquires.
//!
//! A waiter that gives up, because its task is cancelled or unwinds, has to take its node back from where it put
//! it before the node goes.

use sinew_fiber::{Refused, await_};
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::thread::{self, Thread};

use crate::task::TaskRef;
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

pub(crate) struct Node {
    told: AtomicBool,
    waiter: Waiter,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node { told: AtomicBool::new(false), waiter: Waiter::current() }
    }

    /// Waits until somebody has called [`Node::tell`]; an error if the task is cancelled first.
    pub(crate) fn wait(&self) -> Result<(), Refused> {
        while !self.told.load(Ordering::Acquire) {
            match &self.waiter {
                Waiter::Task(_) => drop(await_(())?),
                Waiter::Thread(_) => thread::park(),
            }
        }
        Ok(())
    }

    /// Waits until told, for a waiter that could not take its node back in time: the waker is between finding the
    /// node and telling it, on another thread, and does not block there.
    pub(crate) fn wait_out(&self) {
        while !self.told.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }

    /// Tells the waiter to go on.
    ///
    /// # Safety
    ///
    /// `node` is valid up to this call, which is the only one for it.
    pub(crate) unsafe fn tell(node: *const Node) {
        // SAFETY: the waiter does not leave before `told` is stored, and its name is copied before that.
        let waiter = unsafe {
            let waiter = (*node).waiter.clone();
            (*node).told.store(true, Ordering::Release);
            waiter
        };
        waiter.wake();
    }
}
