//! `IoErrorExt`: tells an I/O call that was cancelled from one that failed.

use std::io;

use crate::control::Cancelled;
use crate::refused::Refused;

/// Extension of [`io::Error`] for calls that end when their task is cancelled.
///
/// Such a call fails with an error that wraps [`Cancelled`]. Its kind is
/// [`Other`](io::ErrorKind::Other), not `Interrupted`: std's own functions try again after that.
///
/// ```
/// use std::io::{self, Read};
///
/// use sinew_fiber::{Cancelled, IoErrorExt};
///
/// /// Reads until the end of `input`, or until the task is cancelled.
/// fn drain(mut input: impl Read) -> io::Result<Vec<u8>> {
///     let mut bytes = Vec::new();
///     match input.read_to_end(&mut bytes) {
///         Err(error) if !error.is_cancelled() => Err(error),
///         _ => Ok(bytes),
///     }
/// }
///
/// struct ReadOnce(bool);
///
/// impl Read for ReadOnce {
///     fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
///         if std::mem::replace(&mut self.0, true) {
///             return Err(io::Error::other(Cancelled)); // as a socket does in a cancelled task
///         }
///         into[0] = b'x';
///         Ok(1)
///     }
/// }
///
/// assert_eq!(drain(ReadOnce(false))?, b"x");
/// # Ok::<(), io::Error>(())
/// ```
pub trait IoErrorExt: sealed::Sealed {
    /// Returns `true` if the call ended because its task is cancelled or its fiber is being
    /// dropped.
    ///
    /// Also looks into an `io::Error` that wraps another one.
    fn is_cancelled(&self) -> bool;
}

impl IoErrorExt for io::Error {
    fn is_cancelled(&self) -> bool {
        self.get_ref().is_some_and(|inner| {
            inner.is::<Cancelled>()
                || inner.downcast_ref().is_some_and(Refused::is_cancelled)
                || inner.downcast_ref().is_some_and(io::Error::is_cancelled)
        })
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for std::io::Error {}
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn an_io_error_of_a_cancelled_call_says_so_also_inside_another() {
        let cancelled = io::Error::other(Cancelled);
        assert!(cancelled.is_cancelled());
        let with_context = io::Error::new(ErrorKind::BrokenPipe, cancelled);
        assert!(with_context.is_cancelled());
    }

    #[test]
    fn an_io_error_that_only_fails_is_not_cancelled() {
        for error in [
            io::Error::other("cancelled"),
            io::Error::from(ErrorKind::Interrupted),
            io::Error::from_raw_os_error(libc::ECANCELED),
            io::Error::other(io::Error::from(ErrorKind::TimedOut)),
        ] {
            assert!(!error.is_cancelled(), "{error:?}");
        }
    }
}
