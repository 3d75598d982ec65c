//! Waiting until a descriptor is ready, by a blocking call that polls it.
//!
//! A call that nobody waits for any more must not stay until the descriptor is ready, which may be never: each has a
//! [`Bell`], by which whoever gives up tells it to end. The call shares what it polls, so no descriptor is
//! closed, and its number given to another, while it does.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::blocking::blocking;

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interest {
    Read,
    Write,
}

/// Something that has a descriptor, which a call can share.
pub(crate) type Shared = Arc<dyn HasFd>;

pub(crate) trait HasFd: AsFd + Send + Sync + 'static {}

impl<T: AsFd + Send + Sync + 'static> HasFd for T {}

/// Suspends the task until one of these is ready, or has failed; which, the caller finds out by using them.
pub(crate) fn wait_for_any(descriptors: Vec<(Shared, Interest)>) -> io::Result<()> {
    let stop = Bell::new()?;
    let _stopped = stop.on_drop();
    blocking(move || {
        let borrowed: Vec<_> = descriptors.iter().map(|(fd, interest)| (fd.as_fd(), *interest)).collect();
        poll(&borrowed, &stop).map(drop)
    })?
}

/// Suspends the task until `descriptor` is ready, or has failed.
pub(crate) fn wait_for(descriptor: &Arc<impl HasFd>, interest: Interest) -> io::Result<()> {
    wait_for_any(vec![(descriptor.clone(), interest)])
}

/// A descriptor that can be made ready: it tells whoever polls.
#[derive(Clone)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: takes numbers only.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: just made, and nobody else's.
        Ok(Bell(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Tells whoever polls, and who does so later.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the bytes are there. It cannot fail but for a count of 2^64, which tells as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.0.clone()
    }

    /// Forgets that it was rung.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the place is there. If nothing was told it fails, which is fine.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Rings when it is dropped.
    #[must_use = "it rings at once"]
    pub(crate) fn on_drop(&self) -> impl Drop + use<> {
        struct Ring(Bell);
        impl Drop for Ring {
            fn drop(&mut self) {
                self.0.ring();
            }
        }
        Ring(self.clone())
    }
}

/// Blocks the thread until one of these is ready, or it is told to stop: then false.
pub(crate) fn poll(descriptors: &[(BorrowedFd<'_>, Interest)], stop: &Bell) -> io::Result<bool> {
    let entry = |fd: BorrowedFd<'_>, events| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let mut polled = vec![entry(stop.0.as_fd(), libc::POLLIN)];
    polled.extend(descriptors.iter().map(|(fd, interest)| match interest {
        Interest::Read => entry(*fd, libc::POLLIN),
        Interest::Write => entry(*fd, libc::POLLOUT),
    }));
    loop {
        // SAFETY: as many entries as it is told, all of descriptors that are open.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        match checked(ready) {
            Ok(_) => return Ok(polled[0].revents == 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
}

/// Lets reads and writes of an open file fail instead of block, or not.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    // SAFETY: takes numbers only; the descriptor is open.
    unsafe {
        let flags = checked(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        let flags = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        checked(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags)).map(drop)
    }
}

/// What a call to the system has returned, or why it has failed.
pub(crate) fn checked(returned: i32) -> io::Result<i32> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
