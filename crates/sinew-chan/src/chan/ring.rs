//! The flavour with room for so many items: a ring with a lock at each end.
//!
//! Senders have one lock and receivers another, each on cache lines of its own, so the two ends disturb each other only
//! when one runs into the other. `tail` counts what was put in and `head` what was taken out; each is written under the
//! lock of its end, released after the item was written or read, and acquired by the other end, which keeps the last
//! value that it saw. The ring holds `tail - head` items, never more than its capacity. Where they are is the subject of
//! [`segment`]: in one piece of memory, or in as many as it takes.
//!
//! # Waiting
//!
//! Who has to wait for one end waits in a queue at that end, under its lock: **receivers that wait are with the tail,
//! senders that wait with the head**. A receiver that finds nothing gives up its own lock, takes that of the senders and
//! looks again: as long as it has that lock nobody puts anything in, so what was empty stays so until its node is in the
//! queue. A sender that finds no room does the same at the other end. So neither side needs a fence to see who waits.
//!
//! - While receivers wait the ring is empty: who sends gives the item to the first of them instead.
//! - While senders wait the ring is full: who receives takes both locks, that of the receivers first, before it takes an
//!   item out, and puts that of the first waiting sender into the place that became free.
//!
//! So all are served in the order in which they came, and none is overtaken once it waits; but that a receiver on the
//! worker of the sender may be served before those on others, for some times in a row ([`Queue::bring_near`]).
//!
//! A receiver that was given an item and cannot take it any more gives it back: to the next that waits, or to
//! `returned`, which receivers look at first. Closing takes both locks: that of the senders, so that nothing is put in
//! after it, and that of the receivers, so that one that finds the ring empty and closed has seen all that was. Then it
//! tells everybody who waits.
//!
//! Models: `ring_send_wakes`, `ring_recv_wakes`, `ring_in_order`, `ring_refill`, `ring_close`, `ring_close_drains`,
//! `ring_close_refuses`, `ring_close_twice`, `ring_withdraw_recv`, `ring_withdraw_send`, `ring_put_back`, `ring_forced`,
//! `ring_forced_wakes`.

mod segment;

use std::collections::VecDeque;

use sinew_sched::raw::{Enrolled, Node, Queue, Waiter, tell_each};
use sinew_sync::ShortLock;
use sinew_sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use self::segment::{Cursor, Segments};
use super::displaced::Displaced;
use super::slot::Slot;
use super::{ENDED, Flavour, GIVEN, Tried, drop_all};

pub(super) struct Ring<T> {
    tail: TailEnd<T>,
    head: HeadEnd<T>,
    segments: Segments<T>,
}

/// What senders change. Two cache lines, since processors fetch them in pairs.
#[repr(align(128))]
struct TailEnd<T> {
    count: AtomicUsize,
    closed: AtomicBool,
    side: ShortLock<Tail<T>>,
}

struct Tail<T> {
    /// The place of the next item.
    next: Cursor<T>,
    count: usize,
    head_seen: usize,
    receivers: Queue,
    /// How many items were given to receivers that waited.
    given: usize,
}

/// What receivers change.
#[repr(align(128))]
struct HeadEnd<T> {
    count: AtomicUsize,
    /// How many items are in `returned`: added to under both locks, taken from under that of the receivers.
    returned: AtomicUsize,
    side: ShortLock<Head<T>>,
}

struct Head<T> {
    /// The place of the oldest item.
    next: Cursor<T>,
    count: usize,
    tail_seen: usize,
    senders: Queue,
    /// Items that came back, with their numbers among those that were given to receivers that waited, in that order.
    returned: VecDeque<(usize, T)>,
}

const _: () = {
    assert!(sinew_sync::MODEL || size_of::<TailEnd<u8>>() == 128, "two cache lines");
    assert!(sinew_sync::MODEL || size_of::<HeadEnd<u8>>() == 128, "two cache lines");
};

