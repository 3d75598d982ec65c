//! The lock under a [`Mutex`](super::Mutex): one word, a queue, and a rule who is next.
//!
//! ```text
//! bit 0  LOCKED    somebody has the lock
//! bit 1  QUEUED    the queue is not empty
//! bit 2  WOKEN     one waiter was taken out of the queue and told to try; it has not decided yet
//! bit 3  RESERVED  the first in the queue was passed over: the lock is its next, and nobody else takes it
//! ```
//!
//! LOCKED is taken by a compare-and-swap while neither LOCKED nor RESERVED is set, and given back by one subtraction.
//! The other bits are written under the lock of the queue.
//!
//! - Whoever gives the lock back and sees QUEUED without WOKEN sees to the first waiter, under the lock of the queue
//!   ([`Lock::wake_next`]): tells it to try and sets WOKEN, or, if RESERVED, takes the lock for it and tells it that it
//!   has it. If somebody has taken the lock meanwhile it does nothing: that one sees QUEUED in its turn.
//! - WOKEN is the duty to look after the queue, in the hands of the one waiter that was told to try. It takes the lock
//!   (and sees QUEUED when it gives it back), or goes back to the head of the queue as RESERVED (and whoever has the
//!   lock sees that), or, if it unwinds, gives WOKEN back and does as whoever gives the lock back.
//! - A waiter that withdraws clears QUEUED if it was the last, and RESERVED if that was its own. It owes nobody
//!   anything: it did not have WOKEN, so whoever gave the lock back last, or has it, sees to the queue.
//!
//! A waiter that waits for other things too (a select) cannot come back as RESERVED. Whoever gives the lock back and finds
//! it first in the queue takes the lock for it at once, and gives it back if it turns out that the waiter has something
//! else by now. If somebody was faster, RESERVED is set for the waiter where it is.
//!
//! So a waiter is seen to in its turn and passed over at most once: others may take the lock while it is on its way, but
//! when it was found taken, the next one to give it back gives it to this waiter. Why not always: a lock that is given to a
//! waiter is held by nobody for as long as that takes to run, and everybody else has to wait as well.
//!
//! A node that RESERVED is set for wants PASSED_OVER, so that it takes the bit with it if it withdraws. There is one at a
//! time: it is set by whoever has WOKEN and gives it up, or while nobody has it and RESERVED is not set.
//!
//! Taking the lock acquires and giving it back releases; whoever takes it for another acquires it first, and the
//! telling of the node releases.
//!
//! Models: `mutex_unlock_wakes`, `mutex_excludes`, `mutex_unlock_against_withdrawal`, `mutex_unwind_hands_on`,
//! `mutex_passed_over_once`, `mutex_passed_over_gives_up`, `mutex_select_passed_over_once`,
//! `mutex_select_passed_over_gives_up`, `mutex_select_is_next`, `mutex_select_is_elsewhere`, `mutex_late_unlock`, `mutex_reserved`,
//! `mutex_reserved_first`, `mutex_reserved_unwinds`.

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::WaitKind;
use sinew_sched::raw::{Awaited, Enrolled, Node, Queue, Waiting, What, charge};
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{Mutex, const_unless_model};

use super::spin::spin;

const LOCKED: usize = 1;
const QUEUED: usize = 1 << 1;
const WOKEN: usize = 1 << 2;
const RESERVED: usize = 1 << 3;

/// What a node is told: to try.
const TRY: u8 = 1;
/// What a node is told: that it has the lock.
const YOURS: u8 = 2;

/// What the node of a waiter wants that others have passed: the lock is reserved for it.
const PASSED_OVER: usize = 1;

/// What the node of a waiter wants that waits for other things too, and so cannot come back if it tries in vain.
const HANDED: usize = 2;

pub(super) struct Lock {
    word: AtomicUsize,
    queue: Mutex<Queue>,
}

impl Lock {
    const_unless_model! {
        pub(super) const fn new() -> Lock {
            Lock { word: AtomicUsize::new(0), queue: Mutex::new(Queue::new()) }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        self.take(0)
    }

    /// Waits for the lock and takes it. False if the deadline has passed.
    #[inline]
    pub(super) fn lock(&self, deadline: Option<Instant>) -> Result<bool, Refused> {
        charge();
        // With a load first, so that bits about others, which may stay for long, cost no second exchange.
        if self.take(0) { Ok(true) } else { self.lock_slowly(deadline) }
    }

    /// Gives the lock back. Only for whoever has it.
    #[inline]
    pub(super) fn unlock(&self) {
        let word = self.word.fetch_sub(LOCKED, Ordering::Release);
        if word & (QUEUED | WOKEN) == QUEUED {
            self.wake_next();
        }
    }

    /// True while somebody has the lock, or it is reserved.
    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (LOCKED | RESERVED) != 0
    }

