//! What an actor can do with itself, and with others as itself.

use sinew_core::{ActorId, ExitReason, Kind};
use sinew_sync::Arc;

use crate::actor_ref::ActorRef;
use crate::cell::Cell;
use crate::error::{SendError, Unsent};
use crate::event::MonitorId;
use crate::links;
use crate::message::{Message, Payload};
use crate::shared::NodeRef;
use crate::store::State;

/// What an actor has of itself while it handles something.
pub struct Ctx<'a, M = Message> {
    pub(crate) cell: &'a Arc<Cell<M>>,
}

impl<'a, M: Send + 'static> Ctx<'a, M> {
    pub(crate) fn new(cell: &'a Arc<Cell<M>>) -> Ctx<'a, M> {
        Ctx { cell }
    }

    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.cell.head.id
    }

    /// A reference to the actor itself.
    pub fn me(&self) -> ActorRef<M> {
        ActorRef(self.cell.clone())
    }

    /// The actor's node.
    pub fn node(&self) -> NodeRef {
        NodeRef(self.cell.head.node)
    }

    /// Sends bytes or a value to the actor with this id, as this actor. Never waits.
    ///
    /// # Errors
    ///
    /// With the message: if there is no such actor, or its mailbox is full and it drops none, or the kind is the system's and this is
    /// no [request](Kind::is_request) to its service.
    pub fn send(
        &self,
        dest: ActorId,
        kind: Kind,
        payload: impl Into<Payload>,
    ) -> Result<(), SendError<Message>> {
        self.node().route(Message { source: self.id(), dest, kind, payload: payload.into() })
    }

    /// Sends a message on to another actor; its source stays as it was.
    ///
    /// # Errors
    ///
    /// As for [`send`](Ctx::send). A request of another actor is refused: services answer the source.
    pub fn forward(&self, dest: ActorId, message: Message) -> Result<(), SendError<Message>> {
        if message.kind.is_system() && message.source != self.id() {
            let why = Unsent::SystemKind(message.kind);
            return Err(SendError::new(message, why));
        }
        self.node().route(Message { dest, ..message })
    }

    /// Links this actor and another: when one ends other than normally, so does the other, unless it
    /// [traps exits](Ctx::trap_exits).
    ///
    /// # Errors
    ///
    /// The reason, if the other is ending. If there is no such actor, [`NoActor`](ExitReason::NoActor); if it is one of another node,
    /// [`NoConnection`](ExitReason::NoConnection).
    pub fn link(&self, other: ActorId) -> Result<(), ExitReason> {
        links::link(self.cell.head.node, self.id(), other)
    }

    /// Takes a link back.
    pub fn unlink(&self, other: ActorId) {
        links::unlink(self.cell.head.node, self.id(), other);
    }

    /// Has this actor told of the end of another, once ([`exit_of`](crate::Actor::exit_of)). At once if there is no such actor, with
    /// [`NoActor`](ExitReason::NoActor), or if it is one of another node, with [`NoConnection`](ExitReason::NoConnection).
    pub fn monitor(&self, other: ActorId) -> MonitorId {
        links::monitor(&**self.cell, other)
    }

    /// Takes a monitor back. False if the end was told, or is about to be.
    pub fn demonitor(&self, monitor: MonitorId) -> bool {
        links::demonitor(&**self.cell, monitor)
    }

    /// What is kept for actors of this one's name, also when it is restarted, and in the node's
    /// [store](crate::Builder::store) when the process is. An actor without a name has none: its calls are errors.
    ///
    /// ```
    /// use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
    ///
    /// /// Counts across restarts.
    /// struct Counter(u64);
    ///
    /// impl Actor for Counter {
    ///     type Msg = Reply<u64>;
    ///
    ///     fn started(&mut self, ctx: &mut Ctx<Reply<u64>>) -> Flow {
    ///         if let Some(saved) = ctx.state().load("count").unwrap() {
    ///             self.0 = u64::from_le_bytes(saved.try_into().unwrap());
    ///         }
    ///         Flow::Continue
    ///     }
    ///
    ///     fn handle(&mut self, reply: Reply<u64>, ctx: &mut Ctx<Reply<u64>>) -> Flow {
    ///         self.0 += 1;
    ///         ctx.state().save("count", self.0.to_le_bytes()).unwrap(); // with `Builder::store`, it is on the disk now
    ///         reply.send(self.0);
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let counter = node.actor().name("counter").spawn(Counter(0)).unwrap();
    /// assert_eq!(counter.ask(|reply| reply).unwrap(), 1);
    /// counter.kill();
    /// counter.join().unwrap();
    /// let counter = node.actor().name("counter").spawn(Counter(0)).unwrap();
    /// assert_eq!(counter.ask(|reply| reply).unwrap(), 2);
    /// ```
    pub fn state(&self) -> State {
        let name = self.cell.lock().life.more.as_ref().and_then(|more| more.name.clone());
        self.cell.head.node.state_of(name.as_deref().unwrap_or(""))
    }

    /// Returns the number of children that this actor has now.
    pub fn child_count(&self) -> usize {
        self.cell.lock().life.more.as_ref().map_or(0, |more| more.children.len())
    }

    /// Whether ends of linked actors are told to this one, instead of ending it.
    pub fn trap_exits(&self, traps: bool) {
        self.cell.lock().life.more().traps = traps;
    }
}
