//! The file descriptors of one actor.
//!
//! Everything that changes which number refers to what is done under one lock. Objects are closed, and watchers told,
//! after the lock is released: see [`lock`](crate::lock) for the order. A call looks its number up, releases the lock,
//! and works with the object; a number that is closed meanwhile ends waits through it with `EBADF`.

mod epolls;
mod io;
mod slots;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use sinew_core::Errno;
use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::bits::{Events, Flags};
use crate::epoll::Epoll;
use crate::kinds::stdio::{Output, Stdin};
use crate::lock::{Rank, Ranked};
use crate::number::{Descriptor, Number, Open};
use crate::object::FdObject;
use crate::wait::register_labels;
use slots::Slots;

/// The file descriptors of one actor: small numbers that refer to objects.
///
/// Numbers 0 to 2 are standard input, output and error. A new file descriptor gets the lowest free number from 3. A number
/// that was closed while epolls watch it is not given out again before each of them has reported `HUP` for it once, or
/// has dropped the watch.
///
/// Any thread may use a table. Dropping it closes everything.
///
/// ```
/// use std::time::Duration;
/// use sinew_fd::{EpollEvent, EpollOp, EventCounter, Events, FdTable, Flags};
///
/// let table = FdTable::new(64);
/// let epfd = table.epoll_create()?;
/// let counter = table.open(EventCounter::new(0), Flags::NONE)?;
/// table.epoll_ctl(epfd, EpollOp::Add, counter, Events::IN)?;
///
/// let mut ready = [EpollEvent::default(); 8];
/// assert_eq!(table.epoll_wait(epfd, &mut ready, Some(Duration::ZERO))?, 0);
/// table.write(counter, &3_u64.to_le_bytes())?;
/// assert_eq!(table.epoll_wait(epfd, &mut ready, None)?, 1);
/// assert_eq!(ready[0], EpollEvent { fd: counter, events: Events::IN });
/// # Ok::<(), sinew_fd::Errno>(())
/// ```
pub struct FdTable {
    slots: Ranked<Slots>,
    /// How often the waits were interrupted. A wait compares it with what it was when the wait began.
    interrupts: AtomicU64,
}

/// A descriptor that a table had no room for: see [`FdTable::insert`].
#[derive(Debug)]
pub struct InsertError {
    /// The descriptor. Dropped, it is closed.
    pub descriptor: Descriptor,
    /// `EMFILE`, or `EBADF` if the table is closed.
    pub errno: Errno,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot insert a {} descriptor: {}", self.descriptor.object().kind(), self.errno)
    }
}

impl std::error::Error for InsertError {}

/// What is left to do without the lock when a number was closed.
struct Closed {
    number: Arc<Number>,
    open: Arc<Open>,
}

impl Closed {
    /// Wakes everything that waits through the number. Returns the object, which is closed if it is dropped and was the last.
    fn announce(self) -> Arc<Open> {
        self.number.watchers.notify(Events::HUP);
        if let Some(epoll) = as_epoll(&self.number) {
            epoll.wake_waits();
        }
        self.open
    }
}

fn as_epoll(number: &Number) -> Option<&Epoll> {
    (&*number.object as &dyn Any).downcast_ref()
}

impl FdTable {
    /// Creates a table for numbers below `limit`, whose standard input is at its end and whose output is discarded.
    pub fn new(limit: usize) -> FdTable {
        FdTable::with_stdio(limit, [Stdin::new(), Output::new(|_| ()), Output::new(|_| ())])
    }

    /// Creates a table for numbers below `limit`, with these objects as standard input, output and error.
    pub fn with_stdio(limit: usize, stdio: [Arc<dyn FdObject>; 3]) -> FdTable {
        register_labels();
        FdTable { slots: Ranked::new(Rank::Table, Slots::new(limit, stdio)), interrupts: AtomicU64::new(0) }
    }

    /// Gives `object` a number.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all numbers are used or reserved, `EBADF` if the table is closed. The object is closed then.
    pub fn open(&self, object: Arc<dyn FdObject>, flags: Flags) -> Result<i32, Errno> {
        self.insert(Descriptor::new(object, flags)).map_err(|error| error.errno)
    }

    /// Gives a descriptor that was taken out of another table a number.
    ///
    /// # Errors
    ///
    /// The descriptor, with `EMFILE` if all numbers are used or reserved, or `EBADF` if the table is closed.
    pub fn insert(&self, descriptor: Descriptor) -> Result<i32, Box<InsertError>> {
        let inserted = self.slots.lock().insert(descriptor);
        inserted.map_err(|(descriptor, errno)| Box::new(InsertError { descriptor, errno }))
    }

