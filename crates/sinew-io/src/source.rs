//! A descriptor that never blocks, as our own types have one: calls that would block wait for the reactor instead.
//!
//! It is registered with the reactor of each runtime that has a task which has to wait for it, for as long as both exist:
//! another's may be served late, or not at all, as that of a runtime on a thread which does not run it. Mostly there is
//! one. What is known of its readiness is kept until a call would have blocked, or a short read says as much
//! ([`Source::note_short`]), so one that has something to do waits for nothing. A thread that is no worker needs no reactor: it asks the system.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};

use sinew_core::Instant;
use sinew_sched::raw::{
    Async, Interest, Readiness, Registration, Slot, What, announce, block, charge, is_task, poll_charge,
    refused_io, register,
};
use sinew_sync::Mutex;
use sinew_sync::statics::OnceLock;

use crate::fd;

/// `inner`, which does not block, and where it is registered.
pub(crate) struct Source<T: AsRawFd> {
    inner: T,
    first: OnceLock<Registration>,
    /// Registrations with other reactors than the first, or with one that is another runtime's by now. Those that are over
    /// stay: somebody may be about to use their slots.
    later: Mutex<Vec<Registration>>,
}

impl<T: AsRawFd> Source<T> {
    /// `inner`, whose descriptor is in non-blocking mode.
    pub(crate) fn new(inner: T) -> Source<T> {
        Source { inner, first: OnceLock::new(), later: Mutex::new(Vec::new()) }
    }

    pub(crate) fn get(&self) -> &T {
        &self.inner
    }

    /// What it was made of, registered nowhere.
    pub(crate) fn into_inner(self) -> T {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: each field is read once, and `this` is not used again, nor dropped.
        unsafe {
            drop(std::ptr::read(&raw const this.first));
            drop(std::ptr::read(&raw const this.later));
            std::ptr::read(&raw const this.inner)
        }
    }

    /// Calls `call` until it does not fail because it would block, and waits meanwhile until the descriptor is ready for
    /// `interest`.
    ///
    /// # Errors
    ///
    /// Those of `call`; `TimedOut` at the deadline; [`Cancelled`](sinew_fiber::Cancelled) if the task is cancelled while it waits.
    pub(crate) fn run<R>(
        &self,
        interest: Interest,
        deadline: Option<Instant>,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        if !is_task() {
            return fd::run_by_thread(self.inner.as_raw_fd(), interest, deadline, || call(&self.inner));
        }
        charge();
        loop {
            if let Some(result) = self.attempt(interest, &mut call) {
                return result;
            }
            let readiness = Readiness { slot: self.slot()?, fd: self.inner.as_raw_fd(), interest };
            if !block(&readiness, deadline).map_err(refused_io)? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Makes a call that reads from a stream, and notes if it was given less than it wanted. For streams that give less only
    /// when there is no more; TCP's do, but for urgent data, behind which the next read waits for whatever comes next.
    pub(crate) fn note_short(
        &self,
        len: usize,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let known = self.registered().map(|slot| (slot, slot.seen()));
        let result = call();
        if let (Some((slot, seen)), Ok(count)) = (known, &result)
            && (1..len).contains(count)
        {
            slot.spend(seen, Interest::READ);
        }
        result
    }

    /// The same in a future. Any number may wait at a time.
    ///
    /// # Errors
    ///
    /// Those of `call`; if the future has to wait and is not polled by a task.
    pub(crate) async fn run_async<R>(
        &self,
        interest: Interest,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        poll_fn(|context| poll_charge(context)).await;
        loop {
            if let Some(result) = self.attempt(interest, &mut call) {
                return result;
            }
            Async::new(Readiness { slot: self.slot()?, fd: self.inner.as_raw_fd(), interest }).await;
        }
    }

    /// The same as one poll, for traits that are made of polls: of those that wait for a direction, only the one that polled
    /// last is woken. Whoever owns such a trait's value is the only one that polls it.
    ///
    /// # Errors
    ///
    /// As for [`Source::run_async`].
    pub(crate) fn poll<R>(
        &self,
        interest: Interest,
        context: &Context<'_>,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        ready!(poll_charge(context));
        loop {
            if let Some(result) = self.attempt(interest, &mut call) {
                return Poll::Ready(result);
            }
            match self.slot() {
                Ok(slot) => {
                    announce(What::ready(self.inner.as_raw_fd(), interest.wait_kind()));
                    ready!(slot.poll_ready(interest, context));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// What `call` returned, or none if it would block.
    fn attempt<R>(
        &self,
        interest: Interest,
        call: &mut impl FnMut(&T) -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        let slot = self.registered();
        let seen = slot.map(Slot::seen);
        if seen.is_some_and(|seen| !seen.is_ready(interest)) {
            return None;
        }
        loop {
            match call(&self.inner) {
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                result => return Some(result),
            }
        }
        if let (Some(slot), Some(seen)) = (slot, seen) {
            slot.clear(seen, interest);
        }
        None
    }

    /// Where it is registered, if it is: with the reactor of the calling worker, or, for futures that others poll, any.
    fn registered(&self) -> Option<&'static Slot> {
        let first = self.first.get()?;
        let serves = |registration: &&Registration| {
            registration.is_of_caller() && !registration.slot.seen().is_closed()
        };
        if serves(&first) {
            return Some(first.slot);
        }
        self.later.lock().iter().rev().find(serves).map(|registration| registration.slot)
    }

    /// Where it is registered, now.
    fn slot(&self) -> io::Result<&'static Slot> {
        if let Some(slot) = self.registered() {
            return Ok(slot);
        }
        self.register()
    }

    #[cold]
    fn register(&self) -> io::Result<&'static Slot> {
        // Another task of the runtime may have been here meanwhile: then both own one slot.
        let registration = register(self.inner.as_raw_fd()).ok_or_else(|| {
            let why = "a future that waits for a descriptor has to be polled by a task of a Sinew runtime";
            io::Error::new(ErrorKind::Unsupported, why)
        })??;
        let slot = registration.slot;
        if let Err(registration) = self.first.set(registration) {
            self.later.lock().push(registration);
        }
        Ok(slot)
    }
}

impl<T: AsRawFd> Drop for Source<T> {
    fn drop(&mut self) {
        self.first.take().into_iter().for_each(Registration::close);
        self.later.lock().drain(..).for_each(Registration::close);
    }
}

impl<T: AsRawFd> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("fd", &self.inner.as_raw_fd()).finish_non_exhaustive()
    }
}
