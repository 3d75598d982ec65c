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
//!   the value before it is. The same holds for all values of one [`State::save_many`] together.
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
//! The file is a [redb](https://www.redb.org) database with one table, from owner and key to checksum and value. One thread writes. It
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
//! longer than otherwise: as long as it takes to read the file once.
//!
//! A file is made under the name with `.new` at its end, and renamed when it is a whole database: a crash in between
//! leaves no file that can not be opened. The directory is synced too.
//!
//! Loads read the last commit, on a thread for [blocking calls](sinew_io::blocking()); they wait for no commit.
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
//! # When the file is damaged
//!
//! Bytes may rot on the disk, blocks may be lost, a file may be cut off or restored in part. No value is returned that was not
//! saved, and the process lives on:
//!
//! - **Opening a file verifies it.** Each page has a checksum in the page that refers to it, up to the header. All pages that
//!   are in use are read and compared before anything else is done with them. If one does not match, the file is refused
//!   and left as it is: [`StoreError::Damaged`]. So a value that has gone missing is noticed too, and an older version of a
//!   page in the place of a newer one.
//! - **Loading a value verifies it.** Each value is saved with a checksum of 64 bits over its owner, its key and itself. If it does
//!   not match, because the file was damaged while it was open, the load fails with [`StoreError::DamagedValue`], which names the
//!   key; other values can still be loaded, and the key can be saved or deleted.
//! - **A panic of redb is an error.** On pages that make no sense redb panics, which is caught in every call and in the drop. The
//!   store then refuses everything with [`StoreError::Damaged`], and gives the file back when that happens; what redb had in
//!   memory, up to 64 MiB and a file descriptor, is leaked, since its destructors may panic as well. The process's panic hook
//!   reports the panic if it happened in a commit.
//!
//! The way out is a backup, or to move the file away and begin with an empty store.
//!
//! What is not noticed:
//!
//! - A file that was cut off to no bytes at all is an empty store.
//! - A file that is damaged *while it is open* may lack values, or have older ones, until it is opened again. redb may
//!   then allocate up to 4 GiB for a page whose length is damaged, or abort the process by a panic during a panic.
//! - One bit of the header says which of the last two commits is in force. If it flips in a file that was not closed, the
//!   last commit is missing.
//! - Checksums are no signatures: they do not notice a change by somebody who wants it to go unnoticed.
//!
//! A file that was written by a version of Sinew without checksums of values is verified and given them when it is opened; that version
//! refuses it from then on. One of a newer format is refused: [`StoreError::NewerFormat`].
//!
//! # Limits
//!
//! - One process has the file open, once: [`StoreError::InUse`].
//! - Keys and the names of owners have 1 to 255 bytes, without NUL. They are data: no name is a path.
//! - Values have up to 16 MiB, or what [`Builder::max_value`] says.
//! - Nothing here repairs a damaged file: keep backups, of the file of a store that is closed.
//! - Opening a file reads all of it.
//! - A [`ManualClock`](sinew_sched::ManualClock) stands still while a task waits for the disk.

mod builder;
mod create;
mod database;
mod disk;
mod error;
mod format;
mod memory;
mod report;
mod state;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod verify;
mod watch;
mod writer;

use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use sinew_chan::chan::{self, RecvError, Unsent};
use sinew_fiber::raw::ready_to_await;
use sinew_io::{BlockingError, blocking, blocking_async};
use sinew_sched::hold_clock;
use sinew_sync::{Arc, Mutex, thread};

pub use builder::Builder;
use disk::{Disk, Failure};
pub use error::{BadName, StoreError};
use memory::Memory;
use report::Report;
pub use state::State;
pub use writer::Stats;
use writer::{Answer, Change, Counters, Request};

/// A store of the states of actors. Clones are the same store; the module says what it promises.
///
/// When the last clone and the last [`State`] are gone, what is queued is still written, and then the file is closed, both
/// in the background. [`close`](Store::close) waits for that. States that a [node](crate::Node) gives its actors do not count.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Keeps the store open; a node's actors have none.
    lease: Option<std::sync::Arc<Lease>>,
}

struct Shared {
    place: Place,
    max_value: usize,
    /// The capacity of the queue of changes, by their weight.
    room: usize,
    counters: Arc<Counters>,
}

