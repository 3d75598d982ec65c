//! The flavour that holds nothing: a sender and a receiver meet, and the item goes from one to the other.
//!
//! All is under one lock. Whoever comes second finds the first in its queue, takes or puts the item through its node,
//! and tells it; both have what they wanted then. Whoever comes first puts its node into the queue of its side. So at
//! most one of the queues has nodes that can be matched (with selects on both sides there may be some in both, all of
//! the same waiter).
//!
//! A node is withdrawn under the lock while it is unmatched; one that was told is matched, and the exchange is complete.
//! A receiver that is matched and cannot take its item any more, because it unwinds or is a future that is dropped, gives
//! it back: to the next receiver, or to `returned`, which receivers look at first. Nothing else is ever in there.
//!
//! Models: `rendezvous_exchange`, `rendezvous_close`, `rendezvous_withdrawal`, `rendezvous_put_back`, and those of
//! [`crate::select`].

use std::collections::VecDeque;

use super::displaced::Displaced;
use super::slot::Slot;
use super::{ENDED, Flavour, GIVEN, Tried};
use sinew_sched::raw::{Enrolled, Node, Partner, Queue, Waiter, tell_each};
use sinew_sync::ShortLock;

/// On one cache line.
#[repr(align(64))]
pub(super) struct Rendezvous<T> {
    state: ShortLock<State<T>>,
}

struct State<T> {
    senders: Queue,
    receivers: Queue,
    #[allow(clippy::box_collection, reason = "seldom there, and small where it is not")]
    returned: Option<Box<VecDeque<(usize, T)>>>,
    /// How many items were given to receivers that waited.
    given: usize,
    closed: bool,
}

impl<T> Rendezvous<T> {
    pub(super) fn new() -> Rendezvous<T> {
        let state =
            State { senders: Queue::new(), receivers: Queue::new(), returned: None, given: 0, closed: false };
        Rendezvous { state: ShortLock::new(state) }
    }
}

impl<T> State<T> {
    #[inline(always)]
    fn take_returned(&mut self) -> Option<T> {
        let items = self.returned.as_mut()?;
        let item = items.pop_front().map(|(_, item)| item);
        if items.is_empty() {
            self.returned = None;
        }
        item
    }
}

/// Gives `item` to a receiver that was claimed.
///
/// # Safety
///
/// `node` is that of a receiver of `T`s, was just claimed, and the lock of its queue is held.
unsafe fn give<T>(node: *const Node, item: T, number: usize) -> Waiter {
    // SAFETY: the caller's promise. A receiver that waits has an empty slot.
    unsafe {
        (*node).wants.set(number);
        Slot::of_node(node).put(item);
        Node::tell(node, GIVEN)
    }
}

impl<T> Flavour<T> for Rendezvous<T> {
    #[inline]
    fn try_send(&self, slot: &Slot<T>, mut wake: impl FnMut(Waiter)) -> Tried {
        let mut state = self.state.lock();
        if state.closed {
            return Tried::Done;
        }
        let turn = state.given;
        state.receivers.bring_near(turn);
        let Some(node) = state.receivers.claim_first() else { return Tried::Blocked };
        state.given += 1;
        // SAFETY: the node was claimed just now, and the slot is the caller's.
        let waiter = unsafe { give(node, slot.take().expect("an item to send"), state.given) };
        drop(state);
        wake(waiter);
        Tried::Done
    }

    fn try_recv(&self, slot: &Slot<T>) -> Tried {
        let mut state = self.state.lock();
        if let Some(item) = state.take_returned() {
            // SAFETY: the slot is the caller's.
            unsafe { slot.put(item) };
            return Tried::Done;
        }
        if state.closed {
            return Tried::Done;
        }
        let Some(node) = state.senders.claim_first() else { return Tried::Blocked };
        // SAFETY: the node was claimed just now; a sender that waits has its item. The slot is the caller's.
        let waiter = unsafe {
            slot.put(Slot::of_node(node).take().expect("an item to send"));
            Node::tell(node, GIVEN)
        };
        drop(state);
        waiter.wake();
        Tried::Done
    }

    #[inline(always)]
    unsafe fn enroll_send(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if state.closed {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        let turn = state.given;
        state.receivers.bring_near(turn);
        match state.receivers.claim_for(node) {
            Partner::Found(receiver) => {
                state.given += 1;
                // SAFETY: it was claimed just now, and the slot is the caller's.
                let waiter = unsafe { give(receiver, slot.take().expect("an item to send"), state.given) };
                drop(state);
                waiter.wake();
                Enrolled::Done
            }
            Partner::Nobody => {
                slot.lead(node);
                // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
                unsafe { state.senders.push(node) };
                Enrolled::Queued
            }
            Partner::OwnTaken => Enrolled::Taken,
        }
    }

    #[inline(always)]
    unsafe fn enroll_recv(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if state.returned.is_some() {
            return Enrolled::Again;
        }
        if state.closed {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        match state.senders.claim_for(node) {
            Partner::Found(sender) => {
                // SAFETY: it was claimed just now; a sender that waits has its item. The slot is the caller's.
                let waiter = unsafe {
                    slot.put(Slot::of_node(sender).take().expect("an item to send"));
                    Node::tell(sender, GIVEN)
                };
                drop(state);
                waiter.wake();
                Enrolled::Done
            }
            Partner::Nobody => {
                slot.lead(node);
                // SAFETY: as in `enroll_send`.
                unsafe { state.receivers.push(node) };
                Enrolled::Queued
            }
            Partner::OwnTaken => Enrolled::Taken,
        }
    }

    unsafe fn withdraw_send(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().senders.remove(node) }
    }

    unsafe fn withdraw_recv(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().receivers.remove(node) }
    }

    unsafe fn put_back(&self, slot: &Slot<T>, number: usize) {
        // SAFETY: the caller promises that the node was told, so the slot is its own.
        let item = unsafe { slot.take() }.expect("an item that was given");
        let mut state = self.state.lock();
        let Some(node) = state.receivers.claim_first() else {
            let returned = state.returned.get_or_insert_default();
            let place = returned.partition_point(|(other, _)| *other < number);
            return returned.insert(place, (number, item));
        };
        // SAFETY: it was claimed just now.
        let waiter = unsafe { give(node, item, number) };
        drop(state);
        waiter.wake();
    }

    /// A channel that holds nothing has no oldest item to make room with: the item itself is what is dropped.
    fn force_send(&self, slot: &Slot<T>) -> Displaced<T> {
        match self.try_send(slot, Waiter::wake) {
            Tried::Done => Displaced::one(None),
            // SAFETY: the slot is the caller's.
            Tried::Blocked => Displaced::one(unsafe { slot.take() }),
        }
    }

    fn close(&self) {
        self.state.lock().closed = true;
        tell_each(
            || self.state.lock(),
            |state| state.senders.tell(ENDED).or_else(|| state.receivers.tell(ENDED)),
        );
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn len(&self) -> usize {
        self.state.lock().returned.as_ref().map_or(0, |items| items.len())
    }

    fn under_send_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.state.lock();
        change();
    }

    fn under_recv_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.state.lock();
        change();
    }
}

#[cfg(test)]
mod tests;
