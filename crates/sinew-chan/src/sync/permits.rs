//! A number of permits, given out strictly first come first served: what [`Semaphore`](super::Semaphore),
//! [`RwLock`](super::RwLock) and [`OnceLock`](super::OnceLock) are made of.
//!
//! ```text
//! bit 0    QUEUED  the queue is not empty: nobody passes it
//! bit 1    CLOSED  nobody gets or waits for permits any more
//! bits 2…  how many permits there are to take
//! ```
//!
//! Permits are taken by a compare-and-swap while QUEUED is not set, and given back by one addition. QUEUED and CLOSED
//! are written under the lock of the queue.
//!
//! - A waiter sets QUEUED, in the same compare-and-swap that finds too few permits, before it puts its node into the
//!   queue. So whoever adds permits later sees QUEUED, and whoever added them earlier makes the swap fail.
//! - Whoever adds permits and sees QUEUED gives them out ([`Permits::grant`]): as long as there are enough for the
//!   first node it takes them for it and tells it. While QUEUED is set nobody else takes any.
//! - A waiter that withdraws may have been all that was in the way of those behind it: it does the same. Until then it is
//!   in the way, also if it is dead, since its select has something else by now. That is not for long: whoever is cancelled,
//!   out of time or has something else was woken for that, and withdraws first of all when it runs.
//! - A waiter that was told has its permits; if it unwinds it gives them back.
//!
//! Giving back releases and taking acquires, also for another, whom telling passes it on to.
//!
//! Models: `permits_release_wakes`, `permits_exclude`, `permits_release_against_withdrawal`,
//! `permits_withdrawal_lets_the_next_pass`, `permits_unwind_gives_back`, `permits_close_tells_all`,
//! `permits_all_who_added_are_seen`, `permits_nobody_passes`.

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::WaitKind;
use sinew_sched::raw::{Awaited, Enrolled, Node, Queue, Waiter, Waiting, What, charge, tell_each};
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{Mutex, const_unless_model};

use super::spin::spin;

const QUEUED: usize = 1;
const CLOSED: usize = 1 << 1;
const ONE: usize = 1 << 2;

/// The most permits that there can be.
pub(super) const MOST: usize = usize::MAX >> 3;

/// What a node is told: that it has what it wants.
const YOURS: u8 = 1;
/// What a node is told: that there is nothing to wait for.
const NEVER: u8 = 2;

/// What became of a wait for permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acquired {
    Granted,
    TimedOut,
    Closed,
}

pub(super) struct Permits {
    word: AtomicUsize,
    queue: Mutex<Queue>,
}

impl Permits {
    const_unless_model! {
        pub(super) const fn new(count: usize) -> Permits {
            assert!(count <= MOST, "there are at most `MOST` permits");
            Permits { word: AtomicUsize::new(count * ONE), queue: Mutex::new(Queue::new()) }
        }
    }

