//! A redb database that cannot take the process with it.
//!
//! redb panics on pages that make no sense. Every call is made here, within `catch_unwind`, and so is the drop. A database
//! that has panicked may have half of a change in memory, and its destructors may panic too, which aborts when it happens during
//! an unwind: so it is leaked, with its cache and its file descriptor, and only its locks are given back. Afterwards
//! its store refuses everything, so that happens once for each store that is opened.
//!
//! A panic that leads to another one within the same call of redb aborts whatever is done here. Files are
//! [verified](super::verify) when they are opened, so that takes a file that is damaged while it is open.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

use super::verify::verify;
use super::watch::{Watch, Watched};

/// What redb may keep of the file in memory; little in tests, so that they read the file too.
const CACHE: usize = if cfg!(test) { 1 << 18 } else { 64 << 20 };

/// What redb said when it panicked.
#[derive(Debug)]
pub(super) struct Panicked(pub(super) String);

pub(super) struct Database {
    /// None while it is dropped.
    database: Option<redb::Database>,
    /// The file of the database, to unlock it by.
    file: Arc<FileBackend>,
}

impl Database {
    /// Opens the database in `file`; one that `is_new` is initialised.
    pub(super) fn open(
        file: std::fs::File,
        is_new: bool,
        watch: &Watch,
    ) -> Result<Result<Database, DatabaseError>, Panicked> {
        caught(|| {
            let file = Arc::new(FileBackend::new(file)?);
            if !is_new {
                verify(&file)?;
            }
            let watched = Watched::new(file.clone(), watch.clone());
            let database = redb::Builder::new().set_cache_size(CACHE).create_with_backend(watched)?;
            Ok(Database { database: Some(database), file })
        })
    }

    /// Calls redb.
    pub(super) fn with<T>(&self, work: impl FnOnce(&redb::Database) -> T) -> Result<T, Panicked> {
        let database = self.database.as_ref().expect("it is open until it is dropped");
        caught(|| work(database))
    }

    /// Gives the file back and leaks the rest: what is left to do if redb has panicked.
    pub(super) fn abandon(mut self) {
        forget(self.database.take());
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let database = self.database.take();
        // It is closed by now or never will be.
        let _ = caught(|| drop(database));
        // The locks are gone already, unless the database was leaked or has panicked.
        let _ = caught(|| self.file.close());
    }
}

fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked(text(&*panic).to_owned()))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().copied().unwrap_or("it does not say why"),
    }
}
