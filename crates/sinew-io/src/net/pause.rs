//! Pauses between tries, for what nobody tells of.

use std::io;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_core::Instant;
use sinew_sched::now;
use sinew_sched::raw::refused_io;

/// Ever longer pauses: each is twice as long as the one before.
pub(super) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    pub(super) fn between(shortest: Duration, longest: Duration) -> Pause {
        Pause { next: shortest, longest }
    }

    /// How long the next one is.
    pub(super) fn next(&mut self) -> Duration {
        let next = self.next;
        self.next = (next * 2).min(self.longest);
        next
    }

    /// Waits for the next one; fails if the task is cancelled, as a call that does I/O does.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.wait_until(None)
    }

    /// The same, but not longer than until `deadline`.
    pub(super) fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let until = now() + self.next();
        let (_nobody_sends, mut receiver) = oneshot::channel::<()>();
        match receiver.recv_timeout(deadline.map_or(until, |deadline| deadline.min(until)) - now()) {
            Err(RecvError::Refused(why)) => Err(refused_io(why)),
            _ => Ok(()),
        }
    }
}
