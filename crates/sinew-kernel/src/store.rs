//! What actors keep across restarts, crashes and power cuts: bytes under a key, for each name of an actor.
//!
//! ```
//! use sinew_kernel::store::Store;
//!
//! let store = Store::in_memory(); // or `Store::open("node.state")?`
//! let state = store.of("counter");
//! state.save("count", 41u64.to_le_bytes())?;
//! assert_eq!(state.load("count")?, Some(41u64.to_le_bytes().to_vec()));
//! assert_eq!(store.of("other").load("count")?, None);
//! assert!(state.delete("count")?);
//! # Ok::<(), sinew_kernel::store::StoreError>(())
//! ```
//!
//! Every call is there for tasks and threads, and as a future: [`State::save`] and [`State::save_async`], and so on. A task
//! that waits is suspended, and its worker runs others.
//!
//! # What is promised
//!
//! - **Acknowledged is durable.** When `save` or `delete` has returned `Ok`, the change is on the disk: no crash of the
//!   process and no power cut undoes it.
//! - **Whole or not at all.** A value is never torn. What was not acknowledged when the process ended is there as a whole, or
//!   the value before it is.
//! - **In order.** Changes are made in the order in which they were queued; those of one caller in the order of its calls, and
//!   those of futures in the order of their first polls. If one was made, so were all before it.
//! - **Read your writes.** A load sees every change that was acknowledged before it began. It does not wait for those
//!   that are on their way.
//! - **A caller that gives up**, because its task is cancelled, killed or out of time, or its future is dropped: the change
//!   is made or it is not, as a whole. [`StoreError::Refused`] means that it was not, [`StoreError::Unconfirmed`] that nobody
//!   knows.
//!
//! A power cut leaves all of that as it is if the disk keeps what it confirms to have written (`fdatasync`). One that
//! confirms what is still in a volatile cache may lose the last changes, or the file.
//!
//! # How it works
//!
//! The file is a [redb](https://www.redb.org) database with one table, from owner and key to value. One thread writes. It
//! takes all changes that are queued, makes them in one transaction, commits it, and then answers all who wait for it;
//! changes that come meanwhile are queued for the next. So a lone save costs a commit, and thousands at once cost
//! not many more ([`Stats::commits`] counts). The queue is bounded in bytes: when it is full, callers wait for room,
//! first come first served. Besides that, what is being committed is in memory, as much again at most, and up to
//! 64 MiB of pages that redb keeps.
//!
//! redb never overwrites what is committed: new pages go elsewhere, and are in force when a header points to them. A
//! commit syncs the pages before it writes that header, and the header before it returns (`Durability::Immediate`, in two
//! phases). With checksums alone it could do with one sync, but values may come from code that is not trusted, and
//! checksums can be forged. Each commit also records which pages are in use, so opening a file after a crash takes no
//! longer than otherwise.
//!
//! A file is made under the name with `.new` at its end, and renamed when it is a whole database: a crash in between
//! leaves no file that can not be opened. The directory is synced too.
//!
//! Loads read the last commit, on a thread for [blocking calls](sinew_sched::blocking()); they wait for no commit.
//!
//! # When the disk fails
//!
//! A commit that fails is reported to all whose changes were in it ([`StoreError::Failed`]), and whether they were made is
//! not known. Afterwards the file is opened again by the next call. So when there was no room on the disk, the store goes on
//! as soon as there is.
//!
//! If a *sync* fails, the store is broken ([`StoreError::Broken`]) and refuses everything from then on: the system may have
//! forgotten what it could not write, while a read still sees it, so nothing more could be promised. What was
//! acknowledged before is on the disk.
//!
//! # Limits
//!
//! - One process has the file open, once: [`StoreError::InUse`].
//! - Keys and the names of owners have 1 to 255 bytes, without NUL. They are data: no name is a path.
//! - Values have up to 16 MiB, or what [`Builder::max_value`] says.
//! - What rots on the disk is not always noticed: keep backups, of the file of a store that is closed.
//! - A [`ManualClock`](sinew_sched::ManualClock) stands still while a task waits for the disk.

mod builder;
mod create;
mod disk;
mod error;
mod memory;
mod state;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod watch;
mod writer;

use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use sinew_fiber::raw::ready_to_await;
use sinew_sched::chan::{self, RecvError, Unsent};
use sinew_sched::{BlockingError, blocking, blocking_async, hold_clock};
use sinew_sync::Arc;

pub use builder::Builder;
use disk::{Disk, Failure};
pub use error::{BadName, StoreError};
use memory::Memory;
pub use state::State;
pub use writer::Stats;
use writer::{Answer, Change, Counters, Request};

/// A store of the states of actors. Clones are the same store; the module says what it promises.
///
/// When the last clone and the last [`State`] are gone, what is queued is still written, and then the file is closed, both
/// in the background. [`close`](Store::close) waits for that.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    place: Place,
    max_value: usize,
    counters: Arc<Counters>,
}

enum Place {
    Memory(Memory),
    File(File),
}

/// What the handles know of a file and of the thread that writes it.
struct File {
    disk: Arc<Disk>,
    requests: chan::Sender<Request>,
    /// Ends when the thread has closed the file.
    ended: chan::Receiver<Infallible>,
}

