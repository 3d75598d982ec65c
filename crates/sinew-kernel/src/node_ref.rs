//! A node by reference: what it says of itself, and how its actors are reached by id.

use std::fmt;

use sinew_chan::chan::Receiver;
use sinew_core::{ActorId, ExitReason, Identity, Kind, NodeId};
use sinew_sched::Handle;

use crate::dead::DeadLetter;
use crate::error::SendError;
use crate::lifecycle::Lifecycle;
use crate::message::{Message, Payload};
use crate::shared::NodeRef;
use crate::stop;
use crate::store::Store;

impl NodeRef {
    /// The node's id.
    pub fn id(self) -> NodeId {
        self.0.id
    }

    /// The node's [identity](crate::Builder::identity).
    pub fn identity(self) -> &'static Identity {
        &self.0.identity
    }

    /// How many actors there are.
    pub fn actor_count(self) -> usize {
        self.0.table.len()
    }

    /// Returns the ids of all actors, in ascending order.
    pub fn actor_ids(self) -> Vec<ActorId> {
        let mut ids: Vec<ActorId> = self.0.table.all().iter().map(|actor| actor.head().id).collect();
        ids.sort_unstable();
        ids
    }

    /// The runtime that runs the actors, by reference.
    pub fn handle(self) -> Handle {
        self.0.handle
    }

    /// The store of the node's [states](crate::Ctx::state), to [flush](Store::flush) it or to
    /// [close](Store::close) it by. As any other handle, it keeps the store open beyond the end of
    /// the node, until it is dropped or the store is closed.
    pub fn store(self) -> Store {
        self.0.store.lock().clone()
    }

    /// Sends bytes or a value to the actor with this id, from nobody. Never waits.
    ///
    /// # Errors
    ///
    /// With the message: if there is no such actor, or its mailbox is full and it drops none, or
    /// the kind is the system's and this is no [request](Kind::is_request) to its service.
    pub fn send(
        self,
        dest: ActorId,
        kind: Kind,
        payload: impl Into<Payload>,
    ) -> Result<(), SendError<Message>> {
        self.route(Message::new(dest, kind, payload.into()))
    }

    /// Stops the actor with this id as [`ActorRef::stop`](crate::ActorRef::stop) does. False if
    /// there is none.
    pub fn stop(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::stop(&*cell, ExitReason::Shutdown)).is_some()
    }

    /// Cancels the actor with this id as [`ActorRef::cancel`](crate::ActorRef::cancel) does. False
    /// if there is none.
    pub fn cancel(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::cancel(&*cell)).is_some()
    }

    /// Kills the actor with this id as [`ActorRef::kill`](crate::ActorRef::kill) does. False if
    /// there is none.
    pub fn kill(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::kill(&*cell)).is_some()
    }

    /// How many messages were accepted and will not be handled.
    pub fn dead_letter_count(self) -> u64 {
        self.0.dead_letters.count()
    }

    /// Dead letters from now on, until the node is gone. Who is behind by more than 1,024 misses
    /// some.
    pub fn dead_letters(self) -> Receiver<DeadLetter> {
        self.0.dead_letters.bus.subscribe()
    }

    /// How many [dead letters](NodeRef::dead_letters) and [events](NodeRef::lifecycle) subscribers
    /// have missed.
    pub fn missed(self) -> u64 {
        self.0.missed()
    }

    /// What becomes of actors from now on, until the node is gone. Who is behind by more than 1,024
    /// misses some. It is told in its own time: an [`Ended`](Lifecycle::Ended) may come a moment
    /// after [`join`](crate::ActorRef::join) has returned.
    pub fn lifecycle(self) -> Receiver<Lifecycle> {
        self.0.events.subscribe()
    }

    /// Actors whose end was published although they run on: they were killed, and never block.
    pub fn zombies(self) -> Vec<ActorId> {
        self.0.zombies.ids()
    }
}

/// # Limits
impl NodeRef {
    /// How many bytes of payloads wait in mailboxes, as counted for
    /// [`Builder::max_queued_bytes`](crate::Builder::max_queued_bytes); zero if there is no limit.
    pub fn queued_bytes(self) -> usize {
        self.0.budget.used()
    }
}

impl fmt::Debug for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.0.id.0).field("actors", &self.actor_count()).finish()
    }
}