    /// How many there are to take.
    pub(super) fn available(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Takes `count` permits if there are so many, and nobody waits.
    #[inline]
    pub(super) fn try_acquire(&self, count: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (QUEUED | CLOSED) == 0 && word / ONE >= count {
            let next = word - count * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Waits for `count` permits and takes them; `kind` is what they are the permits of.
    #[inline]
    pub(super) fn acquire(
        &self,
        count: usize,
        deadline: Option<Instant>,
        kind: WaitKind,
    ) -> Result<Acquired, Refused> {
        charge();
        if self.try_acquire(count) {
            Ok(Acquired::Granted)
        } else {
            self.acquire_slowly(count, deadline, kind)
        }
    }

    /// Adds permits: new ones, or such as were taken.
    #[inline]
    pub(super) fn release(&self, count: usize) {
        let word = self.word.fetch_add(count * ONE, Ordering::Release);
        debug_assert!(word / ONE + count <= MOST, "more permits than there can be");
        if word & QUEUED != 0 {
            self.grant();
        }
    }

    /// Lets nobody wait any more.
    pub(super) fn close(&self) {
        let queue = self.queue.lock();
        self.word.fetch_or(CLOSED, Ordering::Release);
        drop(queue);
        tell_each(
            || self.queue.lock(),
            |queue| self.clear_if_empty(queue).then(|| queue.tell(NEVER)).flatten(),
        );
    }

    #[cold]
    fn acquire_slowly(
        &self,
        count: usize,
        deadline: Option<Instant>,
        kind: WaitKind,
    ) -> Result<Acquired, Refused> {
        let mut granted = false;
        spin(|| {
            granted = self.try_acquire(count);
            granted || self.word.load(Ordering::Relaxed) & (QUEUED | CLOSED) != 0
        });
        if granted {
            return Ok(Acquired::Granted);
        }
        let node = Node::new(count);
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        if let Some(acquired) = unsafe { self.take_or_queue(&node) } {
            return Ok(acquired);
        }
        // SAFETY: the node was put into this queue just now.
        let waiting = unsafe { Waiting::new(self, &node) };
        if !waiting.wait(deadline, What::at(kind, self))? {
            return Ok(Acquired::TimedOut);
        }
        Ok(if node.told() == YOURS { Acquired::Granted } else { Acquired::Closed })
    }

    /// Takes `count` permits for one of several waits, or puts `node` into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
    pub(super) unsafe fn enroll(&self, count: usize, node: &Node) -> Enrolled {
        node.wants.set(count);
        // SAFETY: the caller promises the same.
        match unsafe { self.take_or_queue(node) } {
            None => Enrolled::Queued,
            Some(_) if node.claim() => Enrolled::Done,
            Some(acquired) => {
                if acquired == Acquired::Granted {
                    self.release(count);
                }
                Enrolled::Taken
            }
        }
    }

    /// Calls `change` under the lock of the queue.
    pub(super) fn under_lock(&self, change: &mut dyn FnMut()) {
        let _queue = self.queue.lock();
        change();
    }

    /// Takes the permits that `node` wants, or puts it into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
    unsafe fn take_or_queue(&self, node: &Node) -> Option<Acquired> {
        let wants = node.wants.get();
        let mut queue = self.queue.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Some(Acquired::Closed);
            }
            let enough = word & QUEUED == 0 && word / ONE >= wants;
            let next = if enough { word - wants * ONE } else { word | QUEUED };
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if enough => return Some(Acquired::Granted),
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { queue.push(node) };
        None
    }

    /// Gives permits to those who wait for them, in their order.
    #[cold]
    fn grant(&self) {
        tell_each(|| self.queue.lock(), |queue| self.grant_first(queue));
    }

    fn grant_first(&self, queue: &mut Queue) -> Option<Waiter> {
        loop {
            if !self.clear_if_empty(queue) {
                return None;
            }
            let wanted = queue.first_wants()?;
            // Others may add meanwhile, and see QUEUED; nobody takes.
            if self.word.load(Ordering::Relaxed) / ONE < wanted {
                return None;
            }
            if let Some(node) = queue.claim_head() {
                self.word.fetch_sub(wanted * ONE, Ordering::Acquire);
                // SAFETY: it was taken out of the queue just now.
                return Some(unsafe { Node::tell(node, YOURS) });
            }
        }
    }

    /// Clears QUEUED if nobody is in the queue; false then.
    fn clear_if_empty(&self, queue: &Queue) -> bool {
        let queued = !queue.is_empty();
        if !queued && self.word.load(Ordering::Relaxed) & QUEUED != 0 {
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        queued
    }
}

impl Awaited for Permits {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        let mut queue = self.queue.lock();
        // SAFETY: the caller promises that the node was pushed into this queue.
        let removed = unsafe { queue.remove(node) };
        drop(queue);
        if removed {
            self.grant();
        }
        removed
    }

    unsafe fn hand_on(&self, node: &Node) {
        if node.told() == YOURS {
            self.release(node.wants.get());
        }
    }
}

/// As in the models of [`super::lock`].
#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, model_bounded, thread};

    use super::*;

    const PAST: Option<Instant> = Some(Instant::from_nanos(0));

    fn spawn(permits: &Arc<Permits>, body: impl FnOnce(&Permits) + 'static + Send) -> thread::JoinHandle<()> {
        let permits = permits.clone();
        thread::spawn(move || body(&permits))
    }

    fn has(permits: &Permits, count: usize) -> bool {
        permits.word.load(Ordering::Relaxed) == count * ONE && permits.queue.lock().is_empty()
    }

    fn acquires(count: usize) -> impl FnOnce(&Permits) + 'static + Send {
        move |permits| {
            assert_eq!(permits.acquire(count, None, WaitKind::Semaphore).unwrap(), Acquired::Granted)
        }
    }

