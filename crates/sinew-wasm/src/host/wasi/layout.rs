//! Structures and flags of `wasi_snapshot_preview1`, as they are in the guest's memory: little-endian, with padding.

use sinew_fd::{DirectoryEntry, FileKind, FileStat};

use super::errno;
use super::poll::Event;

/// What a file descriptor is opened with, and has: `fdflags`.
pub(super) mod fdflags {
    pub(in crate::host::wasi) const APPEND: i32 = 1;
    pub(in crate::host::wasi) const NONBLOCK: i32 = 4;
    pub(in crate::host::wasi) const ALL: i32 = 31;
}

/// How a path is opened: `oflags`.
pub(super) mod oflags {
    pub(in crate::host::wasi) const CREAT: i32 = 1;
    pub(in crate::host::wasi) const DIRECTORY: i32 = 2;
    pub(in crate::host::wasi) const EXCL: i32 = 4;
    pub(in crate::host::wasi) const TRUNC: i32 = 8;
    pub(in crate::host::wasi) const ALL: i32 = 15;
}

/// What a file descriptor may be used for: `rights`. Sinew decides by the grant, and looks at two of them only to know
/// whether a file is opened for reading, writing or both.
pub(super) mod rights {
    pub(in crate::host::wasi) const FD_READ: i64 = 1 << 1;
    pub(in crate::host::wasi) const FD_SEEK: i64 = 1 << 2;
    pub(in crate::host::wasi) const FD_TELL: i64 = 1 << 5;
    pub(in crate::host::wasi) const FD_WRITE: i64 = 1 << 6;
    pub(in crate::host::wasi) const ALL: i64 = (1 << 30) - 1;
}

/// The type of a file: `filetype`.
#[derive(Clone, Copy)]
pub(super) enum FileType {
    Unknown = 0,
    CharacterDevice = 2,
    Directory = 3,
    RegularFile = 4,
    SymbolicLink = 7,
}

impl From<FileKind> for FileType {
    fn from(kind: FileKind) -> FileType {
        match kind {
            FileKind::File => FileType::RegularFile,
            FileKind::Directory => FileType::Directory,
            FileKind::SymbolicLink => FileType::SymbolicLink,
            FileKind::Other => FileType::Unknown,
        }
    }
}

/// The bytes of a `prestat`.
pub(super) const PRESTAT: usize = 8;

/// Returns a `prestat` of a directory whose path has this length.
pub(super) fn prestat(path: usize) -> [u8; PRESTAT] {
    let mut bytes = [0; PRESTAT];
    put(&mut bytes, 4, (path as u32).to_le_bytes());
    bytes
}

/// The bytes of an `fdstat`.
pub(super) const FDSTAT: usize = 24;

/// Returns an `fdstat`. What is opened through a directory has the rights that `path_open` asks for.
pub(super) fn fdstat(file_type: FileType, flags: i32, rights: i64) -> [u8; FDSTAT] {
    let mut bytes = [0; FDSTAT];
    bytes[0] = file_type as u8;
    put(&mut bytes, 2, (flags as u16).to_le_bytes());
    put(&mut bytes, 8, rights.to_le_bytes());
    put(&mut bytes, 16, rights::ALL.to_le_bytes());
    bytes
}

/// The bytes of a `filestat`.
pub(super) const FILESTAT: usize = 64;

/// Returns the `filestat` of a file.
pub(super) fn filestat(stat: &FileStat) -> [u8; FILESTAT] {
    let mut bytes = filestat_of_type(stat.kind.into());
    put(&mut bytes, 0, stat.device.to_le_bytes());
    put(&mut bytes, 8, stat.inode.to_le_bytes());
    put(&mut bytes, 24, stat.links.to_le_bytes());
    put(&mut bytes, 32, stat.size.to_le_bytes());
    for (at, time) in [(40, stat.accessed), (48, stat.modified), (56, stat.changed)] {
        put(&mut bytes, at, u64::try_from(time).unwrap_or(0).to_le_bytes());
    }
    bytes
}

/// Returns a `filestat` of which nothing is known but the type.
pub(super) fn filestat_of_type(file_type: FileType) -> [u8; FILESTAT] {
    let mut bytes = [0; FILESTAT];
    bytes[16] = file_type as u8;
    bytes
}

/// The bytes of a `dirent`, without the name.
pub(super) const DIRENT: usize = 24;

/// Appends an entry of a directory, after which the list goes on at `next`.
pub(super) fn push_dirent(list: &mut Vec<u8>, entry: &DirectoryEntry, next: u64) {
    let mut bytes = [0; DIRENT];
    put(&mut bytes, 0, next.to_le_bytes());
    put(&mut bytes, 8, entry.inode.to_le_bytes());
    put(&mut bytes, 16, (entry.name.len() as u32).to_le_bytes());
    bytes[20] = FileType::from(entry.kind) as u8;
    list.extend_from_slice(&bytes);
    list.extend_from_slice(&entry.name);
}

/// The bytes of an `event`.
pub(super) const EVENT: usize = 32;

/// Returns an `event`.
pub(super) fn event(event: &Event) -> [u8; EVENT] {
    let mut bytes = [0; EVENT];
    put(&mut bytes, 0, event.userdata.to_le_bytes());
    put(&mut bytes, 8, event.error.map_or(0, errno::number).to_le_bytes());
    bytes[10] = event.subscription_type;
    put(&mut bytes, 16, event.available.to_le_bytes());
    put(&mut bytes, 24, u16::from(event.hung_up).to_le_bytes());
    bytes
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
