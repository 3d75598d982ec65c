//! The settings of a store.

use std::io;
use std::path::Path;

use sinew_chan::chan;
use sinew_io::{BlockingError, blocking};
use sinew_sync::{Arc, Mutex, thread};

use super::disk::{Disk, cannot_open};
use super::watch::Watch;
use super::writer::{self, Counters, Request};
use super::{File, Lease, Memory, Place, Shared, Store, StoreError};

/// Values are at most so large, whatever is asked for: what holds one is allocated at once.
const LARGEST: usize = 1 << 30;

/// How a store is to be: see [`Store::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until a store is opened with it"]
pub struct Builder {
    max_value: usize,
    queue: usize,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { max_value: 16 << 20, queue: 64 << 20 }
    }
}

impl Builder {
    /// How many bytes a value may have: 16 MiB if not said, at most 1 GiB.
    pub fn max_value(self, bytes: usize) -> Builder {
        Builder { max_value: bytes.min(LARGEST), ..self }
    }

    /// How many bytes of changes are queued before callers wait: 64 MiB if not said, and always
    /// enough for one value of the largest size. A change counts with its owner, its key, its value
    /// and 128 bytes. The values of one [`save_many`](super::State::save_many) are queued together,
    /// so they are limited to this size.
    pub fn queue(self, bytes: usize) -> Builder {
        Builder { queue: bytes, ..self }
    }

    /// [`Store::open`] with these settings.
    ///
    /// # Errors
    ///
    /// As for [`Store::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, StoreError> {
        self.open_watched(path.as_ref(), Watch::default())
    }

    /// [`Store::in_memory`] with these settings.
    pub fn in_memory(self) -> Store {
        self.store(Place::Memory(Memory::default()), Arc::default())
    }

    pub(super) fn open_watched(self, path: &Path, watch: Watch) -> Result<Store, StoreError> {
        let at: std::sync::Arc<Path> = path.into();
        let there = at.clone();
        match blocking(move || self.open_here(there, watch)) {
            Ok(opened) => opened,
            Err(BlockingError::Refused(refused)) => Err(refused.into()),
            Err(error) => Err(cannot_open(&at, io::Error::from(error))),
        }
    }

    /// On this thread.
    fn open_here(self, path: std::sync::Arc<Path>, watch: Watch) -> Result<Store, StoreError> {
        let disk = Arc::new(Disk::open(path, watch)?);
        let counters = Arc::<Counters>::default();
        let room = self.room();
        let (requests, received) = chan::weighted(room, Request::weight);
        let (ends, ended) = chan::rendezvous();
        let writes = {
            let (disk, counters) = (disk.clone(), counters.clone());
            move || {
                writer::run(&disk, &received, room, &counters);
                drop((received, ends)); // in this order: what is left in the queue is answered before the end
            }
        };
        let writer = thread::Builder::new()
            .name("sinew-store".to_owned())
            .spawn(writes)
            .map_err(|error| cannot_open(disk.path(), error))?;
        Ok(self
            .store(Place::File(File { disk, requests, ended, writer: Mutex::new(Some(writer)) }), counters))
    }

    /// The capacity of the queue of changes, by their weight.
    fn room(&self) -> usize {
        self.queue.max(Request::weight_of_largest(self.max_value))
    }

    fn store(self, place: Place, counters: Arc<Counters>) -> Store {
        let room = self.room();
        let shared = Arc::new(Shared { place, max_value: self.max_value, room, counters });
        Store { lease: Some(std::sync::Arc::new(Lease(shared.clone()))), shared }
    }
}
