//! Sending and receiving, as operations that may have to wait.

use std::fmt;

use sinew_sched::WaitKind;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, Sending, Waiter, What};

use super::error::{RecvError, SendError};
use super::slot::Slot;
use super::wakeups::Wakeups;
use super::{Channel, Flavour, GIVEN, Tried, flavour};

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

impl<T> Sending for SendCase<'_, T> {
    type Item = T;

    #[inline]
    fn into_item(self) -> Option<T> {
        self.slot.into_inner()
    }
}

impl<T> Awaited for SendCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which is by `enroll_send` of this channel.
        unsafe { flavour!(self.channel, withdraw_send(node)) }
    }

    /// The item is in the channel, or with a receiver.
    unsafe fn hand_on(&self, _: &Node) {}
}

impl<T> Attempt for SendCase<'_, T> {
    fn attempt(&self) -> bool {
        self.try_now()
    }

    #[inline(always)]
    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of the node and of this, and so of the slot.
        unsafe { flavour!(self.channel, enroll_send(&self.slot, node)) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
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
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises it of this, and so of the case within, which stays the same.
        self.case.as_ref().is_none_or(|case| unsafe { case.withdraw(node) })
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: as in `withdraw`.
        self.case.iter().for_each(|case| unsafe { case.hand_on(node) });
    }
}

impl<C: Sending> Attempt for SendOne<'_, C> {
    fn attempt(&self) -> bool {
        self.case.as_ref().is_some_and(C::attempt)
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: as in `withdraw`; what is within stays where this does.
        self.case.as_ref().map_or(Enrolled::Queued, |case| unsafe { case.enroll(node) })
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        // SAFETY: as in `withdraw`.
        self.case.as_ref().is_none_or(|case| unsafe { case.settle(node) })
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: as in `withdraw`.
        self.case.iter().for_each(|case| unsafe { case.under_lock(change) });
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
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which is by `enroll_recv` of this channel.
        unsafe { flavour!(self.channel, withdraw_recv(node)) }
    }

    unsafe fn hand_on(&self, node: &Node) {
        if node.told() == GIVEN {
            // SAFETY: the caller promises that the node was told and that nobody has used that: it was GIVEN to this
            // slot.
            unsafe { flavour!(self.channel, put_back(&self.slot, node.wants.get())) };
        }
    }
}

impl<T> Attempt for RecvCase<'_, T> {
    fn attempt(&self) -> bool {
        self.try_now()
    }

    #[inline(always)]
    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of the node and of this, and so of the slot.
        unsafe { flavour!(self.channel, enroll_recv(&self.slot, node)) }
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        // SAFETY: as in `hand_on`.
        node.told() != GIVEN || unsafe { flavour!(self.channel, settle_recv(&self.slot)) }
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
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
