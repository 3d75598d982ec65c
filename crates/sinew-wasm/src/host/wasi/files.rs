//! Reading, writing and positions.
//!
//! Files block their thread, so their calls are made on a thread for blocking calls, with bytes that are copied out of
//! or into the guest's memory before or after. Everything else is read and written through the table, which waits
//! until it is ready.

use std::io::SeekFrom;
use std::sync::Arc;

use sinew_core::Errno;
use sinew_fd::{Directory, FdObject, File, Flags};

use super::iovecs::Iovecs;
use super::{Guest, Outcome, blocking, blocking_call, call, can_block, table};
use crate::fds::downcast;
use crate::host::HostCall;
use crate::host::access::Access;
use crate::host::waiting::wait_for_fd;

pub(in crate::host) const CALLS: &[HostCall] = &[
    // fd_read(fd, buffers*, count, size*): reads at the position, or what there is; waits for it. 0 bytes are the end. At
    // most `Limits::copy` bytes. EBADF, EFAULT; EAGAIN with NONBLOCK; EDEADLK if it has to wait without a stack.
    blocking_call!(fd_read(fd: i32, list: i32, count: i32, size: i32)),
    // fd_write(fd, buffers*, count, size*): writes at the position, or as much as there is room for. Lines that are written
    // to 1 and 2 go to the log, as info and warnings. Errors as for fd_read.
    blocking_call!(fd_write(fd: i32, list: i32, count: i32, size: i32)),
    // fd_pread(fd, buffers*, count, offset, size*): reads a file at an offset. As fd_read; ESPIPE for what is no file.
    blocking_call!(fd_pread(fd: i32, list: i32, count: i32, offset: i64, size: i32)),
    // fd_pwrite(fd, buffers*, count, offset, size*): writes a file at an offset. As fd_write; ESPIPE for what is no file.
    blocking_call!(fd_pwrite(fd: i32, list: i32, count: i32, offset: i64, size: i32)),
    // fd_seek(fd, offset, whence, position*): moves the position from the start (0), the position (1) or the end (2). EBADF,
    // EFAULT, ESPIPE; EINVAL for a position before the start.
    blocking_call!(fd_seek(fd: i32, offset: i64, whence: i32, position: i32)),
    // fd_tell(fd, position*): the position. EBADF, EFAULT, ESPIPE.
    call!(fd_tell(fd: i32, position: i32)),
    // fd_sync(fd): waits until everything written is on the disk. EBADF; EINVAL for what is no file.
    blocking_call!(fd_sync(fd: i32)),
    // fd_datasync(fd): as fd_sync.
    blocking_call!(fd_datasync(fd: i32)),
    // fd_filestat_set_size(fd, size): cuts a file, or extends it with zeros. EBADF; EINVAL for what is no file.
    blocking_call!(fd_filestat_set_size(fd: i32, size: i64)),
];

/// Bytes of one write to what is no file: it may be kept as many short lines.
const LONGEST_WRITE: usize = 64 << 10;

async fn fd_read(caller: &mut Guest<'_>, fd: i32, list: i32, count: i32, size: i32) -> Outcome {
    let object = table(caller).object(fd)?;
    let (buffers, size) = (Iovecs::check(caller, list, count)?, caller.out(size, 4)?);
    let mut bytes = vec![0; buffers.len()];
    let read = match downcast::<File>(&object) {
        Some(file) => {
            let read = move || file.read(&mut bytes).map(|read| (read, bytes));
            blocking(caller, read).await
        }
        None => read_stream(caller, fd, &object, &mut bytes).await.map(|read| (read, bytes)),
    };
    let (read, bytes) = read?;
    buffers.scatter(caller, &bytes[..read]);
    caller.put(size, &(read as u32).to_le_bytes());
    Ok(())
}

async fn read_stream(
    caller: &mut Guest<'_>,
    fd: i32,
    object: &Arc<dyn FdObject>,
    bytes: &mut [u8],
) -> Outcome<usize> {
    let table = table(caller);
    if can_block(caller) {
        return wait_for_fd(caller, table.read_async(fd, bytes)).await;
    }
    let flags = table.flags(fd)?;
    object.read(bytes).map_err(|errno| without_waiting(errno, flags))
}

