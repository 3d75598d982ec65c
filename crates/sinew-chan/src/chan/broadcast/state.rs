//! The items of a broadcast channel, how far each receiver has come, and who waits.
//!
//! All is under one lock. Items are numbered, and `entries` are those from `first` on that somebody has not seen; each
//! counts by how many. A receiver has a **seat**, with the number of the next item that it will see. Receivers see items in
//! order, so whoever has not seen an entry has not seen those behind it either: the counts never fall from one entry to
//! the next, and an entry that everybody has seen is the first, and goes. So sending and receiving take the same time
//! however many receivers there are.
//!
//! An item is shared: what a receiver sees, or is given, is a reference to it, of which the last one to come frees the
//! item. The copy is made later, without the lock. Nothing of the user's is run, or dropped, under it.
//!
//! When `capacity` entries are there and one more comes:
//!
//! - `Slow::Block`: its sender waits in `senders`, with the item in its slot. Who makes room puts it in.
//! - `Slow::Lag`: the first entry goes. A seat whose next item is before `first` sees how far it is behind, and goes on
//!   from there.
//! - `Slow::Drop`: the seats that have not seen the first entry are cut off. They count as gone from then on.
//!
//! # Waiting
//!
//! Receivers wait in the queue of their seat: those who share one compete for its items, first come first served. Seats
//! with a queue are in `waiting`, or, since the next item was put in or the channel was closed, in `ready`.
//! [`State::tell_next`] takes them from there: each gives what its next receiver would see to the first in its queue, and
//! goes back to `waiting` when it has nothing more. A seat whose queue has become empty meanwhile is found there and
//! leaves the list; so a seat is in the lists at most once, and who withdraws need not search them.
//!
//! A receiver that was given something and cannot take it any more gives it back to its seat, and from there to the next
//! in the queue. Those who share a seat may do so in any order: `returned` is in that of the items.
//!
//! While senders wait there is no room, unless they are just being told. When the last receiver goes, senders that wait
//! are told, and have their items back: they can never be seen. Closing tells everybody.
//!
//! Models: `broadcast_send_wakes_all`, `broadcast_waits_for_the_slowest`, `broadcast_close`, `broadcast_close_when_full`,
//! `broadcast_close_twice`, `broadcast_last_receiver_goes`,
//! `broadcast_withdraw_send`, `broadcast_withdraw_recv`, `broadcast_put_back`, `broadcast_lag`, `broadcast_cut_off`.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use sinew_sched::raw::{Node, Queue, Waiter};

use crate::chan::slot::Slot;
use crate::chan::{ENDED, GIVEN};

/// What a receiver sees next.
pub(super) enum Seen<T> {
    Item(Arc<T>),
    /// So many items were overwritten before it saw them.
    Lagged(u64),
    /// It was too slow, and will see nothing any more.
    CutOff,
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Seen<T> {
        match self {
            Seen::Item(item) => Seen::Item(item.clone()),
            Seen::Lagged(missed) => Seen::Lagged(*missed),
            Seen::CutOff => Seen::CutOff,
        }
    }
}

pub(super) struct State<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of the first entry.
    first: u64,
    capacity: usize,
    seats: Vec<Seat<T>>,
    /// Seats without a receiver.
    free: Vec<usize>,
    /// How many receivers there are that were not cut off.
    receivers: usize,
    senders: Queue,
    waiting: VecDeque<usize>,
    ready: VecDeque<usize>,
    closed: bool,
}

pub(super) struct Entry<T> {
    item: Arc<T>,
    /// By how many receivers; at least one.
    unseen: usize,
}

/// What came back to a seat, each with the number of the item that was next when it was seen.
type Returned<T> = VecDeque<(u64, Seen<T>)>;

struct Seat<T> {
    /// The number of the item that it sees next.
    next: u64,
    place: Place,
    returned: Returned<T>,
    queue: Queue,
    /// True while it is in `waiting` or `ready`, whoever has it.
    listed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    Taken,
    CutOff,
}

