//! The flavour with room for so much weight: a queue under one lock.
//!
//! What an item weighs is asked once, by whoever sends it, without the lock; its slot has the answer from then on. The
//! queue holds items of at most `capacity` in all, always. One that is heavier can never be let in, so it is refused.
//!
//! # Waiting
//!
//! **Senders** wait with their items in their slots. The first of them decides: who comes later waits behind it, also with
//! an item that would fit. Whoever makes room lets senders in from the first on, as long as the items fit, and tells
//! them. A sender that withdraws may have been all that was in the way of those behind it, so it does the same; it was
//! woken to do so, first of all when it runs.
//!
//! **Receivers** that wait are not given an item but have one kept for them: it stays in the queue, where it weighs what
//! it weighs, until they take it ([`Flavour::settle_recv`]). `kept` counts the receivers that were told so. Nobody else
//! takes those items; which of them is whose is not said, the first to come takes the oldest. A receiver that cannot
//! take its item any more only counts itself out, and the next one is told: the item has never left its place. The only
//! one who takes kept items away is `force_send`; a receiver that finds nothing then begins again.
//!
//! Closing tells the senders that wait. Receivers are told when the last item has been taken, and not before: one that is
//! kept for somebody may yet become free.
//!
//! [`State::tell_next`] has all of these rules. Whoever has changed something calls it until it finds nobody to tell; so
//! when the lock is free, either it would find nobody, or whoever has released the lock to wake some is about to go on.
//!
//! Models: `weighted_send_wakes`, `weighted_recv_wakes`, `weighted_close`, `weighted_withdraw_send`,
//! `weighted_withdraw_recv`, `weighted_put_back`, `weighted_forced`, `weighted_forced_wakes`, `weighted_kept`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::displaced::Displaced;
use super::slot::Slot;
use super::{ENDED, Flavour, GIVEN, Tried};
use sinew_sched::raw::{Enrolled, Node, Queue, Waiter, tell_each_from};
use sinew_sync::{ShortGuard, ShortLock};

pub(super) struct Weighted<T> {
    state: ShortLock<State<T>>,
    capacity: usize,
    weigh: Box<dyn Fn(&T) -> usize + Send + Sync>,
}

struct State<T> {
    /// Each with its weight.
    items: VecDeque<(usize, T)>,
    room: usize,
    /// How many receivers were told that there is something for them, and have not taken it.
    kept: usize,
    senders: Queue,
    receivers: Queue,
    closed: bool,
}

impl<T> State<T> {
    fn put(&mut self, weight: usize, item: T) {
        self.room -= weight;
        self.items.push_back((weight, item));
    }

    fn take(&mut self) -> Option<T> {
        let (weight, item) = self.items.pop_front()?;
        self.room += weight;
        Some(item)
    }

    /// True if there is something that is not kept for anybody.
    fn has_free_item(&self) -> bool {
        self.items.len() > self.kept
    }

    /// True if who comes now has to wait for an item. Nobody passes those who wait, if they are just being told.
    fn has_nothing_for_newcomers(&self) -> bool {
        !self.has_free_item() || !self.receivers.is_empty()
    }

    /// True if nothing will be received any more.
    fn is_drained(&self) -> bool {
        self.closed && self.items.is_empty()
    }

    /// True if the first sender that waits need not.
    fn lets_sender_in(&self) -> bool {
        let first = self.senders.first();
        // SAFETY: it is in the queue, and the caller has the lock; senders that wait have led it to their slots.
        !first.is_null() && !self.closed && unsafe { Slot::<T>::of_node(first) }.weight() <= self.room
    }

    /// Does the next thing that is to do for somebody who waits. Its waiter has to be woken.
    fn tell_next(&mut self) -> Option<Waiter> {
        while self.lets_sender_in() {
            // One at a time: the next may be heavier than one that turns out to be dead.
            if let Some(node) = self.senders.claim_head() {
                // SAFETY: it was claimed just now, under the lock of its queue. A sender that waits has its item.
                unsafe {
                    let slot = Slot::<T>::of_node(node);
                    self.put(slot.weight(), slot.take().expect("an item to send"));
                    return Some(Node::tell(node, GIVEN));
                }
            }
        }
        if self.has_free_item()
            && let Some(waiter) = self.receivers.tell(GIVEN)
        {
            self.kept += 1;
            return Some(waiter);
        }
        if self.is_drained()
            && let Some(waiter) = self.receivers.tell(ENDED)
        {
            return Some(waiter);
        }
        if self.closed { self.senders.tell(ENDED) } else { None }
    }
}

