//! Sending and receiving, as operations that may have to wait.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use sinew_sched::WaitKind;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, Sending, What};

use super::channel::Channel;
use super::state::Seen;
use super::{Receiver, RecvError};
use crate::chan::slot::Slot;
use crate::chan::{GIVEN, SendError, Tried, Unsent};

/// An item on its way to all receivers: see [`Sender::send_async`](super::Sender::send_async) and
/// [`select::send`](crate::select::send).
pub struct SendCase<'a, T> {
    channel: &'a Channel<T>,
    /// The item, until it is sent. Nobody shares it before.
    slot: Slot<Arc<T>>,
    /// It has cut all receivers off. So it came before the end of the channel, if that ends meanwhile.
    cut_off: Cell<bool>,
}

impl<'a, T> SendCase<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>, item: T) -> SendCase<'a, T> {
        SendCase { channel, slot: Slot::of(Arc::new(item)), cut_off: Cell::new(false) }
    }

    /// The error of a `send` that was given up.
    #[cold]
    pub(super) fn unsent(self, why: impl Into<Unsent>) -> SendError<T> {
        SendError::new(self.into_item().expect("an item that was not sent is still there"), why)
    }
}

impl<T> Sending for SendCase<'_, T> {
    type Item = T;

    fn into_item(self) -> Option<T> {
        self.slot.into_inner().and_then(Arc::into_inner)
    }
}

impl<T> Awaited for SendCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which is by `enroll_send` of this channel.
        unsafe { self.channel.withdraw_send(node) }
    }

    /// The item is in the channel.
    unsafe fn hand_on(&self, _: &Node) {}
}

impl<T> Attempt for SendCase<'_, T> {
    fn attempt(&self) -> bool {
        self.channel.try_send(&self.slot, &self.cut_off) == Tried::Done
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of the node and of this, and so of the slot.
        unsafe { self.channel.enroll_send(&self.slot, node) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        self.channel.under_lock(change);
    }

    fn what(&self) -> What {
        What::at(WaitKind::SendBroadcast, self.channel)
    }
}

impl<T> Case for SendCase<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn output(self) -> Result<(), SendError<T>> {
        let (channel, cut_off) = (self.channel, self.cut_off.get());
        let Some(item) = self.into_item() else { return Ok(()) };
        let ended = !cut_off && channel.is_closed();
        let why = if ended { channel.ending.get().into() } else { Unsent::NoReceiver };
        Err(SendError::new(item, why))
    }
}

impl<T> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").finish_non_exhaustive()
    }
}

/// What a receiver sees next: see [`Receiver::recv_async`] and [`select::recv`](crate::select::recv).
pub struct RecvCase<'a, T> {
    receiver: &'a Receiver<T>,
    slot: Slot<Seen<T>>,
}

impl<'a, T> RecvCase<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> RecvCase<'a, T> {
        RecvCase { receiver, slot: Slot::empty() }
    }

    fn channel(&self) -> &'a Channel<T> {
        &self.receiver.channel
    }
}

impl<T> Awaited for RecvCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which is by `enroll_recv` for this seat.
        unsafe { self.channel().withdraw_recv(self.receiver.seat, node) }
    }

    unsafe fn hand_on(&self, node: &Node) {
        if node.told() == GIVEN {
            // SAFETY: the caller promises that the node was told, so the slot is ours.
            let seen = unsafe { self.slot.take() }.expect("something that was given");
            self.channel().put_back(self.receiver.seat, node.wants.get() as u64, seen);
        }
    }
}

impl<T> Attempt for RecvCase<'_, T> {
    fn attempt(&self) -> bool {
        self.channel().try_recv(self.receiver.seat, &self.slot) == Tried::Done
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of the node and of this, and so of the slot.
        unsafe { self.channel().enroll_recv(self.receiver.seat, &self.slot, node) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        self.channel().under_lock(change);
    }

    fn what(&self) -> What {
        What::at(WaitKind::RecvBroadcast, self.channel())
    }
}

impl<T: Clone> Case for RecvCase<'_, T> {
    type Output = Result<T, RecvError>;

    /// Copies the item, unless nobody else has it any more.
    fn output(self) -> Result<T, RecvError> {
        let channel = self.channel();
        match self.slot.into_inner() {
            Some(Seen::Item(item)) => Ok(Arc::unwrap_or_clone(item)),
            Some(Seen::Lagged(missed)) => Err(RecvError::Lagged(missed)),
            Some(Seen::CutOff) => Err(RecvError::CutOff),
            None => Err(channel.ending.get().into()),
        }
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").finish_non_exhaustive()
    }
}
