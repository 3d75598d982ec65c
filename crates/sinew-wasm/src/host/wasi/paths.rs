//! Files and directories by their paths, below a directory that is open.
//!
//! The system resolves a path below the directory (`sinew_fd::Directory`), so nothing outside is reached.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_core::Errno;
use sinew_fd::{Directory, FdObject, FileKind, Flags, OpenOptions};

use super::layout::{self, fdflags, oflags, rights};
use super::{Guest, Outcome, blocking, blocking_call, table};
use crate::host::HostCall;
use crate::host::access::Access;

pub(in crate::host) const CALLS: &[HostCall] = &[
    // path_open(fd, lookup, path*, length, oflags, rights, inherited rights, fdflags, fd*): opens a file or directory. Lookup 1
    // follows a link at the end of the path. The rights say whether it is for reading, writing or both.
    // EMFILE, ENOTSUP for synchronous writes, EISDIR, EPERM for what is neither file nor directory; errors of all calls
    // with a path: EBADF, EFAULT, ENOTDIR, EACCES for a path that leads outside, EROFS where only reading is granted,
    // ENAMETOOLONG for more than 4,096 bytes, EDEADLK without a stack, and those of the system.
    blocking_call!(path_open(
        fd: i32, lookup: i32, path: i32, length: i32, oflags: i32, rights: i64, inherited: i64, fdflags: i32, opened: i32
    )),
    // path_filestat_get(fd, lookup, path*, length, filestat*): what the system knows of a file.
    blocking_call!(path_filestat_get(fd: i32, lookup: i32, path: i32, length: i32, stat: i32)),
    // path_unlink_file(fd, path*, length): removes a file or link. EISDIR.
    blocking_call!(path_unlink_file(fd: i32, path: i32, length: i32)),
    // path_rename(fd, path*, length, new fd, new path*, new length): renames, and replaces what has the new name.
    blocking_call!(path_rename(fd: i32, path: i32, length: i32, new_fd: i32, new_path: i32, new_length: i32)),
    // path_create_directory(fd, path*, length): creates a directory. EEXIST.
    blocking_call!(path_create_directory(fd: i32, path: i32, length: i32)),
    // path_remove_directory(fd, path*, length): removes an empty directory. ENOTEMPTY.
    blocking_call!(path_remove_directory(fd: i32, path: i32, length: i32)),
];

/// The longest path, in bytes.
const LONGEST_PATH: usize = 4096;

/// The flag of a lookup that follows a link at the end of a path.
const FOLLOW: i32 = 1;

/// Returns a directory that is open.
pub(super) fn directory(caller: &mut Guest<'_>, fd: i32) -> Outcome<Arc<Directory>> {
    table(caller).object_as(fd).map_err(|errno| if errno == Errno::EINVAL { Errno::ENOTDIR } else { errno })
}