impl Store {
    /// Opens the store in this file, or makes one if there is none. [`Store::builder`] has other settings.
    ///
    /// ```
    /// use sinew_kernel::store::Store;
    ///
    /// let path = std::env::temp_dir().join(format!("sinew-store-{}", std::process::id()));
    /// let store = Store::open(&path)?;
    /// store.of("counter").save("count", "1")?;
    /// store.close()?;
    ///
    /// let store = Store::open(&path)?;
    /// assert_eq!(store.of("counter").load("count")?, Some(b"1".to_vec()));
    /// # store.close()?;
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), sinew_kernel::store::StoreError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`], [`StoreError::Damaged`], [`StoreError::Open`]; [`StoreError::Refused`] if it is called
    /// where a task must not block.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        Store::builder().open(path)
    }

    /// A store that is gone when the process ends, or when it is closed. Its calls never wait.
    pub fn in_memory() -> Store {
        Store::builder().in_memory()
    }

    /// A store with other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The state of the actor that is called `owner`. Costs next to nothing; a name that is none is refused by the calls.
    pub fn of(&self, owner: &str) -> State {
        State::new(self.clone(), owner)
    }

    /// Waits until all changes are durable that were queued before, by whomever.
    ///
    /// # Errors
    ///
    /// [`StoreError::Broken`], [`StoreError::Closed`], or [`StoreError::Refused`] if the caller cannot wait. A commit that
    /// failed is reported to those whose changes were in it, and not here.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.change(None).map(drop)
    }

    /// [`flush`](Store::flush) for futures.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Store::flush).
    pub async fn flush_async(&self) -> Result<(), StoreError> {
        self.change_async(None).await.map(drop)
    }

    /// Lets no change in any more, waits until all are durable that were queued, and closes the file. May be called again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if the caller cannot wait; the store is closed all the same.
    pub fn close(&self) -> Result<(), StoreError> {
        match &self.shared.place {
            Place::Memory(memory) => memory.close(),
            Place::File(file) => {
                file.requests.close();
                if let Err(RecvError::Refused(refused)) = file.ended.recv() {
                    return Err(refused.into());
                }
            }
        }
        Ok(())
    }

    /// [`close`](Store::close) for futures. Nothing happens before it is polled.
    pub async fn close_async(&self) {
        match &self.shared.place {
            Place::Memory(memory) => memory.close(),
            Place::File(file) => {
                file.requests.close();
                let Err(_) = file.ended.recv_async().await;
            }
        }
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let queued = match &self.shared.place {
            Place::Memory(_) => 0,
            Place::File(file) => file.requests.len(),
        };
        self.shared.counters.stats(queued)
    }

    /// Makes a change, or none after all others. True if there was a value before.
    fn change(&self, change: Option<Change>) -> Result<bool, StoreError> {
        let file = match &self.shared.place {
            Place::Memory(memory) => return memory.change(change, &self.shared.counters),
            Place::File(file) => file,
        };
        ready_to_await()?; // what cannot wait for the answer is not begun
        let _hold = hold_clock();
        let (request, mut answer) = Request::new(change);
        file.requests.send(request).map_err(|unsent| file.unsent(unsent.why))?;
        file.answered(answer.recv())
    }

    async fn change_async(&self, change: Option<Change>) -> Result<bool, StoreError> {
        let file = match &self.shared.place {
            Place::Memory(memory) => return memory.change(change, &self.shared.counters),
            Place::File(file) => file,
        };
        let _hold = hold_clock();
        let (request, mut answer) = Request::new(change);
        file.requests.send_async(request).await.map_err(|unsent| file.unsent(unsent.why))?;
        file.answered(answer.recv_async().await)
    }

    fn read<T: Send + 'static>(&self, read: impl Read<T>) -> Result<T, StoreError> {
        match &self.shared.place {
            Place::Memory(memory) => read.in_memory(memory),
            Place::File(file) => {
                let disk = file.disk.clone();
                file.read(blocking(move || read.on_disk(&disk)))
            }
        }
    }

    async fn read_async<T: Send + 'static>(&self, read: impl Read<T>) -> Result<T, StoreError> {
        match &self.shared.place {
            Place::Memory(memory) => read.in_memory(memory),
            Place::File(file) => {
                let disk = file.disk.clone();
                file.read(blocking_async(move || read.on_disk(&disk)).await)
            }
        }
    }
}

/// Something to read, from either place.
trait Read<T>: Send + 'static {
    fn in_memory(self, memory: &Memory) -> Result<T, StoreError>;
    fn on_disk(self, disk: &Disk) -> Result<T, Failure>;
}

impl File {
    fn unsent(&self, why: Unsent) -> StoreError {
        match why {
            Unsent::Refused(refused) => refused.into(),
            _ => StoreError::Closed, // the queue holds the largest value, so nothing is too heavy for it
        }
    }

    fn answered(&self, answer: Result<Answer, RecvError>) -> Result<bool, StoreError> {
        match answer {
            Ok(answer) => answer.map_err(|failure| failure.at(self.disk.path())),
            Err(RecvError::Refused(refused)) => Err(StoreError::Unconfirmed(refused)),
            Err(_) => Err(StoreError::Closed),
        }
    }

    fn read<T>(&self, outcome: Result<Result<T, Failure>, BlockingError>) -> Result<T, StoreError> {
        match outcome {
            Ok(outcome) => outcome.map_err(|failure| failure.at(self.disk.path())),
            Err(BlockingError::Refused(refused)) => Err(refused.into()),
            Err(error) => Err(Failure::from(std::io::Error::from(error)).at(self.disk.path())),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &self.shared.place {
            Place::Memory(_) => None,
            Place::File(file) => Some(file.disk.path()),
        };
        f.debug_struct("Store").field("path", &path).finish_non_exhaustive()
    }
}
