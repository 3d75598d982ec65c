//! Waiting for any descriptor: until something can be read from it, or written to it.
//!
//! The types of [`net`](crate::net) do this by themselves. This is for descriptors of your own: pipes, devices,
//! sockets of other libraries.
//!
//! ```
//! use std::io::{Read, Write, pipe};
//! use sinew_io::fd::{self, Interest};
//! use sinew_sched::{Runtime, spawn};
//!
//! let line = Runtime::new().run(|| {
//!     let (mut reader, mut writer) = pipe()?;
//!     spawn(move || writer.write_all(b"hello\n")).detach();
//!     fd::wait(&reader, Interest::READ, None)?; // the worker runs other tasks meanwhile
//!     let mut line = String::new();
//!     reader.read_to_string(&mut line)?;
//!     Ok::<_, std::io::Error>(line)
//! });
//! assert_eq!(line.unwrap()?, "hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it waits
//!
//! A wait asks the system whether the descriptor is ready, and returns if it is, however often: it is level-triggered.
//! If not, it joins the others who wait for that descriptor and has the reactor armed again, which tells of what has
//! become ready since it asked. Whoever is told asks again. Files are always ready.
//!
//! A descriptor is known by its number, and a number is used again after a close. So whoever closes one that others may be
//! waiting for does it by [`close`], which tells them.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use sinew_chan::select;
use sinew_core::Instant;
use sinew_sched::now;
use sinew_sched::raw::{
    Async, Attempt, Awaited, Case, Enrolled, Node, Readiness, Registration, What, block, charge, checked,
    forget_everywhere, is_task, may_block, refused_io, register, system_now,
};

pub use sinew_sched::raw::Interest;

/// What a descriptor was found ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    events: libc::c_short,
}

impl Ready {
    /// Reading does not block: there is something, or the end, or an error.
    pub fn is_readable(self) -> bool {
        self.has(libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR)
    }

    /// Writing does not block: there is room, or an error.
    pub fn is_writable(self) -> bool {
        self.has(libc::POLLOUT | libc::POLLHUP | libc::POLLERR)
    }

    /// The other side has closed, or does not write any more.
    pub fn is_closed(self) -> bool {
        self.has(libc::POLLHUP | libc::POLLRDHUP)
    }

    /// There is an error to be fetched, or, for the writing end of a pipe, no reader any more.
    pub fn is_error(self) -> bool {
        self.has(libc::POLLERR)
    }

    /// The bits that `poll` would report: `POLLIN`, `POLLOUT` and so on.
    pub fn bits(self) -> u32 {
        u32::from(self.events.cast_unsigned())
    }

    fn has(self, events: libc::c_short) -> bool {
        self.events & events != 0
    }
}

/// Waits until `fd` is ready for `interest`: suspends the running task, or blocks the thread. Any number may wait for one
/// descriptor.
///
/// # Errors
///
/// `TimedOut` at the deadline; `EBADF` if there is no such descriptor, or if it is closed by [`close`] meanwhile;
/// [`Cancelled`](sinew_fiber::Cancelled), wrapped, if the task is cancelled, and a refusal where nothing may block.
pub fn wait(
    fd: &impl AsRawFd,
    interest: Interest,
    deadline: impl Into<Option<Instant>>,
) -> io::Result<Ready> {
    let (fd, deadline) = (fd.as_raw_fd(), deadline.into());
    if !is_task() {
        let look = || poll(fd, interest, Some(Duration::ZERO))?.ok_or(ErrorKind::WouldBlock.into());
        return run_by_thread(fd, interest, deadline, look);
    }
    charge();
    let readiness = readiness(&fd, interest);
    if !readiness.attempt() && !block(&readiness, deadline).map_err(refused_io)? {
        return Err(ErrorKind::TimedOut.into());
    }
    readiness.output()
}

/// Happens when `fd` is ready for `interest`: a case of a [`select!`](sinew_chan::select!), for tasks. Gives what [`wait`]
/// returns.
pub fn readiness(fd: &impl AsRawFd, interest: Interest) -> DescriptorReady {
    let (registration, outcome) = (OnceCell::new(), Cell::new(None));
    DescriptorReady { fd: fd.as_raw_fd(), interest, registration, outcome }
}

/// Like [`wait`], for futures that are polled by a task: ready when `fd` is. Dropped, it waits no more, and the descriptor may
/// be closed in any way.
///
/// ```
/// use std::io::{Write, pipe};
/// use sinew_sched::Runtime;
/// use sinew_io::fd::{self, Interest};
///
/// let (reader, mut writer) = pipe()?;
/// let runtime = Runtime::new();
/// let task = runtime.spawn_future(async move { fd::wait_async(&reader, Interest::READ).await });
/// writer.write_all(b"hello")?;
/// assert!(task.join().unwrap()?.is_readable());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_async(fd: &impl AsRawFd, interest: Interest) -> Async<DescriptorReady> {
    Async::new(readiness(fd, interest))
}

/// What `fd` is ready for, of `interest`; none if it is not. Never waits.
///
/// # Errors
///
/// `EBADF` if there is no such descriptor.
pub fn look(fd: &impl AsRawFd, interest: Interest) -> io::Result<Option<Ready>> {
    poll(fd.as_raw_fd(), interest, Some(Duration::ZERO))
}

/// Closes a descriptor. Whoever waits for it in [`wait`], on any runtime, is told: the number may be another's at once.
pub fn close(fd: OwnedFd) {
    forget_everywhere(fd.as_raw_fd());
    drop(fd);
}

