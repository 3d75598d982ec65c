//! What the reactor knows of one descriptor: what it is ready for, and who waits for that.
//!
//! # Ready, or not any more
//!
//! The system says once when a descriptor becomes ready, and whoever uses it finds out that it is not any more:
//! a call that would block. So readiness is a word with a bit for each direction and a count of how often it was
//! told ([`Slot::tell`]). A user loads the word, makes the call, and if that would have blocked takes the bit back,
//! unless the count has moved: what was told since the load may be news that the call has not seen ([`Slot::clear`]).
//!
//! A stream that gives less than was asked for has nothing left: that is as good as a call that would block, and saves one
//! ([`Slot::spend`]). But the end of a stream is told once, perhaps together with its
//! last bytes: so it has a bit of its own, which only a call that would block takes back.
//!
//! # Ready, or waiting
//!
//! Whoever tells changes the word under the lock of the waiters, and whoever waits looks at the word under that lock
//! before it joins the queue. One of the two comes second, and sees the other.
//!
//! # Whose it is
//!
//! Slots are never freed, only used again, so news of a descriptor that is gone finds a slot. Each use has a
//! number, which the news carries: what is meant for an earlier one is dropped under the lock of the waiters. A slot is
//! used again when its last owner has let go of it ([`Slot::leave`]); that may be while somebody else, who took it out of
//! the table, is about to close it. So to close it takes the number as well.
//!
//! Models: `slot_clear_or_tell`, `slot_spend_or_tell`, `slot_wait_or_tell`, `slot_wait_or_close`, `slot_old_news`, `slot_late_close`,
//! `slot_used_up`.

use std::os::fd::RawFd;
use std::task::{Context, Poll, Waker};

use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::statics;
use sinew_sync::{ShortGuard, ShortLock};

use super::Interest;
use crate::case::{Attempt, Case, Enrolled};
use crate::notes::What;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter, tell_each_from};

/// The other side has closed, or does not write any more: in the word.
const ENDED: u64 = 1 << 3;

/// The descriptor is gone, or its reactor: in the word.
const CLOSED: u64 = 1 << 2;

/// One more time told, in the word.
const TOLD_ONCE: u64 = 1 << 8;

/// How many slots are made at a time.
const CHUNK: usize = 64;

fn free() -> statics::MutexGuard<'static, Vec<&'static Slot>> {
    static FREE: statics::Mutex<Vec<&'static Slot>> = statics::Mutex::new(Vec::new());
    FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What was known of a descriptor at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// True if it was ready for one of these, or closed.
    pub fn is_ready(self, interest: Interest) -> bool {
        self.0 & (bits(interest) | CLOSED) != 0
    }

    /// What of this it was ready for: all, if it was closed.
    fn ready_for(self, interest: Interest) -> Interest {
        let directions = [Interest::READ, Interest::WRITE].into_iter();
        let ready = directions.filter(|direction| self.is_ready(*direction));
        Interest(ready.fold(0, |ready, direction| ready | direction.bits()) & interest.bits())
    }

    /// True if the descriptor is gone, or its reactor.
    pub fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
}

/// The bits that make a descriptor ready for this: to read its end is to read.
fn bits(interest: Interest) -> u64 {
    u64::from(interest.bits()) | if interest.contains(Interest::READ) { ENDED } else { 0 }
}

#[repr(align(64))]
/// What the reactor knows of one descriptor.
pub struct Slot {
    word: AtomicU64,
    waiters: ShortLock<Waiters>,
}

struct Waiters {
    /// Which use of the slot this is.
    number: u16,
    owners: u32,
    queue: Queue,
    /// Futures that are polled, one for each direction.
    polled: [Option<Waiter>; 2],
}

impl Slot {
    pub(crate) fn new() -> Slot {
        let queue = Queue::new();
        let waiters = Waiters { number: 0, owners: 0, queue, polled: [None, None] };
        Slot { word: AtomicU64::new(CLOSED), waiters: ShortLock::new(waiters) }
    }

