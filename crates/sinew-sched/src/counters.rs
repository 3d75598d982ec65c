//! What a worker counts: plain atomics that only it writes, on cache lines of its own, and that anybody may read.

use std::ptr;

use sinew_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::countdown::Countdowns;
use crate::shared::{Inbox, Shared};
use crate::task::Task;

/// The most calls that a budget covers.
pub(crate) const CALL_BUDGET: u32 = 128;

/// What only the worker writes, often: on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Own {
    /// Tasks that the worker has spawned and ended.
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// The task that the worker runs, for who looks on.
    pub(crate) running: AtomicPtr<Task>,
    /// How often it has looked for its next task: what stands still while one of them runs.
    pub(crate) turns: AtomicU64,
    /// The time of its last look at the clock, and its number ([`crate::notes`]).
    pub(crate) stamp: AtomicU64,
    /// Published with the stamp: the worker counts them on its own.
    pub(crate) parks: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) steals: AtomicU64,
    pub(crate) longest: AtomicUsize,
    /// The calls that are left of the current budget ([`crate::worker`]). Sysmon takes them away at its ticks.
    pub(crate) budget: AtomicU32,
    /// Not counted, but as much its own.
    pub(crate) countdowns: Countdowns,
}

impl Own {
    pub(crate) fn new() -> Own {
        Own {
            spawned: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            running: AtomicPtr::new(ptr::null_mut()),
            turns: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            parks: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            steals: AtomicU64::new(0),
            longest: AtomicUsize::new(0),
            budget: AtomicU32::new(CALL_BUDGET),
            countdowns: Countdowns::new(),
        }
    }
}

/// Counts one more, in a counter that only this thread writes, and returns how many there are.
#[inline(always)]
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    let next = counter.load(Ordering::Relaxed) + 1;
    counter.store(next, Ordering::Release);
    next
}

/// Keeps the largest of what was seen, in a mark that only this thread writes.
#[inline(always)]
pub(crate) fn raise(mark: &AtomicUsize, seen: usize) {
    if seen > mark.load(Ordering::Relaxed) {
        mark.store(seen, Ordering::Relaxed);
    }
}

/// What a worker has done since it started: see [`Runtime::counters`](crate::Runtime::counters). Parks and wakes are as of at
/// most 61 turns ago, or of the last time that it found nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// How often it looked for its next task: at least once for each time that a task ran.
    pub turns: u64,
    /// Tasks that its tasks have spawned.
    pub spawns: u64,
    /// Tasks that have ended here.
    pub ends: u64,
    /// How often a task began to wait here.
    pub parks: u64,
    /// How often something that ran here woke a task that was parked.
    pub wakes: u64,
    /// How often it took tasks from another worker, or such as came from other threads.
    pub steals: u64,
    /// The most tasks that it has seen in one of its queues, at which it looks every 61 turns.
    pub longest_queue: usize,
}

impl WorkerCounters {
    pub(crate) fn of(inbox: &Inbox) -> WorkerCounters {
        let own = &inbox.own;
        WorkerCounters {
            ends: own.ended.load(Ordering::Acquire),
            spawns: own.spawned.load(Ordering::Acquire),
            turns: own.turns.load(Ordering::Relaxed),
            parks: own.parks.load(Ordering::Relaxed),
            wakes: own.wakes.load(Ordering::Relaxed),
            steals: own.steals.load(Ordering::Relaxed),
            longest_queue: own.longest.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    /// What each worker has counted.
    pub(crate) fn counters(&self) -> Vec<WorkerCounters> {
        self.inboxes.iter().map(WorkerCounters::of).collect()
    }
}
