//! The reactor: tells tasks when descriptors become ready.
//!
//! There is one for each runtime, made when the first descriptor is registered. It belongs to nobody: whichever worker
//! takes its lock serves it. A worker with nothing to do sleeps in it, if no other does ([`crate::shared`]); busy
//! ones look at it every [`INTERVAL`].
//!
//! A descriptor is registered once, for both directions, and the system tells of changes only; what is known of it is
//! in its [`Slot`]. Registrations are kept by number, so that several users of one descriptor share one, and so that
//! closing a descriptor finds those who wait for it.
//!
//! Like slots, reactors are never freed but used again by later runtimes: somebody may be about to wake one when its
//! runtime ends, by a descriptor whose number must not be anybody else's.

mod registration;
mod slot;

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Poll, Registry, Token, Waker};
use sinew_core::Instant;
use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::{Mutex, MutexGuard, statics};

use crate::clock::system_now;
use crate::wait_kind::WaitKind;
use crate::waker::wake_foreign;
pub use registration::Registration;
pub use slot::{Readiness, Slot};

/// All reactors that were ever made.
fn all() -> statics::MutexGuard<'static, Vec<&'static Reactor>> {
    static ALL: statics::Mutex<Vec<&'static Reactor>> = statics::Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A descriptor is about to be closed: whoever waits for it, on any runtime, is told.
pub fn forget_everywhere(fd: RawFd) {
    let reactors = all().clone();
    reactors.iter().for_each(|reactor| reactor.forget(fd));
}

/// How often the reactor is looked at, at least, while workers change tasks.
const INTERVAL: Duration = Duration::from_micros(100);

/// How many descriptors the system tells of at a time.
const EVENTS: usize = 1024;

/// Whoever wants the worker that sleeps in the reactor to get up.
const WAKE: Token = Token(usize::MAX);

/// Where the number of a slot's use is in a token; below it is the slot's address.
const NUMBER: u32 = 48;

/// What to be told of: that a descriptor can be read from, written to, or either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interest(u8);

impl Interest {
    /// Something can be read, or the other side has closed.
    pub const READ: Interest = Interest(1);
    /// Something can be written, or the other side does not read any more.
    pub const WRITE: Interest = Interest(2);
    /// Either.
    pub const BOTH: Interest = Interest(3);

    /// Returns the kind of a wait for this.
    pub fn wait_kind(self) -> WaitKind {
        match self {
            Interest::READ => WaitKind::Readable,
            Interest::WRITE => WaitKind::Writable,
            _ => WaitKind::ReadableOrWritable,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// True if it has all of `other`.
    pub fn contains(self, other: Interest) -> bool {
        self.0 & other.0 == other.0
    }
}

pub(crate) struct Reactor {
    serving: Mutex<Serving>,
    registry: Registry,
    waker: Waker,
    /// When it was last looked at, by the system's clock.
    served: AtomicU64,
    /// Who is registered, by the number of the descriptor.
    table: Mutex<Vec<Option<&'static Slot>>>,
}

struct Serving {
    poll: Poll,
    events: Events,
}

fn free() -> statics::MutexGuard<'static, Vec<&'static Reactor>> {
    static FREE: statics::Mutex<Vec<&'static Reactor>> = statics::Mutex::new(Vec::new());
    FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Reactor {
    /// A reactor that nobody else uses.
    pub(crate) fn take() -> io::Result<&'static Reactor> {
        if let Some(reactor) = free().pop() {
            return Ok(reactor);
        }
        let poll = Poll::new()?;
        let (registry, waker) = (poll.registry().try_clone()?, Waker::new(poll.registry(), WAKE)?);
        let serving = Mutex::new(Serving { poll, events: Events::with_capacity(EVENTS) });
        let (served, table) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let reactor: &Reactor = Box::leak(Box::new(Reactor { serving, registry, waker, served, table }));
        all().push(reactor);
        Ok(reactor)
    }

    /// No task of its runtime is left, so soon nobody serves it: whoever still waits for a descriptor, as tasks of other
    /// runtimes may, is told, and has to go elsewhere.
    pub(crate) fn forget_all(&self) {
        let mut table = self.table.lock();
        let numbered = |slot: &'static Slot| (slot, slot.number()); // as long as it is in the table, it has an owner
        let slots: Vec<_> = table.drain(..).map(|entry| entry.map(numbered)).collect();
        drop(table);
        for (fd, entry) in slots.into_iter().enumerate() {
            if let Some((slot, number)) = entry {
                let _ = self.deregister(fd as RawFd);
                slot.close(number);
            }
        }
    }

    /// Its runtime has ended: another may have it.
    pub(crate) fn give(&'static self) {
        self.forget_all();
        free().push(self);
    }

    /// Has the worker that sleeps in the reactor get up.
    pub(crate) fn wake(&self) {
        // It only fails if the descriptor is not what it was, which is out of our hands.
        self.waker.wake().expect("the reactor's own descriptor is open");
    }

    /// Takes the place of whoever serves the reactor, if nobody does.
    pub(crate) fn serve(&'static self) -> Option<Server> {
        let serving = self.serving.try_lock()?;
        Some(Server { reactor: self, serving })
    }

    /// The same, if nobody has looked for a while.
    pub(crate) fn serve_if_late(&'static self) -> Option<Server> {
        if self.was_served_within(INTERVAL) { None } else { self.serve() }
    }

    /// True if somebody has looked at it within that time.
    pub(crate) fn was_served_within(&self, time: Duration) -> bool {
        let served = Instant::from_nanos(self.served.load(Ordering::Relaxed));
        system_now() - served < time
    }

    /// How many descriptors are registered.
    pub(crate) fn registered(&self) -> usize {
        self.table.lock().iter().flatten().count()
    }

    /// True if somebody waits for a descriptor.
    pub(crate) fn is_awaited(&self) -> bool {
        self.table.lock().iter().flatten().any(|slot| slot.is_awaited())
    }

    fn deregister(&self, fd: RawFd) -> io::Result<()> {
        self.registry.deregister(&mut SourceFd(&fd))
    }
}

/// Whoever serves a reactor.
pub(crate) struct Server {
    reactor: &'static Reactor,
    serving: MutexGuard<'static, Serving>,
}

impl Server {
    /// Waits until there is news, until somebody wakes the reactor, or so long. True if there is news.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let Serving { poll, events } = &mut *self.serving;
        if let Err(error) = poll.poll(events, timeout) {
            // The system interrupts waits, which are over early then. Nothing else can go wrong with what we give it.
            debug_assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
            events.clear();
        }
        self.reactor.served.store(system_now().as_nanos(), Ordering::Relaxed);
        events.iter().any(|event| event.token() != WAKE)
    }

    /// Tells the waiters of the descriptors that there is news of. Wakers that are not ours are called by a task.
    pub(crate) fn tell(self) {
        let foreign = self.tell_ours();
        if !foreign.is_empty() {
            wake_foreign(foreign);
        }
    }

    /// The same; wakers that are not ours are for the caller to call.
    pub(crate) fn tell_ours(mut self) -> Vec<std::task::Waker> {
        let mut foreign = Vec::new();
        for event in self.serving.events.iter().filter(|event| event.token() != WAKE) {
            let readable = event.is_readable() || event.is_read_closed() || event.is_error();
            let writable = event.is_writable() || event.is_write_closed() || event.is_error();
            let interest = Interest(u8::from(readable) | u8::from(writable) << 1);
            let Token(token) = event.token();
            let (address, number) = (token & ((1 << NUMBER) - 1), (token >> NUMBER) as u16);
            // SAFETY: only slots are registered, and they are never freed; the address was exposed then.
            let slot: &'static Slot = unsafe { &*std::ptr::with_exposed_provenance(address) };
            slot.tell(number, interest, event.is_read_closed(), &mut foreign);
        }
        self.serving.events.clear();
        foreign
    }
}