/// Sending, and making room.
impl<T> State<T> {
    pub(super) fn new(capacity: usize) -> State<T> {
        State {
            entries: VecDeque::new(),
            first: 0,
            capacity,
            seats: Vec::new(),
            free: Vec::new(),
            receivers: 0,
            senders: Queue::new(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            closed: false,
        }
    }

    /// True if an item that is sent now will be seen by somebody.
    pub(super) fn is_heard(&self) -> bool {
        !self.closed && self.receivers > 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.capacity
    }

    /// There is room, and somebody who will see it.
    pub(super) fn put(&mut self, item: Arc<T>) {
        self.entries.push_back(Entry { item, unseen: self.receivers });
        self.ready.append(&mut self.waiting);
    }

    /// Makes room, at the cost of who has not seen the first entry.
    #[must_use = "to be dropped without the lock"]
    pub(super) fn overwrite(&mut self) -> Option<Entry<T>> {
        self.first += 1;
        self.entries.pop_front()
    }

    /// Makes room, by cutting off who has not seen the first entry.
    #[must_use = "to be dropped without the lock"]
    pub(super) fn cut_off_slowest(&mut self) -> Vec<Entry<T>> {
        let first = self.first;
        let slowest = |seat: &&mut Seat<T>| seat.place == Place::Taken && seat.next == first;
        let cut_off = self.seats.iter_mut().filter(slowest).map(|seat| seat.place = Place::CutOff).count();
        self.receivers -= cut_off;
        self.entries.iter_mut().for_each(|entry| entry.unseen -= cut_off);
        self.take_seen()
    }

    /// Takes the entries out that everybody has seen.
    #[must_use = "to be dropped without the lock"]
    fn take_seen(&mut self) -> Vec<Entry<T>> {
        let seen = self.entries.partition_point(|entry| entry.unseen == 0);
        self.first += seen as u64;
        self.entries.drain(..seen).collect()
    }

    /// Those that a seat has not seen whose next item is `next`.
    fn unseen_from(&mut self, next: u64) -> impl Iterator<Item = &mut Entry<T>> {
        let seen = next.saturating_sub(self.first) as usize;
        self.entries.range_mut(seen..)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.ready.append(&mut self.waiting);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn receivers(&self) -> usize {
        self.receivers
    }
}

/// Seats, and what is seen from them.
impl<T> State<T> {
    /// A seat for a receiver that has seen everything.
    pub(super) fn subscribe(&mut self) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            let (place, queue, returned) = (Place::Free, Queue::new(), VecDeque::new());
            self.seats.push(Seat { next: 0, place, returned, queue, listed: false });
            self.seats.len() - 1
        });
        let end = self.end();
        let seat = &mut self.seats[number];
        (seat.next, seat.place) = (end, Place::Taken);
        self.receivers += 1;
        number
    }

    /// A seat for a receiver that has seen what that of `other` has.
    pub(super) fn subscribe_like(&mut self, other: usize) -> usize {
        let number = self.subscribe();
        let Seat { next, place, returned, .. } = &self.seats[other];
        let (next, place, returned) = (*next, *place, returned.clone());
        if place == Place::CutOff {
            self.receivers -= 1;
        } else {
            self.unseen_from(next).for_each(|entry| entry.unseen += 1);
        }
        let seat = &mut self.seats[number];
        (seat.next, seat.place, seat.returned) = (next, place, returned);
        number
    }

    /// Gives a seat back. What only its receiver had not seen goes.
    #[must_use = "to be dropped without the lock"]
    pub(super) fn leave(&mut self, number: usize) -> (Vec<Entry<T>>, Returned<T>) {
        let seat = &mut self.seats[number];
        let (next, place) = (seat.next, mem::replace(&mut seat.place, Place::Free));
        let returned = mem::take(&mut seat.returned);
        // Whoever waits borrows its receiver: there can only be futures left that were leaked, which nobody polls.
        seat.queue = Queue::new();
        if place == Place::Taken {
            self.receivers -= 1;
            self.unseen_from(next).for_each(|entry| entry.unseen -= 1);
        }
        self.free.push(number);
        (self.take_seen(), returned)
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// What `seat` sees next, which it has seen then, with the number of its next item.
    pub(super) fn see(&mut self, seat: usize) -> Option<(u64, Seen<T>)> {
        let seat = &mut self.seats[seat];
        if let Some(seen) = seat.returned.pop_front() {
            return Some(seen);
        }
        let next = seat.next;
        if seat.place == Place::CutOff {
            return Some((next, Seen::CutOff));
        }
        if next < self.first {
            seat.next = self.first;
            return Some((next, Seen::Lagged(self.first - next)));
        }
        let entry = self.entries.get_mut((next - self.first) as usize)?;
        seat.next += 1;
        entry.unseen -= 1;
        if entry.unseen > 0 {
            return Some((next, Seen::Item(entry.item.clone())));
        }
        self.first += 1;
        debug_assert_eq!(seat.next, self.first, "those before it have been seen by all");
        self.entries.pop_front().map(|entry| (next, Seen::Item(entry.item)))
    }

    /// True if `seat` sees something now, or that the channel is closed. One that was cut off has never seen everything.
    fn has_news(&self, seat: usize) -> bool {
        let Seat { next, returned, .. } = &self.seats[seat];
        self.closed || *next < self.end() || !returned.is_empty()
    }

    /// How many items `seat` has not seen, and can still see.
    pub(super) fn unseen(&self, seat: usize) -> usize {
        let Seat { next, place, returned, .. } = &self.seats[seat];
        let returned = returned.iter().filter(|(_, seen)| matches!(seen, Seen::Item(_))).count();
        let left = if *place == Place::CutOff { 0 } else { self.end() - self.first.max(*next) };
        left as usize + returned
    }

    /// `next` is what its node was given with it.
    pub(super) fn put_back(&mut self, seat: usize, next: u64, seen: Seen<T>) {
        let returned = &mut self.seats[seat].returned;
        let place = returned.partition_point(|(other, _)| *other < next);
        returned.insert(place, (next, seen));
    }
}

