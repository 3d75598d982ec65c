//! The lock under a [`Mutex`](super::Mutex): one word, a queue, and a rule who is next.
//!
//! ```text
//! bit 0  LOCKED    somebody has the lock
//! bit 1  QUEUED    the queue is not empty
//! bit 2  WOKEN     one waiter was taken out of the queue and told to try; it has not decided yet
//! bit 3  RESERVED  the first in the queue tried in vain: the lock is its next, and nobody else takes it
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
//! it first in the queue takes the lock for it at once, unless somebody was faster, and gives it back if it turns out that
//! the waiter has something else by now.
//!
//! So any other waiter is woken in its turn and passed over at most once: others may take the lock while it is on its way, but
//! when it has come and found the lock taken, the next one to give it back gives it to this waiter. Why not always: a
//! lock that is given to a waiter is held by nobody for as long as that takes to run, and everybody else has to wait
//! as well.
//!
//! Taking the lock acquires and giving it back releases; whoever takes it for another acquires it first, and the
//! telling of the node releases.
//!
//! Models: `mutex_unlock_wakes`, `mutex_excludes`, `mutex_unlock_against_withdrawal`, `mutex_unwind_hands_on`,
//! `mutex_passed_over_once`, `mutex_passed_over_gives_up`, `mutex_late_unlock`, `mutex_reserved`,
//! `mutex_reserved_first`, `mutex_reserved_unwinds`; those of a select are in `select/first.rs`.

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{Mutex, const_unless_model};

use super::spin::spin;
use crate::case::Enrolled;
use crate::wait::{Awaited, Node, Queue, Waiting};

const LOCKED: usize = 1;
const QUEUED: usize = 1 << 1;
const WOKEN: usize = 1 << 2;
const RESERVED: usize = 1 << 3;

/// What a node is told: to try.
const TRY: u8 = 1;
/// What a node is told: that it has the lock.
const YOURS: u8 = 2;

