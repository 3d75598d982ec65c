//! Tasks that run at once, and whose results come in the order in which they were sent.
//!
//! The channel carries the handles of tasks. Who receives takes the next handle and joins its task, so a task that takes
//! long holds up the results of those behind it, which go on meanwhile; and a channel that is full holds up who sends.
//!
//! ```
//! use sinew_chan::chan::ordered;
//! use sinew_sched::{Runtime, spawn};
//!
//! let squares = Runtime::new().run(|| {
//!     let (sender, receiver) = ordered::channel(16);
//!     let feeds = spawn(move || {
//!         for n in 0..100u64 {
//!             sender.spawn(move || n * n).expect("somebody receives"); // waits while 16 are on their way
//!         }
//!     });
//!     let squares: Vec<u64> = receiver.into_iter().map(|square| square.unwrap()).collect();
//!     feeds.join().unwrap();
//!     squares
//! });
//! assert!(squares.unwrap().into_iter().eq((0..100).map(|n| n * n)));
//! ```
//!
//! # No task is lost
//!
//! A handle in the channel is that of a task that somebody will hear of. When nobody will any more, the task is cancelled:
//!
//! - A [`spawn`](Sender::spawn) that cannot send cancels and joins the task before it returns, and says how it ended.
//! - A receiver that goes cancels all tasks that it has not received. It does not wait for them: they end alone, and what
//!   they return is dropped.
//! - So does a sender that is killed while it waits for room, and a future that is dropped before it has sent.
//!
//! A receive that is given up, because its time has passed, its task is cancelled or killed, its future is dropped or
//! another case of its select happened, loses nothing: the receiver keeps the handle, and the next receive waits for the
//! same task.
//!
//! # How it works
//!
//! The handles go through a [`bounded`](super::bounded) channel. The receiver keeps the one that it has taken out as its
//! `head` until the task has ended and was joined. So receiving has two stages: while there is no head it waits for a
//! handle, in the queue of the channel, and then for the end of the task, in its join word (`ended.rs`). The head belongs to
//! the receiver, which a receive borrows for itself alone; a handle that is given to a wait that unwinds becomes the
//! head, too.
//!
//! Models: those of `ended.rs`, and of the channel.

mod receiver;
mod sending;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::{Raised, shield};
use sinew_sched::raw::Async;
use sinew_sched::{JoinHandle, now, spawn};

use super::error::SendError;

pub use receiver::{IntoIter, Iter, Receiver, RecvCase, TryIter};
pub use sending::SendCase;

/// The two ends of a channel that holds the handles of up to `capacity` tasks, besides the one that the receiver waits
/// for.
///
/// # Panics
///
/// If the capacity is zero.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel for tasks holds at least one");
    let (sender, receiver) = super::bounded(capacity);
    (Sender { channel: sender }, Receiver::new(receiver))
}

/// A handle in the channel, or on its way into it. If it is not taken out, its task is cancelled.
struct Queued<T>(Option<JoinHandle<T>>);

impl<T> Queued<T> {
    fn into_handle(mut self) -> JoinHandle<T> {
        self.0.take().expect("a handle until it is taken out")
    }
}

impl<T> Drop for Queued<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::cancel);
    }
}

/// What is given back of a handle that was not sent.
fn unsent<T>(error: SendError<Queued<T>>) -> SendError<JoinHandle<T>> {
    let SendError { item, why } = error;
    SendError { item: item.into_handle(), why }
}

/// The end of a [`channel`] that starts tasks and sends their handles. The channel is closed when the last of its
/// senders goes. In a select it is a case of [`send`](crate::select::send), with the handle of a task.
pub struct Sender<T> {
    channel: super::Sender<Queued<T>>,
}

