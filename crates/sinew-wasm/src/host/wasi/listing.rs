//! The entries of directories.

use std::path::Path;

use sinew_core::Errno;
use sinew_fd::{Directory, DirectoryEntry, FileKind};

use super::{Guest, Outcome, blocking, blocking_call, layout};
use crate::host::HostCall;
use crate::host::access::Access;

pub(in crate::host) const CALLS: &[HostCall] = &[
    // fd_readdir(fd, buffer*, size, cookie, used*): the entries from the cookie on, cut where the buffer ends; fewer bytes
    // than the buffer has mean that there are no more. 0 is the first cookie, and each entry has the next one. The first two
    // entries are `.` and `..`. EBADF, EFAULT, ENOTDIR; E2BIG for a buffer of more than `Limits::copy`.
    blocking_call!(fd_readdir(fd: i32, buffer: i32, size: i32, cookie: i64, used: i32)),
];

/// The directory itself and its parent, which the system's list does not have.
const OWN_ENTRIES: u64 = 2;

async fn fd_readdir(
    caller: &mut Guest<'_>,
    fd: i32,
    buffer: i32,
    size: i32,
    cookie: i64,
    used: i32,
) -> Outcome {
    let directory = super::paths::directory(caller, fd)?;
    let (buffer, used) = (caller.range(buffer, size.cast_unsigned() as usize)?, caller.out(used, 4)?);
    let room = buffer.len();
    if room > caller.state().profile.options.limits.copy {
        return Err(Errno::E2BIG);
    }
    let mut bytes = blocking(caller, move || list(&directory, cookie.cast_unsigned(), room)).await?;
    bytes.truncate(room);
    caller.fill(buffer, &bytes);
    caller.put(used, &(bytes.len() as u32).to_le_bytes());
    Ok(())
}

/// Returns the entries from `start` on, until they fill `room` bytes or are all.
fn list(directory: &Directory, start: u64, room: usize) -> Outcome<Vec<u8>> {
    let own = |name: &str, inode| DirectoryEntry { name: name.into(), kind: FileKind::Directory, inode };
    let mut entries = Vec::new();
    if start == 0 {
        entries.push(own(".", directory.stat(Path::new("."))?.inode));
    }
    if start < OWN_ENTRIES {
        entries.push(own("..", 0)); // the guest is not told of what is outside
    }
    // Each has at least a byte of name, and the last one may be cut.
    let most = room / (layout::DIRENT + 1) + 1;
    let skipped = usize::try_from(start.saturating_sub(OWN_ENTRIES)).map_err(|_| Errno::EINVAL)?;
    entries.extend(directory.entries(skipped, most)?);
    let mut bytes = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if bytes.len() >= room {
            break;
        }
        layout::push_dirent(&mut bytes, entry, start.saturating_add(at as u64 + 1));
    }
    Ok(bytes)
}