/// Reads a path.
fn path(caller: &mut Guest<'_>, start: i32, len: i32) -> Outcome<PathBuf> {
    let path = caller.range(start, len.cast_unsigned() as usize)?;
    if path.len() > LONGEST_PATH {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok(PathBuf::from(OsStr::from_bytes(caller.contents(path))))
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
async fn path_open(
    caller: &mut Guest<'_>,
    fd: i32,
    lookup: i32,
    start: i32,
    length: i32,
    oflags: i32,
    rights: i64,
    _inherited: i64,
    fdflags: i32,
    opened: i32,
) -> Outcome {
    let directory = directory(caller, fd)?;
    let (path, opened) = (path(caller, start, length)?, caller.out(opened, 4)?);
    let how = How::of(lookup, oflags, rights, fdflags)?;
    let (table, limit) = (table(caller), caller.state().profile.options.limits.fds);
    if table.open_fds().len() >= limit {
        return Err(Errno::EMFILE); // before a file is made or emptied
    }
    let flags = if fdflags & fdflags::NONBLOCK == 0 { Flags::NONE } else { Flags::NONBLOCK };
    let object = blocking(caller, move || how.open(&directory, &path)).await?;
    let number = table.open(object, flags)?;
    caller.put(opened, &number.to_le_bytes());
    Ok(())
}

/// How a path is opened.
struct How {
    options: OpenOptions,
    is_directory: bool,
    follow: bool,
}

impl How {
    fn of(lookup: i32, oflags: i32, rights: i64, fdflags: i32) -> Outcome<How> {
        if oflags & !oflags::ALL != 0 || fdflags & !fdflags::ALL != 0 {
            return Err(Errno::EINVAL);
        }
        if fdflags & !(fdflags::APPEND | fdflags::NONBLOCK) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let has = |flag| oflags & flag != 0;
        let write = rights & rights::FD_WRITE != 0;
        let options = OpenOptions {
            read: rights & rights::FD_READ != 0 || !write,
            write,
            append: write && fdflags & fdflags::APPEND != 0,
            create: has(oflags::CREAT),
            exclusive: has(oflags::EXCL),
            truncate: has(oflags::TRUNC),
        };
        let is_directory = has(oflags::DIRECTORY);
        if is_directory && (options.create || options.exclusive || options.truncate) {
            return Err(Errno::EINVAL);
        }
        Ok(How { options, is_directory, follow: lookup & FOLLOW != 0 })
    }

    fn open(&self, directory: &Directory, path: &Path) -> Outcome<Arc<dyn FdObject>> {
        // A link that comes in between leads nowhere else than below the directory.
        if !self.follow && directory.stat_link(path).is_ok_and(|stat| stat.kind == FileKind::SymbolicLink) {
            return Err(Errno::ELOOP);
        }
        if self.is_directory {
            return Ok(directory.open_directory(path)?);
        }
        match directory.open_file(path, self.options) {
            Ok(file) => Ok(file),
            // Programs open directories like files, to list them.
            Err(Errno::EISDIR) if !self.options.write => Ok(directory.open_directory(path)?),
            Err(errno) => Err(errno),
        }
    }
}

async fn path_filestat_get(
    caller: &mut Guest<'_>,
    fd: i32,
    lookup: i32,
    start: i32,
    length: i32,
    stat: i32,
) -> Outcome {
    let directory = directory(caller, fd)?;
    let (path, stat) = (path(caller, start, length)?, caller.out(stat, layout::FILESTAT)?);
    let follow = lookup & FOLLOW != 0;
    let found = move || if follow { directory.stat(&path) } else { directory.stat_link(&path) };
    let found = blocking(caller, found).await?;
    caller.put(stat, &layout::filestat(&found));
    Ok(())
}

async fn path_unlink_file(caller: &mut Guest<'_>, fd: i32, start: i32, length: i32) -> Outcome {
    let (directory, path) = (directory(caller, fd)?, path(caller, start, length)?);
    blocking(caller, move || directory.remove_file(&path)).await
}

async fn path_rename(
    caller: &mut Guest<'_>,
    fd: i32,
    start: i32,
    length: i32,
    new_fd: i32,
    new_start: i32,
    new_length: i32,
) -> Outcome {
    let (from, to) = (directory(caller, fd)?, directory(caller, new_fd)?);
    let (path, new_path) = (path(caller, start, length)?, path(caller, new_start, new_length)?);
    blocking(caller, move || from.rename(&path, &to, &new_path)).await
}

async fn path_create_directory(caller: &mut Guest<'_>, fd: i32, start: i32, length: i32) -> Outcome {
    let (directory, path) = (directory(caller, fd)?, path(caller, start, length)?);
    blocking(caller, move || directory.create_directory(&path)).await
}

async fn path_remove_directory(caller: &mut Guest<'_>, fd: i32, start: i32, length: i32) -> Outcome {
    let (directory, path) = (directory(caller, fd)?, path(caller, start, length)?);
    blocking(caller, move || directory.remove_directory(&path)).await
}
