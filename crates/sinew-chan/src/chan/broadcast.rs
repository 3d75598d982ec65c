//! Channels whose items are seen by every receiver.
//!
//! ```
//! use sinew_chan::chan::broadcast::{self, Slow};
//! use sinew_sched::{Runtime, spawn};
//!
//! Runtime::new()
//!     .run(|| {
//!         let (sender, receiver) = broadcast::channel(16, Slow::Block);
//!         let sums = [receiver.clone(), receiver].map(|seen| spawn(move || seen.iter().sum::<u32>()));
//!         (1..=10).for_each(|n| sender.send(n).unwrap());
//!         drop(sender); // which ends what the receivers iterate over
//!         assert_eq!(sums.map(|sum| sum.join().unwrap()), [55, 55]);
//!     })
//!     .unwrap();
//! ```
//!
//! - **A receiver sees every item that is sent after it subscribed**, in the order in which they were sent.
//!   [`Sender::subscribe`] makes one that starts with the next item; a clone starts where the receiver stands of which it
//!   is one.
//! - **The channel keeps up to its capacity of items** that somebody has not seen yet. What is done when there are as many
//!   and another comes is chosen once, for all receivers: [`Slow`].
//! - An item is kept once, and copied for each receiver when it is received, without any lock (the last one gets the
//!   original). If copying panics, the receiver has seen that item. Put what is large into an `Arc`.
//! - A receiver that is shared is one receiver: its users compete for the items that it sees.
//! - **The last sender that goes closes the channel; the last receiver does not**, since somebody may subscribe. What is
//!   sent while there is no receiver comes back with [`Unsent::NoReceiver`], also to a sender that waits when the last
//!   receiver goes.
//! - Everything else is as with all [channels](super): the same calls from tasks, threads and futures, and in a
//!   [`select!`](crate::select!); first come, first served; and what is inside is received before the end is seen.
//!   Closing, from either end, ends the channel for all.

mod channel;
mod iter;
mod operation;
mod state;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::now;
use sinew_sched::raw::{Async, Attempt, Case, attempt_or_block};
use sinew_sync::Arc;
use sinew_sync::atomic::Ordering;

use super::error::{CloseError, End, SendError, Unsent};
use channel::Channel;
pub use iter::{IntoIter, Iter, TryIter};
pub use operation::{RecvCase, SendCase};

/// What to do with receivers that are too slow: an item is sent, and there is no room for it because they have not seen
/// the oldest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slow {
    /// The sender waits for the slowest.
    Block,
    /// The oldest item makes room. Receivers that have not seen it learn how many they missed
    /// ([`RecvError::Lagged`]), once, and go on with the oldest that there is.
    Lag,
    /// They are cut off: all they see any more is [`RecvError::CutOff`].
    Drop,
}

/// A channel that keeps up to `capacity` items until everybody has seen them, with its first receiver.
///
/// # Panics
///
/// If `capacity` is zero.
pub fn channel<T>(capacity: usize, slow: Slow) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel keeps at least one item");
    let sender = Sender { channel: Arc::new(Channel::new(capacity, slow)) };
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Why a receiver saw no item.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// So many items were overwritten before it saw them ([`Slow::Lag`]). It goes on with the oldest that there is.
    #[error("{0} items were missed: receive faster, or make the channel larger")]
    Lagged(u64),
    /// It was too slow ([`Slow::Drop`]), and will see nothing any more.
    #[error("the receiver was too slow and has been cut off: subscribe again")]
    CutOff,
    /// The channel was closed, or its last sender is gone, and the receiver has seen everything.
    #[error("the channel is closed and everything was seen: nothing more will come")]
    Closed,
    /// The sender closed it with an error, and the receiver has seen everything.
    #[error("the sender closed the channel: {0}")]
    Failed(#[source] CloseError),
    /// The channel was cancelled, and the receiver has seen everything.
    #[error("the channel was cancelled")]
    Cancelled,
    /// Nothing came before the timeout. What comes later can still be received.
    #[error("nothing came before the timeout")]
    Timeout,
    /// The receiver cannot wait here, or not any more. What comes later can still be received.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl From<End> for RecvError {
    fn from(end: End) -> RecvError {
        match end {
            End::Closed | End::Rejected(_) => RecvError::Closed,
            End::Failed(error) => RecvError::Failed(error),
            End::Cancelled => RecvError::Cancelled,
        }
    }
}

/// The methods that both ends have.
macro_rules! both_ends {
    ($end:ident) => {
        impl<T> $end<T> {
            /// Closes the channel for all: nothing is sent any more, and receivers see so when they have seen everything.
            /// False if it was ended before.
            pub fn close(&self) -> bool {
                self.channel.end(End::Closed)
            }

            /// Ends the channel for all, who see [`RecvError::Cancelled`], when they have seen everything, and
            /// [`Unsent::Cancelled`]. False if it was ended before.
            pub fn cancel(&self) -> bool {
                self.channel.end(End::Cancelled)
            }

            /// True once the channel was ended, in whatever way.
            pub fn is_closed(&self) -> bool {
                self.channel.is_closed()
            }

            /// True if [`len`](Self::len) is zero.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// How many items the channel keeps.
            pub fn capacity(&self) -> usize {
                self.channel.capacity
            }

            /// How many receivers there are, without those that were cut off.
            pub fn receiver_count(&self) -> usize {
                self.channel.receivers()
            }

            /// True if the two are ends of the same channel.
            pub fn same_channel(&self, other: &$end<T>) -> bool {
                Arc::ptr_eq(&self.channel, &other.channel)
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct(stringify!($end));
                shown.field("len", &self.len()).field("capacity", &self.capacity());
                shown.field("receivers", &self.receiver_count()).field("closed", &self.is_closed()).finish()
            }
        }
    };
}