    /// A slot for a descriptor that nothing is known of, with one owner.
    pub(super) fn take() -> &'static Slot {
        let mut free = free();
        if free.is_empty() {
            let chunk: Box<[Slot]> = (0..CHUNK).map(|_| Slot::new()).collect();
            free.extend(Box::leak(chunk).iter());
        }
        let slot = free.pop().expect("at least one");
        drop(free);
        slot.begin();
        slot
    }

    fn begin(&self) {
        let mut waiters = self.waiters.lock();
        waiters.number = waiters.number.wrapping_add(1);
        waiters.owners = 1;
        self.word.store(0, Ordering::Relaxed);
    }

    /// Which use of the slot this is.
    pub(super) fn number(&self) -> u16 {
        self.waiters.lock().number
    }

    /// One more owner.
    pub(super) fn join(&self) {
        self.waiters.lock().owners += 1;
    }

    /// One owner less. True if it was the last one.
    pub(super) fn leave(&self) -> bool {
        let mut waiters = self.waiters.lock();
        waiters.owners -= 1;
        waiters.owners == 0
    }

    /// The descriptor of the use `number` is gone: tells everybody who waits. Whoever is no owner may be late with this: then
    /// the slot is another's.
    pub(super) fn close(&self, number: u16) {
        let waiters = self.waiters.lock();
        if waiters.number != number {
            return;
        }
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        self.tell_all(waiters, Interest::BOTH, Waiter::wake);
    }

    /// Gives back a slot that is closed and that nobody owns any more.
    pub(super) fn give(&'static self) {
        free().push(self);
    }

    /// True if somebody waits.
    pub(super) fn is_awaited(&self) -> bool {
        let waiters = self.waiters.lock();
        !waiters.queue.is_empty() || waiters.polled.iter().any(Option::is_some)
    }

    /// What is known.
    pub fn seen(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    /// A call has found, after `seen`, that it is not ready for this: it would have blocked.
    pub fn clear(&self, seen: Seen, interest: Interest) {
        self.take_back(seen, bits(interest));
    }

    /// A call has read all that there was, after `seen`. What comes next is told, but for the end: that may have been told
    /// together with what was read.
    pub fn spend(&self, seen: Seen, interest: Interest) {
        self.take_back(seen, u64::from(interest.bits()));
    }

    fn take_back(&self, seen: Seen, bits: u64) {
        let take = |word: u64| (word / TOLD_ONCE == seen.0 / TOLD_ONCE).then_some(word & !bits);
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
    }

    /// The descriptor of the use `number` has become ready for this, perhaps because it has ended: tells everybody who waits
    /// for it. Wakers that are not ours, which may be any code, are for the caller to call.
    pub(crate) fn tell(&self, number: u16, interest: Interest, ended: bool, foreign: &mut Vec<Waker>) {
        let waiters = self.waiters.lock();
        if waiters.number != number || self.seen().is_closed() {
            return; // news of an earlier use
        }
        let bits = u64::from(interest.bits()) | if ended { ENDED } else { 0 };
        let told = |word: u64| Some(word.wrapping_add(TOLD_ONCE) | bits);
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, told);
        self.tell_all(waiters, interest, |waiter| foreign.extend(waiter.wake_own()));
    }

    /// Tells those who wait, for as long as there is something to tell: who was told first may have used it up by now, and
    /// wait again.
    fn tell_all(&self, waiters: ShortGuard<'_, Waiters>, interest: Interest, wake: impl FnMut(Waiter)) {
        let tell = |waiters: &mut Waiters| waiters.tell(self.seen().ready_for(interest));
        tell_each_from(waiters, || self.waiters.lock(), tell, wake);
    }

    /// Ready at once, or when `context` is woken.
    pub fn poll_ready(&self, interest: Interest, context: &Context<'_>) -> Poll<()> {
        let mut waiter = Some(Waiter::of(context.waker()));
        let mut waiters = self.waiters.lock();
        let ready = self.seen().is_ready(interest);
        if !ready {
            let place = &mut waiters.polled[usize::from(interest == Interest::WRITE)];
            waiter = std::mem::replace(place, waiter);
        }
        drop(waiters);
        drop(waiter); // a waker's destructor may be anybody's code, which no lock is held for
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Waiters {
    /// Tells one more of those who wait for this.
    fn tell(&mut self, interest: Interest) -> Option<Waiter> {
        let directions = [Interest::READ, Interest::WRITE].into_iter().zip(&mut self.polled);
        let mut polled = directions.filter(|(direction, _)| interest.contains(*direction));
        polled
            .find_map(|(_, waiter)| waiter.take())
            .or_else(|| self.queue.tell_where(TOLD, |wants| wants & usize::from(interest.bits()) != 0))
    }
}

/// Waiting until a slot is ready for something, or closed. May be over early.
pub struct Readiness<'a> {
    /// Where the reactor tells of the descriptor.
    pub slot: &'a Slot,
    /// The descriptor.
    pub fd: RawFd,
    /// What is waited for.
    pub interest: Interest,
}

impl Awaited for Readiness<'_> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.slot.waiters.lock().queue.remove(node) }
    }

    /// Everybody was told, so there is nothing to hand on.
    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for Readiness<'_> {
    fn attempt(&self) -> bool {
        self.slot.seen().is_ready(self.interest)
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let mut waiters = self.slot.waiters.lock();
        if self.slot.seen().is_ready(self.interest) {
            return Enrolled::Again;
        }
        node.wants.set(usize::from(self.interest.bits()));
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { waiters.queue.push(node) };
        Enrolled::Queued
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        let _waiters = self.slot.waiters.lock();
        change();
    }

    fn what(&self) -> What {
        What::ready(self.fd, self.interest.wait_kind())
    }
}

impl Case for Readiness<'_> {
    type Output = ();

    fn output(self) {}
}

#[cfg(test)]
mod tests;
