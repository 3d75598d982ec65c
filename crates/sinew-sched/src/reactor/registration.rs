//! A descriptor in the table of a reactor.

use std::io;
use std::os::fd::RawFd;

use mio::Token;
use mio::unix::SourceFd;

use super::{NUMBER, Reactor, Slot};

/// One of the owners of a descriptor's registration. The last one takes it out.
pub struct Registration {
    pub(crate) reactor: &'static Reactor,
    /// Where the reactor tells of the descriptor.
    pub slot: &'static Slot,
    fd: RawFd,
}

impl Reactor {
    /// Registers a descriptor, or joins those who have: the system tells whether it is ready now, and of every change.
    ///
    /// # Errors
    ///
    /// What the system says: `EPERM` for one that is always ready, such as a file's.
    pub(crate) fn register(&'static self, fd: RawFd) -> io::Result<Registration> {
        let index = usize::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        let mut old = None;
        let mut table = self.table.lock();
        if table.len() <= index {
            table.resize(index + 1, None);
        }
        if let Some(slot) = table[index] {
            match self.arm(fd, slot, true) {
                Ok(()) => {
                    slot.join();
                    return Ok(Registration { reactor: self, slot, fd });
                }
                // It was closed without our knowing, and its number is used again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    table[index] = None;
                    old = Some((slot, slot.number()));
                }
                Err(error) => return Err(error),
            }
        }
        let slot = Slot::take();
        let armed = self.arm(fd, slot, false);
        if armed.is_ok() {
            table[index] = Some(slot);
        }
        drop(table);
        old.into_iter().for_each(|(slot, number)| slot.close(number));
        match armed {
            Ok(()) => Ok(Registration { reactor: self, slot, fd }),
            Err(error) => {
                slot.leave();
                slot.close(slot.number());
                slot.give();
                Err(error)
            }
        }
    }

    /// Has the system tell of a descriptor, at once if it is ready.
    fn arm(&self, fd: RawFd, slot: &'static Slot, again: bool) -> io::Result<()> {
        let address = std::ptr::from_ref(slot).expose_provenance();
        debug_assert_eq!(address >> NUMBER, 0, "an address of a user's memory");
        let token = Token(address | usize::from(slot.number()) << NUMBER);
        let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
        match again {
            false => self.registry.register(&mut SourceFd(&fd), token, interest),
            true => self.registry.reregister(&mut SourceFd(&fd), token, interest),
        }
    }

    /// A descriptor is about to be closed: whoever waits for it is told.
    pub(crate) fn forget(&self, fd: RawFd) {
        let mut table = self.table.lock();
        let entry = usize::try_from(fd).ok().and_then(|index| table.get_mut(index)).and_then(Option::take);
        if let Some(slot) = entry {
            let number = slot.number(); // it has an owner as long as it is in the table, and may have none after that
            let _ = self.deregister(fd);
            drop(table);
            slot.close(number);
        }
    }
}

impl Registration {
    /// The descriptor is about to be closed: whoever else waits for it is told.
    pub fn close(self) {
        self.reactor.forget(self.fd);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.reactor.table.lock();
        if !self.slot.leave() {
            return;
        }
        let entry = usize::try_from(self.fd).ok().and_then(|index| table.get_mut(index));
        // Unless it was closed: then another may be in its place.
        if let Some(entry) = entry
            && entry.is_some_and(|slot| std::ptr::eq(slot, self.slot))
        {
            *entry = None;
            let _ = self.reactor.deregister(self.fd);
        }
        drop(table);
        self.slot.close(self.slot.number());
        self.slot.give();
    }
}
