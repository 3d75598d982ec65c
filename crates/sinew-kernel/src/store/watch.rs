//! The file as redb sees it, with a note of syncs that failed.
//!
//! When a sync fails, the system may take for clean what it could not write: later syncs succeed, reads see what is not on
//! the disk. redb reports the error once and can be opened again, as after any other; so the note is kept here.

use std::io;
use std::ops::Bound;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use sinew_sync::Arc;
use sinew_sync::atomic::{AtomicBool, Ordering};

#[cfg(all(test, not(any(loom, shuttle))))]
use super::tests::faults::{Faults, Operation};

/// Whether a sync has failed, whichever database it was of that had the file.
#[derive(Clone, Default)]
pub(super) struct Watch {
    lost_writes: Arc<AtomicBool>,
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) faults: Faults,
}

impl Watch {
    pub(super) fn has_lost_writes(&self) -> bool {
        self.lost_writes.load(Ordering::Acquire)
    }
}

pub(super) struct Watched {
    file: std::sync::Arc<FileBackend>,
    watch: Watch,
}

impl Watched {
    pub(super) fn new(file: std::sync::Arc<FileBackend>, watch: Watch) -> Watched {
        Watched { file, watch }
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl StorageBackend for Watched {
    fn sync_data(&self) -> io::Result<()> {
        #[cfg(all(test, not(any(loom, shuttle))))]
        let synced = self.watch.faults.before(Operation::Sync).and_then(|()| self.file.sync_data());
        #[cfg(any(not(test), loom, shuttle))]
        let synced = self.file.sync_data();
        if synced.is_err() {
            self.watch.lost_writes.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(all(test, not(any(loom, shuttle))))]
        self.watch.faults.before(Operation::Write { offset, data })?;
        self.file.write(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        #[cfg(all(test, not(any(loom, shuttle))))]
        self.watch.faults.before(Operation::SetLen(len))?;
        self.file.set_len(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(all(test, not(any(loom, shuttle))))]
        self.watch.faults.before(Operation::Read)?;
        self.file.read(offset, out)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