async fn fd_write(caller: &mut Guest<'_>, fd: i32, list: i32, count: i32, size: i32) -> Outcome {
    let object = table(caller).object(fd)?;
    let (buffers, size) = (Iovecs::check(caller, list, count)?, caller.out(size, 4)?);
    let written = match downcast::<File>(&object) {
        Some(file) => {
            let bytes = buffers.gather(caller, usize::MAX);
            blocking(caller, move || file.write(&bytes)).await?
        }
        None => {
            let bytes = buffers.gather(caller, LONGEST_WRITE);
            write_stream(caller, fd, &object, &bytes).await?
        }
    };
    caller.put(size, &(written as u32).to_le_bytes());
    Ok(())
}

async fn write_stream(
    caller: &mut Guest<'_>,
    fd: i32,
    object: &Arc<dyn FdObject>,
    bytes: &[u8],
) -> Outcome<usize> {
    let table = table(caller);
    let written = if can_block(caller) {
        wait_for_fd(caller, table.write_async(fd, bytes)).await
    } else {
        let flags = table.flags(fd)?;
        object.write(bytes).map_err(|errno| without_waiting(errno, flags))
    };
    caller.state().log_output();
    written
}

/// Returns the error of a guest without a stack, which cannot wait.
fn without_waiting(errno: Errno, flags: Flags) -> Errno {
    match errno {
        Errno::EAGAIN if !flags.contains(Flags::NONBLOCK) => Errno::EDEADLK,
        errno => errno,
    }
}

async fn fd_pread(
    caller: &mut Guest<'_>,
    fd: i32,
    list: i32,
    count: i32,
    offset: i64,
    size: i32,
) -> Outcome {
    let file = seekable(caller, fd)?;
    let (buffers, size) = (Iovecs::check(caller, list, count)?, caller.out(size, 4)?);
    let mut bytes = vec![0; buffers.len()];
    let offset = offset.cast_unsigned();
    let read = move || file.read_at(&mut bytes, offset).map(|read| (read, bytes));
    let (read, bytes) = blocking(caller, read).await?;
    buffers.scatter(caller, &bytes[..read]);
    caller.put(size, &(read as u32).to_le_bytes());
    Ok(())
}

async fn fd_pwrite(
    caller: &mut Guest<'_>,
    fd: i32,
    list: i32,
    count: i32,
    offset: i64,
    size: i32,
) -> Outcome {
    let file = seekable(caller, fd)?;
    let (buffers, size) = (Iovecs::check(caller, list, count)?, caller.out(size, 4)?);
    let bytes = buffers.gather(caller, usize::MAX);
    let offset = offset.cast_unsigned();
    let written = blocking(caller, move || file.write_at(&bytes, offset)).await?;
    caller.put(size, &(written as u32).to_le_bytes());
    Ok(())
}

async fn fd_seek(caller: &mut Guest<'_>, fd: i32, offset: i64, whence: i32, position: i32) -> Outcome {
    let file = seekable(caller, fd)?;
    let position = caller.out(position, 8)?;
    let to = match whence {
        0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::EINVAL)?),
        1 => SeekFrom::Current(offset),
        2 => SeekFrom::End(offset),
        _ => return Err(Errno::EINVAL),
    };
    let now = match to {
        SeekFrom::End(_) => blocking(caller, move || file.seek(to)).await?,
        _ => file.seek(to)?, // does not reach the disk
    };
    caller.put(position, &now.to_le_bytes());
    Ok(())
}

fn fd_tell(caller: &mut Guest<'_>, fd: i32, position: i32) -> Outcome {
    let file = seekable(caller, fd)?;
    let position = caller.out(position, 8)?;
    let now = file.tell()?;
    caller.put(position, &now.to_le_bytes());
    Ok(())
}

async fn fd_sync(caller: &mut Guest<'_>, fd: i32) -> Outcome {
    let file = table(caller).object_as::<File>(fd)?;
    blocking(caller, move || file.sync()).await
}

async fn fd_datasync(caller: &mut Guest<'_>, fd: i32) -> Outcome {
    fd_sync(caller, fd).await
}

async fn fd_filestat_set_size(caller: &mut Guest<'_>, fd: i32, size: i64) -> Outcome {
    let file = table(caller).object_as::<File>(fd)?;
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    blocking(caller, move || file.truncate(size)).await
}

/// Returns a file, which has a position.
fn seekable(caller: &mut Guest<'_>, fd: i32) -> Outcome<Arc<File>> {
    let object = table(caller).object(fd)?;
    match downcast::<File>(&object) {
        Some(file) => Ok(file),
        None if downcast::<Directory>(&object).is_some() => Err(Errno::EBADF),
        None => Err(Errno::ESPIPE),
    }
}
