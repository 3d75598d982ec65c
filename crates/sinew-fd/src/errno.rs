//! Error numbers of other libraries as [`Errno`], and of calls that a task may not make any more.

use std::io::{self, ErrorKind};

use sinew_core::Errno;
use sinew_fiber::raw::ready_to_await;
use sinew_sched::raw;
use sinew_sched::{Reason, Refused};

/// Returns the number for an error of std's I/O: the system's own if there is one, else by its kind, else `EIO`.
///
/// ```
/// use std::io;
/// use sinew_fd::{Errno, errno_of};
///
/// assert_eq!(errno_of(&io::Error::from_raw_os_error(2)), Errno::ENOENT);
/// assert_eq!(errno_of(&io::ErrorKind::WouldBlock.into()), Errno::EAGAIN);
/// assert_eq!(errno_of(&io::Error::other("no idea")), Errno::EIO);
/// ```
pub fn errno_of(error: &io::Error) -> Errno {
    if let Some(errno) = error.raw_os_error().and_then(Errno::from_number) {
        return errno;
    }
    match error.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::PermissionDenied => Errno::EACCES,
        ErrorKind::ConnectionRefused => Errno::ECONNREFUSED,
        ErrorKind::ConnectionReset => Errno::ECONNRESET,
        ErrorKind::ConnectionAborted => Errno::ECONNABORTED,
        ErrorKind::NotConnected => Errno::ENOTCONN,
        ErrorKind::AddrInUse => Errno::EADDRINUSE,
        ErrorKind::AddrNotAvailable => Errno::EADDRNOTAVAIL,
        ErrorKind::BrokenPipe => Errno::EPIPE,
        ErrorKind::AlreadyExists => Errno::EEXIST,
        ErrorKind::WouldBlock => Errno::EAGAIN,
        ErrorKind::NotADirectory => Errno::ENOTDIR,
        ErrorKind::IsADirectory => Errno::EISDIR,
        ErrorKind::DirectoryNotEmpty => Errno::ENOTEMPTY,
        ErrorKind::ReadOnlyFilesystem => Errno::EROFS,
        ErrorKind::StorageFull => Errno::ENOSPC,
        ErrorKind::NotSeekable => Errno::ESPIPE,
        ErrorKind::InvalidInput | ErrorKind::InvalidData => Errno::EINVAL,
        ErrorKind::TimedOut => Errno::ETIMEDOUT,
        ErrorKind::Interrupted => Errno::EINTR,
        ErrorKind::OutOfMemory => Errno::ENOMEM,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    }
}

/// Returns the number for a wait that was refused: `ECANCELED` if the caller is asked to end, `EDEADLK` where
/// nothing may block.
pub(crate) fn errno_of_refusal(refused: &Refused) -> Errno {
    match refused.reason() {
        Reason::Cancelled | Reason::Ending => Errno::ECANCELED,
        _ => Errno::EDEADLK,
    }
}

/// Returns the number for an error of a system call.
pub(crate) fn errno_of_system(error: rustix::io::Errno) -> Errno {
    Errno::from_number(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// Begins a blocking call: charges it, and returns `ECANCELED` if the task is cancelled. Unwinds if it is killed.
///
/// A call that need not wait does this too. A loop over a file descriptor that is always ready would otherwise go on
/// after its task was killed, and a task that was killed does not yield.
pub(crate) fn begin_call() -> Result<(), Errno> {
    raw::charge();
    if raw::is_cancelled()
        && let Err(refused) = ready_to_await()
        && matches!(refused.reason(), Reason::Cancelled | Reason::Ending)
    {
        return Err(Errno::ECANCELED);
    }
    Ok(())
}
