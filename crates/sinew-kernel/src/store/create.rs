//! Opens the file of a store, or makes it.
//!
//! redb initialises a file in several steps, and a file in which it has not come to the end can never be opened. So a
//! new one is made under another name, locked, and renamed when it is whole. Of several processes that want to make it at
//! once, one has the lock; who gets the lock looks again whether there is a file by now. The file keeps its lock when it is
//! renamed.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{DatabaseError, StorageError};

use super::StoreError;
use super::database::{Database, Panicked};
use super::disk::{as_io, cannot_open};
use super::format::{FORMAT, Found, prepare};
use super::watch::Watch;

/// Opens the database in `path`, which is made if it is missing or empty. One of an older format is brought to the present
/// one.
pub(super) fn open_or_create(path: &Arc<Path>, watch: &Watch) -> Result<Database, StoreError> {
    let failed = |cause| cannot_open(path, cause);
    if is_missing(path).map_err(failed)? {
        create(path, watch)
    } else {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        start(path, file, false, watch)
    }
}

fn is_missing(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes the file that was missing a moment ago.
pub(super) fn create(path: &Arc<Path>, watch: &Watch) -> Result<Database, StoreError> {
    let failed = |cause| cannot_open(path, cause);
    let unfinished = unfinished(path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // not before it is locked
        .open(&unfinished)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: path.clone() }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    if !is_missing(path).map_err(failed)? {
        drop(file);
        let _ = fs::remove_file(unfinished); // whoever made the file may have renamed it
        return open_or_create(path, watch);
    }
    file.set_len(0).map_err(failed)?;
    let database = start(path, file, true, watch)?;
    fs::rename(unfinished, path).and_then(|()| sync_directory_of(path)).map_err(failed)?;
    Ok(database)
}

/// The name of the file while it is being made.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

/// Makes the name of the file durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn start(path: &Arc<Path>, file: fs::File, is_new: bool, watch: &Watch) -> Result<Database, StoreError> {
    let damaged = |why| StoreError::Damaged { path: path.clone(), why };
    let panicked = |Panicked(why)| damaged(format!("the database panicked: {why}"));
    let started = Database::open(file, is_new, watch).map_err(panicked)?;
    let database = started.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: path.clone() },
        DatabaseError::Storage(StorageError::Io(cause)) if !is_of_content(&cause) => cannot_open(path, cause),
        error => damaged(error.to_string()),
    })?;
    match database.with(prepare) {
        Ok(Ok(Found::Store)) => Ok(database),
        Ok(Ok(Found::Newer(found))) => {
            Err(StoreError::NewerFormat { path: path.clone(), found, known: FORMAT })
        }
        Ok(Ok(Found::Foreign)) => Err(damaged("it is a redb database of another program".to_owned())),
        Ok(Err(redb::Error::Corrupted(why))) => Err(damaged(why)),
        Ok(Err(error)) => Err(cannot_open(path, as_io(error))),
        Err(panic) => {
            database.abandon();
            Err(panicked(panic))
        }
    }
}

/// The disk has done what was asked of it, and the file makes no sense: a page that is to be read is not there.
fn is_of_content(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
