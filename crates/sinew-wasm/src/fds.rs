//! The file descriptors of a guest: standard streams, and the directories that it was granted.
//!
//! What it writes to its standard output and error is kept here line by line, until the host call that wrote it hands
//! the lines to the log.

use std::sync::Arc;

use sinew_core::Errno;
use sinew_fd::{Directory, FdObject, FdTable, Flags, Output, Stdin};
use sinew_kernel::Level;
use sinew_sync::Mutex;

use crate::grants::DirectoryGrant;

/// The file descriptors of a guest.
pub(crate) struct Fds {
    pub(crate) table: Arc<FdTable>,
    lines: Arc<Lines>,
    preopened: Vec<Preopened>,
}

/// A directory that was granted, and opened before the guest began.
#[derive(Clone)]
pub(crate) struct Preopened {
    fd: i32,
    pub(crate) guest_path: Box<str>,
    pub(crate) directory: Arc<Directory>,
}

/// Lines that were written, with the level that they are logged at.
#[derive(Default)]
struct Lines(Mutex<Vec<(Level, Vec<u8>)>>);

impl Fds {
    /// Creates the file descriptors of a guest without directories, with numbers below `limit`.
    pub(crate) fn new(limit: usize) -> Fds {
        let lines = Arc::<Lines>::default();
        let output = |level| {
            let lines = lines.clone();
            Output::new(move |line| lines.0.lock().push((level, line.to_vec())))
        };
        let table = FdTable::with_stdio(limit, [Stdin::new(), output(Level::Info), output(Level::Warn)]);
        Fds { table: Arc::new(table), lines, preopened: Vec::new() }
    }

    /// Creates the file descriptors of a guest with these directories, at the numbers from 3 on.
    pub(crate) async fn open(limit: usize, granted: Vec<DirectoryGrant>) -> wasmtime::Result<Fds> {
        let open = move || {
            let mut fds = Fds::new(limit);
            for grant in granted {
                let preopened = fds.preopen(&grant);
                fds.preopened.push(preopened.map_err(|errno| (grant, errno))?);
            }
            Ok(fds)
        };
        match sinew_io::blocking_async(open).await {
            Err(error) => wasmtime::bail!("cannot open the directories that it was granted: {error}"),
            Ok(Ok(fds)) => Ok(fds),
            Ok(Err((DirectoryGrant { guest_path, host_path, .. }, errno))) => wasmtime::bail!(
                "cannot open the directory {}, which is granted as {guest_path}: {errno}",
                host_path.display()
            ),
        }
    }

    fn preopen(&self, grant: &DirectoryGrant) -> Result<Preopened, Errno> {
        let directory = Directory::grant(&grant.host_path, grant.access)?;
        let fd = self.table.open(directory.clone(), Flags::NONE)?;
        Ok(Preopened { fd, guest_path: grant.guest_path.clone(), directory })
    }

    /// Returns the directories that were granted.
    pub(crate) fn directories(&self) -> &[Preopened] {
        &self.preopened
    }

    /// Returns the path by which the guest knows a directory that was granted. `EBADF` for any other number, so also
    /// for one that was closed and given to something else.
    pub(crate) fn preopened_path(&self, fd: i32) -> Result<&str, Errno> {
        let object = self.table.object(fd)?;
        let object = Arc::as_ptr(&object).cast::<()>();
        let is_it = |it: &&Preopened| it.fd == fd && Arc::as_ptr(&it.directory).cast::<()>() == object;
        self.preopened.iter().find(is_it).map(|it| &*it.guest_path).ok_or(Errno::EBADF)
    }

    /// Takes the lines that were written since the last time.
    pub(crate) fn take_lines(&self) -> Vec<(Level, Vec<u8>)> {
        std::mem::take(&mut *self.lines.0.lock())
    }
}

/// Returns the object behind `object` if it is a `T`.
pub(crate) fn downcast<T: FdObject>(object: &Arc<dyn FdObject>) -> Option<Arc<T>> {
    let object: Arc<dyn std::any::Any + Send + Sync> = object.clone();
    object.downcast().ok()
}
