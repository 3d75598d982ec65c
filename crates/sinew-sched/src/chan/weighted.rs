//! The flavour with room for so much weight: a queue under one lock.
//!
//! What an item weighs is asked once, by whoever sends it, without the lock; its slot has the answer from then on. The
//! queue holds items of at most `capacity` in all, always. One that is heavier can never be let in, so it is refused.
//!
//! # Waiting
//!
//! **Senders** wait with their items in their slots. The first of them decides: who comes later waits behind it, also with
//! an item that would fit. Whoever makes room lets senders in from the first on, as long as the items fit, and tells
//! them. A sender that withdraws may have been all that was in the way of those behind it, so it does the same.
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
//! `weighted_withdraw_recv`, `weighted_put_back`, `weighted_forced`.

use std::collections::VecDeque;

use super::displaced::Displaced;
use super::lock::{Guard, Lock};
use super::slot::Slot;
use super::{ENDED, Flavour, GIVEN, Tried};
use crate::case::Enrolled;
use crate::wait::{Node, Queue, Waiter, tell_each_from};

pub(super) struct Weighted<T> {
    state: Lock<State<T>>,
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
        Weighted { state: Lock::new(state), capacity, weigh }
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
    fn tell_all(&self, state: Guard<'_, State<T>>) {
        if !state.senders.is_empty() || !state.receivers.is_empty() {
            tell_each_from(state, || self.state.lock(), State::tell_next);
        }
    }
}