impl<T: Send + 'static> Sender<T> {
    /// Starts a task, as [`spawn`](sinew_sched::spawn()) does, and sends its handle. Waits until there is room for it; the task
    /// runs meanwhile. For a task with options, or of another runtime, [`send`](Sender::send) its handle.
    ///
    /// # Errors
    ///
    /// If the handle cannot be sent: since the channel has ended, or since it has to wait and the caller is cancelled, or
    /// must not block here. The task is cancelled then, and joined, also if the caller is cancelled; the error has what
    /// that returned. Only where it must not block it is not joined: that is what the error has then.
    ///
    /// # Panics
    ///
    /// If the caller is not a task.
    #[track_caller]
    pub fn spawn<F>(&self, body: F) -> Result<(), SendError<Result<T, Raised>>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        reclaim(self.send(spawn(body)))
    }

    /// Like [`spawn`](Sender::spawn), but waits for room at most `timeout`. To join the task after that may take longer.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Sender::spawn), and [`Unsent::Timeout`](super::Unsent::Timeout).
    ///
    /// # Panics
    ///
    /// If the caller is not a task.
    #[track_caller]
    pub fn spawn_timeout<F>(&self, body: F, timeout: Duration) -> Result<(), SendError<Result<T, Raised>>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_until(body, now() + timeout)
    }

    /// [`spawn_timeout`](Self::spawn_timeout), until `deadline` on the clock of [`now`].
    #[track_caller]
    pub(crate) fn spawn_until<F>(
        &self,
        body: F,
        deadline: Instant,
    ) -> Result<(), SendError<Result<T, Raised>>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        reclaim(self.send_until(spawn(body), deadline))
    }
}

/// Cancels and joins a task that was not sent. A shield, since it may be that the caller is cancelled.
fn reclaim<T>(sent: Result<(), SendError<JoinHandle<T>>>) -> Result<(), SendError<Result<T, Raised>>> {
    sent.map_err(|SendError { item: task, why }| {
        task.cancel();
        SendError { item: shield(|| task.join()), why }
    })
}

impl<T> Sender<T> {
    /// Sends the handle of a task. Waits until there is room for it.
    ///
    /// # Errors
    ///
    /// With the handle, if the channel has ended, or if it has to wait and the caller is cancelled or must not block here.
    pub fn send(&self, task: JoinHandle<T>) -> Result<(), SendError<JoinHandle<T>>> {
        self.channel.send(Queued(Some(task))).map_err(unsent)
    }

    /// Like [`send`](Sender::send), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), and [`Unsent::Timeout`](super::Unsent::Timeout).
    pub fn send_timeout(
        &self,
        task: JoinHandle<T>,
        timeout: Duration,
    ) -> Result<(), SendError<JoinHandle<T>>> {
        self.send_until(task, now() + timeout)
    }

    /// [`send_timeout`](Self::send_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn send_until(
        &self,
        task: JoinHandle<T>,
        deadline: Instant,
    ) -> Result<(), SendError<JoinHandle<T>>> {
        self.channel.send_until(Queued(Some(task)), deadline).map_err(unsent)
    }

    /// Sends the handle of a task if there is room for it.
    ///
    /// # Errors
    ///
    /// With the handle: [`Unsent::Full`](super::Unsent::Full), or that the channel has ended.
    pub fn try_send(&self, task: JoinHandle<T>) -> Result<(), SendError<JoinHandle<T>>> {
        self.channel.try_send(Queued(Some(task))).map_err(unsent)
    }

    /// A future that sends the handle of a task. Dropped before it is ready it cancels the task; [`cancel`](Async::cancel)
    /// gives the handle back.
    pub fn send_async(&self, task: JoinHandle<T>) -> Async<SendCase<'_, T>> {
        Async::new(self.operation(task))
    }

    pub(crate) fn operation(&self, task: JoinHandle<T>) -> SendCase<'_, T> {
        SendCase::new(self.channel.operation(Queued(Some(task))))
    }

    /// Closes the channel: no task is sent any more, and the receiver sees so when it has received all. False if it was
    /// ended before.
    pub fn close(&self) -> bool {
        self.channel.close()
    }

    /// Closes the channel with an error, which the receiver sees when it has received all tasks. False if it was ended
    /// before.
    pub fn close_err(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.channel.close_err(error)
    }

    /// Ends the channel for both sides, which see that it was cancelled. The tasks in it are not: they are received. False
    /// if it was ended before.
    pub fn cancel(&self) -> bool {
        self.channel.cancel()
    }

    /// True once the channel was ended, in whatever way.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// How many handles are in the channel. The one that the receiver waits for is not in there any more.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// True if no handle is in the channel.
    pub fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    /// How many handles the channel holds.
    pub fn capacity(&self) -> usize {
        self.channel.capacity()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { channel: self.channel.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.channel, f)
    }
}
