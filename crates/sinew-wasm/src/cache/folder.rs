//! The folder of a cache: only its owner can change what is in it, and files appear in it whole.

use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::entry::Unreadable;
use crate::error::CacheFolderError;

/// The mode of the folder. The bits for set-group-id and such, which it may inherit, do not matter.
const FOLDER_MODE: u32 = 0o700;
const PERMISSION_BITS: u32 = 0o777;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Ends the names of files that are being written.
const TEMPORARY: &str = ".tmp";
/// The age from which the writer of a temporary file is taken to have died. If it has not, its file
/// cannot be renamed, which is a failed write.
const LEFTOVER_AGE: Duration = Duration::from_secs(60 * 60);

pub(super) struct Folder {
    handle: OwnedFd,
    owner: u32,
}

impl Folder {
    /// Opens the folder, and creates it and its parents if they are missing.
    pub(super) fn open(path: &Path) -> Result<Folder, CacheFolderError> {
        // Without a slash at its end, behind which a link would be followed.
        let path: PathBuf = path.components().collect();
        let handle = match open_folder(&path) {
            Err(Errno::NOENT) => {
                DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&path)?;
                open_folder(&path)
            }
            opened => opened,
        };
        let handle = handle.map_err(|error| match kind_of(&path) {
            Some(FileType::Symlink) => CacheFolderError::Link,
            Some(FileType::Directory) | None => CacheFolderError::System(error.into()),
            Some(_) => CacheFolderError::NotAFolder,
        })?;
        let folder = rustix::fs::fstat(&handle).map_err(io::Error::from)?;
        let user = rustix::process::geteuid().as_raw();
        if folder.st_uid != user {
            return Err(CacheFolderError::OtherOwner { owner: folder.st_uid, user });
        }
        match folder.st_mode & PERMISSION_BITS {
            FOLDER_MODE => Ok(Folder { handle, owner: user }),
            mode => Err(CacheFolderError::Mode { mode }),
        }
    }

    /// Opens a file to read it, if nobody but the owner of the folder can have written it.
    pub(super) fn open_file(&self, name: &str) -> Result<File, Unreadable> {
        // A named pipe would wait for a writer without NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        let file = File::from(file.map_err(io::Error::from)?);
        let metadata = file.metadata()?;
        let is_ours =
            metadata.is_file() && metadata.uid() == self.owner && metadata.mode() & WRITABLE_BY_OTHERS == 0;
        if is_ours { Ok(file) } else { Err(Unreadable::Rejected) }
    }

    /// Makes `parts` the content of the file `name`, at once: others see the old content, or all of
    /// the new.
    ///
    /// It is not synchronized: after a power failure the file may have another content, which its header
    /// does not fit.
    pub(super) fn replace(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let temporary = format!("{name}.{:016x}{TEMPORARY}", random());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let written = write_all(File::from(file), parts)
            .and_then(|()| Ok(rustix::fs::renameat(&self.handle, &temporary, &self.handle, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.handle, &temporary, AtFlags::empty()); // else a leftover
        }
        written
    }

    /// Removes temporary files whose writers have died. What cannot be removed stays.
    pub(super) fn remove_leftovers(&self) {
        let Ok(entries) = Dir::read_from(&self.handle) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_bytes().ends_with(TEMPORARY.as_bytes())
                && let Ok(file) = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)
                && age(&file) > LEFTOVER_AGE
            {
                let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
            }
        }
    }
}

fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// Returns what is at a path; `None` if that is not known.
fn kind_of(path: &Path) -> Option<FileType> {
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

fn write_all(mut file: File, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// Returns the time since a file was written; zero if that is in the future.
fn age(file: &Stat) -> Duration {
    let written = Duration::from_secs(u64::try_from(file.st_mtime).unwrap_or(0));
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + written).unwrap_or(Duration::ZERO)
}

/// Returns a number that other processes and threads do not get: std seeds its hashers at random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