impl<T> Weighted<T> {
    pub(super) fn new(capacity: usize, weigh: Box<dyn Fn(&T) -> usize + Send + Sync>) -> Weighted<T> {
        let state = State {
            items: VecDeque::new(),
            room: capacity,
            kept: 0,
            senders: Queue::new(),
            receivers: Queue::new(),
            closed: false,
        };
        Weighted { state: ShortLock::new(state), capacity, weigh }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// A slot with an item that was weighed.
    pub(super) fn slot(&self, item: T) -> Slot<T> {
        Slot::weighing((self.weigh)(&item).max(1), item)
    }

    /// True if it fits only into a larger channel.
    pub(super) fn is_too_heavy(&self, slot: &Slot<T>) -> bool {
        slot.weight() > self.capacity
    }

    /// Tells all who need not wait any more.
    fn tell_all(&self, state: ShortGuard<'_, State<T>>) {
        self.tell_all_by(state, Waiter::wake);
    }

    fn tell_all_by(&self, state: ShortGuard<'_, State<T>>, wake: impl FnMut(Waiter)) {
        if !state.senders.is_empty() || !state.receivers.is_empty() {
            tell_each_from(state, || self.state.lock(), State::tell_next, wake);
        }
    }
}

impl<T> Flavour<T> for Weighted<T> {
    fn try_send(&self, slot: &Slot<T>, wake: impl FnMut(Waiter)) -> Tried {
        let mut state = self.state.lock();
        if state.closed || self.is_too_heavy(slot) {
            return Tried::Done;
        }
        if !state.senders.is_empty() || slot.weight() > state.room {
            return Tried::Blocked;
        }
        // SAFETY: the slot is the caller's.
        state.put(slot.weight(), unsafe { slot.take() }.expect("an item to send"));
        self.tell_all_by(state, wake);
        Tried::Done
    }

    fn try_recv(&self, slot: &Slot<T>) -> Tried {
        let mut state = self.state.lock();
        if state.has_nothing_for_newcomers() {
            return if state.is_drained() { Tried::Done } else { Tried::Blocked };
        }
        let item = state.take().expect("an item that is free");
        // SAFETY: the slot is the caller's.
        unsafe { slot.put(item) };
        self.tell_all(state);
        Tried::Done
    }

    #[inline(never)]
    unsafe fn enroll_send(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if state.closed || self.is_too_heavy(slot) {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        if state.senders.is_empty() && slot.weight() <= state.room {
            return Enrolled::Again;
        }
        slot.lead(node);
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { state.senders.push(node) };
        Enrolled::Queued
    }

    #[inline(never)]
    unsafe fn enroll_recv(&self, _: &Slot<T>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if !state.has_nothing_for_newcomers() {
            return Enrolled::Again;
        }
        if state.is_drained() {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        // SAFETY: as in `enroll_send`.
        unsafe { state.receivers.push(node) };
        Enrolled::Queued
    }

    unsafe fn withdraw_send(&self, node: &Node) -> bool {
        let mut state = self.state.lock();
        // SAFETY: the caller promises that the node was pushed into this queue.
        let removed = unsafe { state.senders.remove(node) };
        self.tell_all(state);
        removed
    }

    unsafe fn withdraw_recv(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().receivers.remove(node) }
    }

    unsafe fn settle_recv(&self, slot: &Slot<T>) -> bool {
        let mut state = self.state.lock();
        state.kept -= 1;
        let Some(item) = state.take() else { return false };
        // SAFETY: the caller promises that the node was told, so the slot is its own.
        unsafe { slot.put(item) };
        self.tell_all(state);
        true
    }

    unsafe fn put_back(&self, _: &Slot<T>, _: usize) {
        let mut state = self.state.lock();
        state.kept -= 1;
        self.tell_all(state);
    }

    fn force_send(&self, slot: &Slot<T>) -> Displaced<T> {
        let mut state = self.state.lock();
        if state.closed || self.is_too_heavy(slot) {
            return Displaced::one(None);
        }
        let mut displaced = Vec::new();
        while slot.weight() > state.room {
            displaced.push(state.take().expect("an empty channel has room for what is not too heavy"));
        }
        // SAFETY: the slot is the caller's.
        state.put(slot.weight(), unsafe { slot.take() }.expect("an item to send"));
        self.tell_all(state);
        Displaced::all(displaced)
    }

    /// None: each is weighed when it is sent, and only once.
    fn send_some(&self, _: &mut VecDeque<T>) {}

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.tell_all(state);
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    fn weight(&self) -> usize {
        self.capacity - self.state.lock().room
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