    /// Takes a file descriptor out of the table, to move it to another. To everything that waits through the number it
    /// is closed.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number, `EPERM` for a kind that stays with its actor: an epoll, or standard input and output.
    pub fn take(&self, fd: i32) -> Result<Descriptor, Errno> {
        let (closed, flags) = {
            let mut slots = self.slots.lock();
            let (number, flags) = slots.get(fd)?;
            if !number.object.is_sendable() {
                return Err(Errno::EPERM);
            }
            (slots.remove(fd)?, flags)
        };
        Ok(Descriptor { open: closed.announce(), flags })
    }

    /// Gives the object of `fd` a second number, with the same flags but without [`Flags::CLOEXEC`].
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number, `EMFILE` if all numbers are used or reserved.
    pub fn dup(&self, fd: i32) -> Result<i32, Errno> {
        let mut slots = self.slots.lock();
        let descriptor = slots.share(fd)?;
        // A descriptor that comes back is not the last of its object, so dropping it here closes nothing.
        slots.insert(descriptor).map_err(|(_, errno)| errno)
    }

    /// Closes a number. Waits through it end with `EBADF`, and epolls that watch it report `HUP` once. If no other number
    /// refers to the object, that is closed too.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number, so also for one that was closed.
    pub fn close(&self, fd: i32) -> Result<(), Errno> {
        let closed = self.slots.lock().remove(fd)?;
        drop(closed.announce());
        Ok(())
    }

    /// Closes every number, and refuses new ones from now on.
    pub fn close_all(&self) {
        let closed = self.slots.lock().close();
        closed.into_iter().for_each(|closed| drop(closed.announce()));
    }

    /// Closes the numbers that have [`Flags::CLOEXEC`]: what a reload of the actor does.
    pub fn close_on_reload(&self) {
        let closed = self.slots.lock().remove_where(|flags| flags.contains(Flags::CLOEXEC));
        closed.into_iter().for_each(|closed| drop(closed.announce()));
    }

    /// Ends every wait that is under way, on epolls and in reads and writes, with `ECANCELED`. Later waits are not
    /// affected.
    pub fn interrupt(&self) {
        self.interrupts.fetch_add(1, Ordering::AcqRel);
        let numbers = self.slots.lock().numbers();
        for number in numbers {
            number.watchers.notify(Events::HUP);
            if let Some(epoll) = as_epoll(&number) {
                epoll.wake_waits();
            }
        }
    }

    /// Returns the object of a number.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number.
    pub fn object(&self, fd: i32) -> Result<Arc<dyn FdObject>, Errno> {
        Ok(self.number(fd)?.0.object.clone())
    }

    /// Returns the object of a number if it is a `T`: for the calls that only one kind has.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number, `EINVAL` for an object of another kind.
    pub fn object_as<T: FdObject>(&self, fd: i32) -> Result<Arc<T>, Errno> {
        let object: Arc<dyn Any + Send + Sync> = self.object(fd)?;
        object.downcast().map_err(|_| Errno::EINVAL)
    }

    /// Returns what a number is ready for.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number.
    pub fn poll_mask(&self, fd: i32) -> Result<Events, Errno> {
        Ok(self.number(fd)?.0.mask())
    }

    /// Returns the flags of a number.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number.
    pub fn flags(&self, fd: i32) -> Result<Flags, Errno> {
        Ok(self.number(fd)?.1)
    }

    /// Sets some flags of a number and clears others. Waits that are under way are not affected.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number.
    pub fn change_flags(&self, fd: i32, set: Flags, clear: Flags) -> Result<Flags, Errno> {
        self.slots.lock().change_flags(fd, set, clear)
    }

    /// Returns the numbers that are open, in ascending order.
    pub fn open_fds(&self) -> Vec<i32> {
        self.slots.lock().open_fds()
    }

    /// Returns a number that can be watched.
    pub(crate) fn watchable(&self, fd: i32) -> Result<Arc<Number>, Errno> {
        let (number, _) = self.number(fd)?;
        if number.object.is_pollable() { Ok(number) } else { Err(Errno::EPERM) }
    }

    fn number(&self, fd: i32) -> Result<(Arc<Number>, Flags), Errno> {
        self.slots.lock().get(fd)
    }

    /// Returns what ends waits through `number` that begin now: its close, and the next interruption.
    fn stop<'a>(&'a self, number: &'a Number) -> impl Fn() -> Result<(), Errno> + 'a {
        let begun = self.interrupts.load(Ordering::Acquire);
        move || {
            if number.is_closed() {
                return Err(Errno::EBADF);
            }
            let interrupted = self.interrupts.load(Ordering::Acquire) != begun;
            if interrupted { Err(Errno::ECANCELED) } else { Ok(()) }
        }
    }
}

impl Drop for FdTable {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl fmt::Debug for FdTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FdTable").field("open", &self.open_fds()).finish()
    }
}
