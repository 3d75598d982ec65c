//! Models of the pool over slots that have no memory, only a record of who has them.

use std::collections::HashSet;
use std::num::NonZero;

use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{Arc, model, thread};

use super::*;

const FREE: usize = 0;
const TAKEN: usize = 1;
const DECOMMITTING: usize = 2;

/// Slots numbered from 1, each with a state that every owner checks.
pub(crate) struct Imaginary {
    states: Vec<AtomicUsize>,
    mapped: AtomicUsize,
    maps: AtomicUsize,
    guards_to_refuse: AtomicUsize,
    decommits: AtomicUsize,
    renewals: AtomicUsize,
    first_slots: usize,
}

impl Imaginary {
    pub(crate) fn new(slots: usize, first_slots: usize) -> Imaginary {
        Imaginary {
            states: (0..slots).map(|_| AtomicUsize::new(FREE)).collect(),
            mapped: AtomicUsize::new(0),
            maps: AtomicUsize::new(0),
            guards_to_refuse: AtomicUsize::new(0),
            decommits: AtomicUsize::new(0),
            renewals: AtomicUsize::new(0),
            first_slots,
        }
    }

    fn change(&self, slot: &Slot, from: usize, to: usize) {
        let number = slot.start().addr().get();
        let found = self.states[number - 1].swap(to, Ordering::Relaxed);
        assert_eq!(found, from, "slot {number} has another owner");
    }

    /// How many slots were decommitted.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn decommits(&self) -> usize {
        self.decommits.load(Ordering::Relaxed)
    }

    /// What an owner does with a slot, so that a second owner at the same time is found out.
    pub(crate) fn use_alone(&self, slot: &Slot) {
        self.change(slot, FREE, TAKEN);
        self.change(slot, TAKEN, FREE);
    }
}

impl Backing for Imaginary {
    fn bytes(&self) -> usize {
        4096
    }

    fn first_slots(&self) -> usize {
        self.first_slots
    }

    fn most_slots(&self) -> usize {
        4
    }

    fn map(&self, slots: usize) -> Result<Slab, Refused> {
        let first = self.mapped.load(Ordering::Relaxed);
        if first + slots > self.states.len() {
            return Err(Refused::OutOfMemory);
        }
        self.mapped.store(first + slots, Ordering::Relaxed);
        self.maps.fetch_add(1, Ordering::Relaxed);
        Ok(Slab::imaginary(NonZero::new(first + 1).unwrap(), slots))
    }

    fn guard(&self, slot: &Slot) -> Result<(), Refused> {
        self.use_alone(slot);
        match self.guards_to_refuse.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => {
                self.guards_to_refuse.store(left - 1, Ordering::Relaxed);
                Err(Refused::MapLimit { mappings: 8, limit: 10 })
            }
        }
    }

    fn decommit(&self, slot: &Slot) -> usize {
        self.decommits.fetch_add(1, Ordering::Relaxed);
        self.change(slot, FREE, DECOMMITTING);
        self.change(slot, DECOMMITTING, FREE);
        self.bytes()
    }

    fn renews(&self) -> bool {
        true
    }

    fn renew(&self, slab: &Slab) -> bool {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let mut again = slab.anew();
        while let Some(slot) = again.make() {
            self.use_alone(&slot);
        }
        true
    }
}

/// A pool with `slots` slots, all of them warm and idle, and one more to be mapped, because a trim may have
/// one in its hands.
pub(crate) fn idle_pool(slots: usize) -> Arc<Pool<Imaginary>> {
    let pool = Arc::new(Pool::new(Imaginary::new(slots + 1, slots)));
    let taken: Vec<Slot> = (0..slots).map(|_| pool.take().unwrap()).collect();
    pool.give(taken);
    pool.begin_period();
    pool
}

/// Every slot of the pool is there, and there once.
pub(crate) fn assert_complete(pool: &Pool<Imaginary>) {
    let count = pool.count();
    assert_eq!(count.out, 0, "a slot is lost");
    let all: HashSet<Slot> = (0..count.slots).map(|_| pool.take().unwrap()).collect();
    assert_eq!(all.len(), count.slots, "a slot is listed twice");
    assert_eq!(pool.count(), Count { out: count.slots, ..count });
}

