//! Who serves the reactor: one of the workers that sleep; besides it busy ones now and then, and sysmon.
//!
//! # Whose place it is
//!
//! A body that has blocked goes on on its own worker. If another one sleeps in the reactor, each piece of news gets two
//! threads up instead of one. So a worker that had news for the tasks of others alone leaves the reactor: when it lies
//! down while another is up, it sleeps elsewhere, and the other finds the place free when it has nothing more to do.
//!
//! Of two that leave it to each other one has to notice. Each lies down, which the word of the beds puts in an order, as the
//! fence of [`Shared::lie_down`] would, and looks once more: if nobody is up and nobody sleeps in the reactor, it gets up
//! again and does so itself.
//!
//! One that is up may be in a task that takes long. So whoever has left the reactor looks again after [`LOOK_AGAIN`], and
//! stays away only if somebody has served it meanwhile.
//!
//! Model: `serving_leave_or_leave`.

use std::io;
use std::ptr;
use std::time::Duration;

use sinew_sync::atomic::Ordering;

use super::{Inbox, LOOK_AGAIN, SERVING, Shared};
use crate::clock::Clock;
use crate::reactor::{Reactor, Server};
use crate::waker::wake_caught;
use crate::worker;

impl Shared {
    /// The reactor, made when it is first asked for. Somebody has to serve it then.
    pub(crate) fn reactor(&self) -> io::Result<&'static Reactor> {
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor);
        }
        let new = Reactor::take()?;
        if self.reactor.set(new).is_err() {
            new.give();
        }
        self.wake_one();
        Ok(self.reactor.get().expect("it was set"))
    }

    /// How many descriptors are registered, if there is a reactor.
    pub(crate) fn descriptors(&self) -> Option<usize> {
        self.reactor.get().map(|reactor| reactor.registered())
    }

    /// True if somebody waits for a descriptor.
    pub(crate) fn awaits_descriptors(&self) -> bool {
        self.reactor.get().is_some_and(|reactor| reactor.is_awaited())
    }

    /// Serves the reactor, if there is one and nobody has for a while.
    #[inline]
    pub(crate) fn serve_if_late(&self) {
        if let Some(mut server) = self.reactor.get().and_then(|reactor| reactor.serve_if_late()) {
            server.wait(Some(Duration::ZERO));
            server.tell();
        }
    }

    /// True if `reactor` is that of this runtime.
    #[inline]
    pub(crate) fn is_served_by(&self, reactor: &Reactor) -> bool {
        self.reactor.get().is_some_and(|own| ptr::eq(*own, reactor))
    }

    pub(crate) fn has_reactor(&self) -> bool {
        self.reactor.get().is_some()
    }

    /// Tells tasks what the reactor has for them, for a worker that has slept there, whose inbox this is.
    pub(super) fn tell(&self, inbox: &Inbox, server: Server) {
        let before = worker::wakes();
        server.tell();
        let (here, elsewhere) = worker::wakes();
        if (here, elsewhere) != before {
            inbox.serves_others.store(here == before.0, Ordering::Relaxed);
        }
    }

    /// True if `worker`, which is about to lie down, leaves the reactor to another that is up.
    pub(super) fn leaves_reactor(&self, worker: usize) -> bool {
        let Some(reactor) = self.reactor.get() else { return false };
        self.inboxes[worker].serves_others.load(Ordering::Relaxed)
            && self.look_again
            && matches!(self.clock, Clock::System)
            && self.another_is_up(worker)
            && reactor.was_served_within(LOOK_AGAIN)
    }

    /// Serves the reactor now, as `worker` that may soon sleep there, unless somebody else does.
    pub(crate) fn serve_own_place(&self, worker: usize) {
        if !self.inboxes[worker].serves_others.load(Ordering::Relaxed) {
            self.serve();
        }
    }

    /// True if `worker`, which has lain down and left the reactor to others, has nobody to leave it to.
    pub(super) fn is_left_alone(&self, worker: usize) -> bool {
        !self.another_is_up(worker) && self.nobody_sleeps_there()
    }

    fn another_is_up(&self, worker: usize) -> bool {
        self.in_service().any(|(index, inbox)| index != worker && !inbox.is_asleep())
    }

    /// True if none of those who sleep does so in the reactor.
    pub(super) fn nobody_sleeps_there(&self) -> bool {
        self.inboxes.iter().all(|inbox| inbox.bed.load(Ordering::Relaxed) != SERVING)
    }

    /// Serves the reactor, as sysmon, if nobody has for a while, and gets a worker up who does so from now on, if one
    /// sleeps: it may have found the place taken.
    pub(crate) fn serve_as_sysmon(&'static self) {
        let server = self.reactor.get().and_then(|reactor| reactor.serve_if_late());
        let Some(mut server) = server else { return };
        let foreign = self.act_as_sysmon(move || {
            server.wait(Some(Duration::ZERO));
            server.tell_ours()
        });
        if !foreign.is_empty() {
            self.run_detached(move || foreign.into_iter().for_each(wake_caught));
        }
        self.wake_one();
    }

    /// Serves the reactor now, unless somebody else does. True if there was news.
    pub(crate) fn serve(&self) -> bool {
        let Some(mut server) = self.reactor.get().and_then(|reactor| reactor.serve()) else { return false };
        let news = server.wait(Some(Duration::ZERO));
        server.tell();
        news
    }
}

#[cfg(test)]
mod tests;