impl<T> Flavour<T> for Weighted<T> {
    fn try_send(&self, slot: &Slot<T>) -> Tried {
        let mut state = self.state.lock();
        if state.closed || self.is_too_heavy(slot) {
            return Tried::Done;
        }
        if !state.senders.is_empty() || slot.weight() > state.room {
            return Tried::Blocked;
        }
        // SAFETY: the slot is the caller's.
        state.put(slot.weight(), unsafe { slot.take() }.expect("an item to send"));
        self.tell_all(state);
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

    fn enroll_send(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if state.closed || self.is_too_heavy(slot) {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        if state.senders.is_empty() && slot.weight() <= state.room {
            return Enrolled::Again;
        }
        slot.lead(node);
        // SAFETY: the node is new, and whoever enrolls it takes it out before it goes.
        unsafe { state.senders.push(node) };
        Enrolled::Queued
    }

    fn enroll_recv(&self, _: &Slot<T>, node: &Node) -> Enrolled {
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

    fn withdraw_send(&self, node: &Node) -> bool {
        let mut state = self.state.lock();
        // SAFETY: it was pushed into this queue.
        let removed = unsafe { state.senders.remove(node) };
        self.tell_all(state);
        removed
    }

    fn withdraw_recv(&self, node: &Node) -> bool {
        // SAFETY: it was pushed into this queue.
        unsafe { self.state.lock().receivers.remove(node) }
    }

    fn settle_recv(&self, slot: &Slot<T>) -> bool {
        let mut state = self.state.lock();
        state.kept -= 1;
        let Some(item) = state.take() else { return false };
        // SAFETY: the slot is the caller's.
        unsafe { slot.put(item) };
        self.tell_all(state);
        true
    }

    fn put_back(&self, _: &Slot<T>) {
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

/// As in the models of [`crate::sync`], whoever may have to wait is a thread that nobody joins before it can go on. An
/// item weighs its own number.
#[cfg(test)]
mod tests {
    use sinew_core::Instant;
    use sinew_sync::{model, model_bounded, thread};

    use crate::case::{Attempt, Case, Enrolled};
    use crate::chan::{Receiver, RecvError, Sender, Unsent, weighted};
    use crate::wait::{Node, Waiting};

    const PAST: Instant = Instant::from_nanos(0);

    fn channel(capacity: usize) -> (Sender<usize>, Receiver<usize>) {
        weighted(capacity, |item| *item)
    }

    fn sends(sender: &Sender<usize>, item: usize) -> thread::JoinHandle<()> {
        let sender = sender.clone();
        thread::spawn(move || sender.send(item).unwrap())
    }

    /// Begins to receive, and unwinds as soon as it waits. What it has received nevertheless.
    fn unwinds(receiver: &Receiver<usize>) -> thread::JoinHandle<Option<usize>> {
        let receiver = receiver.clone();
        thread::spawn(move || {
            let (recv, node) = (receiver.operation(), Node::new(0));
            match recv.enroll(&node) {
                Enrolled::Queued => drop(Waiting::new(&recv, &node)),
                Enrolled::Done => return None,
                _ => return recv.attempt().then(|| recv.output().ok()).flatten(),
            }
            None
        })
    }

    #[test]
    fn a_receiver_is_woken_by_what_is_sent() {
        model("weighted_send_wakes", || {
            let (sender, receiver) = channel(3);
            let receives = thread::spawn(move || [receiver.recv().unwrap(), receiver.recv().unwrap()]);
            sender.send(2).unwrap();
            sender.send(3).unwrap();
            assert_eq!(receives.join().unwrap(), [2, 3]);
            assert_eq!((sender.len(), sender.weight()), (0, 0));
        });
    }

    #[test]
    fn senders_are_let_in_as_far_as_there_is_room() {
        model_bounded("weighted_recv_wakes", 3, || {
            let (sender, receiver) = channel(3);
            sender.send(2).unwrap();
            let senders = [sends(&sender, 3), sends(&sender, 1)];
            let mut items = [0; 3];
            for item in &mut items {
                *item = receiver.recv().unwrap();
                assert!(receiver.weight() <= 3);
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert_eq!(items[0], 2);
            assert_eq!(items.into_iter().sum::<usize>(), 6);
        });
    }

    #[test]
    fn closing_tells_all_who_wait() {
        model_bounded("weighted_close", 3, || {
            let (sender, receiver) = channel(1);
            let (first, second) = (sender.clone(), sender.clone());
            let senders = [first, second].map(|sender| {
                thread::spawn(move || match sender.send(1) {
                    Ok(()) => 1,
                    Err(unsent) => {
                        assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 1);
                        0
                    }
                })
            });
            sender.close();
            let received = receiver.iter().sum::<usize>();
            let sent = senders.map(|sender| sender.join().unwrap());
            assert_eq!(sent.into_iter().sum::<usize>(), received);
        });
    }

    #[test]
    fn a_heavy_item_that_is_given_up_lets_the_light_one_behind_it_pass() {
        model("weighted_withdraw_send", || {
            let (sender, receiver) = channel(2);
            sender.send(1).unwrap();
            let heavy = {
                let sender = sender.clone();
                thread::spawn(move || {
                    let unsent = sender.send_until(2, PAST).unwrap_err();
                    assert!(matches!(unsent.why, Unsent::TimedOut));
                })
            };
            let light = sends(&sender, 1);
            heavy.join().unwrap();
            light.join().unwrap();
            assert_eq!((receiver.len(), receiver.weight()), (2, 2));
        });
    }

    #[test]
    fn a_receiver_that_gives_up_has_its_item_or_leaves_it() {
        model("weighted_withdraw_recv", || {
            let (sender, receiver) = channel(2);
            let gives_up = {
                let receiver = receiver.clone();
                thread::spawn(move || receiver.recv_until(PAST).unwrap())
            };
            sender.send(2).unwrap();
            let received = gives_up.join().unwrap();
            assert_eq!(receiver.try_recv().unwrap().or(received), Some(2));
            assert_eq!(sender.weight(), 0);
        });
    }

    /// Although the channel is closed while the item is kept for the one that unwinds.
    #[test]
    fn what_is_kept_for_one_that_unwinds_comes_to_the_next() {
        model_bounded("weighted_put_back", 3, || {
            let (sender, receiver) = channel(2);
            let unwinds = unwinds(&receiver);
            let stays = thread::spawn(move || receiver.recv());
            sender.send(2).unwrap();
            drop(sender);
            let stays = stays.join().unwrap();
            match unwinds.join().unwrap() {
                None => assert_eq!(stays.unwrap(), 2),
                Some(_) => assert!(matches!(stays, Err(RecvError::Closed))),
            }
        });
    }

    #[test]
    fn a_receiver_whose_item_was_displaced_gets_the_next() {
        model("weighted_forced", || {
            let (sender, receiver) = channel(2);
            let receives = {
                let receiver = receiver.clone();
                thread::spawn(move || receiver.recv().unwrap())
            };
            sender.send(1).unwrap();
            let displaced = sender.force_send(2).unwrap().next();
            let received = receives.join().unwrap();
            assert_eq!(received, if displaced.is_some() { 2 } else { 1 });
        });
    }
}