/// A descriptor to wait for: see [`readiness`].
pub struct DescriptorReady {
    fd: RawFd,
    interest: Interest,
    registration: OnceCell<Registration>,
    outcome: Cell<Option<io::Result<Ready>>>,
}

impl DescriptorReady {
    /// Joins those who wait for the descriptor.
    fn register(&self) -> io::Result<Readiness<'_>> {
        let registration = match self.registration.get() {
            Some(registration) => registration,
            None => {
                let registration = register(self.fd).ok_or_else(|| {
                    let why = "a select that waits for a descriptor has to be a task's";
                    io::Error::new(ErrorKind::Unsupported, why)
                })??;
                self.registration.get_or_init(|| registration)
            }
        };
        Ok(Readiness { slot: registration.slot, fd: self.fd, interest: self.interest })
    }

    /// The wait, of one that is registered.
    fn registered(&self) -> Option<Readiness<'_>> {
        let registration = self.registration.get()?;
        Some(Readiness { slot: registration.slot, fd: self.fd, interest: self.interest })
    }

    fn is_closed(&self) -> bool {
        self.registration.get().is_some_and(|registration| registration.slot.seen().is_closed())
    }
}

impl Awaited for DescriptorReady {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this: that is in the slot of the registration,
        // which does not change.
        self.registered().is_none_or(|readiness| unsafe { readiness.withdraw(node) })
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for DescriptorReady {
    fn attempt(&self) -> bool {
        let outcome = match self.is_closed() {
            true => Some(Err(io::Error::from_raw_os_error(libc::EBADF))),
            false => poll(self.fd, self.interest, Some(Duration::ZERO)).transpose(),
        };
        let done = outcome.is_some();
        self.outcome.set(outcome);
        done
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let readiness = match self.register() {
            Ok(readiness) => readiness,
            Err(error) => {
                if !node.claim() {
                    return Enrolled::Taken;
                }
                // What cannot be waited for never blocks.
                let always = error.raw_os_error() == Some(libc::EPERM);
                let ready = Ready { events: events(self.interest) };
                self.outcome.set(Some(if always { Ok(ready) } else { Err(error) }));
                return Enrolled::Done;
            }
        };
        let seen = readiness.slot.seen();
        if self.attempt() {
            return Enrolled::Again;
        }
        readiness.slot.clear(seen, self.interest);
        // SAFETY: the caller promises the same of this, and this keeps the registration.
        unsafe { readiness.enroll(node) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        self.attempt()
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        match self.registered() {
            // SAFETY: as in `withdraw`.
            Some(readiness) => unsafe { readiness.under_lock(change) },
            None => change(),
        }
    }

    fn what(&self) -> What {
        What::ready(self.fd, self.interest.wait_kind())
    }
}

impl Case for DescriptorReady {
    type Output = io::Result<Ready>;

    fn output(self) -> io::Result<Ready> {
        self.outcome.take().expect("a case that has happened")
    }
}

impl fmt::Debug for DescriptorReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fd, interest, .. } = self;
        f.debug_struct("DescriptorReady").field("fd", fd).field("interest", interest).finish_non_exhaustive()
    }
}

/// Calls `call` until it does not fail because it would block, on a thread that is no worker.
pub(crate) fn run_by_thread<R>(
    fd: RawFd,
    interest: Interest,
    deadline: Option<Instant>,
    mut call: impl FnMut() -> io::Result<R>,
) -> io::Result<R> {
    let until = deadline.map(|deadline| system_now() + (deadline - now()));
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                may_block().map_err(refused_io)?;
                let left = until.map(|until| until - system_now());
                if poll(fd, interest, left)?.is_none() && left.is_some_and(|left| left.is_zero()) {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            result => return result,
        }
    }
}

/// Waits until something can be read from one of two. May be over early.
pub(crate) fn wait_for_either(fds: [RawFd; 2]) -> io::Result<()> {
    if !is_task() {
        may_block().map_err(refused_io)?;
        return poll_any(&mut fds.map(|fd| asked(fd, Interest::READ)), None);
    }
    charge();
    let [one, other] = fds.map(|fd| readiness(&fd, Interest::READ));
    select! {
        ready = one => ready.map(drop),
        ready = other => ready.map(drop),
    }
    .map_err(refused_io)?
}

fn events(interest: Interest) -> libc::c_short {
    let read = if interest.contains(Interest::READ) { libc::POLLIN | libc::POLLRDHUP } else { 0 };
    let write = if interest.contains(Interest::WRITE) { libc::POLLOUT } else { 0 };
    read | write
}

/// What the system is asked about a descriptor.
pub(crate) fn asked(fd: RawFd, interest: Interest) -> libc::pollfd {
    libc::pollfd { fd, events: events(interest), revents: 0 }
}

/// Asks the system whether a descriptor is ready, and waits so long for that. May be over early.
fn poll(fd: RawFd, interest: Interest, timeout: Option<Duration>) -> io::Result<Option<Ready>> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF)); // the system would pass over it, and wait for nothing
    }
    let mut asked = [asked(fd, interest)];
    poll_any(&mut asked, timeout)?;
    match asked[0].revents {
        0 => Ok(None),
        events if events & libc::POLLNVAL != 0 => Err(io::Error::from_raw_os_error(libc::EBADF)),
        events => Ok(Some(Ready { events })),
    }
}

/// Blocks the thread until one of these is ready, or so long. May be over early.
pub(crate) fn poll_any(asked: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let up =
        |timeout: Duration| timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(libc::c_int::MAX);
    let timeout = timeout.map_or(-1, up);
    // SAFETY: as many entries as it is told, which are ours.
    match checked(unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout) }) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}