// SAFETY: an item is written by one thread under the lock of its end, and read by another after that has acquired the
// count that was released then; a place is written again only after its reader's count was acquired.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// A ring of `capacity` places, at least one.
    pub(super) fn new(capacity: usize) -> Ring<T> {
        let segments = Segments::new(capacity);
        let first = segments.first();
        // SAFETY: it is freed when the head has left it, which the tail has done before, or with the ring.
        let begin = || unsafe { Cursor::new(first) };
        let tail = Tail { next: begin(), count: 0, head_seen: 0, receivers: Queue::new(), given: 0 };
        let head =
            Head { next: begin(), count: 0, tail_seen: 0, senders: Queue::new(), returned: VecDeque::new() };
        Ring {
            tail: TailEnd {
                count: AtomicUsize::new(0),
                closed: AtomicBool::new(false),
                side: ShortLock::new(tail),
            },
            head: HeadEnd {
                count: AtomicUsize::new(0),
                returned: AtomicUsize::new(0),
                side: ShortLock::new(head),
            },
            segments,
        }
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.segments.capacity()
    }

    /// Puts an item in. There is room, and no receiver waits.
    #[inline(always)]
    fn put(&self, tail: &mut Tail<T>, item: T) {
        // SAFETY: the caller has the lock, and the place is free.
        unsafe { tail.next.place().with_mut(|place| (*place).write(item)) };
        self.segments.advance_tail(&mut tail.next);
        tail.count += 1;
        self.tail.count.store(tail.count, Ordering::Release);
    }

    /// Takes the oldest item out. There is one.
    #[inline(always)]
    fn take(&self, head: &mut Head<T>) -> T {
        // SAFETY: the caller has the lock, and has acquired the count that says that the item is there.
        let item = unsafe { head.next.place().with_mut(|place| (*place).assume_init_read()) };
        self.segments.advance_head(&mut head.next);
        head.count += 1;
        self.head.count.store(head.count, Ordering::Release);
        item
    }

    #[inline(always)]
    fn is_full(&self, tail: &mut Tail<T>) -> bool {
        if tail.count - tail.head_seen < self.capacity() {
            return false;
        }
        tail.head_seen = self.head.count.load(Ordering::Acquire);
        tail.count - tail.head_seen == self.capacity()
    }

    #[inline(always)]
    fn is_empty(&self, head: &mut Head<T>) -> bool {
        if head.count != head.tail_seen {
            return false;
        }
        head.tail_seen = self.tail.count.load(Ordering::Acquire);
        head.count == head.tail_seen
    }

    /// Gives `item` to the first receiver that waits.
    ///
    /// # Errors
    ///
    /// Gives it back if nobody waits.
    fn hand_over(&self, tail: &mut Tail<T>, item: T, number: usize) -> Result<Waiter, T> {
        tail.receivers.bring_near(number);
        let Some(node) = tail.receivers.claim_first() else { return Err(item) };
        // SAFETY: it was claimed just now, under the lock of its queue. A receiver that waits has an empty slot.
        unsafe {
            (*node).wants.set(number);
            Slot::of_node(node).put(item);
            Ok(Node::tell(node, GIVEN))
        }
    }

    /// Takes the oldest item out, and puts that of the first sender that waits into its place. Both under both locks: a
    /// sender that comes meanwhile must not see that there is room.
    #[cold]
    fn take_and_refill(&self, head: &mut Head<T>) -> (T, Option<Waiter>) {
        let mut tail = self.tail.side.lock();
        let oldest = self.take(head);
        if self.tail.closed.load(Ordering::Relaxed) {
            return (oldest, None); // they are being told
        }
        let Some(node) = head.senders.claim_first() else { return (oldest, None) };
        // SAFETY: it was claimed just now, under the lock of its queue. A sender that waits has its item.
        let item = unsafe { Slot::<T>::of_node(node).take() }.expect("an item to send");
        self.put(&mut tail, item);
        // SAFETY: as above.
        (oldest, Some(unsafe { Node::tell(node, GIVEN) }))
    }

    /// Sends to who waits, or into the ring.
    #[cold]
    fn send_to_waiting(&self, tail: &mut Tail<T>, slot: &Slot<T>) -> Option<Waiter> {
        // SAFETY: the slot is the caller's.
        let item = unsafe { slot.take() }.expect("an item to send");
        tail.given += 1;
        match self.hand_over(tail, item, tail.given) {
            Ok(waiter) => Some(waiter),
            // Those in the queue are dead; while they waited, the ring was empty.
            Err(item) => {
                self.put(tail, item);
                None
            }
        }
    }

    #[cold]
    fn take_returned(&self, head: &mut Head<T>) -> Option<T> {
        let item = head.returned.pop_front().map(|(_, item)| item);
        self.head.returned.store(head.returned.len(), Ordering::Release);
        item
    }
}