#[test]
fn pool_take_give_trim_never_share_or_lose_a_slot() {
    model("pool_take_give_trim", || {
        let pool = idle_pool(2);
        let user = |pool: &Pool<Imaginary>| {
            let slot = pool.take().unwrap();
            pool.backing().use_alone(&slot);
            pool.give([slot]);
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                user(&pool);
                pool.trim_idle(2);
            })
        };
        pool.trim();
        user(&pool);
        other.join().unwrap();
        assert_complete(&pool);
    });
}

#[test]
fn pool_growth_maps_no_slab_for_a_thread_that_waited_for_one() {
    model("pool_growth", || {
        let pool = Arc::new(Pool::new(Imaginary::new(4, 2)));
        let take = |pool: &Pool<Imaginary>| {
            let slot = pool.take().unwrap();
            pool.backing().change(&slot, FREE, TAKEN);
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || take(&pool))
        };
        take(&pool);
        other.join().unwrap();
        assert_eq!(pool.backing().maps.load(Ordering::Relaxed), 1);
        assert_eq!(pool.count(), Count { slabs: 1, slots: 2, out: 2 });
    });
}

#[test]
fn a_refused_guard_is_an_error_and_the_slot_is_tried_again() {
    model("pool_refused_guard", || {
        let pool = Pool::new(Imaginary::new(1, 1));
        pool.backing().guards_to_refuse.store(1, Ordering::Relaxed);
        assert_eq!(pool.take(), Err(StackError::MapLimit { mappings: 8, limit: 10 }));
        assert_eq!(pool.count().out, 0);
        assert_eq!(pool.take().unwrap().start().addr().get(), 1);
    });
}

#[test]
fn a_large_slab_that_is_refused_is_tried_smaller_until_nothing_is_left() {
    model("pool_smaller_slabs", || {
        let pool = Pool::new(Imaginary::new(7, 4));
        let taken: Vec<Slot> = (0..7).map(|_| pool.take().unwrap()).collect();
        assert_eq!(pool.count(), Count { slabs: 3, slots: 7, out: 7 });
        assert_eq!(pool.take(), Err(StackError::OutOfMemory { bytes: 4096, live: 7 }));
        pool.give(taken);
        assert!(pool.take().is_ok());
    });
}

#[test]
fn only_what_nobody_reached_since_the_period_began_is_idle() {
    model("pool_idle", || {
        let pool = idle_pool(4);
        let (newest, next) = (pool.take().unwrap(), pool.take().unwrap());
        pool.give([next, newest]);
        assert_eq!(pool.trim_idle(4), 2, "the two that were not reached");
        assert_eq!(pool.take().unwrap().start().addr().get(), 4, "a warm one before a cold one");
        assert_eq!(pool.trim_idle(4), 0, "the one left warm was reached");
        pool.begin_period();
        assert_eq!(pool.trim_idle(4), 1, "the one left warm has now idled");
        assert_eq!(pool.trim_idle(4), 0, "nothing is decommitted twice");
    });
}

#[test]
fn a_trim_takes_all_that_is_warm() {
    model("pool_trim_all", || {
        let pool = idle_pool(3);
        let taken = pool.take().unwrap();
        pool.give([taken]);
        assert_eq!(pool.trim(), 3 * 4096);
        assert_eq!(pool.trim(), 0, "once");
        assert_complete(&pool);
    });
}

#[test]
fn pool_renewal_never_shares_or_loses_a_slot() {
    model("pool_renew", || {
        let pool = idle_pool(2);
        pool.trim_idle(2);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let slot = pool.take().unwrap();
                pool.backing().use_alone(&slot);
                pool.give_cold(slot);
            })
        };
        pool.renew();
        other.join().unwrap();
        pool.renew();
        let renewed = pool.backing().renewals.load(Ordering::Relaxed);
        assert!(renewed >= 1, "all slots are cold in the end");
        assert_complete(&pool);
    });
}
