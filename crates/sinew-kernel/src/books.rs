//! The books of a node: what became of messages, in all.
//!
//! Each actor counts for itself: what got into its mailbox, under its lock, and what it has begun. At its end its counts are
//! added here, to a shard for each worker. So the books are these, and the counts of the actors that live.

use sinew_sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

#[derive(Default)]
pub(crate) struct Books([Shard; SHARDS]);

#[derive(Default)]
#[repr(align(64))]
struct Shard {
    ended: AtomicU64,
    accepted: AtomicU64,
    begun: AtomicU64,
    failed: AtomicU64,
}

/// The counts of actors that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Closed {
    pub(crate) ended: u64,
    pub(crate) accepted: u64,
    pub(crate) begun: u64,
    pub(crate) failed: u64,
}

impl Books {
    fn shard(&self) -> &Shard {
        &self.0[sinew_sched::turn::worker_index().unwrap_or(SHARDS - 1) % SHARDS]
    }

    /// An actor has ended with these counts.
    pub(crate) fn close(&self, accepted: u64, begun: u64, failed: bool) {
        let shard = self.shard();
        shard.ended.fetch_add(1, Ordering::Relaxed);
        if accepted > 0 {
            shard.accepted.fetch_add(accepted, Ordering::Relaxed);
            self.late(begun, failed);
        }
    }

    /// An actor has begun so many more after its counts were taken.
    pub(crate) fn late(&self, begun: u64, failed: bool) {
        let shard = self.shard();
        shard.begun.fetch_add(begun, Ordering::Relaxed);
        shard.failed.fetch_add(failed.into(), Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) -> Closed {
        let sum =
            |of: fn(&Shard) -> &AtomicU64| self.0.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum();
        Closed {
            ended: sum(|shard| &shard.ended),
            accepted: sum(|shard| &shard.accepted),
            begun: sum(|shard| &shard.begun),
            failed: sum(|shard| &shard.failed),
        }
    }
}