impl<T> Flavour<T> for Ring<T> {
    #[inline(always)]
    fn try_send(&self, slot: &Slot<T>, wake: impl FnMut(Waiter)) -> Tried {
        let mut tail = self.tail.side.lock();
        if self.tail.closed.load(Ordering::Relaxed) {
            return Tried::Done;
        }
        if !tail.receivers.is_empty() {
            let waiter = self.send_to_waiting(&mut tail, slot);
            drop(tail);
            waiter.into_iter().for_each(wake);
            return Tried::Done;
        }
        if self.is_full(&mut tail) {
            return Tried::Blocked;
        }
        // SAFETY: the slot is the caller's.
        self.put(&mut tail, unsafe { slot.take() }.expect("an item to send"));
        Tried::Done
    }

    #[inline(always)]
    fn try_recv(&self, slot: &Slot<T>) -> Tried {
        let mut head = self.head.side.lock();
        let returned = if head.returned.is_empty() { None } else { self.take_returned(&mut head) };
        if let Some(item) = returned {
            // SAFETY: the slot is the caller's.
            unsafe { slot.put(item) };
            return Tried::Done;
        }
        if self.is_empty(&mut head) {
            let ended = self.tail.closed.load(Ordering::Relaxed);
            return if ended { Tried::Done } else { Tried::Blocked };
        }
        if head.senders.is_empty() {
            // SAFETY: the slot is the caller's.
            unsafe { slot.put(self.take(&mut head)) };
            return Tried::Done;
        }
        let (oldest, waiter) = self.take_and_refill(&mut head);
        // SAFETY: the slot is the caller's.
        unsafe { slot.put(oldest) };
        drop(head);
        waiter.into_iter().for_each(Waiter::wake);
        Tried::Done
    }

    #[inline(never)]
    unsafe fn enroll_send(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut head = self.head.side.lock();
        if self.tail.closed.load(Ordering::Relaxed) {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        if self.tail.count.load(Ordering::Acquire) - head.count < self.capacity() {
            return Enrolled::Again;
        }
        slot.lead(node);
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { head.senders.push(node) };
        Enrolled::Queued
    }

    #[inline(never)]
    unsafe fn enroll_recv(&self, slot: &Slot<T>, node: &Node) -> Enrolled {
        let mut tail = self.tail.side.lock();
        let (head, returned) = (&self.head.count, &self.head.returned);
        if tail.count != head.load(Ordering::Acquire) || returned.load(Ordering::Acquire) != 0 {
            return Enrolled::Again;
        }
        if self.tail.closed.load(Ordering::Relaxed) {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        slot.lead(node);
        // SAFETY: as in `enroll_send`.
        unsafe { tail.receivers.push(node) };
        Enrolled::Queued
    }

    unsafe fn withdraw_send(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.head.side.lock().senders.remove(node) }
    }

    unsafe fn withdraw_recv(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.tail.side.lock().receivers.remove(node) }
    }

    unsafe fn put_back(&self, slot: &Slot<T>, number: usize) {
        // SAFETY: the caller promises that the node was told, so the slot is its own.
        let item = unsafe { slot.take() }.expect("an item that was given");
        let mut head = self.head.side.lock();
        let mut tail = self.tail.side.lock();
        match self.hand_over(&mut tail, item, number) {
            Ok(waiter) => {
                drop((tail, head));
                waiter.wake();
            }
            Err(item) => {
                let place = head.returned.partition_point(|(other, _)| *other < number);
                head.returned.insert(place, (number, item));
                self.head.returned.store(head.returned.len(), Ordering::Release);
            }
        }
    }

