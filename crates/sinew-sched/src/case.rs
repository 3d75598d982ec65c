//! One thing to wait for, as all who can wait do it: a blocking call, a future, a select.
//!
//! An operation that may have to wait is a value that implements [`Attempt`] (and [`Awaited`], for the way out). It
//! holds what is sent, or the place for what is received, so that whoever does the other half reaches it through the
//! node. Whoever drives it attempts it, enrolls a node, waits until the node is told, and lets the operation settle;
//! [`block`] does that for a task or thread, [`Async`] in the polls of a future, and a select for several
//! operations at once.
//!
//! A future may be polled with another waker each time. It gives its node the new one under the lock of the queue, and
//! looks there whether it was told: whoever tells takes the waker that is there then, and wakes that.
//!
//! Models: `async_renewed_or_told`, `async_dropped_hands_on`, and of one that begins again, `events_taken_by_another`.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sinew_core::Instant;
use sinew_fiber::Refused;

use crate::notes::What;
use crate::wait::{Awaited, Node, OnOneLine, Waiter, Waiting};
use crate::worker;

/// What became of an attempt to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enrolled {
    /// There was no need to: the operation is done. The node was claimed, and is in no queue.
    Done,
    /// The node is in the queue.
    Queued,
    /// It need not wait, or did not have to a moment ago: attempt it again.
    Again,
    /// The node's group was claimed meanwhile. It is in no queue.
    Taken,
}

/// An operation that may have to wait.
pub trait Attempt: Awaited {
    /// Does it, unless that needs a wait. False if it does.
    fn attempt(&self) -> bool;

    /// Does it, or puts `node` into the queue.
    ///
    /// # Safety
    ///
    /// `node` is new: it was in no queue before. If this returns [`Enrolled::Queued`], the following holds until the
    /// node was told (one of a group: until the group says so) or [`Awaited::withdraw`] has returned:
    ///
    /// - The node and this operation stay where they are, and are not dropped.
    /// - The operation is neither attempted nor enrolled again, except with another node of the same group.
    unsafe fn enroll(&self, node: &Node) -> Enrolled;

    /// Does what is left to do when `node` was told. False if it has to begin again.
    ///
    /// # Safety
    ///
    /// As for [`Awaited::hand_on`].
    unsafe fn settle(&self, node: &Node) -> bool;

    /// Calls `change` under the lock of the queue that a node of this operation is in.
    ///
    /// # Safety
    ///
    /// The node that was enrolled last with this operation was not withdrawn, and is still where it was. It may have
    /// been told.
    unsafe fn under_lock(&self, change: &mut dyn FnMut());

    /// What it waits for, for those who look on.
    fn what(&self) -> What;

    /// When it is done without anybody's doing.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// True if it is done when the task is cancelled.
    fn awaits_cancel(&self) -> bool {
        false
    }
}

/// Something that a select can wait for.
pub trait Case: Attempt {
    /// What it gives when it is done.
    type Output;

    /// What it gave. Only for a case that is done.
    #[doc(hidden)]
    fn output(self) -> Self::Output;
}

/// A [`Case`] that sends an item, and has it until it is sent.
pub trait Sending: Case {
    /// What is sent.
    type Item;

    /// Returns the item, unless it was sent. Only for a case that is in no queue.
    #[doc(hidden)]
    fn into_item(self) -> Option<Self::Item>;
}

/// Does `operation`, by blocking. False if the deadline has passed.
#[inline(always)]
pub fn block(operation: &impl Attempt, deadline: Option<Instant>) -> Result<bool, Refused> {
    // SAFETY: `Node::wait` returns true only if the node was told.
    unsafe { block_by(operation, |node| node.wait(deadline, operation.what())) }
}

/// The same, by `wait`.
///
/// # Safety
///
/// As for [`Waiting::wait_by`].
#[inline(always)]
pub unsafe fn block_by(
    operation: &impl Attempt,
    wait: impl Fn(&Node) -> Result<bool, Refused>,
) -> Result<bool, Refused> {
    loop {
        let OnOneLine(node) = &OnOneLine(Node::new(0));
        // SAFETY: the node is new, and both it and the operation are borrowed for all of this turn. If the node is
        // queued, `Waiting` ends its wait before anything else is done, on every way out.
        let enrolled = unsafe { operation.enroll(node) };
        debug_assert_ne!(enrolled, Enrolled::Taken, "a node without a group");
        // SAFETY: the node was enrolled with this operation just now; the caller answers for `wait`.
        if enrolled == Enrolled::Queued && !unsafe { Waiting::new(operation, node).wait_by(&wait) }? {
            return Ok(false);
        }
        let done = match enrolled {
            Enrolled::Done => true,
            // SAFETY: the wait is over and was not given up, so the node was told.
            Enrolled::Queued => unsafe { operation.settle(node) },
            _ => operation.attempt(),
        };
        if done {
            if enrolled != Enrolled::Queued {
                worker::charge();
            }
            return Ok(true);
        }
    }
}