/// What the node of a waiter wants that was told to try and did so in vain.
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
            if self.take_or_queue(&node) {
                return Ok(true);
            }
            let waiting = Waiting::new(self, &node);
            if wants == PASSED_OVER {
                spin(|| node.is_told());
            }
            if !waiting.wait(deadline)? {
                return Ok(false);
            }
            if node.told() == YOURS || self.take(WOKEN) || spin(|| self.take(WOKEN)) {
                return Ok(true);
            }
            wants = PASSED_OVER;
        }
    }

    /// Takes the lock, or puts `node` into the queue.
    fn take_or_queue(&self, node: &Node) -> bool {
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
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        unsafe { if passed_over { queue.push_first(node) } else { queue.push(node) } };
        false
    }

    /// Sees to the first waiter, unless somebody else does.
    #[cold]
    fn wake_next(&self) {
        let mut queue = self.queue.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        let what = loop {
            if word & LOCKED != 0 || word & (QUEUED | WOKEN) != QUEUED {
                return;
            }
            let is_handed = word & RESERVED != 0 || queue.first_wants() == Some(HANDED);
            let (what, sets) = if is_handed { (YOURS, LOCKED) } else { (TRY, WOKEN) };
            let next = (word | sets) & !RESERVED;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break what,
                Err(now) => word = now,
            }
        };
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
    pub(super) fn enroll(&self, node: &Node) -> Enrolled {
        node.wants.set(HANDED);
        if !self.take_or_queue(node) {
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
    fn withdraw(&self, node: &Node) -> bool {
        let mut queue = self.queue.lock();
        // SAFETY: it was pushed into this queue.
        if !unsafe { queue.remove(node) } {
            return false;
        }
        let last = if queue.is_empty() { QUEUED } else { 0 };
        let own = if node.wants.get() == PASSED_OVER { RESERVED } else { 0 };
        self.word.fetch_and(!(last | own), Ordering::Relaxed);
        true
    }

    fn hand_on(&self, node: &Node) {
        if node.told() == YOURS {
            self.unlock();
        } else {
            self.word.fetch_and(!WOKEN, Ordering::Relaxed);
            self.wake_next();
        }
    }
}

/// In the models whoever may have to wait is a thread that nobody joins before it has ended by itself; a deadline that
/// has passed stands for whatever makes a waiter give up, and a [`Waiting`] that is dropped for an unwind.
#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, model_bounded, thread};

    use super::*;

    const PAST: Option<Instant> = Some(Instant::from_nanos(0));

    fn spawn(lock: &Arc<Lock>, body: impl FnOnce(&Lock) + 'static + Send) -> thread::JoinHandle<()> {
        let lock = lock.clone();
        thread::spawn(move || body(&lock))
    }

    fn free(lock: &Lock) -> bool {
        lock.word.load(Ordering::Relaxed) == 0 && lock.queue.lock().is_empty()
    }

    fn lock_and_unlock(lock: &Lock, deadline: Option<Instant>) {
        if lock.lock(deadline).unwrap() {
            lock.unlock();
        }
    }

    /// Puts a node into the queue and unwinds, or takes the lock and gives it back.
    fn queue_and_unwind(lock: &Lock) {
        let node = Node::new(0);
        if lock.take_or_queue(&node) { lock.unlock() } else { drop(Waiting::new(lock, &node)) }
    }

    #[test]
    fn a_waiter_is_woken_by_whoever_gives_the_lock_back() {
        model("mutex_unlock_wakes", || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let waiter = spawn(&lock, |lock| lock_and_unlock(lock, None));
            lock.unlock();
            waiter.join().unwrap();
            assert!(free(&lock));
        });
    }

    #[test]
    fn two_who_count_under_the_lock_lose_nothing() {
        model("mutex_excludes", || {
            let lock = Arc::new(Lock::new());
            let count = Arc::new(AtomicUsize::new(0));
            let threads = [count.clone(), count.clone()].map(|count| {
                spawn(&lock, move |lock| {
                    assert!(lock.lock(None).unwrap());
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    lock.unlock();
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(count.load(Ordering::Relaxed), 2);
            assert!(free(&lock));
        });
    }

    #[test]
    fn what_comes_to_a_waiter_that_gives_up_comes_to_the_next() {
        model_bounded("mutex_unlock_against_withdrawal", 4, || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let gives_up = spawn(&lock, |lock| lock_and_unlock(lock, PAST));
            let stays = spawn(&lock, |lock| lock_and_unlock(lock, None));
            lock.unlock();
            gives_up.join().unwrap();
            stays.join().unwrap();
            assert!(free(&lock));
        });
    }

    #[test]
    fn what_comes_to_a_waiter_that_unwinds_comes_to_the_next() {
        model_bounded("mutex_unwind_hands_on", 4, || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let unwinds = spawn(&lock, queue_and_unwind);
            let stays = spawn(&lock, |lock| lock_and_unlock(lock, None));
            lock.unlock();
            unwinds.join().unwrap();
            stays.join().unwrap();
            assert!(free(&lock));
        });
    }

    #[test]
    fn a_waiter_that_was_passed_over_gets_the_lock() {
        model("mutex_passed_over_once", || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let waiter = spawn(&lock, |lock| lock_and_unlock(lock, None));
            lock.unlock();
            if lock.try_lock() {
                lock.unlock();
            }
            waiter.join().unwrap();
            assert!(free(&lock));
        });
    }

    /// Whoever gives the lock back may come so late to the queue that others have had the lock meanwhile, and one has it.
    #[test]
    fn whoever_is_late_to_give_the_lock_on_does_not_give_away_what_another_has() {
        fn count(lock: &Lock, count: &AtomicUsize) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            lock.unlock();
        }
        model_bounded("mutex_late_unlock", 4, || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let counted = Arc::new(AtomicUsize::new(0));
            let passed = Arc::new(AtomicUsize::new(0));
            let (one, other, passes) = (counted.clone(), counted.clone(), passed.clone());
            let waiter = spawn(&lock, move |lock| {
                assert!(lock.lock(None).unwrap());
                count(lock, &one);
            });
            let passing = spawn(&lock, move |lock| {
                for _ in (0..2).filter(|_| lock.try_lock()) {
                    count(lock, &other);
                    passes.fetch_add(1, Ordering::Relaxed);
                }
            });
            lock.unlock();
            waiter.join().unwrap();
            passing.join().unwrap();
            assert_eq!(counted.load(Ordering::Relaxed), 1 + passed.load(Ordering::Relaxed));
            assert!(free(&lock));
        });
    }

    #[test]
    fn a_waiter_that_was_passed_over_and_gives_up_leaves_the_lock_to_all() {
        model("mutex_passed_over_gives_up", || {
            let lock = Arc::new(Lock::new());
            assert!(lock.try_lock());
            let waiter = spawn(&lock, |lock| lock_and_unlock(lock, PAST));
            lock.unlock();
            if lock.try_lock() {
                lock.unlock();
            }
            waiter.join().unwrap();
            assert!(free(&lock));
        });
    }

    /// Takes the lock, and puts the node of a waiter that was passed over into the queue.
    fn reserve(lock: &Lock, node: &Node) {
        assert!(lock.try_lock() && !lock.take_or_queue(node));
    }

    #[test]
    fn nobody_takes_a_lock_that_is_reserved() {
        model("mutex_reserved", || {
            let (lock, node) = (Arc::new(Lock::new()), Node::new(PASSED_OVER));
            reserve(&lock, &node);
            let hasty = spawn(&lock, |lock| assert!(!lock.lock(PAST).unwrap()));
            lock.unlock();
            assert_eq!(node.told(), YOURS);
            hasty.join().unwrap();
            lock.unlock();
            assert!(free(&lock));
        });
    }

    #[test]
    fn a_lock_that_was_given_to_a_waiter_that_unwinds_is_free() {
        model("mutex_reserved_unwinds", || {
            let (lock, node) = (Arc::new(Lock::new()), Node::new(PASSED_OVER));
            reserve(&lock, &node);
            let unlocks = spawn(&lock, Lock::unlock);
            drop(Waiting::new(&*lock, &node));
            unlocks.join().unwrap();
            assert!(free(&lock));
        });
    }

    #[test]
    fn a_waiter_that_was_passed_over_is_before_those_who_wait() {
        model("mutex_reserved_first", || {
            let (lock, [waits, node]) = (Lock::new(), [0, PASSED_OVER].map(Node::new));
            assert!(lock.try_lock() && !lock.take_or_queue(&waits) && !lock.take_or_queue(&node));
            lock.unlock();
            assert_eq!((node.told(), waits.told()), (YOURS, 0));
            lock.unlock();
            assert!(waits.told() == TRY && lock.take(WOKEN));
            lock.unlock();
            assert!(free(&lock));
        });
    }
}