    /// Takes the lock if it may be taken, and clears these bits.
    #[inline]
    fn take(&self, clear: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (LOCKED | RESERVED) == 0 {
            let next = (word | LOCKED) & !clear;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    fn lock_slowly(&self, deadline: Option<Instant>) -> Result<bool, Refused> {
        if spin(|| self.take(0)) {
            return Ok(true);
        }
        let mut wants = 0;
        loop {
            let node = Node::new(wants);
            // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
            if unsafe { self.take_or_queue(&node) } {
                return Ok(true);
            }
            // SAFETY: the node was put into this queue just now.
            let waiting = unsafe { Waiting::new(self, &node) };
            if wants == PASSED_OVER {
                spin(|| node.is_told());
            }
            if !waiting.wait(deadline, What::at(WaitKind::Mutex, self))? {
                return Ok(false);
            }
            if node.told() == YOURS || self.take(WOKEN) || spin(|| self.take(WOKEN)) {
                return Ok(true);
            }
            wants = PASSED_OVER;
        }
    }

    /// Takes the lock, or puts `node` into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
    unsafe fn take_or_queue(&self, node: &Node) -> bool {
        let mut queue = self.queue.lock();
        let passed_over = node.wants.get() == PASSED_OVER;
        let (sets, clears) = if passed_over { (QUEUED | RESERVED, WOKEN) } else { (QUEUED, 0) };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & (LOCKED | RESERVED) == 0;
            let next = (word | if free { LOCKED } else { sets }) & !clears;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if free => return true,
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { if passed_over { queue.push_first(node) } else { queue.push(node) } };
        false
    }

    /// Sees to the first waiter, unless somebody else does.
    #[cold]
    fn wake_next(&self) {
        let mut queue = self.queue.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        let what = loop {
            if word & (QUEUED | WOKEN) != QUEUED {
                return;
            }
            let (reserved, handed) = (word & RESERVED != 0, queue.first_wants() == Some(HANDED));
            let (what, next) = match word & LOCKED != 0 {
                true if reserved || !handed => return,
                true => (None, word | RESERVED),
                false if reserved || handed => (Some(YOURS), (word | LOCKED) & !RESERVED),
                false => (Some(TRY), word | WOKEN),
            };
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break what,
                Err(now) => word = now,
            }
        };
        let Some(what) = what else { return queue.set_first_wants(PASSED_OVER) };
        let told = queue.tell(what);
        if queue.is_empty() {
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        drop(queue);
        match told {
            Some(waiter) => waiter.wake(),
            // All who waited were dead, and so was the first: the lock was taken for it.
            None => self.unlock(),
        }
    }

    /// Takes the lock for one of several waits, or puts `node` into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
    pub(super) unsafe fn enroll(&self, node: &Node) -> Enrolled {
        node.wants.set(HANDED);
        // SAFETY: the caller promises the same.
        if !unsafe { self.take_or_queue(node) } {
            return Enrolled::Queued;
        }
        if node.claim() {
            return Enrolled::Done;
        }
        self.unlock();
        Enrolled::Taken
    }

    /// Calls `change` under the lock of the queue.
    pub(super) fn under_lock(&self, change: &mut dyn FnMut()) {
        let _queue = self.queue.lock();
        change();
    }
}

impl Awaited for Lock {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        let mut queue = self.queue.lock();
        // SAFETY: the caller promises that the node was pushed into this queue.
        if !unsafe { queue.remove(node) } {
            return false;
        }
        let last = if queue.is_empty() { QUEUED } else { 0 };
        let own = if node.wants.get() == PASSED_OVER { RESERVED } else { 0 };
        self.word.fetch_and(!(last | own), Ordering::Relaxed);
        true
    }

    unsafe fn hand_on(&self, node: &Node) {
        if node.told() == YOURS {
            self.unlock();
        } else {
            self.word.fetch_and(!WOKEN, Ordering::Relaxed);
            self.wake_next();
        }
    }
}

#[cfg(test)]
mod tests;
