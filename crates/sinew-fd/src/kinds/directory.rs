//! Directories that were granted to an actor, and what is below them.
//!
//! A path is resolved by the system in one step, relative to the directory's own descriptor (`openat2` with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`). So neither `..`, an absolute path, a symbolic link nor a directory that
//! is swapped meanwhile leads outside. Calls that change a name resolve the directory that it is in, and then work on
//! the last component in there, which must be a plain name.
//!
//! Only regular files are opened. The system is asked not to wait (`O_NONBLOCK`, for named pipes) and not to take a terminal,
//! and what was opened is closed again if it is something else. A file is emptied after that check.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags};
use sinew_core::Errno;

use crate::bits::Events;
use crate::errno::errno_of_system;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::watchers::Watchers;

use super::file::{File, FileAccess, FileKind, FileStat};

/// How often a path is resolved again because something was renamed meanwhile.
const RESOLVE_ATTEMPTS: usize = 64;

/// What an actor may do below a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only read.
    ReadOnly,
    /// Read, write, create, rename and remove.
    ReadWrite,
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// For writing at the end, wherever the position is.
    pub append: bool,
    /// Creates the file if it does not exist.
    pub create: bool,
    /// With `create`: fails with `EEXIST` if the file exists.
    pub exclusive: bool,
    /// Empties the file.
    pub truncate: bool,
}

impl OpenOptions {
    fn writes(self) -> bool {
        self.write || self.append || self.create || self.truncate
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// The name, in the bytes of the file system.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: FileKind,
    /// The number of the file in its file system.
    pub inode: u64,
}

/// A directory that was granted to an actor. Its calls reach what is below it and nothing else.
///
/// They block the thread for as long as the disk takes. Tasks call them by `sinew_io::blocking`, futures by
/// `sinew_io::blocking_async`. Epolls do not watch a directory (`EPERM`), and reading or writing one fails with `EISDIR`.
/// A path that leads outside fails with `EACCES`; a change below a directory that was granted read-only with `EROFS`.
pub struct Directory {
    /// None once it is closed. Calls that are under way keep the system's descriptor.
    descriptor: ObjectLock<Option<Arc<OwnedFd>>>,
    access: Access,
    watchers: Watchers,
    counters: Counters,
}

impl Directory {
    /// Opens a directory of the host, to grant it to an actor. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Those of the system, such as `ENOENT` and `ENOTDIR`.
    pub fn grant(path: &Path, access: Access) -> Result<Arc<Directory>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(errno_of_system)?;
        Ok(Directory::new(descriptor, access))
    }

    fn new(descriptor: OwnedFd, access: Access) -> Arc<Directory> {
        Arc::new(Directory {
            descriptor: ObjectLock::new(Some(Arc::new(descriptor))),
            access,
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }

    /// Returns what may be done below the directory.
    pub fn access(&self) -> Access {
        self.access
    }

    fn descriptor(&self) -> Result<Arc<OwnedFd>, Errno> {
        self.descriptor.lock().clone().ok_or(Errno::EBADF)
    }

    fn changeable(&self) -> Result<Arc<OwnedFd>, Errno> {
        let descriptor = self.descriptor()?;
        if self.access == Access::ReadWrite { Ok(descriptor) } else { Err(Errno::EROFS) }
    }

    /// Opens a regular file. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `options` allow neither reading nor writing, or contradict each other; `EISDIR` for a directory; `EPERM`
    /// for a device, socket or named pipe; and those of the system.
    pub fn open_file(&self, path: &Path, options: OpenOptions) -> Result<Arc<File>, Errno> {
        let write = options.write || options.append;
        let contradicts =
            (options.create || options.truncate) && !write || options.exclusive && !options.create;
        if contradicts || !(options.read || write) {
            return Err(Errno::EINVAL);
        }
        let descriptor = if options.writes() { self.changeable()? } else { self.descriptor()? };
        let mut flags = match (options.read, write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::APPEND, options.append);
        flags.set(OFlags::CREATE, options.create);
        flags.set(OFlags::EXCL, options.exclusive);
        let mode = if options.create { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let opened = resolve(&descriptor, path, flags, mode)?;
        match FileStat::of(&opened)?.kind {
            FileKind::File => (),
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EPERM),
        }
        if options.truncate {
            rustix::fs::ftruncate(&opened, 0).map_err(errno_of_system)?;
        }
        Ok(File::new(opened, FileAccess { read: options.read, write }))
    }

    /// Opens a directory below this one, with the same access. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open_directory(&self, path: &Path) -> Result<Arc<Directory>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = resolve(&*self.descriptor()?, path, flags, Mode::empty())?;
        Ok(Directory::new(opened, self.access))
    }

    /// Returns what the system knows of a file; follows symbolic links. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        FileStat::of(&resolve(&*self.descriptor()?, path, OFlags::PATH, Mode::empty())?)
    }

