//! A channel for one value.
//!
//! Value, ends and the receiver's node are under one lock. The value is with the sender, in the channel, or with the
//! receiver, and is dropped by whichever has it; the channel goes with its last end. An end that goes says so under the
//! lock, and whoever sends, or goes without, tells the receiver's node, if there is one.
//!
//! Models: `oneshot_send_wakes`, `oneshot_drop_wakes`, `oneshot_send_against_drop`, `oneshot_send_against_withdrawal`.

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sync::{Arc, Mutex};

use crate::clock::now;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter, Waiting};

/// The two ends of a channel for one value.
///
/// ```
/// use sinew_sched::sync::oneshot;
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
    let inner = Inner { value: None, sender: true, receiver: true, queue: Queue::new() };
    let channel = Arc::new(Channel { inner: Mutex::new(inner) });
    (Sender { channel: channel.clone() }, Receiver { channel })
}

struct Channel<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    value: Option<T>,
    /// There is a sender that has not sent.
    sender: bool,
    receiver: bool,
    queue: Queue,
}

impl<T> Channel<T> {
    /// The sender goes. Gives back what it wanted to send, if there is no receiver.
    fn finish(&self, value: Option<T>) -> Option<T> {
        let mut inner = self.inner.lock();
        inner.sender = false;
        if !inner.receiver {
            return value;
        }
        inner.value = value;
        let told = inner.queue.tell(TOLD);
        drop(inner);
        if let Some(waiter) = told {
            Waiter::wake(waiter);
        }
        None
    }

    /// The value, or none if it may still come.
    fn take(inner: &mut Inner<T>) -> Result<Option<T>, RecvError> {
        match inner.value.take() {
            None if !inner.sender => Err(RecvError::Closed),
            value => Ok(value),
        }
    }

    fn receive(&self, deadline: Option<Instant>) -> Result<Option<T>, RecvError> {
        let node = Node::new(0);
        let mut inner = self.inner.lock();
        if let Some(value) = Channel::take(&mut inner)? {
            return Ok(Some(value));
        }
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        unsafe { inner.queue.push(&node) };
        drop(inner);
        Waiting::new(self, &node).wait(deadline)?;
        Channel::take(&mut self.inner.lock())
    }
}

impl<T> Awaited for Channel<T> {
    fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: it was pushed into this queue.
        unsafe { self.inner.lock().queue.remove(node) }
    }

    /// The value stays in the channel, until it is received or the receiver goes.
    fn hand_on(&self, _: &Node) {}
}

/// The end of a [`channel`] that sends.
#[must_use = "a sender that is dropped leaves its receiver without a value"]
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    ///
    /// Gives the value back if the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        match self.channel.finish(Some(value)) {
            Some(value) => Err(value),
            None => Ok(()),
        }
    }

    /// True if the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !self.channel.inner.lock().receiver
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let unsent = self.channel.inner.lock().sender;
        if unsent {
            self.channel.finish(None);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

/// The end of a [`channel`] that receives.
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
        Ok(self.channel.receive(None)?.expect("a wait without a deadline ends with a value or an error"))
    }

    /// The value, if it is there.
    ///
    /// # Errors
    ///
    /// [`RecvError::Closed`] if there is no value and will be none.
    pub fn try_recv(&mut self) -> Result<Option<T>, RecvError> {
        Channel::take(&mut self.channel.inner.lock())
    }

    /// Like [`recv`](Receiver::recv), but waits only until `deadline` on the clock of [`now`]: none if it has passed.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv).
    pub fn recv_until(&mut self, deadline: Instant) -> Result<Option<T>, RecvError> {
        self.channel.receive(Some(deadline))
    }

    /// Like [`recv`](Receiver::recv), but waits only so long: none if the time has passed.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv).
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<T>, RecvError> {
        self.channel.receive(Some(now() + timeout))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.inner.lock().receiver = false;
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// Why nothing was received.
#[derive(thiserror::Error, Debug)]
pub enum RecvError {
    /// The sender is gone and has sent nothing, or what it sent was received already.
    #[error("the channel has no value and no sender: nothing will come")]
    Closed,
    /// The receiver cannot wait here, or not any more.
    #[error(transparent)]
    Refused(#[from] Refused),
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::{AtomicUsize, Ordering};
    use sinew_sync::{model, thread};

    use super::*;

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
                let first = receiver.recv_until(Instant::from_nanos(0)).unwrap();
                first.unwrap_or_else(|| receiver.recv().unwrap())
            });
            sender.send(5).unwrap();
            assert_eq!(receives.join().unwrap(), 5);
        });
    }
}
