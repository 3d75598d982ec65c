//! A task's state word: whether it is parked, whether a wake-up is owed to it, and which task of its slot it is.
//!
//! ```text
//! bits 0-2    phase
//! bit  3      notified: a wake-up that came while the task was not parked
//! bits 4-31   the number of the slot, which never changes
//! bits 32-63  generation: how often the slot was reused
//!
//! free ──publish──> ready ──commit_park──> parked ──unpark──> ready
//!   ^                 │  └── notified: stays ready, and is queued by the worker that parks it
//!   └──── recycle ────┘
//! ```
//!
//! - A task that is *ready* is in one queue or runs in one place. Whoever makes the step from free or parked to ready
//!   enqueues it, once; whoever takes it out of the queue runs it; and a task that yields enqueues itself.
//! - *Parked* is published by [`StateWord::commit_park`] alone, which runs on another stack after the task's own
//!   is quiescent. So whoever sees parked may have the task resumed at once.
//! - A wake-up that finds the task ready leaves *notified*, and the commit that finds it turns round. A task that waits in a
//!   queue looks at what it waits for when it runs again, so [`StateWord::begin`] may take the notification then.
//! - The generation is checked in the same compare-and-swap, so a wake-up that was meant for an earlier task of
//!   the slot changes nothing.
//!
//! There is one word, so there is no order between variables to get wrong. Every step of a wake-up, and the park, is a
//! read-modify-write with acquire and release: what a waker wrote before `unpark` is seen by the task after it parked or
//! was turned round.
//!
//! Models: `state_unpark_is_not_lost`, `state_stale_wake_up_changes_nothing`.

use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::task_id::TaskId;

const PHASE: u64 = 0b111;
const FREE: u64 = 0;
const READY: u64 = 1;
const PARKED: u64 = 2;
const NOTIFIED: u64 = 1 << 3;
const INDEX: u32 = 4;
const GENERATION: u32 = 32;

pub(crate) struct StateWord(AtomicU64);

/// What an onlooker sees of a task.
pub(crate) struct Seen {
    pub(crate) id: TaskId,
    pub(crate) is_parked: bool,
    pub(crate) notified: bool,
}

impl StateWord {
    /// The word of the slot with this number.
    pub(crate) fn new(index: u32) -> StateWord {
        StateWord(AtomicU64::new(u64::from(index) << INDEX | FREE))
    }

