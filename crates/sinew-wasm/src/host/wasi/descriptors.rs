//! What every file descriptor has: its type, its flags, its end; and the directories that were granted.

use std::path::Path;

use sinew_core::Errno;
use sinew_fd::{Directory, Events, File, Flags};

use super::layout::{self, FileType, fdflags, rights};
use super::{Guest, Outcome, blocking, blocking_call, call, can_block, table};
use crate::fds::downcast;
use crate::host::HostCall;
use crate::host::access::Access;

pub(in crate::host) const CALLS: &[HostCall] = &[
    // fd_close(fd): closes a file descriptor. EBADF.
    blocking_call!(fd_close(fd: i32)),
    // fd_fdstat_get(fd, fdstat*): its type, flags and rights. EBADF, EFAULT.
    call!(fd_fdstat_get(fd: i32, stat: i32)),
    // fd_fdstat_set_flags(fd, flags): sets or clears NONBLOCK. EBADF, EINVAL; ENOTSUP for any other flag.
    call!(fd_fdstat_set_flags(fd: i32, flags: i32)),
    // fd_filestat_get(fd, filestat*): what the system knows of it. EBADF, EFAULT; EDEADLK for a file without a stack.
    blocking_call!(fd_filestat_get(fd: i32, stat: i32)),
    // fd_prestat_get(fd, prestat*): the length of the path of a directory that was granted. EBADF for any other.
    call!(fd_prestat_get(fd: i32, stat: i32)),
    // fd_prestat_dir_name(fd, path*, size): that path, without a zero. EBADF, EFAULT; ENAMETOOLONG if it does not fit.
    call!(fd_prestat_dir_name(fd: i32, path: i32, size: i32)),
];

async fn fd_close(caller: &mut Guest<'_>, fd: i32) -> Outcome {
    let table = table(caller);
    let is_file = downcast::<File>(&table.object(fd)?).is_some();
    let closed = if is_file && can_block(caller) {
        blocking(caller, move || table.close(fd)).await
    } else {
        table.close(fd)
    };
    caller.state().log_output(); // a last line that had no end
    closed
}

fn fd_fdstat_get(caller: &mut Guest<'_>, fd: i32, stat: i32) -> Outcome {
    let table = table(caller);
    let (object, flags) = (table.object(fd)?, table.flags(fd)?);
    let stat = caller.out(stat, layout::FDSTAT)?;
    let flags = if flags.contains(Flags::NONBLOCK) { fdflags::NONBLOCK } else { 0 };
    let (file_type, rights) = if downcast::<File>(&object).is_some() {
        let ready = object.poll_mask(); // a file is ready for what it was opened for
        let mut rights = rights::ALL & !(rights::FD_READ | rights::FD_WRITE);
        rights |= if ready.contains(Events::IN) { rights::FD_READ } else { 0 };
        rights |= if ready.contains(Events::OUT) { rights::FD_WRITE } else { 0 };
        (FileType::RegularFile, rights)
    } else if downcast::<Directory>(&object).is_some() {
        (FileType::Directory, rights::ALL)
    } else {
        // As a terminal has them, so that the C library writes each line when it is complete.
        (FileType::CharacterDevice, rights::ALL & !(rights::FD_SEEK | rights::FD_TELL))
    };
    caller.put(stat, &layout::fdstat(file_type, flags, rights));
    Ok(())
}

fn fd_fdstat_set_flags(caller: &mut Guest<'_>, fd: i32, flags: i32) -> Outcome {
    let table = table(caller);
    table.object(fd)?;
    if flags & !fdflags::ALL != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & !fdflags::NONBLOCK != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let (set, clear) =
        if flags == 0 { (Flags::NONE, Flags::NONBLOCK) } else { (Flags::NONBLOCK, Flags::NONE) };
    table.change_flags(fd, set, clear).map(drop)
}

async fn fd_filestat_get(caller: &mut Guest<'_>, fd: i32, stat: i32) -> Outcome {
    let object = table(caller).object(fd)?;
    let stat = caller.out(stat, layout::FILESTAT)?;
    let bytes = if let Some(file) = downcast::<File>(&object) {
        layout::filestat(&blocking(caller, move || file.stat()).await?)
    } else if let Some(directory) = downcast::<Directory>(&object) {
        layout::filestat(&blocking(caller, move || directory.stat(Path::new("."))).await?)
    } else {
        layout::filestat_of_type(FileType::CharacterDevice)
    };
    caller.put(stat, &bytes);
    Ok(())
}

fn fd_prestat_get(caller: &mut Guest<'_>, fd: i32, stat: i32) -> Outcome {
    let len = caller.state().fds().preopened_path(fd)?.len();
    let stat = caller.out(stat, layout::PRESTAT)?;
    caller.put(stat, &layout::prestat(len));
    Ok(())
}

fn fd_prestat_dir_name(caller: &mut Guest<'_>, fd: i32, path: i32, size: i32) -> Outcome {
    let name = caller.state().fds().preopened_path(fd)?.to_owned();
    let path = caller.range(path, size.cast_unsigned() as usize)?;
    if path.len() < name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    caller.fill(path, name.as_bytes());
    Ok(())
}
