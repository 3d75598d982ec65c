//! Verifies all pages of a file before the file is used.
//!
//! redb trusts its pages: on one that makes no sense it panics, and since its destructors may panic too, the process may
//! abort. Yet each page has a checksum in the page that refers to it, the roots have theirs in the commit slots of the header, and
//! a slot has its own. redb verifies them, before it looks at what is in a page, when it repairs a file that was not
//! closed. So a file is opened twice: first as one that needs a repair, by a backend that cannot write; that open is
//! aborted when the checksums are verified. What the second open reads has been verified by then.
//!
//! Only the commit in force is verified: a power cut may leave the other slot of the header with any content. The first open is
//! shown the slot in force twice, so that redb does not fall back to the other one, which would be an older state.
//!
//! The header's layout is that of redb's file format 3: after the magic number a byte of flags, and from byte 64 two
//! slots of 128 bytes. redb checks the version of a slot, and refuses other ones.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend, StorageError};
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicBool, Ordering};

/// The bytes of the header.
const HEADER: usize = 320;
const FLAGS: usize = 9;
const SLOT: usize = 128;
const SLOTS: [usize; 2] = [64, 64 + SLOT];
/// Where a slot has the number of its commit.
const COMMIT: usize = 104;

/// Which slot is in force.
const PRIMARY: u8 = 1;
/// The file was not closed.
const RECOVER: u8 = 2;
/// The slot in force was written in two phases, as all commits of a store are.
const TWO_PHASE: u8 = 4;

/// What the first open may keep in memory: it reads each page once.
const CACHE: usize = 1 << 20;
/// The progress of a repair is above this when all checksums are verified.
const VERIFIED: f64 = 0.5;

/// Verifies the checksums of all pages that are in use. Locks the file; the locks stay.
pub(super) fn verify(file: &Arc<FileBackend>) -> Result<(), DatabaseError> {
    let view = View { file: file.clone(), header: Mutex::new(header_to_repair(file)?) };
    let verified = Arc::new(AtomicBool::new(false));
    let is_verified = verified.clone();
    let opened = redb::Builder::new()
        .set_cache_size(CACHE)
        .set_repair_callback(move |repair| {
            if repair.progress() > VERIFIED {
                is_verified.store(true, Ordering::Release);
                repair.abort();
            }
        })
        .create_with_backend(view);
    match opened {
        Ok(_) => Ok(()), // nothing was ever committed
        Err(DatabaseError::RepairAborted) if verified.load(Ordering::Acquire) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The header of the file, as it is shown to redb so that it verifies all.
fn header_to_repair(file: &FileBackend) -> Result<[u8; HEADER], DatabaseError> {
    let mut header = [0; HEADER];
    match file.len() {
        Ok(length) if length < HEADER as u64 => return Err(damaged("it is too short")),
        Ok(_) => file.read(0, &mut header),
        Err(error) => Err(error),
    }
    .map_err(StorageError::Io)?;
    let flags = header[FLAGS];
    if flags & TWO_PHASE == 0 || flags > PRIMARY | RECOVER | TWO_PHASE {
        return Err(damaged("the flags of its header make no sense"));
    }
    let (primary, secondary) = if flags & PRIMARY == 0 { (0, 1) } else { (1, 0) };
    let commit = |slot: usize| {
        let bytes = header[SLOTS[slot] + COMMIT..].first_chunk();
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    if flags & RECOVER == 0 && commit(primary) < commit(secondary) {
        return Err(damaged("its header refers to an older commit than the last one"));
    }
    header[FLAGS] = flags & PRIMARY | RECOVER;
    header.copy_within(SLOTS[primary]..SLOTS[primary] + SLOT, SLOTS[secondary]);
    Ok(header)
}

fn damaged(why: &str) -> DatabaseError {
    StorageError::Corrupted(why.to_owned()).into()
}

/// A file that cannot be written, with a header of its own.
struct View {
    file: Arc<FileBackend>,
    header: Mutex<[u8; HEADER]>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl StorageBackend for View {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)?;
        let header = self.header.lock();
        let covered =
            usize::try_from(offset).ok().and_then(|offset| header.get(offset..)).unwrap_or_default();
        let count = covered.len().min(out.len());
        out[..count].copy_from_slice(&covered[..count]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock();
        let covered = usize::try_from(offset).ok().and_then(|from| header.get_mut(from..from + data.len()));
        covered.ok_or(io::ErrorKind::ReadOnlyFilesystem)?.copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    // `close` does nothing, so that the locks stay.

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
