//! What all parts of a node share.

use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_core::{Identity, Level, NodeId};
use sinew_sched::Handle;
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::books::Books;
use crate::bus::Bus;
use crate::cell::AnyCell;
use crate::dead::DeadLetters;
use crate::error::SpawnError;
use crate::lifecycle::Lifecycle;
use crate::limits::Budget;
use crate::log::Log;
use crate::membership::Groups;
use crate::registry::Names;
use crate::router::Routers;
use crate::store::{State, Store};
use crate::table::Table;
use crate::timers::Timers;
use crate::zombies::Zombies;

/// What all parts of a node share. It is never freed, so that references to actors need not count
/// it: some 6 KiB. What it has on the heap is freed when the node ends.
pub(crate) struct Inner {
    pub(crate) id: NodeId,
    pub(crate) identity: Identity,
    pub(crate) handle: Handle,
    pub(crate) table: Table<dyn AnyCell>,
    pub(crate) names: Names,
    pub(crate) groups: Groups,
    pub(crate) routers: Routers,
    pub(crate) budget: Budget,
    pub(crate) timers: Timers,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) zombies: Zombies,
    pub(crate) books: Books,
    pub(crate) log: Log,
    pub(crate) store: Mutex<Store>,
    pub(crate) stop_timeout: Duration,
    pub(crate) events: Bus<Lifecycle>,
    pub(crate) numbers: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Whoever waits until there are no actors.
    pub(crate) emptied: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Inner {
    /// The state of the actor with this name.
    pub(crate) fn state_of(&self, name: &str) -> State {
        self.store.lock().without_lease().of(name)
    }

    /// A number that no other call gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// There is room for one more actor.
    pub(crate) fn admit(&self) -> Result<(), SpawnError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(SpawnError::ShuttingDown);
        }
        if self.table.reserve() { Ok(()) } else { Err(SpawnError::TooMany(self.table.len())) }
    }

    pub(crate) fn lifecycle(&self, event: impl FnOnce() -> Lifecycle) {
        self.events.tell(event);
    }

    /// What subscribers have missed, because they were behind.
    pub(crate) fn missed(&self) -> u64 {
        self.events.lost() + self.dead_letters.bus.lost()
    }

    /// True if no more actors are started.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// An actor is gone. Either this sees that the node is closed, or whoever has closed it sees
    /// that the actor is gone.
    pub(crate) fn gone(&self) {
        if self.is_closed() && self.table.len() == 0 {
            let emptied = std::mem::take(&mut *self.emptied.lock());
            emptied.into_iter().for_each(|waiting| drop(waiting.send(())));
        }
    }

    /// Says something that nobody was there to be told.
    pub(crate) fn complain(&self, text: &str) {
        self.log.say_own(Level::Warn, text);
    }
}

/// A node by reference, for as long as it lives; afterwards nothing starts on it.
#[derive(Clone, Copy)]
pub struct NodeRef(pub(crate) &'static Inner);