both_ends!(Sender);
both_ends!(Receiver);

/// The end of a broadcast channel that sends. The channel is closed when the last of its senders goes.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// A receiver that sees what is sent from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { seat: self.channel.subscribe(), channel: self.channel.clone() }
    }

    /// Sends `item`. With [`Slow::Block`] it waits until there is room for it; otherwise never.
    ///
    /// # Errors
    ///
    /// With the item, if the channel has ended, if there is no receiver, or if it has to wait and the task is cancelled or
    /// must not block here.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.send_by(item, None)
    }

    /// Like [`send`](Sender::send), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), and [`Unsent::Timeout`].
    pub fn send_timeout(&self, item: T, timeout: Duration) -> Result<(), SendError<T>> {
        self.send_by(item, Some(now() + timeout))
    }

    fn send_by(&self, item: T, deadline: Option<Instant>) -> Result<(), SendError<T>> {
        let send = self.operation(item);
        match attempt_or_block(&send, deadline) {
            Ok(true) => send.output(),
            Ok(false) => Err(send.unsent(Unsent::Timeout)),
            Err(refused) => Err(send.unsent(refused)),
        }
    }

    /// Sends `item` if that needs no wait.
    ///
    /// # Errors
    ///
    /// With the item: [`Unsent::Full`], that the channel has ended, or that there is no receiver.
    pub fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        let send = self.operation(item);
        if send.attempt() { send.output() } else { Err(send.unsent(Unsent::Full)) }
    }

    /// A future that sends `item`. Dropped before it is ready it has not sent it; [`cancel`](Async::cancel) gives it back.
    pub fn send_async(&self, item: T) -> Async<SendCase<'_, T>> {
        Async::new(self.operation(item))
    }

    /// Closes the channel with an error, which receivers see when they have seen everything. False if it was ended
    /// before.
    pub fn close_err(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.channel.end(End::Failed(CloseError::new(error)))
    }

    /// How many items are kept because somebody has not seen them.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    pub(crate) fn operation(&self, item: T) -> SendCase<'_, T> {
        SendCase::new(&self.channel, item)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.channel.senders.fetch_add(1, Ordering::Relaxed);
        Sender { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.channel.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.end(End::Closed);
        }
    }
}

/// The end of a broadcast channel that receives.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    /// How far it has come is noted there.
    seat: usize,
}

impl<T> Receiver<T> {
    /// Ends the channel for all: senders see `error`, receivers what was sent. False if it was ended before.
    pub fn reject(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.channel.end(End::Rejected(CloseError::new(error)))
    }

    /// How many items are there that it has not seen.
    pub fn len(&self) -> usize {
        self.channel.unseen(self.seat)
    }
}

impl<T: Clone> Receiver<T> {
    /// Receives the next item. Waits until there is one.
    ///
    /// # Errors
    ///
    /// If it has missed items, or was cut off; if the channel has ended and it has seen everything; if it has to wait and
    /// the task is cancelled, or must not block here.
    pub fn recv(&self) -> Result<T, RecvError> {
        let recv = self.operation();
        attempt_or_block(&recv, None)?;
        recv.output()
    }

    /// Like [`recv`](Receiver::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), and [`RecvError::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvError> {
        self.recv_until(now() + timeout)
    }

    /// [`recv_timeout`](Self::recv_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn recv_until(&self, deadline: Instant) -> Result<T, RecvError> {
        let recv = self.operation();
        if attempt_or_block(&recv, Some(deadline))? { recv.output() } else { Err(RecvError::Timeout) }
    }

    /// The next item, if that needs no wait.
    ///
    /// # Errors
    ///
    /// If it has missed items, or was cut off; if the channel has ended and it has seen everything.
    pub fn try_recv(&self) -> Result<Option<T>, RecvError> {
        let recv = self.operation();
        if recv.attempt() { recv.output().map(Some) } else { Ok(None) }
    }

    /// A future that receives the next item. Dropped before it is ready it has received nothing.
    pub fn recv_async(&self) -> Async<RecvCase<'_, T>> {
        Async::new(self.operation())
    }

    /// The items as they come, until the channel has ended or the receiver is cut off. What it misses is passed over.
    /// Where [`recv`](Receiver::recv) fails because the task is cancelled or must not block, it unwinds.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// The items that are there and that it has not seen. What it misses is passed over.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }

    pub(crate) fn operation(&self) -> RecvCase<'_, T> {
        RecvCase::new(self)
    }
}

impl<T> Clone for Receiver<T> {
    /// A receiver that has seen what this one has, and will see the same.
    fn clone(&self) -> Receiver<T> {
        Receiver { seat: self.channel.subscribe_like(self.seat), channel: self.channel.clone() }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.leave(self.seat);
    }
}
