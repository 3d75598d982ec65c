//! One thing to wait for, as all who can wait do it: a blocking call, a future, a select.
//!
//! An operation that may have to wait is a value that implements [`Attempt`] (and [`Awaited`], for the way out). It
//! holds what is sent, or the place for what is received, so that whoever does the other half reaches it through the
//! node. Whoever drives it attempts it, enrolls a node, waits until the node is told, and lets the operation settle;
//! [`block`] does that for a task or thread, [`Async`] in the polls of a future, and [`crate::select`] for several
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
use std::task::{Context, Poll};

use sinew_core::Instant;
use sinew_fiber::Refused;

use crate::chan::Sending;
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
    fn enroll(&self, node: &Node) -> Enrolled;

    /// Does what is left to do when `node` was told. False if it has to begin again.
    fn settle(&self, node: &Node) -> bool;

    /// Calls `change` under the lock of the queue that a node of this operation is in.
    fn under_lock(&self, change: &mut dyn FnMut());

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

/// Something that a [`select!`](crate::select!) can wait for.
pub trait Case: Attempt {
    /// What it gives when it is done.
    type Output;

    /// What it gave. Only for a case that is done.
    #[doc(hidden)]
    fn output(self) -> Self::Output;
}

/// Does `operation`, by blocking. False if the deadline has passed.
#[inline(always)]
pub(crate) fn block(operation: &impl Attempt, deadline: Option<Instant>) -> Result<bool, Refused> {
    block_by(operation, |node| node.wait(deadline, operation.what()))
}

/// The same, by `wait`.
#[inline(always)]
pub(crate) fn block_by(
    operation: &impl Attempt,
    wait: impl Fn(&Node) -> Result<bool, Refused>,
) -> Result<bool, Refused> {
    loop {
        let OnOneLine(node) = &OnOneLine(Node::new(0));
        let enrolled = operation.enroll(node);
        debug_assert_ne!(enrolled, Enrolled::Taken, "a node without a group");
        if enrolled == Enrolled::Queued && !Waiting::new(operation, node).wait_by(&wait)? {
            return Ok(false);
        }
        let done = match enrolled {
            Enrolled::Done => true,
            Enrolled::Queued => operation.settle(node),
            _ => operation.attempt(),
        };
        if done {
            return Ok(true);
        }
    }
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
    pub(crate) fn new(operation: C) -> Async<C> {
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
                if operation.settle(node) {
                    return true;
                }
            }
            if operation.attempt() {
                return true;
            }
            // SAFETY: the node is in no queue, and nobody else knows of it.
            unsafe { *self.node.get() = Node::of(Some(Waiter::of(context.waker())), 0) };
            // SAFETY: as above.
            match operation.enroll(unsafe { &*self.node.get() }) {
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
        self.operation().under_lock(&mut || {
            told = node.is_told();
            if !told {
                waiter = waiter.take().and_then(|waiter| node.replace_waiter(waiter));
            }
        });
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
            if !operation.withdraw(node) {
                operation.hand_on(node);
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

#[cfg(test)]
pub(crate) mod tests {
    use std::pin::pin;
    use std::task::{Wake, Waker};

    use sinew_sync::thread::{self, Thread};
    use sinew_sync::{model, model_bounded};

    use super::*;
    use crate::chan;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Polls `future` until it is ready, first of all with a waker that wakes nobody; parks in between.
    pub(crate) fn drive<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn whoever_polled_a_future_last_is_woken() {
        model("async_renewed_or_told", || {
            let (sender, mut receiver) = chan::oneshot::channel();
            let receives = thread::spawn(move || drive(receiver.recv_async()).unwrap());
            sender.send(5).unwrap();
            assert_eq!(receives.join().unwrap(), 5);
        });
    }

    #[test]
    fn what_a_future_that_is_dropped_was_given_reaches_the_next() {
        model_bounded("async_dropped_hands_on", 3, || {
            let (sender, receiver) = chan::bounded(1);
            let drops = {
                let receiver = receiver.clone();
                thread::spawn(move || {
                    let mut future = pin!(receiver.recv_async());
                    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(Result::unwrap)
                })
            };
            sender.send(1).unwrap();
            let received = match drops.join().unwrap() {
                Poll::Ready(item) => item,
                Poll::Pending => receiver.recv().unwrap(),
            };
            assert_eq!(received, 1);
        });
    }
}
