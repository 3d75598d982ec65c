//! The end of a channel that receives.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sched::now;
use sinew_sched::raw::{Async, Case, Prepaid, attempt_or_block, block};
use sinew_sync::Arc;
use sinew_sync::atomic::Ordering;

use super::ends::{Many, both_ends};
use super::error::{CloseError, End, RecvError, unwind};
use super::operation::RecvCase;
use super::{Channel, Flavour, Kind, flavour};

/// The end of a channel that receives. The channel is closed when the last of its receivers goes, and what is inside is
/// dropped.
pub struct Receiver<T, K = Many> {
    pub(super) channel: Arc<Channel<T>>,
    pub(super) prepaid: Prepaid,
    pub(super) _kind: PhantomData<K>,
}

both_ends!(Receiver, receivers, last_receiver_goes);

impl<T, K> Receiver<T, K> {
    /// Receives the next item. Waits until there is one.
    ///
    /// # Errors
    ///
    /// If the channel has ended and nothing is left in it; if it has to wait and the task is cancelled, or must not block
    /// here.
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        let recv = self.operation();
        // A rendezvous finds out while it enrolls.
        if matches!(self.channel.kind, Kind::Ring(_)) && recv.try_now() {
            self.prepaid.charge();
            return recv.output();
        }
        recv_slowly(recv)
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
    /// If the channel has ended and nothing is left in it.
    #[inline]
    pub fn try_recv(&self) -> Result<Option<T>, RecvError> {
        let recv = self.operation();
        if recv.try_now() { recv.output().map(Some) } else { Ok(None) }
    }

    /// Waits for an item, and appends it to `items` with all that are there, up to `limit`. Returns how many that were.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv).
    pub fn recv_many(&self, items: &mut Vec<T>, limit: usize) -> Result<usize, RecvError> {
        if limit == 0 {
            return Ok(0);
        }
        items.push(self.recv()?);
        Ok(1 + flavour!(self.channel, recv_some(items, limit - 1)))
    }

    /// A future that receives the next item. Dropped before it is ready it has received nothing: an item that was on its
    /// way to it goes to the next receiver.
    pub fn recv_async(&self) -> Async<RecvCase<'_, T>> {
        Async::new(self.operation())
    }

    /// The items as they come, until the channel has ended. Where [`recv`](Receiver::recv) fails because the task is
    /// cancelled or must not block, it unwinds.
    pub fn iter(&self) -> Iter<'_, T, K> {
        Iter(self)
    }

    /// The items that are there.
    pub fn try_iter(&self) -> TryIter<'_, T, K> {
        TryIter(self)
    }

    /// Ends the channel: senders see `error`, receivers get what is inside. False if it was ended before.
    pub fn reject(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.channel.end(End::Rejected(CloseError::new(error)))
    }

    #[inline(always)]
    pub(crate) fn operation(&self) -> RecvCase<'_, T> {
        RecvCase::new(&self.channel)
    }
}

#[inline(never)]
fn recv_slowly<T>(recv: RecvCase<'_, T>) -> Result<T, RecvError> {
    block(&recv, None)?;
    recv.output()
}

/// The items of a channel, as they come: see [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T, K>(&'a Receiver<T, K>);

impl<T, K> Iterator for Iter<'_, T, K> {
    type Item = T;

    #[inline]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        next_of(self.0)
    }
}

/// The items that are in a channel: see [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T, K>(&'a Receiver<T, K>);

impl<T, K> Iterator for TryIter<'_, T, K> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok().flatten()
    }
}

/// The items of a channel, as they come, with the receiver inside.
#[derive(Debug)]
pub struct IntoIter<T, K>(Receiver<T, K>);

impl<T, K> Iterator for IntoIter<T, K> {
    type Item = T;

    #[inline]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        next_of(&self.0)
    }
}

impl<T, K> IntoIterator for Receiver<T, K> {
    type Item = T;
    type IntoIter = IntoIter<T, K>;

    fn into_iter(self) -> IntoIter<T, K> {
        IntoIter(self)
    }
}

impl<'a, T, K> IntoIterator for &'a Receiver<T, K> {
    type Item = T;
    type IntoIter = Iter<'a, T, K>;

    fn into_iter(self) -> Iter<'a, T, K> {
        self.iter()
    }
}

#[inline(always)]
#[track_caller]
fn next_of<T, K>(receiver: &Receiver<T, K>) -> Option<T> {
    match receiver.recv() {
        Ok(item) => Some(item),
        Err(error) => end_of_items(error),
    }
}

/// An iterator has no errors: it ends, or unwinds.
#[cold]
#[track_caller]
fn end_of_items<T>(error: RecvError) -> Option<T> {
    match error {
        RecvError::Refused(refused) => unwind(refused),
        _ => None,
    }
}