    /// The number of the slot, and which task of it this is.
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        let word = self.0.load(Ordering::Relaxed);
        TaskId::new(word as u32 >> INDEX, (word >> GENERATION) as u32)
    }

    /// Which task of the slot this is.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> GENERATION) as u32
    }

    /// True if there is a task in the slot.
    pub(crate) fn is_live(&self) -> bool {
        self.0.load(Ordering::Acquire) & PHASE != FREE
    }

    /// What the task in the slot is doing this moment; none if there is none.
    pub(crate) fn see(&self) -> Option<Seen> {
        let word = self.0.load(Ordering::Acquire);
        let id = TaskId::new(word as u32 >> INDEX, (word >> GENERATION) as u32);
        let seen = Seen { id, is_parked: word & PHASE == PARKED, notified: word & NOTIFIED != 0 };
        (word & PHASE != FREE).then_some(seen)
    }

    /// Free to ready. Only whoever took the slot from the free list calls this.
    #[inline]
    pub(crate) fn publish(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & (PHASE | NOTIFIED), FREE);
        self.0.store(word & !PHASE | READY, Ordering::Release);
    }

    /// The task begins to run, or goes on: whatever woke it so far is used up by that. A wake-up that is missed here has
    /// it turn round once more than it had to.
    #[inline]
    pub(crate) fn begin(&self) {
        debug_assert_eq!(self.0.load(Ordering::Relaxed) & PHASE, READY);
        self.take_notification();
    }

    /// Ready to parked. False if a wake-up came meanwhile: then the caller has to enqueue the task. Only called when
    /// nobody runs on the task's stack.
    #[inline]
    pub(crate) fn commit_park(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, READY);
        if word & NOTIFIED == 0 {
            let parked = word & !PHASE | PARKED;
            if self.0.compare_exchange(word, parked, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return true;
            }
        }
        // Nobody changes a task that is ready but to notify it. A read-modify-write: it must see what the waker wrote.
        self.0.fetch_and(!NOTIFIED, Ordering::AcqRel);
        false
    }

    /// Takes a wake-up that came while the task was ready. Only the task itself, or who is about to run it, calls this.
    #[inline]
    pub(crate) fn take_notification(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & NOTIFIED != 0 && self.0.fetch_and(!NOTIFIED, Ordering::Acquire) & NOTIFIED != 0
    }

    /// Makes sure that the task of this generation runs once more. True if the caller has to enqueue it.
    #[inline]
    pub(crate) fn unpark(&self, generation: u32) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if (word >> GENERATION) as u32 != generation {
                return false;
            }
            let next = match word & PHASE {
                PARKED => word & !PHASE | READY,
                // A read-modify-write also if it is notified already: the task must see what we wrote before.
                READY => word | NOTIFIED,
                _ => return false,
            };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word & PHASE == PARKED,
                Err(now) => word = now,
            }
        }
    }

    /// Ready to free, for the next task of the slot. Only whoever owns the finished task calls this.
    #[inline]
    pub(crate) fn recycle(&self) {
        // Wake-ups of this generation may still come in: one swap, so that none slips past the new generation.
        let word = self.0.load(Ordering::Relaxed);
        let generation = u64::from(((word >> GENERATION) as u32).wrapping_add(1));
        let next = generation << GENERATION | word & u64::from(u32::MAX) & !(PHASE | NOTIFIED) | FREE;
        self.0.swap(next, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, thread};

    use super::*;

    /// A task that parks until two flags are set, and a waker that sets them one by one: the task always ends,
    /// having been enqueued once for each time that it was parked; and who enqueues it sees what it did before it parked.
    #[test]
    fn state_unpark_is_not_lost() {
        model("state_unpark_is_not_lost", || {
            let state = Arc::new(StateWord::new(5));
            let flags = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let (queue, parks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            state.publish();
            state.begin();
            let waker = {
                let (state, flags, queue, parks) =
                    (state.clone(), flags.clone(), queue.clone(), parks.clone());
                thread::spawn(move || {
                    let mut unparked = 0;
                    for flag in flags.iter() {
                        flag.store(1, Ordering::Relaxed);
                        if state.unpark(0) {
                            unparked += 1;
                            assert!(
                                parks.load(Ordering::Relaxed) >= unparked,
                                "its stack may still be in use"
                            );
                            assert_eq!(queue.fetch_add(1, Ordering::Release), 0, "enqueued twice");
                        }
                    }
                })
            };
            while flags.iter().any(|flag| flag.load(Ordering::Relaxed) == 0) {
                parks.fetch_add(1, Ordering::Relaxed);
                if state.commit_park() {
                    while queue.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
                        thread::yield_now();
                    }
                }
                state.begin();
            }
            waker.join().unwrap();
            assert_eq!(queue.load(Ordering::Relaxed), 0, "a running task was enqueued");
        });
    }

    #[test]
    fn state_stale_wake_up_changes_nothing() {
        model("state_stale_wake_up_changes_nothing", || {
            let state = Arc::new(StateWord::new(5));
            state.publish();
            state.begin();
            let stale = {
                let state = state.clone();
                thread::spawn(move || state.unpark(0))
            };
            state.recycle();
            state.publish();
            state.begin();
            assert_eq!(state.id(), TaskId::new(5, 1));
            let parked = state.commit_park();
            assert!(parked, "the new task was woken by a wake-up for the old one");
            assert!(!stale.join().unwrap());
        });
    }
}
