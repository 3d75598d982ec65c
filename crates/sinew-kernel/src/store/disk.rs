//! The file: a redb database with one table, opened again when it has failed.
//!
//! The database is behind a lock that all who use it share, for as long as they do; it is taken whole to put another state
//! in its place. All of them are on threads that may block: the writer, and those of loads.
//!
//! States: *open*; *failed*, after any error, until the next use opens the file again; *broken*, after a sync that
//! failed, for good; *closed*, for good.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition, TableError};
use sinew_sync::{RwLock, RwLockReadGuard};

use super::StoreError;
use super::create::open_or_create;
use super::watch::Watch;
use super::writer::Change;

/// From owner and key to value.
const STATE: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("state");
type Table = ReadOnlyTable<(&'static str, &'static str), &'static [u8]>;

/// Why the file could not be used; one for all in a commit.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Failed(Arc<io::Error>),
    Broken(Arc<io::Error>),
    Closed,
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Failure {
        Failure::Failed(Arc::new(cause))
    }
}

impl Failure {
    /// As an error of the store in this file.
    pub(super) fn at(self, path: &Arc<Path>) -> StoreError {
        let path = path.clone();
        match self {
            Failure::Failed(cause) => StoreError::Failed { path, cause },
            Failure::Broken(cause) => StoreError::Broken { path, cause },
            Failure::Closed => StoreError::Closed,
        }
    }
}

enum Slot {
    Open(Database),
    Not(Failure),
}

pub(super) struct Disk {
    path: Arc<Path>,
    slot: RwLock<Slot>,
    watch: Watch,
}

impl Disk {
    pub(super) fn open(path: Arc<Path>, watch: Watch) -> Result<Disk, StoreError> {
        let database = open_or_create(&path, &watch)?;
        Ok(Disk { path, slot: RwLock::new(Slot::Open(database)), watch })
    }

    pub(super) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Makes all changes or none, and returns when they are durable. Says of each whether there was a value before.
    pub(super) fn commit<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> Result<Vec<bool>, Failure> {
        self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            transaction.set_quick_repair(true); // in two phases, and with what makes opening quick after a crash
            let mut table = transaction.open_table(STATE)?;
            let mut before = Vec::new();
            for Change { owner, key, value } in changes {
                let key = (&**owner, key.as_str());
                before.push(match value {
                    Some(value) => table.insert(key, value.as_slice())?.is_some(),
                    None => table.remove(key)?.is_some(),
                });
            }
            drop(table);
            transaction.commit()?;
            Ok(before)
        })
    }

    pub(super) fn load(&self, owner: &str, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.read(None, |table| Ok(table.get((owner, key))?.map(|value| value.value().to_vec())))
    }

    pub(super) fn keys(&self, owner: &str, prefix: &str) -> Result<Vec<String>, Failure> {
        self.read(Vec::new(), |table| {
            let mut keys = Vec::new();
            for entry in table.range((owner, prefix)..)? {
                let (entry, _) = entry?;
                let (of, key) = entry.value();
                if of != owner || !key.starts_with(prefix) {
                    break;
                }
                keys.push(key.to_owned());
            }
            Ok(keys)
        })
    }

    /// Whether the file can be used.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.opened().map(drop)
    }

    /// Waits for those who use the file, and closes it.
    pub(super) fn close(&self) {
        self.put(Failure::Closed);
    }

    /// Reads the table as the last commit left it; `none` if there was no commit.
    fn read<T>(&self, none: T, read: impl FnOnce(&Table) -> Result<T, redb::Error>) -> Result<T, Failure> {
        self.with(|database| match database.begin_read()?.open_table(STATE) {
            Ok(table) => read(&table),
            Err(TableError::TableDoesNotExist(_)) => Ok(none),
            Err(error) => Err(error.into()),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Failure> {
        let slot = self.opened()?;
        let Slot::Open(database) = &*slot else { unreachable!("it was opened") };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(database)));
        drop(slot);
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(self.failed(as_io(error))),
            Err(panic) => {
                Err(self.failed(io::Error::other(format!("the database panicked: {}", text(&*panic)))))
            }
        }
    }

    /// A share of the slot, with a database in it.
    fn opened(&self) -> Result<RwLockReadGuard<'_, Slot>, Failure> {
        loop {
            let slot = self.slot.read();
            match &*slot {
                Slot::Open(_) => return Ok(slot),
                Slot::Not(Failure::Failed(_)) => drop(slot),
                Slot::Not(failure) => return Err(failure.clone()),
            }
            let mut slot = self.slot.write();
            if let Slot::Not(Failure::Failed(_)) = &*slot {
                match open_or_create(&self.path, &self.watch) {
                    Ok(database) => *slot = Slot::Open(database),
                    Err(error) => {
                        drop(slot);
                        return Err(self.failed(as_cause(error)));
                    }
                }
            }
        }
    }

    /// Puts the database away that has failed so.
    fn failed(&self, cause: io::Error) -> Failure {
        let cause = Arc::new(cause);
        let failure =
            if self.watch.has_lost_writes() { Failure::Broken(cause) } else { Failure::Failed(cause) };
        self.put(failure.clone());
        failure
    }

    fn put(&self, failure: Failure) {
        let mut slot = self.slot.write();
        let for_good = matches!(&*slot, Slot::Not(Failure::Closed | Failure::Broken(_)));
        if !for_good {
            // The database closes its file before anybody can open it again.
            *slot = Slot::Not(failure);
        }
    }
}

pub(super) fn cannot_open(path: &Arc<Path>, cause: io::Error) -> StoreError {
    StoreError::Open { path: path.clone(), cause: Arc::new(cause) }
}

fn as_io(error: redb::Error) -> io::Error {
    match error {
        redb::Error::Io(cause) => cause,
        error => io::Error::other(error.to_string()),
    }
}

/// Why a file that was open cannot be opened again.
fn as_cause(error: StoreError) -> io::Error {
    match error {
        StoreError::Open { cause, .. } => io::Error::new(cause.kind(), cause.to_string()),
        error => io::Error::other(error.to_string()),
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().copied().unwrap_or("it does not say why"),
    }
}
