//! Regular files.

use std::fmt;
use std::io::SeekFrom;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FileType;
use sinew_core::Errno;

use crate::bits::Events;
use crate::errno::errno_of_system;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::watchers::Watchers;

/// A regular file below a granted directory: see [`Directory::open_file`](crate::Directory::open_file).
///
/// Its calls block the thread for as long as the disk takes. Tasks call them by `sinew_io::blocking`, futures by
/// `sinew_io::blocking_async`. A file is always ready, and epolls do not watch it (`EPERM`).
pub struct File {
    /// None once it is closed. Calls that are under way keep the system's descriptor.
    descriptor: ObjectLock<Option<Arc<OwnedFd>>>,
    access: FileAccess,
    watchers: Watchers,
    counters: Counters,
}

/// What a file was opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileAccess {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl File {
    pub(super) fn new(descriptor: OwnedFd, access: FileAccess) -> Arc<File> {
        Arc::new(File {
            descriptor: ObjectLock::new(Some(Arc::new(descriptor))),
            access,
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }

    fn descriptor(&self) -> Result<Arc<OwnedFd>, Errno> {
        self.descriptor.lock().clone().ok_or(Errno::EBADF)
    }

    fn readable(&self) -> Result<Arc<OwnedFd>, Errno> {
        let descriptor = self.descriptor()?;
        if self.access.read { Ok(descriptor) } else { Err(Errno::EBADF) }
    }

    fn writable(&self) -> Result<Arc<OwnedFd>, Errno> {
        let descriptor = self.descriptor()?;
        if self.access.write { Ok(descriptor) } else { Err(Errno::EBADF) }
    }

    /// Reads at `offset`, without moving the position. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed or was not opened for reading, and those of the system.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let descriptor = self.readable()?;
        let count = retry(|| rustix::io::pread(&*descriptor, &mut *buffer, offset))?;
        self.counters.count_read(count);
        Ok(count)
    }

    /// Writes at `offset`, without moving the position. A file that was opened to append to is appended to. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed or was not opened for writing, and those of the system.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let descriptor = self.writable()?;
        let count = retry(|| rustix::io::pwrite(&*descriptor, bytes, offset))?;
        self.counters.count_write(count);
        Ok(count)
    }

    /// Moves the position, and returns the new one. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a position before the start, `EBADF` if the file is closed.
    pub fn seek(&self, position: SeekFrom) -> Result<u64, Errno> {
        let position = match position {
            SeekFrom::Start(offset) => rustix::fs::SeekFrom::Start(offset),
            SeekFrom::Current(offset) => rustix::fs::SeekFrom::Current(offset),
            SeekFrom::End(offset) => rustix::fs::SeekFrom::End(offset),
        };
        rustix::fs::seek(&*self.descriptor()?, position).map_err(errno_of_system)
    }

    /// Returns the position.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed.
    pub fn tell(&self) -> Result<u64, Errno> {
        rustix::fs::tell(&*self.descriptor()?).map_err(errno_of_system)
    }

    /// Cuts the file to `length` bytes, or extends it with zeros. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed or was not opened for writing, and those of the system.
    pub fn truncate(&self, length: u64) -> Result<(), Errno> {
        let descriptor = self.writable()?;
        retry(|| rustix::fs::ftruncate(&*descriptor, length))
    }

    /// Waits until everything written is on the disk. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed, and those of the system.
    pub fn sync(&self) -> Result<(), Errno> {
        let descriptor = self.descriptor()?;
        retry(|| rustix::fs::fsync(&*descriptor))
    }

    /// Returns what the system knows of the file. Blocks the thread.
    ///
    /// # Errors
    ///
    /// `EBADF` if the file is closed, and those of the system.
    pub fn stat(&self) -> Result<FileStat, Errno> {
        FileStat::of(&*self.descriptor()?)
    }
}

/// Makes a system call again if a signal interrupts it.
fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call).map_err(errno_of_system)
}

impl FdObject for File {
    fn kind(&self) -> &'static str {
        "File"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        if self.descriptor.lock().is_none() {
            return Events::HUP;
        }
        let readable = if self.access.read { Events::IN } else { Events::NONE };
        let writable = if self.access.write { Events::OUT } else { Events::NONE };
        readable | writable
    }

    fn close(&self) {
        let descriptor = self.descriptor.lock().take();
        drop(descriptor);
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        Metrics { wakeups: self.watchers.wakeups(), ..self.counters.metrics() }
    }

    /// Reads at the position. Blocks the thread.
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let descriptor = self.readable()?;
        let count = retry(|| rustix::io::read(&*descriptor, &mut *buffer))?;
        self.counters.count_read(count);
        Ok(count)
    }

    /// Writes at the position, or at the end of a file that was opened to append to. Blocks the thread.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let descriptor = self.writable()?;
        let count = retry(|| rustix::io::write(&*descriptor, bytes))?;
        self.counters.count_write(count);
        Ok(count)
    }

    fn is_pollable(&self) -> bool {
        false
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("access", &self.access).finish_non_exhaustive()
    }
}

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A device, a socket, a named pipe: nothing that can be opened.
    Other,
}

impl FileKind {
    pub(super) fn of(file_type: FileType) -> FileKind {
        match file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::SymbolicLink,
            _ => FileKind::Other,
        }
    }
}

/// What the system knows of a file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub size: u64,
    /// The number of the file system.
    pub device: u64,
    /// The number of the file in its file system.
    pub inode: u64,
    /// The number of names that it has.
    pub links: u64,
    /// When it was last read.
    pub accessed: i64,
    /// When its content was last changed.
    pub modified: i64,
    /// When its content or attributes were last changed.
    pub changed: i64,
}

impl FileStat {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "types differ by architecture")]
    pub(super) fn of(descriptor: &OwnedFd) -> Result<FileStat, Errno> {
        let stat = rustix::fs::fstat(descriptor).map_err(errno_of_system)?;
        let time = |seconds: i64, nanoseconds: u64| {
            seconds.saturating_mul(1_000_000_000).saturating_add_unsigned(nanoseconds)
        };
        Ok(FileStat {
            kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            links: stat.st_nlink as u64,
            accessed: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        })
    }
}
