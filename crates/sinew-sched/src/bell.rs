//! A descriptor that can be made ready: whoever rings tells a thread that polls it. Ringing is one `write`, so a signal
//! handler may do it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What a call to the system has returned, or why it has failed.
pub fn checked(returned: i32) -> io::Result<i32> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// A file descriptor that can be made ready: an eventfd.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Creates one that was not rung.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: takes numbers only.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: just made, and nobody else's.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells whoever polls, and who does so later. Changes `errno` if it was rung 2^64 times, which tells as well.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the bytes are there.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Forgets that it was rung.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the place is there. If nothing was told it fails, which is fine.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Blocks the thread until it was rung. May return early.
    ///
    /// # Errors
    ///
    /// If the system has no memory for it.
    pub fn wait(&self) -> io::Result<()> {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which is ours.
        match checked(unsafe { libc::poll(&raw mut asked, 1, -1) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Another descriptor that is ready when this one is.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
