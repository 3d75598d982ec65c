//! Several waits of one waiter, of which at most one is told: what a select is.
//!
//! Its nodes are in the queues of several objects, each under a lock of its own. Whoever wants to tell one of them claims
//! the group first; a node whose group is taken is dead, and whoever finds it takes it out of the queue and goes on to
//! the next. The waiter itself claims its group when it gives up, or when it finds something ready while it is still
//! putting nodes into queues.
//!
//! Two selects may meet: one puts a node into a queue and finds that of the other, for the opposite, in the queue next
//! to it. Then both have to be claimed, or neither: each may be claimed from elsewhere at any moment. A group is held for
//! that moment; who comes upon one that is held waits until it is decided. Of two, that with the lower address is held
//! first, so nobody waits in a circle, and whoever holds one takes no lock.
//!
//! The state of a group guards no data: what is handed over is written under the lock of the queue, and published by
//! telling the node. So all of its operations are relaxed.
//!
//! Models: `group_claimed_once`, `group_pairs_of_three`, `group_pair_or_neither`.

#[cfg(not(any(loom, shuttle)))]
use std::ptr;

use sinew_sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use sinew_sync::{hint, thread};

const OPEN: u8 = 0;
const HELD: u8 = 1;
const TAKEN: u8 = 2;

/// How often to look at a group that is held before the thread yields: its holder may not be running.
const LOOKS: u32 = 64;

/// Several waits of one waiter, of which at most one is told.
pub struct Group {
    state: AtomicU8,
    /// One more than the number of the node that was told.
    won: AtomicUsize,
    #[cfg(any(loom, shuttle))]
    number: usize,
}

#[cfg(any(loom, shuttle))]
static MADE: sinew_sync::statics::AtomicUsize = sinew_sync::statics::AtomicUsize::new(0);

/// What became of an attempt to claim two groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pair {
    Claimed,
    /// The caller's own is taken; the other was left as it was.
    OwnTaken,
    /// The other's is taken; the caller's own was left as it was.
    OtherTaken,
}

impl Group {
    /// Creates a group that is not claimed.
    #[allow(clippy::new_without_default, reason = "a group is no default of anything")]
    pub fn new() -> Group {
        Group {
            state: AtomicU8::new(OPEN),
            won: AtomicUsize::new(0),
            #[cfg(any(loom, shuttle))]
            number: MADE.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Claims the group. False if it is taken.
    pub fn claim(&self) -> bool {
        self.enter(TAKEN)
    }

    /// Claims two groups, or neither.
    pub fn claim_both(own: &Group, other: &Group) -> Pair {
        let own_first = own.rank() < other.rank();
        let (first, second) = if own_first { (own, other) } else { (other, own) };
        if !first.enter(HELD) {
            return if own_first { Pair::OwnTaken } else { Pair::OtherTaken };
        }
        if !second.enter(TAKEN) {
            first.state.store(OPEN, Ordering::Relaxed);
            return if own_first { Pair::OtherTaken } else { Pair::OwnTaken };
        }
        first.state.store(TAKEN, Ordering::Relaxed);
        Pair::Claimed
    }

    /// Which of two is held first: any order that both sides agree on. In a model stacks lie elsewhere in each execution,
    /// which it could not repeat: there groups are numbered as they are made.
    #[inline]
    fn rank(&self) -> usize {
        #[cfg(any(loom, shuttle))]
        return self.number;
        #[cfg(not(any(loom, shuttle)))]
        ptr::from_ref(self).addr()
    }

    fn enter(&self, next: u8) -> bool {
        let mut looks = 0;
        loop {
            match self.state.compare_exchange(OPEN, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(TAKEN) => return false,
                Err(_) if looks < LOOKS && !sinew_sync::MODEL => {
                    looks += 1;
                    hint::spin_loop();
                }
                Err(_) => thread::yield_now(),
            }
        }
    }

    /// Publishes that the node with this number was told. The waiter may be gone after this.
    pub fn tell(&self, number: usize) {
        self.won.store(number + 1, Ordering::Release);
    }

    /// The number of the node that was told.
    pub fn won(&self) -> Option<usize> {
        self.won.load(Ordering::Acquire).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model};

    use super::*;

    #[test]
    fn a_group_is_claimed_once() {
        model("group_claimed_once", || {
            let group = Arc::new(Group::new());
            let other = {
                let group = group.clone();
                thread::spawn(move || group.claim())
            };
            assert_ne!(group.claim(), other.join().unwrap());
        });
    }

    /// Two that want each other, and a third that wants one of them.
    #[test]
    fn two_groups_are_claimed_together_or_left_as_they_were() {
        model("group_pair_or_neither", || {
            let groups = Arc::new([Group::new(), Group::new()]);
            let other = {
                let groups = groups.clone();
                thread::spawn(move || Group::claim_both(&groups[1], &groups[0]))
            };
            let third = {
                let groups = groups.clone();
                thread::spawn(move || groups[1].claim())
            };
            let pair = Group::claim_both(&groups[0], &groups[1]);
            let (other, third) = (other.join().unwrap(), third.join().unwrap());
            let claimed = [pair == Pair::Claimed, other == Pair::Claimed, third];
            assert_eq!(
                claimed.into_iter().filter(|claimed| *claimed).count(),
                1,
                "{pair:?} {other:?} {third}"
            );
            if third {
                assert_eq!((pair, other), (Pair::OtherTaken, Pair::OwnTaken));
                assert!(groups[0].claim(), "it was left as it was");
            }
        });
    }

    #[test]
    fn three_in_a_circle_end_with_one_pair() {
        model("group_pairs_of_three", || {
            let groups = Arc::new([Group::new(), Group::new(), Group::new()]);
            let others = [1, 2].map(|own| {
                let groups = groups.clone();
                thread::spawn(move || Group::claim_both(&groups[own], &groups[(own + 1) % 3]))
            });
            let mut pairs = vec![Group::claim_both(&groups[0], &groups[1])];
            pairs.extend(others.map(|other| other.join().unwrap()));
            let claimed = pairs.iter().filter(|pair| **pair == Pair::Claimed).count();
            assert_eq!(claimed, 1, "{pairs:?}");
        });
    }
}