    fn force_send(&self, slot: &Slot<T>) -> Displaced<T> {
        let mut head = self.head.side.lock();
        let mut tail = self.tail.side.lock();
        if self.tail.closed.load(Ordering::Relaxed) {
            return Displaced::one(None);
        }
        if !tail.receivers.is_empty() {
            let waiter = self.send_to_waiting(&mut tail, slot);
            drop((tail, head));
            waiter.into_iter().for_each(Waiter::wake);
            return Displaced::one(None);
        }
        head.tail_seen = tail.count;
        let oldest = self.is_full(&mut tail).then(|| self.take(&mut head));
        // SAFETY: the slot is the caller's.
        self.put(&mut tail, unsafe { slot.take() }.expect("an item to send"));
        Displaced::one(oldest)
    }

    /// Under one lock, as long as no receiver waits.
    fn send_some(&self, items: &mut VecDeque<T>) {
        loop {
            let mut tail = self.tail.side.lock();
            if self.tail.closed.load(Ordering::Relaxed) {
                return;
            }
            while tail.receivers.is_empty()
                && !self.is_full(&mut tail)
                && let Some(item) = items.pop_front()
            {
                self.put(&mut tail, item);
            }
            if tail.receivers.is_empty() {
                return; // all were sent, or it is full
            }
            let Some(item) = items.pop_front() else { return };
            let waiter = self.send_to_waiting(&mut tail, &Slot::of(item));
            drop(tail);
            waiter.into_iter().for_each(Waiter::wake);
        }
    }

    /// Under one lock, as long as no sender waits.
    fn recv_some(&self, items: &mut Vec<T>, limit: usize) -> usize {
        let limit = limit.min(self.len());
        items.reserve(limit); // nothing is allocated under the lock
        let mut received = 0;
        loop {
            let mut head = self.head.side.lock();
            while received < limit
                && let Some(item) = self.take_returned(&mut head)
            {
                items.push(item);
                received += 1;
            }
            while received < limit && head.senders.is_empty() && !self.is_empty(&mut head) {
                items.push(self.take(&mut head));
                received += 1;
            }
            if received == limit || self.is_empty(&mut head) {
                return received;
            }
            let (oldest, waiter) = self.take_and_refill(&mut head);
            items.push(oldest);
            received += 1;
            drop(head);
            waiter.into_iter().for_each(Waiter::wake);
        }
    }

    fn close(&self) {
        {
            let _head = self.head.side.lock();
            let _tail = self.tail.side.lock();
            self.tail.closed.store(true, Ordering::Release);
        }
        tell_each(|| self.tail.side.lock(), |tail| tail.receivers.tell(ENDED));
        tell_each(|| self.head.side.lock(), |head| head.senders.tell(ENDED));
    }

    fn is_closed(&self) -> bool {
        self.tail.closed.load(Ordering::Acquire)
    }

    fn len(&self) -> usize {
        let head = self.head.side.lock();
        self.tail.count.load(Ordering::Acquire) - head.count + head.returned.len()
    }

    fn under_send_lock(&self, change: &mut dyn FnMut()) {
        let _head = self.head.side.lock();
        change();
    }

    fn under_recv_lock(&self, change: &mut dyn FnMut()) {
        let _tail = self.tail.side.lock();
        change();
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        struct Free<'a, T>(&'a Ring<T>);

        impl<T> Drop for Free<'_, T> {
            fn drop(&mut self) {
                // SAFETY: nobody else has the ring, and all items were taken out before this.
                unsafe { self.0.segments.free(&self.0.head.side.lock().next) };
            }
        }

        let _free = Free(self); // also if a destructor unwinds: the others are called then, and this last
        drop_all(&mut || {
            let mut head = self.head.side.lock();
            let item = (!self.is_empty(&mut head)).then(|| self.take(&mut head));
            drop(head);
            item.map(drop).is_some()
        });
    }
}

#[cfg(test)]
mod tests;