/// Does `operation`, by blocking if the first attempt needs a wait. False if the deadline has passed.
#[inline(always)]
pub fn attempt_or_block(operation: &impl Attempt, deadline: Option<Instant>) -> Result<bool, Refused> {
    if !operation.attempt() {
        return block(operation, deadline);
    }
    worker::charge();
    Ok(true)
}

/// A future that does an operation. Dropped before it is ready, it has done nothing: what it was being given goes to
/// whoever asks next.
#[must_use = "futures do nothing unless they are polled"]
pub struct Async<C: Case> {
    operation: Option<C>,
    /// In a queue, or told, while `queued`.
    node: UnsafeCell<Node>,
    queued: Cell<bool>,
    _pinned: PhantomPinned,
}

// SAFETY: the node is reached by others under the lock of the queue that it is in, as it is for a thread that waits, and
// by the future only when it is polled or dropped; it does not hold on to the thread that made it.
unsafe impl<C: Case + Send> Send for Async<C> {}

impl<C: Case> Async<C> {
    /// Creates a future that does `operation`.
    pub fn new(operation: C) -> Async<C> {
        let node = UnsafeCell::new(Node::of(None, 0));
        Async { operation: Some(operation), node, queued: Cell::new(false), _pinned: PhantomPinned }
    }

    fn operation(&self) -> &C {
        self.operation.as_ref().expect("a future is not polled when it was ready")
    }

    /// True if the operation is done.
    fn advance(&self, context: &Context<'_>) -> bool {
        let operation = self.operation();
        loop {
            // SAFETY: it is only replaced below, while it is in no queue.
            let node = unsafe { &*self.node.get() };
            if self.queued.get() {
                if !node.is_told() && !self.renew(node, context) {
                    worker::announce(operation.what());
                    return false;
                }
                self.queued.set(false);
                // SAFETY: the node was enrolled with the operation, and was told.
                if unsafe { operation.settle(node) } {
                    return true;
                }
            }
            if operation.attempt() {
                return true;
            }
            // SAFETY: the node is in no queue, and nobody else knows of it.
            unsafe { *self.node.get() = Node::of(Some(Waiter::of(context.waker())), 0) };
            // SAFETY: the node is new. It and the operation are parts of this future, which is pinned since it is
            // polled: they stay where they are until it is dropped, and `leave` withdraws a node that is `queued`
            // before that. The operation is attempted only when no node is.
            match unsafe { operation.enroll(&*self.node.get()) } {
                Enrolled::Done => return true,
                Enrolled::Queued => {
                    worker::announce(operation.what());
                    self.queued.set(true);
                }
                Enrolled::Again => continue,
                Enrolled::Taken => unreachable!("a node without a group"),
            }
            return false;
        }
    }

    /// Has the node wake whoever polls now. True if it was told meanwhile.
    fn renew(&self, node: &Node, context: &Context<'_>) -> bool {
        let mut waiter = Some(Waiter::of(context.waker()));
        let mut told = false;
        let mut change = || {
            told = node.is_told();
            if !told {
                waiter = waiter.take().and_then(|waiter| node.replace_waiter(waiter));
            }
        };
        // SAFETY: the node is `queued`, so it was enrolled last with the operation, and was not withdrawn.
        unsafe { self.operation().under_lock(&mut change) };
        drop(waiter); // a waker's destructor may be anybody's code, which no lock is held for
        told
    }

    /// Ends the wait. Returns the operation, unless it is done; what it was given has gone on then.
    fn leave(&mut self) -> Option<C> {
        if let Some(operation) = &self.operation
            && self.queued.replace(false)
        {
            // SAFETY: it is not replaced meanwhile. It may be in a queue, so this must not be a reference to it alone.
            let node = unsafe { &*self.node.get() };
            // SAFETY: it was `queued`, so it was enrolled with this operation, and neither withdrawn nor settled. If it
            // cannot be withdrawn, it was told.
            unsafe {
                if !operation.withdraw(node) {
                    operation.hand_on(node);
                }
            }
        }
        self.operation.take()
    }
}

impl<C: Sending> Async<C> {
    /// Gives up, and returns the item if it was not sent.
    pub fn cancel(self: Pin<&mut Self>) -> Option<C::Item> {
        // SAFETY: nothing is moved but the operation, which is not in any queue any more.
        let operation = unsafe { self.get_unchecked_mut() }.leave();
        operation.and_then(C::into_item)
    }
}

impl<C: Case> Future for Async<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        if !self.queued.get() {
            ready!(worker::poll_charge(context));
        }
        if !self.advance(context) {
            return Poll::Pending;
        }
        // SAFETY: the operation is done, so nobody else reaches it.
        let operation = unsafe { self.get_unchecked_mut() }.operation.take();
        Poll::Ready(operation.expect("it was done just now").output())
    }
}

impl<C: Case> Drop for Async<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<C: Case> fmt::Debug for Async<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Async").field("waiting", &self.queued.get()).finish_non_exhaustive()
    }
}
