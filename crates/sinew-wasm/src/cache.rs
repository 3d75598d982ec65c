//! The cache of compiled modules: a folder with one file for each module.
//!
//! A file is native code, and loading it runs it. It is trusted because only this user can have
//! written it:
//!
//! - The folder belongs to the effective user of the process, and nobody else can enter it (mode
//!   0700). It is checked once, and then used through its handle, so it cannot be exchanged.
//! - A file is opened without following links. It is a regular file of the same user, and neither
//!   group nor others can write to it.
//! - Its header names the format, the module and the engine (the [`Key`]), and the SHA-256 of the code.
//!   The code is read into memory before that is verified, so it cannot change afterwards.
//!
//! A file that fails any of this is ignored: the module is compiled, and the file replaced. The SHA-256
//! finds accidents (a full disk, a crash, a failing disk), not forgeries: this user could write both.
//!
//! Files are written under a temporary name and renamed, so that other processes see a whole file or
//! none. A process that dies meanwhile leaves a temporary file, which a later one removes.

mod entry;
mod folder;
mod key;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::error::CacheFolderError;
use entry::Unreadable;
use folder::Folder;
use key::Fingerprint;
pub(crate) use key::Key;

pub(crate) struct Cache {
    folder: Folder,
    fingerprint: Fingerprint,
    hits: AtomicU64,
    misses: AtomicU64,
    rejected: AtomicU64,
    failed_writes: AtomicU64,
}

/// Counters of the cache of an engine, since the engine was created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct CacheStats {
    /// Modules that were loaded from the cache.
    pub hits: u64,
    /// Modules that had to be compiled, whether or not that succeeded.
    pub misses: u64,
    /// Misses with a file that was ignored: it is damaged, cannot be read, or somebody else could have
    /// written it.
    pub rejected: u64,
    /// Modules that were compiled but not stored, for example because the disk is full.
    pub failed_writes: u64,
}

impl CacheStats {
    /// Returns how many modules were looked up: hits and misses.
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }
}

/// Code that was compiled from the source and by the engine of a [`Key`], and stored by this user.
/// Only [`Cache::find`] makes one, after the checks that the module `cache` lists.
pub(crate) struct TrustedCode(Vec<u8>);

impl TrustedCode {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Cache {
    /// Opens the cache in `folder`, and creates the folder if it is missing. Removes temporary files of
    /// processes that have died.
    pub(crate) fn open(folder: &Path, engine: &wasmtime::Engine) -> Result<Cache, CacheFolderError> {
        let folder = Folder::open(folder)?;
        folder.remove_leftovers();
        let [hits, misses, rejected, failed_writes] = [const { AtomicU64::new(0) }; 4];
        let fingerprint = Fingerprint::of(engine);
        Ok(Cache { folder, fingerprint, hits, misses, rejected, failed_writes })
    }

    /// Returns the key of a module, given its source.
    pub(crate) fn key(&self, source: &[u8]) -> Key {
        Key::new(&self.fingerprint, source)
    }

    /// Loads the stored code of `key` with `load`. `None` if there is none that can be trusted, or if
    /// `load` refuses it.
    pub(crate) fn find<T>(&self, key: &Key, load: impl FnOnce(TrustedCode) -> Option<T>) -> Option<T> {
        let (loaded, counters) = match self.read(key) {
            Ok(code) => match load(code) {
                Some(loaded) => (Some(loaded), &[&self.hits][..]),
                None => (None, &[&self.misses, &self.rejected][..]),
            },
            Err(Unreadable::Absent) => (None, &[&self.misses][..]),
            Err(Unreadable::Rejected) => (None, &[&self.misses, &self.rejected][..]),
        };
        counters.iter().for_each(|counter| increment(counter));
        loaded
    }

    fn read(&self, key: &Key) -> Result<TrustedCode, Unreadable> {
        let file = self.folder.open_file(&key.file_name())?;
        entry::read(file, key).map(TrustedCode)
    }

    /// Stores the code of `key`. A failure is only counted: the module can be used without.
    pub(crate) fn store(&self, key: &Key, code: io::Result<Vec<u8>>) {
        let stored = code.and_then(|code| {
            let header = entry::header(key, &code);
            self.folder.replace(&key.file_name(), &[&header, &code])
        });
        if stored.is_err() {
            increment(&self.failed_writes);
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let [hits, misses, rejected, failed_writes] =
            [&self.hits, &self.misses, &self.rejected, &self.failed_writes]
                .map(|counter| counter.load(Ordering::Relaxed));
        CacheStats { hits, misses, rejected, failed_writes }
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
