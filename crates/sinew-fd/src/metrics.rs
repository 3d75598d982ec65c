//! What is counted of an object behind a file descriptor.

use sinew_sync::atomic::{AtomicU64, Ordering};

/// Counts and levels of one object. "In" is what the actor reads, "out" is what it writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Metrics {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Bytes that were written.
    pub bytes_out: u64,
    /// Records that were read. A byte stream counts a read as a record.
    pub records_in: u64,
    /// Records that were written. A byte stream counts a write as a record.
    pub records_out: u64,
    /// What is queued now, in the unit of `queue_limit`.
    pub queue_depth: u64,
    /// What can be queued at most; 0 if there is no queue.
    pub queue_limit: u64,
    /// Notifications that reached at least one watcher.
    pub wakeups: u64,
}

/// Counters of reads and writes, for implementations of [`FdObject`](crate::FdObject).
///
/// They are statistics: nothing is ordered by them.
#[derive(Default, Debug)]
pub struct Counters {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    records_in: AtomicU64,
    records_out: AtomicU64,
}

impl Counters {
    /// Counts a read of `bytes` bytes as one record.
    pub fn count_read(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        self.records_in.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write of `bytes` bytes as one record.
    pub fn count_write(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
        self.records_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts, with a queue that is empty and has no limit, and no wake-ups.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            records_in: self.records_in.load(Ordering::Relaxed),
            records_out: self.records_out.load(Ordering::Relaxed),
            ..Metrics::default()
        }
    }
}