/// Waiting, and telling those who do.
impl<T> State<T> {
    /// True if senders wait. Nobody passes them, if they are just being told.
    pub(super) fn senders_wait(&self) -> bool {
        !self.senders.is_empty()
    }

    /// True if somebody who comes to `seat` now has to wait. Nobody passes those who do, if they are just being told.
    pub(super) fn has_to_wait(&self, seat: usize) -> bool {
        !self.has_news(seat) || !self.seats[seat].queue.is_empty()
    }

    /// # Safety
    ///
    /// As for [`Queue::push`]. The node leads to the slot of a sender, with its item.
    pub(super) unsafe fn push_sender(&mut self, node: *const Node) {
        // SAFETY: the caller's promise.
        unsafe { self.senders.push(node) };
    }

    /// # Safety
    ///
    /// As for [`Queue::push`]. The node leads to the slot of a receiver, which is empty.
    pub(super) unsafe fn push_receiver(&mut self, number: usize, node: *const Node) {
        let seat = &mut self.seats[number];
        // SAFETY: the caller's promise.
        unsafe { seat.queue.push(node) };
        if !mem::replace(&mut seat.listed, true) {
            self.waiting.push_back(number);
        }
    }

    /// # Safety
    ///
    /// As for [`Queue::remove`]: it was given to [`State::push_sender`].
    pub(super) unsafe fn remove_sender(&mut self, node: *const Node) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.senders.remove(node) }
    }

    /// # Safety
    ///
    /// As for [`Queue::remove`]: it was given to [`State::push_receiver`], for this seat.
    pub(super) unsafe fn remove_receiver(&mut self, seat: usize, node: *const Node) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.seats[seat].queue.remove(node) }
    }

    /// True if [`State::tell_next`] has to be called, until it returns none.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.senders.is_empty() || !self.ready.is_empty()
    }

    /// Does the next thing that is to do for somebody who waits.
    #[must_use = "the waiter has to be woken"]
    pub(super) fn tell_next(&mut self) -> Option<Waiter> {
        if !self.is_heard()
            && let Some(waiter) = self.senders.tell(ENDED)
        {
            return Some(waiter);
        }
        if self.has_room()
            && let Some(node) = self.senders.claim_first()
        {
            // SAFETY: it was claimed just now, under the lock of its queue. A sender that waits has its item.
            unsafe {
                self.put(Slot::<Arc<T>>::of_node(node).take().expect("an item to send"));
                return Some(Node::tell(node, GIVEN));
            }
        }
        while let Some(&number) = self.ready.front() {
            if let Some(waiter) = self.tell_at(number) {
                return Some(waiter);
            }
            self.ready.pop_front();
            let seat = &mut self.seats[number];
            seat.listed = !seat.queue.is_empty();
            if seat.listed {
                self.waiting.push_back(number);
            }
        }
        None
    }

    /// Gives what `seat` sees next to the first who waits there, or tells that there will be nothing.
    #[must_use = "the waiter has to be woken"]
    pub(super) fn tell_at(&mut self, seat: usize) -> Option<Waiter> {
        if !self.has_news(seat) {
            return None;
        }
        let node = self.seats[seat].queue.claim_first()?;
        let seen = self.see(seat);
        let what = if seen.is_some() { GIVEN } else { ENDED };
        // SAFETY: it was claimed just now, under the lock of its queue. A receiver that waits has an empty slot.
        unsafe {
            if let Some((next, seen)) = seen {
                (*node).wants.set(next as usize);
                Slot::of_node(node).put(seen);
            }
            Some(Node::tell(node, what))
        }
    }
}
