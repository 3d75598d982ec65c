//! The end of a channel that sends.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sched::now;
use sinew_sched::raw::{Async, Case, Prepaid, Sending, block, charge};
use sinew_sync::Arc;
use sinew_sync::atomic::Ordering;

use super::ends::{Many, both_ends};
use super::error::{CloseError, End, SendError, Unsent};
use super::operation::SendCase;
use super::wakeups::Wakeups;
use super::{Channel, Displaced, Flavour, Kind, flavour};

/// The end of a channel that sends. The channel is closed when the last of its senders goes.
pub struct Sender<T, K = Many> {
    pub(super) channel: Arc<Channel<T>>,
    pub(super) prepaid: Prepaid,
    pub(super) _kind: PhantomData<K>,
}

both_ends!(Sender, senders, last_sender_goes);

impl<T, K> Sender<T, K> {
    /// Sends `item`. Waits until there is room for it; at a channel that holds nothing, until a receiver takes it.
    ///
    /// # Errors
    ///
    /// With the item, if the channel has ended, or if it has to wait and the task is cancelled or must not block here.
    ///
    /// If it has to wait and the task is killed, or a deadline around it passes, it unwinds. The item is then received
    /// once, if it was taken at that very moment, or dropped: the unwind alone does not tell which.
    #[inline(always)]
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        let send = SendCase::new(&self.channel, item);
        // A rendezvous finds out while it enrolls.
        if matches!(self.channel.kind, Kind::Ring(_)) && send.try_now() {
            self.prepaid.charge();
            return send.output();
        }
        send_slowly(send, None)
    }

    /// Like [`send`](Sender::send), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send), and [`Unsent::Timeout`].
    pub fn send_timeout(&self, item: T, timeout: Duration) -> Result<(), SendError<T>> {
        self.send_by(item, now() + timeout)
    }

    /// [`send_timeout`](Self::send_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn send_until(&self, item: T, deadline: Instant) -> Result<(), SendError<T>> {
        self.send_by(item, deadline)
    }

    fn send_by(&self, item: T, deadline: Instant) -> Result<(), SendError<T>> {
        let send = SendCase::new(&self.channel, item);
        if !send.try_now() {
            return send_slowly(send, Some(deadline));
        }
        charge();
        send.output()
    }

    /// Sends `item` if that needs no wait: if there is room for it, or at a channel that holds nothing a receiver that
    /// waits.
    ///
    /// # Errors
    ///
    /// With the item: [`Unsent::Full`], or that the channel has ended.
    #[inline]
    pub fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        let send = SendCase::new(&self.channel, item);
        if send.try_now() { send.output() } else { Err(unsent(send, Unsent::Full)) }
    }

    /// [`try_send`](Sender::try_send) for whoever holds a lock: whom the item wakes is woken when `wakeups` goes.
    ///
    /// # Errors
    ///
    /// As for [`try_send`](Sender::try_send).
    #[doc(hidden)]
    pub fn try_send_quietly(&self, item: T, wakeups: &mut Wakeups) -> Result<(), SendError<T>> {
        let send = SendCase::new(&self.channel, item);
        if send.try_quietly(wakeups) { send.output() } else { Err(unsent(send, Unsent::Full)) }
    }

    /// Sends `item` without waiting. If there is no room, the oldest item in the channel makes it, and is returned; in one
    /// that is [`weighted`](super::weighted) as many of the oldest as are needed. A channel that holds nothing has no
    /// older one: there `item` itself comes back if no receiver waits.
    ///
    /// # Errors
    ///
    /// With the item, if the channel has ended, or if the item is too heavy for it.
    pub fn force_send(&self, item: T) -> Result<Displaced<T>, SendError<T>> {
        let slot = self.channel.slot(item);
        let displaced = flavour!(self.channel, force_send(&slot));
        let weight = slot.weight();
        match slot.into_inner() {
            None => Ok(displaced),
            Some(item) => Err(SendError::new(item, self.channel.why_unsent(weight))),
        }
    }

    /// Sends all of `items`, in their order. What was not sent is still in there after an error.
    ///
    /// # Errors
    ///
    /// As for [`send`](Sender::send).
    pub fn send_all(&self, items: &mut VecDeque<T>) -> Result<(), Unsent> {
        loop {
            flavour!(self.channel, send_some(items));
            let Some(item) = items.pop_front() else { return Ok(()) };
            if let Err(SendError { item, why }) = self.send(item) {
                items.push_front(item);
                return Err(why);
            }
        }
    }

    /// A future that sends `item`. Dropped before it is ready it has not sent it; [`cancel`](Async::cancel) gives it back.
    pub fn send_async(&self, item: T) -> Async<SendCase<'_, T>> {
        Async::new(SendCase::new(&self.channel, item))
    }

    pub(crate) fn operation(&self, item: T) -> SendCase<'_, T> {
        SendCase::new(&self.channel, item)
    }

    /// Closes the channel with an error, which receivers see when they have received everything. False if it was ended
    /// before.
    pub fn close_err(&self, error: impl Into<Box<dyn Error + std::marker::Send + Sync>>) -> bool {
        self.channel.end(End::Failed(CloseError::new(error)))
    }
}

#[inline(never)]
fn send_slowly<T>(send: SendCase<'_, T>, deadline: Option<Instant>) -> Result<(), SendError<T>> {
    match block(&send, deadline) {
        Ok(true) => send.output(),
        Ok(false) => Err(unsent(send, Unsent::Timeout)),
        Err(refused) => Err(unsent(send, refused)),
    }
}

/// The item of a `send` that was given up.
#[cold]
fn unsent<T>(send: SendCase<'_, T>, why: impl Into<Unsent>) -> SendError<T> {
    SendError::new(send.into_item().expect("an item that was not sent is still there"), why)
}
