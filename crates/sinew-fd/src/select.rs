//! A file descriptor as a case of a `select!`.
//!
//! The case is the receive of a channel with one place. A watch puts the events of each transition into it; what does not
//! fit is dropped, since one token says enough. Before each use the channel is emptied, then the mask is asked for, and a
//! token put in if it is ready: a transition after that finds the channel empty, or with a token in it.

use std::fmt;
use std::sync::{Arc, Weak};

use sinew_chan::chan::{self, Receiver, Sender};
use sinew_chan::select::Source;
use sinew_core::Errno;

use crate::bits::Events;
use crate::number::{Number, Registered};
use crate::table::FdTable;
use crate::watchers::{Key, Watch};

/// A file descriptor to wait for in a `select!`, by `recv(&readiness)`: see [`FdTable::readiness`].
pub struct Readiness {
    registered: Registered,
    watch: Arc<TokenWatch>,
    tokens: Receiver<Events>,
}

struct TokenWatch {
    tokens: Sender<Events>,
    events: Events,
}

impl Watch for TokenWatch {
    fn notify(&self, _: Key, events: Events) {
        if self.events.intersects(events) {
            let _ = self.tokens.try_send(self.events & events);
        }
    }
}

impl FdTable {
    /// Returns the readiness of a number for one of `events`, an error or a hang-up, as a case of a `select!`. It happens
    /// when the number is ready, or was a moment ago: the arm reads or writes with [`Flags::NONBLOCK`](crate::Flags), and
    /// may find `EAGAIN`. A number that is closed has hung up.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sinew_chan::select;
    /// use sinew_chan::select::{recv, sleep};
    /// use sinew_fd::{EventCounter, Events, FdTable, Flags};
    /// use sinew_sched::{Runtime, spawn};
    ///
    /// Runtime::new().run(|| {
    ///     let (table, counter) = (FdTable::new(16), EventCounter::new(0));
    ///     let fd = table.open(counter.clone(), Flags::NONBLOCK).unwrap();
    ///     let readable = table.readiness(fd, Events::IN).unwrap();
    ///     spawn(move || counter.add(1)).detach();
    ///     select! {
    ///         ready = recv(&readable) => assert_eq!(ready.unwrap(), Events::IN),
    ///         _ = sleep(Duration::from_secs(60)) => panic!("it was not ready"),
    ///     }
    ///     .unwrap();
    /// })
    /// .unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number, `EPERM` for one that cannot be watched.
    pub fn readiness(&self, fd: i32, events: Events) -> Result<Readiness, Errno> {
        let number = self.watchable(fd)?;
        let (sender, tokens) = chan::bounded(1);
        let watch = Arc::new(TokenWatch { tokens: sender, events: events | Events::ALWAYS });
        let weak: Weak<dyn Watch> = Arc::downgrade(&(watch.clone() as Arc<dyn Watch>));
        Ok(Readiness { registered: Registered::new(number, weak), watch, tokens })
    }
}

impl Readiness {
    fn number(&self) -> &Number {
        &self.registered.number
    }
}

impl<'a> Source for &'a Readiness {
    type Case = <&'a Receiver<Events> as Source>::Case;

    fn into_case(self) -> Self::Case {
        while let Ok(Some(_)) = self.tokens.try_recv() {}
        let ready = self.number().mask() & self.watch.events;
        if !ready.is_empty() {
            let _ = self.watch.tokens.try_send(ready);
        }
        (&self.tokens).into_case()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("events", &self.watch.events).finish_non_exhaustive()
    }
}
