//! What a kind of file descriptor implements.

use std::any::Any;
use std::fmt::Debug;

use sinew_core::Errno;

use crate::bits::Events;
use crate::metrics::Metrics;
use crate::watchers::Watchers;

/// An object behind file descriptors: the one trait that a kind implements.
///
/// Reads and writes never wait: the table does that, by the readiness that the object reports. The contract, which
/// [`onboarding::check`](crate::onboarding::check) tests:
///
/// - [`poll_mask`](FdObject::poll_mask) is precise: `IN` exactly if a read would not fail with `EAGAIN`, `OUT` exactly
///   if a write of [`write_minimum`](FdObject::write_minimum) bytes would succeed, `ERR` after a failure, `HUP` after
///   [`close`](FdObject::close) and when the other end is gone.
/// - Each change that sets one of these bits is followed by [`Watchers::notify`] with that bit, without the object's
///   lock held. An object whose larger writes may fail with `EAGAIN` while `OUT` is set also notifies `OUT` whenever
///   its room grows.
/// - A read into a buffer that is too small for a record fails with `ENOSPC` and takes nothing.
/// - `close` sets `HUP` and notifies. After it, reads and writes fail with `EBADF`.
///
/// All methods may be called from several threads at once, and while an epoll is locked; so they take no locks of tables
/// or epolls, run no user code, and do not wait. Files are the exception: see [`File`](crate::File).
pub trait FdObject: Any + Debug + Send + Sync {
    /// Returns the name of the kind, as `FD_CTL_GET_KIND` reports it.
    fn kind(&self) -> &'static str;

    /// Returns the list of those that watch this object.
    fn watchers(&self) -> &Watchers;

    /// Returns what the object is ready for now.
    fn poll_mask(&self) -> Events;

    /// Closes the object: the last file descriptor that refers to it is gone. A second call changes nothing.
    fn close(&self);

    /// Returns what is counted of the object.
    fn metrics(&self) -> Metrics;

    /// Reads into `buffer`, as many bytes as there are or one record. Zero is the end of file.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is nothing to read, `ENOSPC` if the next record does not fit, `EBADF` after `close` and for
    /// an object that is not read.
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let _ = buffer;
        Err(Errno::EBADF)
    }

    /// Writes from `bytes`, as many as there is room for or one record. Returns the number of bytes that were taken.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room, `EPIPE` if the other end is closed, `EBADF` after `close` and for an object that
    /// is not written.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let _ = bytes;
        Err(Errno::EBADF)
    }

    /// Returns the length of the smallest buffer that the next read succeeds with: the length of the next record, or 1
    /// for bytes.
    fn read_minimum(&self) -> usize {
        1
    }

    /// Returns the length of the smallest write. `OUT` promises that one of this length succeeds.
    fn write_minimum(&self) -> usize {
        1
    }

    /// Returns false if epolls refuse to watch the object, as they do with files.
    fn is_pollable(&self) -> bool {
        true
    }

    /// Returns false if file descriptors of this kind cannot be moved to another actor.
    fn is_sendable(&self) -> bool {
        true
    }

    /// Returns counts of the kind's own, which `FD_CTL_GET_METRICS` reports beside the common ones.
    fn extra_metrics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
