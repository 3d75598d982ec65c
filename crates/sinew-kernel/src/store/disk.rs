//! The file: a redb database with one table, opened again when it has failed.
//!
//! The database is behind a lock that all who use it share, for as long as they do; it is taken whole to put another state
//! in its place. All of them are on threads that may block: the writer, and those of loads.
//!
//! States: *open*; *failed*, after any error, until the next use opens the file again; *damaged*, after a panic of redb
//! or if the file turns out to be so when it is opened again, for good; *broken*, after a sync that failed, for good; *closed*,
//! for good.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::{Durability, ReadOnlyTable, ReadableDatabase};
use sinew_sync::{RwLock, RwLockReadGuard};

use super::StoreError;
use super::create::open_or_create;
use super::database::{Database, Panicked};
use super::format::{STATE, checksum};
use super::watch::Watch;
use super::writer::Change;

type Table = ReadOnlyTable<(&'static str, &'static str), (u64, &'static [u8])>;

/// Why the file could not be used; one for all in a commit.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Failed(Arc<io::Error>),
    Damaged(Arc<str>),
    /// One value is damaged.
    Value {
        owner: String,
        key: String,
        found: String,
    },
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
            Failure::Damaged(why) => StoreError::Damaged { path, why: why.to_string() },
            Failure::Value { owner, key, found } => StoreError::DamagedValue { path, owner, key, found },
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
                let name = (&**owner, key.as_str());
                before.push(match value {
                    Some(value) => table.insert(name, (checksum(owner, key, value), &**value))?.is_some(),
                    None => table.remove(name)?.is_some(),
                });
            }
            drop(table);
            transaction.commit()?;
            Ok(before)
        })
    }

    pub(super) fn load(&self, owner: &str, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let loaded =
            self.read(|table| Ok(table.get((owner, key))?.map(|entry| verified(owner, key, entry.value()))))?;
        loaded.transpose()
    }

    pub(super) fn keys(&self, owner: &str, prefix: &str) -> Result<Vec<String>, Failure> {
        self.list(owner, prefix, |key, _| Ok(key.to_owned()))
    }

    pub(super) fn entries(&self, owner: &str, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        self.list(owner, prefix, |key, saved| Ok((key.to_owned(), verified(owner, key, saved)?)))
    }

    /// Maps each entry whose key begins with `prefix`, in the order of the keys. Stops at the first
    /// failure.
    fn list<T>(
        &self,
        owner: &str,
        prefix: &str,
        read: impl Fn(&str, (u64, &[u8])) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        self.read(|table| {
            let mut listed = Vec::new();
            for entry in table.range((owner, prefix)..)? {
                let (name, saved) = entry?;
                let (of, key) = name.value();
                if of != owner || !key.starts_with(prefix) {
                    break;
                }
                match read(key, saved.value()) {
                    Ok(one) => listed.push(one),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            Ok(Ok(listed))
        })?
    }

    /// Whether the file can be used.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.opened().map(drop)
    }

    /// Waits for those who use the file, and closes it.
    pub(super) fn close(&self) {
        self.put(Failure::Closed);
    }

    /// Reads the table as the last commit left it.
    fn read<T>(&self, read: impl FnOnce(&Table) -> Result<T, redb::Error>) -> Result<T, Failure> {
        self.with(|database| read(&database.begin_read()?.open_table(STATE)?))
    }

    fn with<T>(&self, work: impl FnOnce(&redb::Database) -> Result<T, redb::Error>) -> Result<T, Failure> {
        let slot = self.opened()?;
        let Slot::Open(database) = &*slot else { unreachable!("it was opened") };
        let outcome = database.with(work);
        drop(slot);
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(redb::Error::Corrupted(why))) => {
                // Whether the file is damaged turns out when it is opened again.
                self.failed(io::Error::other(why.clone()));
                Err(Failure::Damaged(why.into()))
            }
            Ok(Err(error)) => Err(self.failed(as_io(error))),
            Err(Panicked(why)) => {
                let failure = Failure::Damaged(format!("the database panicked: {why}").into());
                self.put(failure.clone());
                Err(failure)
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
                    Err(StoreError::Damaged { why, .. }) => {
                        *slot = Slot::Not(Failure::Damaged(why.into()));
                    }
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
        let for_good =
            matches!(&*slot, Slot::Not(Failure::Closed | Failure::Broken(_) | Failure::Damaged(_)));
        if for_good {
            return;
        }
        let has_panicked = matches!(failure, Failure::Damaged(_));
        // The database closes its file before anybody can open it again.
        match std::mem::replace(&mut *slot, Slot::Not(failure)) {
            Slot::Open(database) if has_panicked => database.abandon(),
            before => drop(before),
        }
    }
}

/// Returns a value if it matches the checksum that was saved with it.
fn verified(owner: &str, key: &str, (saved, value): (u64, &[u8])) -> Result<Vec<u8>, Failure> {
    let found = checksum(owner, key, value);
    if found == saved {
        return Ok(value.to_vec());
    }
    Err(Failure::Value {
        owner: owner.to_owned(),
        key: key.to_owned(),
        found: format!("{} bytes with the checksum {found:016x}, where {saved:016x} was saved", value.len()),
    })
}

pub(super) fn cannot_open(path: &Arc<Path>, cause: io::Error) -> StoreError {
    StoreError::Open { path: path.clone(), cause: Arc::new(cause) }
}

pub(super) fn as_io(error: redb::Error) -> io::Error {
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
