//! What all sockets are made of: one of std's in non-blocking mode, its place in the reactor, and two timeouts.

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};
use std::time::Duration;

use sinew_sched::now;
use sinew_sched::raw::Interest;

use crate::source::Source;
use sinew_core::Instant;
use sinew_sync::atomic::{AtomicU64, Ordering};

pub(super) struct Socket<T: AsRawFd> {
    pub(super) source: Source<T>,
    pub(super) read_timeout: Timeout,
    pub(super) write_timeout: Timeout,
}

impl<T: AsRawFd> Socket<T> {
    /// `inner`, which is in non-blocking mode.
    pub(super) fn new(inner: T) -> Socket<T> {
        let (read_timeout, write_timeout) = (Timeout::none(), Timeout::none());
        Socket { source: Source::new(inner), read_timeout, write_timeout }
    }

    pub(super) fn get(&self) -> &T {
        self.source.get()
    }

    /// A socket for the same thing, made by `clone`.
    pub(super) fn try_clone(&self, clone: impl FnOnce(&T) -> io::Result<T>) -> io::Result<Socket<T>> {
        let clone = Socket::new(clone(self.get())?);
        clone.read_timeout.0.store(self.read_timeout.0.load(Ordering::Relaxed), Ordering::Relaxed);
        clone.write_timeout.0.store(self.write_timeout.0.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(clone)
    }

    /// Does `call`, which reads, as soon as it does not block.
    pub(super) fn read<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.source.run(Interest::READ, self.read_timeout.deadline(), call)
    }

    /// Does `call`, which writes, as soon as it does not block.
    pub(super) fn write<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.source.run(Interest::WRITE, self.write_timeout.deadline(), call)
    }

    /// Does `call`, which reads, in a future.
    pub(super) async fn read_async<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.source.run_async(Interest::READ, call).await
    }

    /// Does `call`, which writes, in a future.
    pub(super) async fn write_async<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.source.run_async(Interest::WRITE, call).await
    }

    /// Does `call`, which reads, in one poll of whoever has the socket for itself.
    pub(super) fn poll_read<R>(
        &self,
        context: &Context<'_>,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.source.poll(Interest::READ, context, call)
    }

    /// Does `call`, which writes, in one poll of whoever has the socket for itself.
    pub(super) fn poll_write<R>(
        &self,
        context: &Context<'_>,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.source.poll(Interest::WRITE, context, call)
    }
}

/// How long a call may wait, in nanoseconds; `u64::MAX` is for ever.
pub(super) struct Timeout(AtomicU64);

impl Timeout {
    fn none() -> Timeout {
        Timeout(AtomicU64::new(u64::MAX))
    }

    pub(super) fn get(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|nanos| *nanos != u64::MAX).map(Duration::from_nanos)
    }

    pub(super) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let nanos = timeout.map(not_zero).transpose()?.map_or(u128::MAX, |timeout| timeout.as_nanos());
        self.0.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(())
    }

    /// When a call is over that begins now.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.get().map(|timeout| now() + timeout)
    }
}

/// A timeout of zero, which could mean two things, is refused, as std does.
pub(super) fn not_zero(timeout: Duration) -> io::Result<Duration> {
    if timeout.is_zero() {
        let why = "a timeout of zero would allow no wait at all: give a longer one, or `None` for no limit";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(timeout)
}

/// How a type with a field `socket` becomes a descriptor or one of std's, and is made of them.
macro_rules! descriptor {
    ($type:ident, $std:ty, $new:expr) => {
        impl ::std::os::fd::AsFd for $type {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.socket.get().as_fd()
            }
        }

        impl ::std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                self.socket.get().as_raw_fd()
            }
        }

        impl ::std::os::fd::IntoRawFd for $type {
            fn into_raw_fd(self) -> ::std::os::fd::RawFd {
                <$std>::from(self).into_raw_fd()
            }
        }

        /// Stays in non-blocking mode.
        impl From<$type> for $std {
            fn from(socket: $type) -> $std {
                socket.socket.source.into_inner()
            }
        }

        /// Stays in non-blocking mode.
        impl From<$type> for ::std::os::fd::OwnedFd {
            fn from(socket: $type) -> ::std::os::fd::OwnedFd {
                <$std>::from(socket).into()
            }
        }

        /// Puts it, and whatever shares its open file, into non-blocking mode.
        impl TryFrom<$std> for $type {
            type Error = ::std::io::Error;

            fn try_from(socket: $std) -> ::std::io::Result<$type> {
                socket.set_nonblocking(true)?;
                Ok($new($crate::net::socket::Socket::new(socket)))
            }
        }

        /// As with std's type, nobody checks what the descriptor is of: calls fail if it is not of this.
        impl TryFrom<::std::os::fd::OwnedFd> for $type {
            type Error = ::std::io::Error;

            fn try_from(fd: ::std::os::fd::OwnedFd) -> ::std::io::Result<$type> {
                <$type>::try_from(<$std>::from(fd))
            }
        }

        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.socket.get().fmt(f)
            }
        }
    };
}

/// Methods that are std's, called for the socket inside.
macro_rules! as_std {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// What the system says.
        pub fn $name(&self $(, $argument: $type)*) -> ::std::io::Result<$output> {
            self.socket.get().$name($($argument),*)
        }
    )*};
}

/// The timeouts of a type with a field `socket`.
macro_rules! timeouts {
    () => {
        /// Has every later read that waits for so long fail with `TimedOut`. Without a timeout it waits for ever.
        ///
        /// # Errors
        ///
        /// If the timeout is zero.
        pub fn set_read_timeout(&self, timeout: Option<::std::time::Duration>) -> ::std::io::Result<()> {
            self.socket.read_timeout.set(timeout)
        }

        /// Has every later write that waits for so long fail with `TimedOut`. Without a timeout it waits for ever.
        ///
        /// # Errors
        ///
        /// If the timeout is zero.
        pub fn set_write_timeout(&self, timeout: Option<::std::time::Duration>) -> ::std::io::Result<()> {
            self.socket.write_timeout.set(timeout)
        }

        /// The timeout of reads.
        ///
        /// # Errors
        ///
        /// None; the signature is std's.
        pub fn read_timeout(&self) -> ::std::io::Result<Option<::std::time::Duration>> {
            Ok(self.socket.read_timeout.get())
        }

        /// The timeout of writes.
        ///
        /// # Errors
        ///
        /// None; the signature is std's.
        pub fn write_timeout(&self) -> ::std::io::Result<Option<::std::time::Duration>> {
            Ok(self.socket.write_timeout.get())
        }
    };
}

pub(super) use {as_std, descriptor, timeouts};