    #[test]
    fn a_waiter_is_woken_by_whoever_adds_what_it_wants() {
        model("permits_release_wakes", || {
            let permits = Arc::new(Permits::new(0));
            let waiter = spawn(&permits, acquires(2));
            permits.release(1);
            permits.release(1);
            waiter.join().unwrap();
            assert!(has(&permits, 0));
        });
    }

    /// Whichever of the two who add gives the permits out.
    #[test]
    fn a_waiter_sees_what_all_did_whose_permits_it_got() {
        model("permits_all_who_added_are_seen", || {
            let permits = Arc::new(Permits::new(0));
            let did = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let seen = did.clone();
            let waiter = spawn(&permits, move |permits| {
                acquires(2)(permits);
                assert_eq!(seen.each_ref().map(|did| did.load(Ordering::Relaxed)), [1, 1]);
            });
            let other = did.clone();
            let adds = spawn(&permits, move |permits| {
                other[0].store(1, Ordering::Relaxed);
                permits.release(1);
            });
            did[1].store(1, Ordering::Relaxed);
            permits.release(1);
            waiter.join().unwrap();
            adds.join().unwrap();
        });
    }

    #[test]
    fn two_who_count_with_the_only_permit_lose_nothing() {
        model("permits_exclude", || {
            let permits = Arc::new(Permits::new(1));
            let count = Arc::new(AtomicUsize::new(0));
            let threads = [count.clone(), count.clone()].map(|count| {
                spawn(&permits, move |permits| {
                    acquires(1)(permits);
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    permits.release(1);
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(count.load(Ordering::Relaxed), 2);
            assert!(has(&permits, 1));
        });
    }

    #[test]
    fn a_waiter_that_gives_up_has_its_permits_or_leaves_them() {
        model("permits_release_against_withdrawal", || {
            let permits = Arc::new(Permits::new(0));
            let gives_up = spawn(&permits, |permits| {
                if permits.acquire(1, PAST, WaitKind::Semaphore).unwrap() == Acquired::Granted {
                    permits.release(1);
                }
            });
            permits.release(1);
            gives_up.join().unwrap();
            assert!(has(&permits, 1));
        });
    }

    #[test]
    fn a_large_request_that_gives_up_lets_the_small_one_behind_it_pass() {
        model("permits_withdrawal_lets_the_next_pass", || {
            let permits = Arc::new(Permits::new(1));
            let large = spawn(&permits, |permits| {
                assert_eq!(permits.acquire(2, PAST, WaitKind::Semaphore).unwrap(), Acquired::TimedOut);
            });
            let small = spawn(&permits, acquires(1));
            large.join().unwrap();
            small.join().unwrap();
            assert!(has(&permits, 0));
        });
    }

    #[test]
    fn permits_of_a_waiter_that_unwinds_come_to_the_next() {
        model_bounded("permits_unwind_gives_back", 4, || {
            let permits = Arc::new(Permits::new(0));
            let unwinds = spawn(&permits, |permits| {
                let node = Node::new(1);
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                match unsafe { permits.take_or_queue(&node) } {
                    Some(_) => permits.release(1),
                    // SAFETY: it was put into this queue just now.
                    None => drop(unsafe { Waiting::new(permits, &node) }),
                }
            });
            let stays = spawn(&permits, acquires(1));
            permits.release(1);
            unwinds.join().unwrap();
            stays.join().unwrap();
            assert!(has(&permits, 0));
        });
    }

    #[test]
    fn nobody_waits_for_permits_that_were_closed() {
        model_bounded("permits_close_tells_all", 4, || {
            let permits = Arc::new(Permits::new(0));
            let waiters = [(); 2].map(|()| {
                spawn(&permits, |permits| {
                    assert_eq!(permits.acquire(1, None, WaitKind::Semaphore).unwrap(), Acquired::Closed);
                })
            });
            permits.close();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(permits.word.load(Ordering::Relaxed), CLOSED);
        });
    }

    #[test]
    fn nobody_takes_permits_that_another_waits_for() {
        model("permits_nobody_passes", || {
            let (permits, node) = (Arc::new(Permits::new(1)), Node::new(2));
            // SAFETY: the node is new, and is told below.
            assert!(unsafe { permits.take_or_queue(&node) }.is_none());
            let hasty = spawn(&permits, |permits| assert!(!permits.try_acquire(1)));
            permits.release(1);
            hasty.join().unwrap();
            assert_eq!(node.told(), YOURS);
            assert!(has(&permits, 0));
        });
    }
}
