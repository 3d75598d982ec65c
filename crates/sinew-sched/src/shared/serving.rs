//! Who serves the reactor besides the worker that sleeps in it: busy workers now and then, and sysmon.

use std::io;
use std::ptr;
use std::time::Duration;

use super::Shared;
use crate::future::wake_caught;
use crate::reactor::Reactor;
use crate::spawn::spawn_on;

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
            spawn_on(self, move || foreign.into_iter().for_each(wake_caught)).detach();
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