impl Shared {
    /// Lets no change in any more.
    fn close(&self) {
        match &self.place {
            Place::Memory(memory) => memory.close(),
            Place::File(file) => drop(file.requests.close()),
        }
    }
}

/// Closes the store when it is dropped.
struct Lease(Arc<Shared>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.close();
    }
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
    writer: Mutex<Option<thread::JoinHandle<()>>>,
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
    /// [`StoreError::InUse`], [`StoreError::Damaged`], [`StoreError::NewerFormat`], [`StoreError::Open`];
    /// [`StoreError::Refused`] if it is called where a task must not block.
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
        self.change(Vec::new()).map(drop)
    }

    /// [`flush`](Store::flush) for futures.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Store::flush).
    pub async fn flush_async(&self) -> Result<(), StoreError> {
        self.change_async(Vec::new()).await.map(drop)
    }

    /// Lets no change in any more, waits until all are durable that were queued, and closes the file, which can then be opened
    /// again. May be called again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if the caller cannot wait; the store is closed all the same.
    pub fn close(&self) -> Result<(), StoreError> {
        self.shared.close();
        if let Place::File(file) = &self.shared.place
            && let Err(RecvError::Refused(refused)) = file.ended.recv()
        {
            return Err(refused.into());
        }
        Ok(())
    }

    /// [`close`](Store::close) for futures. Nothing happens before it is polled.
    pub async fn close_async(&self) {
        self.shared.close();
        if let Place::File(file) = &self.shared.place {
            let Err(_) = file.ended.recv_async().await;
        }
    }

    /// The same store, which is closed without regard to this handle.
    pub(crate) fn without_lease(&self) -> Store {
        Store { shared: self.shared.clone(), lease: None }
    }

    /// Gives the store up. If nobody else keeps it open, it is closed, and this waits until its file is, wherever it is called.
    pub(crate) fn release(self) {
        let Some(lease) = self.lease.and_then(std::sync::Arc::into_inner) else { return };
        drop(lease);
        if let Place::File(file) = &self.shared.place
            && let Err(RecvError::Refused(_)) = file.ended.recv()
            && let Some(writer) = file.writer.lock().take()
        {
            let _ = writer.join(); // a thread that unwinds or may not block as a task waits all the same
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

    /// Makes all changes or none, after the changes that are queued. Returns true if one of them
    /// replaced or removed a value.
    fn change(&self, changes: Vec<Change>) -> Result<bool, StoreError> {
        let file = match &self.shared.place {
            Place::Memory(memory) => return memory.change(changes, &self.shared.counters),
            Place::File(file) => file,
        };
        ready_to_await()?; // what cannot wait for the answer is not begun
        let _hold = hold_clock();
        let (request, mut answer) = Request::new(changes);
        file.requests.send(request).map_err(|unsent| file.unsent(unsent.why))?;
        file.answered(answer.recv())
    }

    async fn change_async(&self, changes: Vec<Change>) -> Result<bool, StoreError> {
        let file = match &self.shared.place {
            Place::Memory(memory) => return memory.change(changes, &self.shared.counters),
            Place::File(file) => file,
        };
        let _hold = hold_clock();
        let (request, mut answer) = Request::new(changes);
        file.requests.send_async(request).await.map_err(|unsent| file.unsent(unsent.why))?;
        file.answered(answer.recv_async().await)
    }

    /// Queues a change, and waits only while the queue is full. Unless this returns an error,
    /// `tell` is called once with the outcome, on the writer thread.
    fn change_reporting(
        &self,
        change: Change,
        tell: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let file = match &self.shared.place {
            Place::Memory(memory) => {
                memory.change(vec![change], &self.shared.counters)?;
                tell(Ok(()));
                return Ok(());
            }
            Place::File(file) => file,
        };
        let (path, hold) = (file.disk.path().clone(), hold_clock());
        let report = Report::new(move |answer| {
            tell(answer.map(drop).map_err(|failure| failure.at(&path)));
            drop(hold); // what was told is seen before the clock goes on
        });
        file.requests.send(Request::reporting(vec![change], report)).map_err(|unsent| {
            unsent.item.withdraw();
            file.unsent(unsent.why)
        })
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
            _ => StoreError::Closed, // what is too heavy for the queue was refused before
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
