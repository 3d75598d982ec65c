//! A channel for one value.
//!
//! Value, ends and the receiver's node are under one lock. The value is with the sender, in the channel, or with the
//! receiver, and is dropped by whichever has it: a receiver that goes takes it out. Whoever sends, or goes without, tells
//! the receiver's node, if there is one.
//!
//! The node is told that there is something to see, and the value stays in the channel until the receiver, of which there
//! is one, has an operation that is done ([`RecvCase`]). So a wait that is given up in whatever way has nothing to give
//! back.
//!
//! Models: `oneshot_send_wakes`, `oneshot_drop_wakes`, `oneshot_send_against_drop`, `oneshot_send_against_close`,
//! `oneshot_send_against_withdrawal`, `oneshot_unwind_keeps_the_value`.

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sched::raw::{
    Async, Attempt, Awaited, Case, Enrolled, Limit, Node, Queue, TOLD, Waiter, What, attempt_or_block, block,
    block_by,
};
use sinew_sched::{WaitKind, now};
use sinew_sync::Arc;
use sinew_sync::ShortLock;

use super::error::{RecvError, SendError, Unsent};
use crate::source::Source;

/// The two ends of a channel for one value.
///
/// ```
/// use sinew_chan::chan::oneshot;
/// use sinew_sched::{Runtime, spawn};
///
/// let answer = Runtime::new().run(|| {
///     let (sender, mut receiver) = oneshot::channel();
///     let task = spawn(move || sender.send(42));
///     let answer = receiver.recv().unwrap();
///     task.join().unwrap().unwrap();
///     answer
/// });
/// assert_eq!(answer.unwrap(), 42);
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { value: None, sends: true, receives: true, queue: Queue::new() };
    let channel = Arc::new(Channel { state: ShortLock::new(state) });
    (Sender { channel: Some(channel.clone()) }, Receiver { channel })
}

struct Channel<T> {
    state: ShortLock<State<T>>,
}

struct State<T> {
    value: Option<T>,
    /// There is a sender that has not sent.
    sends: bool,
    /// There is a receiver that has not closed it.
    receives: bool,
    queue: Queue,
}

impl<T> State<T> {
    /// True if there is a value, or there will be none.
    fn is_settled(&self) -> bool {
        self.value.is_some() || !self.sends || !self.receives
    }
}

impl<T> Channel<T> {
    /// The sender goes. Gives back what it wanted to send, if nobody receives.
    fn finish(&self, value: Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        state.sends = false;
        if !state.receives {
            return value;
        }
        state.value = value;
        let told = state.queue.tell(TOLD);
        drop(state);
        told.into_iter().for_each(Waiter::wake);
        None
    }
}

/// The end of a [`channel`] that sends.
#[must_use = "a sender that is dropped leaves its receiver without a value"]
pub struct Sender<T> {
    /// None only while it goes.
    channel: Option<Arc<Channel<T>>>,
}

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    ///
    /// With the value, if the receiver is gone or has closed the channel.
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        match self.channel.take().and_then(|channel| channel.finish(Some(value))) {
            Some(value) => Err(SendError::new(value, Unsent::Closed)),
            None => Ok(()),
        }
    }

    /// True if nobody would receive the value.
    pub fn is_closed(&self) -> bool {
        self.channel.as_ref().is_none_or(|channel| !channel.state.lock().receives)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(channel) = &self.channel {
            channel.finish(None);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

/// The end of a [`channel`] that receives. In a select it is a case of [`recv`](crate::select::recv).
#[must_use = "a receiver that is dropped gets nothing"]
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    /// Waits for the value. A value that is there is received also by a task that is cancelled.
    ///
    /// # Errors
    ///
    /// [`RecvError::Closed`] if there is no value and will be none; [`RecvError::Refused`] if it has to wait and the
    /// task is cancelled, or must not block here: then it may still be received later.
    pub fn recv(&mut self) -> Result<T, RecvError> {
        let recv = self.operation();
        attempt_or_block(&recv, None)?;
        recv.output()
    }

    /// Like [`recv`](Receiver::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), and [`RecvError::Timeout`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvError> {
        self.recv_until(now() + timeout)
    }

    /// [`recv_timeout`](Self::recv_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn recv_until(&mut self, deadline: Instant) -> Result<T, RecvError> {
        let recv = self.operation();
        if attempt_or_block(&recv, Some(deadline))? { recv.output() } else { Err(RecvError::Timeout) }
    }

    /// Waits for the value, and returns [`RecvError::Timeout`] at the limit. Dumps say that the caller waits for `what`.
    #[doc(hidden)]
    pub fn recv_as(&mut self, limit: Option<Limit>, what: What) -> Result<T, RecvError> {
        let recv = RecvCase { channel: &self.channel, what };
        let received = match limit {
            None => block(&recv, None)?,
            Some(Limit::Until(deadline)) => block(&recv, Some(deadline))?,
            // SAFETY: `Node::wait_for` returns true only if the node was told.
            Some(Limit::For(timeout)) => unsafe { block_by(&recv, |node| node.wait_for(timeout, what)) }?,
        };
        if received { recv.output() } else { Err(RecvError::Timeout) }
    }

    /// The value, if it is there.
    ///
    /// # Errors
    ///
    /// [`RecvError::Closed`] if there is no value and will be none.
    pub fn try_recv(&mut self) -> Result<Option<T>, RecvError> {
        let recv = self.operation();
        if recv.attempt() { recv.output().map(Some) } else { Ok(None) }
    }

    /// A future that receives the value. Dropped before it is ready it has received nothing.
    pub fn recv_async(&mut self) -> Async<RecvCase<'_, T>> {
        Async::new(self.operation())
    }

    /// Lets no value in any more. One that was sent can still be received.
    pub fn close(&mut self) {
        self.channel.state.lock().receives = false;
    }

    fn operation(&mut self) -> RecvCase<'_, T> {
        RecvCase { channel: &self.channel, what: What::at(WaitKind::RecvOneshot, &*self.channel) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.channel.state.lock();
        state.receives = false;
        let unwanted = state.value.take();
        drop(state);
        drop(unwanted); // its destructor is the user's code
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<'a, T> Source for &'a mut Receiver<T> {
    type Case = RecvCase<'a, T>;

    fn into_case(self) -> RecvCase<'a, T> {
        self.operation()
    }
}

