//! Sending and receiving, as operations that may have to wait.

use std::fmt;

use super::error::{RecvError, SendError};
use super::slot::Slot;
use super::wakeups::Wakeups;
use super::{Channel, Flavour, GIVEN, Tried, flavour};
use crate::case::{Attempt, Case, Enrolled};
use crate::dump::WaitKind;
use crate::notes::What;
use crate::wait::{Awaited, Node, Waiter};

/// An item on its way into a channel: see [`Sender::send_async`](super::Sender::send_async) and
/// [`select::send`](crate::select::send).
pub struct SendCase<'a, T> {
    pub(super) channel: &'a Channel<T>,
    /// The item, until it is sent.
    pub(super) slot: Slot<T>,
}

impl<'a, T> SendCase<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>, item: T) -> SendCase<'a, T> {
        SendCase { channel, slot: channel.slot(item) }
    }

    /// Does it, unless that needs a wait.
    #[inline(always)]
    pub(super) fn try_now(&self) -> bool {
        flavour!(self.channel, try_send(&self.slot, Waiter::wake)) == Tried::Done
    }

    /// The same, and leaves it to the caller to wake those who are told.
    pub(super) fn try_quietly(&self, wakeups: &mut Wakeups) -> bool {
        flavour!(self.channel, try_send(&self.slot, |waiter| wakeups.add(waiter))) == Tried::Done
    }
}

/// A case that sends an item.
pub trait Sending: Case {
    /// What is sent.
    type Item;

    /// The item, if it was not sent.
    #[doc(hidden)]
    fn into_item(self) -> Option<Self::Item>;
}

impl<T> Sending for SendCase<'_, T> {
    type Item = T;

    #[inline]
    fn into_item(self) -> Option<T> {
        self.slot.into_inner()
    }
}

impl<T> Awaited for SendCase<'_, T> {
    fn withdraw(&self, node: &Node) -> bool {
        flavour!(self.channel, withdraw_send(node))
    }

    /// The item is in the channel, or with a receiver.
    fn hand_on(&self, _: &Node) {}
}

impl<T> Attempt for SendCase<'_, T> {
    fn attempt(&self) -> bool {
        self.try_now()
    }

    #[inline(always)]
    fn enroll(&self, node: &Node) -> Enrolled {
        flavour!(self.channel, enroll_send(&self.slot, node))
    }

    fn settle(&self, _: &Node) -> bool {
        true
    }

    fn under_lock(&self, change: &mut dyn FnMut()) {
        flavour!(self.channel, under_send_lock(change));
    }

    fn what(&self) -> What {
        What::at(self.channel.kinds().0, self.channel)
    }
}

impl<T> Case for SendCase<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline]
    fn output(self) -> Result<(), SendError<T>> {
        let (channel, weight) = (self.channel, self.slot.weight());
        match self.into_item() {
            None => Ok(()),
            Some(item) => Err(SendError::new(item, channel.why_unsent(weight))),
        }
    }
}

impl<T> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").finish_non_exhaustive()
    }
}

/// An item that a select sends, or gives back: see [`select::send`](crate::select::send).
pub struct SendOne<'a, C: Sending> {
    case: Option<C>,
    item: &'a mut Option<C::Item>,
}

impl<'a, C: Sending> SendOne<'a, C> {
    pub(crate) fn new(item: &'a mut Option<C::Item>, sending: impl FnOnce(C::Item) -> C) -> SendOne<'a, C> {
        SendOne { case: item.take().map(sending), item }
    }
}

impl<C: Sending> Awaited for SendOne<'_, C> {
    fn withdraw(&self, node: &Node) -> bool {
        self.case.as_ref().is_none_or(|case| case.withdraw(node))
    }

    fn hand_on(&self, node: &Node) {
        self.case.iter().for_each(|case| case.hand_on(node));
    }
}

impl<C: Sending> Attempt for SendOne<'_, C> {
    fn attempt(&self) -> bool {
        self.case.as_ref().is_some_and(C::attempt)
    }

    fn enroll(&self, node: &Node) -> Enrolled {
        self.case.as_ref().map_or(Enrolled::Queued, |case| case.enroll(node))
    }

    fn settle(&self, node: &Node) -> bool {
        self.case.as_ref().is_none_or(|case| case.settle(node))
    }

    fn under_lock(&self, change: &mut dyn FnMut()) {
        self.case.iter().for_each(|case| case.under_lock(change));
    }

    fn what(&self) -> What {
        self.case.as_ref().map_or(What::of(WaitKind::Never), Attempt::what)
    }
}

impl<T, C: Sending<Item = T, Output = Result<(), SendError<T>>>> Case for SendOne<'_, C> {
    type Output = Result<(), SendError<T>>;

    fn output(mut self) -> Result<(), SendError<T>> {
        self.case.take().map_or(Ok(()), C::output)
    }
}

impl<C: Sending> Drop for SendOne<'_, C> {
    fn drop(&mut self) {
        if let Some(case) = self.case.take() {
            *self.item = case.into_item();
        }
    }
}

impl<C: Sending> fmt::Debug for SendOne<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendOne").finish_non_exhaustive()
    }
}

/// The next item of a channel: see [`Receiver::recv_async`](super::Receiver::recv_async) and
/// [`select::recv`](crate::select::recv).
pub struct RecvCase<'a, T> {
    channel: &'a Channel<T>,
    /// The item, when it was received.
    slot: Slot<T>,
}

impl<'a, T> RecvCase<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>) -> RecvCase<'a, T> {
        RecvCase { channel, slot: Slot::empty() }
    }

    /// Does it, unless that needs a wait.
    #[inline(always)]
    pub(super) fn try_now(&self) -> bool {
        flavour!(self.channel, try_recv(&self.slot)) == Tried::Done
    }
}

impl<T> RecvCase<'_, T> {
    /// Takes out what was received, if anything was.
    ///
    /// # Safety
    ///
    /// The operation is done: its node, if it had one, was told.
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the caller's promise, so the slot is ours.
        unsafe { self.slot.take() }
    }
}

impl<T> Awaited for RecvCase<'_, T> {
    fn withdraw(&self, node: &Node) -> bool {
        flavour!(self.channel, withdraw_recv(node))
    }

    fn hand_on(&self, node: &Node) {
        if node.told() == GIVEN {
            flavour!(self.channel, put_back(&self.slot, node.wants.get()));
        }
    }
}

impl<T> Attempt for RecvCase<'_, T> {
    fn attempt(&self) -> bool {
        self.try_now()
    }

    #[inline(always)]
    fn enroll(&self, node: &Node) -> Enrolled {
        flavour!(self.channel, enroll_recv(&self.slot, node))
    }

    fn settle(&self, node: &Node) -> bool {
        node.told() != GIVEN || flavour!(self.channel, settle_recv(&self.slot))
    }

    fn under_lock(&self, change: &mut dyn FnMut()) {
        flavour!(self.channel, under_recv_lock(change));
    }

    fn what(&self) -> What {
        What::at(self.channel.kinds().1, self.channel)
    }
}

impl<T> Case for RecvCase<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn output(self) -> Result<T, RecvError> {
        let RecvCase { channel, slot } = self;
        slot.into_inner().ok_or_else(|| channel.ending.get().into())
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").finish_non_exhaustive()
    }
}