    /// [`stat`](Directory::stat) of a symbolic link itself, if `path` is one.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn stat_link(&self, path: &Path) -> Result<FileStat, Errno> {
        FileStat::of(&resolve(&*self.descriptor()?, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Returns up to `limit` entries, after the first `start` of them; `.` and `..` are not among them. The order is that of
    /// the file system. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn entries(&self, start: usize, limit: usize) -> Result<Vec<DirectoryEntry>, Errno> {
        let directory = Dir::read_from(&*self.descriptor()?).map_err(errno_of_system)?;
        let is_own = |name: &[u8]| name == b"." || name == b"..";
        let entries = directory
            .filter(|entry| entry.as_ref().map_or(true, |entry| !is_own(entry.file_name().to_bytes())))
            .skip(start)
            .take(limit)
            .map(|entry| {
                let entry = entry.map_err(errno_of_system)?;
                let name = entry.file_name().to_bytes().to_vec();
                Ok(DirectoryEntry { name, kind: FileKind::of(entry.file_type()), inode: entry.ino() })
            })
            .collect::<Result<Vec<_>, Errno>>()?;
        self.counters.count_read(entries.iter().map(|entry| entry.name.len()).sum());
        Ok(entries)
    }

    /// Creates a directory. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the last component is no plain name, and those of the system.
    pub fn create_directory(&self, path: &Path) -> Result<(), Errno> {
        let (parent, name) = resolve_parent(&*self.changeable()?, path)?;
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)).map_err(errno_of_system)
    }

    /// Removes a file or a symbolic link. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EISDIR` for a directory, `EINVAL` if the last component is no plain name, and those of the system.
    pub fn remove_file(&self, path: &Path) -> Result<(), Errno> {
        let (parent, name) = resolve_parent(&*self.changeable()?, path)?;
        rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(errno_of_system)
    }

    /// Removes an empty directory. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `ENOTEMPTY`, `ENOTDIR`, `EINVAL` if the last component is no plain name, and those of the system.
    pub fn remove_directory(&self, path: &Path) -> Result<(), Errno> {
        let (parent, name) = resolve_parent(&*self.changeable()?, path)?;
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(errno_of_system)
    }

    /// Renames a file or directory to a path below `target`, which may be this directory. What has that name is replaced.
    /// Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EROFS` if one of the directories is read-only, `EINVAL` if a last component is no plain name, and those of the
    /// system.
    pub fn rename(&self, path: &Path, target: &Directory, target_path: &Path) -> Result<(), Errno> {
        let (from, name) = resolve_parent(&*self.changeable()?, path)?;
        let (to, target_name) = resolve_parent(&*target.changeable()?, target_path)?;
        rustix::fs::renameat(from, name, to, target_name).map_err(errno_of_system)
    }
}

/// Opens what `path` leads to below `directory`.
fn resolve(directory: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RESOLVE_ATTEMPTS {
        match rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, mode, how) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => (),
            Err(rustix::io::Errno::XDEV) => return Err(Errno::EACCES),
            outcome => return outcome.map_err(errno_of_system),
        }
    }
    Err(Errno::EBUSY)
}

/// Opens the directory that the last component of `path` is in, and returns it with that component.
fn resolve_parent<'a>(directory: &OwnedFd, path: &'a Path) -> Result<(OwnedFd, &'a [u8]), Errno> {
    let mut path = path.as_os_str().as_bytes();
    while let [rest @ .., b'/'] = path
        && !rest.is_empty()
    {
        path = rest;
    }
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => return Err(Errno::EACCES),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b"."[..], path),
    };
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    if name == b"." || name == b".." {
        return Err(Errno::EINVAL);
    }
    let parent = Path::new(std::ffi::OsStr::from_bytes(parent));
    Ok((resolve(directory, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?, name))
}

impl FdObject for Directory {
    fn kind(&self) -> &'static str {
        "Directory"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        if self.descriptor.lock().is_none() { Events::HUP } else { Events::NONE }
    }

    fn close(&self) {
        let descriptor = self.descriptor.lock().take();
        drop(descriptor);
        self.watchers.notify(Events::HUP);
    }

    /// A record is one list of entries.
    fn metrics(&self) -> Metrics {
        Metrics { wakeups: self.watchers.wakeups(), ..self.counters.metrics() }
    }

    fn read(&self, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }

    fn write(&self, _: &[u8]) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }

    fn is_pollable(&self) -> bool {
        false
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("access", &self.access).finish_non_exhaustive()
    }
}