/// The value of a channel: see [`Receiver::recv_async`] and [`select::recv`](crate::select::recv).
pub struct RecvCase<'a, T> {
    /// Borrowed from the only receiver for as long: nobody else takes the value.
    channel: &'a Channel<T>,
    what: What,
}

impl<T> Awaited for RecvCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.channel.state.lock().queue.remove(node) }
    }

    /// The value is still in the channel.
    unsafe fn hand_on(&self, _: &Node) {}
}

impl<T> Attempt for RecvCase<'_, T> {
    fn attempt(&self) -> bool {
        self.channel.state.lock().is_settled()
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let mut state = self.channel.state.lock();
        if state.is_settled() {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        // The receiver is borrowed by one operation at a time: what is in there was left by a future that was forgotten.
        state.queue = Queue::new();
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { state.queue.push(node) };
        Enrolled::Queued
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.channel.state.lock();
        change();
    }

    fn what(&self) -> What {
        self.what
    }
}

impl<T> Case for RecvCase<'_, T> {
    type Output = Result<T, RecvError>;

    fn output(self) -> Result<T, RecvError> {
        self.channel.state.lock().value.take().ok_or(RecvError::Closed)
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::{AtomicUsize, Ordering};
    use sinew_sync::{model, thread};

    use super::*;
    use sinew_sched::raw::Waiting;

    /// Counts how often it is dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_receiver_is_woken_by_the_value() {
        model("oneshot_send_wakes", || {
            let (sender, mut receiver) = channel();
            let receives = thread::spawn(move || receiver.recv().unwrap());
            sender.send(5).unwrap();
            assert_eq!(receives.join().unwrap(), 5);
        });
    }

    #[test]
    fn a_receiver_is_woken_by_the_end_of_the_sender() {
        model("oneshot_drop_wakes", || {
            let (sender, mut receiver) = channel::<()>();
            let receives = thread::spawn(move || receiver.recv());
            drop(sender);
            assert!(matches!(receives.join().unwrap(), Err(RecvError::Closed)));
        });
    }

    #[test]
    fn a_value_for_a_receiver_that_goes_is_given_back_or_dropped_once() {
        model("oneshot_send_against_drop", || {
            let dropped = Arc::new(AtomicUsize::new(0));
            let (sender, receiver) = channel();
            let goes = thread::spawn(move || drop(receiver));
            let is_gone = sender.is_closed();
            let back = sender.send(Counted(dropped.clone()));
            assert!(back.is_err() || !is_gone);
            goes.join().unwrap();
            assert_eq!(dropped.load(Ordering::Relaxed), usize::from(back.is_ok()));
        });
    }

    #[test]
    fn a_receiver_that_gives_up_can_receive_later() {
        model("oneshot_send_against_withdrawal", || {
            let (sender, mut receiver) = channel();
            let receives = thread::spawn(move || {
                let first = receiver.recv_until(Instant::from_nanos(0));
                assert!(receiver.channel.state.lock().queue.is_empty(), "nobody waits");
                first.unwrap_or_else(|_| receiver.recv().unwrap())
            });
            sender.send(5).unwrap();
            assert_eq!(receives.join().unwrap(), 5);
        });
    }

    #[test]
    fn a_value_is_given_back_by_a_channel_that_was_closed_or_is_received() {
        model("oneshot_send_against_close", || {
            let (sender, mut receiver) = channel();
            let closes = thread::spawn(move || {
                receiver.close();
                receiver.try_recv().ok().flatten()
            });
            let back = sender.send(5).err().map(|unsent| unsent.item);
            let received = closes.join().unwrap();
            assert_eq!(back.xor(received), Some(5), "{back:?} {received:?}");
        });
    }

    #[test]
    fn a_value_for_a_wait_that_unwinds_is_received_by_the_next() {
        model("oneshot_unwind_keeps_the_value", || {
            let (sender, mut receiver) = channel();
            let receives = thread::spawn(move || {
                let (recv, node) = (receiver.operation(), Node::new(0));
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                if unsafe { recv.enroll(&node) } == Enrolled::Queued {
                    // SAFETY: it was enrolled just now.
                    drop(unsafe { Waiting::new(&recv, &node) });
                }
                receiver.recv().unwrap()
            });
            sender.send(5).unwrap();
            assert_eq!(receives.join().unwrap(), 5);
        });
    }
}
