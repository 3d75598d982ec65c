//! The books of a node: what became of messages, in all.
//!
//! Each actor counts what it has begun. At its end that is added here, to a shard for each worker, and what is left in its
//! mailbox to the dead letters. So the books are these, the dead letters, and the counts of the actors that live. Nothing is
//! counted when a message is sent.

use sinew_sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

#[derive(Default)]
pub(crate) struct Books([Shard; SHARDS]);

#[derive(Default)]
#[repr(align(64))]
struct Shard {
    ended: AtomicU64,
    begun: AtomicU64,
    failed: AtomicU64,
}

/// The counts of actors that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Closed {
    pub(crate) ended: u64,
    pub(crate) begun: u64,
    pub(crate) failed: u64,
}

impl Books {
    fn shard(&self) -> &Shard {
        &self.0[sinew_sched::turn::worker_index().unwrap_or(SHARDS - 1) % SHARDS]
    }

    /// An actor has ended with these counts.
    pub(crate) fn close(&self, begun: u64, failed: bool) {
        self.shard().ended.fetch_add(1, Ordering::Relaxed);
        if begun > 0 {
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
            begun: sum(|shard| &shard.begun),
            failed: sum(|shard| &shard.failed),
        }
    }
}
