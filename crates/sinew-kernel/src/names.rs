//! Names of actors: flat ones, and paths with mounts.
//!
//! What starts with a slash is a path, everything else a flat name; [`sinew_core`] has the rules of both and the tables. All of
//! a node's are under one lock. An actor's own lock is taken under it, never the other way round: who registers a name looks
//! there whether the actor lives, and leaves a mark; who ends the actor sees the mark and frees what it has. One of the two
//! comes second, so no name outlives its actor. What is told of names is [put](crate::bus::Bus::put) under the lock, and so in its order;
//! whom that wakes is woken when the lock is free.
//!
//! # The seam to other nodes
//!
//! Whoever connects nodes has to tell the others of names. [`Names::subscribe`] gives all that there are and every change from
//! then on, each once and in order, as the payloads that travel.
//!
//! # The node's own names
//!
//! The [services](crate::namespace) have names in the same tables. These are there from the start, nobody takes them away, and no mount hides
//! them. Below `/node/<identity>/` every flat name is found as well, unless that path is registered or mounted.
//!
//! # Moves
//!
//! A [reference by name](crate::NamedRef) caches the actor that it has found. `moves` counts the
//! changes that may lead a name away from an actor that has not ended: an unregistration, a mount,
//! an unmount, and the registration of a path, which may hide a flat name. It is incremented under
//! the lock, and read under the lock together with the name. A reference that later reads the same
//! number knows that the name still leads to the cached actor, or that this actor has ended: then
//! its mailbox is closed.
//!
//! Models: `name_against_end`, `name_is_given_once`, `name_is_told_once`,
//! `named_reference_follows_a_move`; [`waiting`] names the models of its own.

mod waiting;

use std::any::type_name;

use sinew_chan::chan::Receiver;
use sinew_core::payload::{NameRegister, NameUnregister, PathRegister, PathUnregister};
use sinew_core::{ActorId, Kind, NameError, Path, Resolved};
use sinew_sync::Arc;

use crate::actor_ref::ActorRef;
use crate::bus::Told;
use crate::cell::{AnyCell, Cell, Phase};
use crate::ctx::Ctx;
use crate::error::{LookupError, RegisterError, SendError, Unsent};
use crate::lifecycle::Lifecycle;
use crate::message::{Message, Payload};
use crate::registry::waiting::Woken;
use crate::registry::{NameChange, Names, Text};
use crate::service::is_service;
use crate::shared::NodeRef;

/// That it could be a name or a path.
pub(crate) fn check(text: &str) -> Result<(), NameError> {
    Text::new(text).map(drop)
}

impl Names {
    /// Gives an actor a name or a path. False if it is dead.
    pub(crate) fn register(&self, text: &str, cell: &dyn AnyCell) -> Result<bool, RegisterError> {
        let (id, valid) = (cell.head().id, Text::new(text)?);
        let mut first = Some(Box::<str>::from(text));
        let (mut told, mut woken) = (Told::default(), Woken::default());
        let mut tables = self.tables.write();
        if let Some(holder) = tables.holder(text) {
            return Err(RegisterError::Taken { name: text.into(), holder });
        }
        let marked = mark(cell, |more| {
            if more.name.is_none() {
                more.name = first.take();
            }
        });
        if !marked {
            return Ok(false);
        }
        // Nobody has it, so both take it.
        match valid {
            Text::Name(name) => {
                let _ = tables.names.register(name.clone(), id);
                self.changes.put(|| NameChange::Name(NameRegister { name, actor: id }), &mut told);
            }
            Text::Path(path) => {
                let _ = tables.paths.register(path.clone(), id);
                self.moved();
                self.changes.put(|| NameChange::Path(PathRegister { path, actor: id }), &mut told);
            }
        }
        tables.waiting.registered(text, &mut woken);
        let event = || Lifecycle::NameRegistered { actor: id, name: text.into() };
        cell.head().node.events.put(event, &mut told);
        Ok(true)
    }

    /// Takes a name or a path from whoever has it, if `may` says so of that one. Those of services stay.
    fn unregister(&self, node: NodeRef, text: &str, may: impl FnOnce(ActorId) -> bool) -> Option<ActorId> {
        let (mut told, mut woken) = (Told::default(), Woken::default());
        let mut tables = self.tables.write();
        let holder = tables.holder(text).filter(|holder| !is_service(*holder) && may(*holder))?;
        match Text::new(text).ok()? {
            Text::Name(name) => {
                tables.names.unregister(text);
                self.changes.put(|| NameChange::NoName(NameUnregister { name }), &mut told);
            }
            Text::Path(path) => {
                tables.paths.unregister(text);
                self.changes.put(|| NameChange::NoPath(PathUnregister { path }), &mut told);
            }
        }
        self.moved();
        tables.waiting.paths_changed(&mut woken);
        let event = || Lifecycle::NameUnregistered { actor: holder, name: text.into() };
        node.0.events.put(event, &mut told);
        let mut next = tables.of(holder).next().map(Box::<str>::from);
        if let Some(cell) = node.0.table.get(holder) {
            cell.life(|life| {
                if let Some(more) = &mut life.more
                    && more.name.as_deref() == Some(text)
                {
                    std::mem::swap(&mut more.name, &mut next);
                }
            });
        }
        Some(holder)
    }

    /// Gives an actor everything at and below a point. False if it is dead.
    pub(crate) fn mount(&self, point: &str, cell: &dyn AnyCell) -> Result<bool, RegisterError> {
        let path = Path::new(point)?;
        let mut woken = Woken::default();
        let mut tables = self.tables.write();
        if let Some(holder) = tables.mounted(point) {
            return Err(RegisterError::Taken { name: point.into(), holder });
        }
        let marked = mark(cell, |_| ());
        if marked {
            let _ = tables.paths.mount(path, cell.head().id); // nothing is mounted there
            self.moved();
            tables.waiting.paths_changed(&mut woken);
        }
        Ok(marked)
    }

    pub(crate) fn unmount(&self, point: &str, may: impl FnOnce(ActorId) -> bool) -> Option<ActorId> {
        let mut woken = Woken::default();
        let mut tables = self.tables.write();
        tables.mounted(point).filter(|target| may(*target))?;
        self.moved();
        tables.waiting.paths_changed(&mut woken);
        tables.paths.unmount(point)
    }

    /// All names and paths that there are, and every change from now on. Who is behind by more than the stream holds misses
    /// some, and has to subscribe again.
    #[cfg_attr(any(not(test), loom), expect(dead_code, reason = "the seam to other nodes"))]
    pub(crate) fn subscribe(&self) -> (Vec<NameChange>, Receiver<NameChange>) {
        let tables = self.tables.write(); // no change comes in between
        let names = tables.names.iter();
        let names = names.map(|(name, actor)| NameChange::Name(NameRegister { name: name.clone(), actor }));
        let paths = tables.paths.list("/");
        let paths = paths.map(|(path, actor)| NameChange::Path(PathRegister { path: path.clone(), actor }));
        (names.chain(paths).collect(), self.changes.subscribe())
    }
}

/// Leaves the mark that the actor has names. False if it is dead.
fn mark(cell: &dyn AnyCell, also: impl FnOnce(&mut crate::cell::More)) -> bool {
    cell.life(|life| {
        let alive = life.phase < Phase::Leaving;
        if alive {
            let more = life.more();
            more.services.named = true;
            also(more);
        }
        alive
    })
}

/// # Names
///
/// A name leads to one actor, the first to register it, until that one or the node unregisters it, or it ends. Names have up to 63
/// bytes. One that starts with a slash is a path, of up to 127 bytes: `/node/alpha/counter`.
///
/// ```
/// use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
///
/// struct Greeter;
/// impl Actor for Greeter {
///     type Msg = Reply<&'static str>;
///     fn handle(&mut self, reply: Self::Msg, _: &mut Ctx<Self::Msg>) -> Flow {
///         reply.send("hello");
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let greeter = node.actor().name("greeter").spawn(Greeter).unwrap();
/// assert_eq!(node.lookup("greeter"), Some(greeter.id()));
///
/// let found = node.lookup_as::<Reply<&'static str>>("greeter").unwrap();
/// assert_eq!(found.ask(|reply| reply).unwrap(), "hello");
///
/// node.register("/demo/greeter", greeter.id()).unwrap();
/// assert_eq!(node.names_of(greeter.id()), ["greeter".into(), "/demo/greeter".into()]);
/// ```
///
/// # Services
///
/// Two services of the node have names as well: the namespace, called `ns`, `/sys/ns` and `/node/<identity>`, and the capabilities, called
/// `/node/<identity>/caps`. They answer [requests](Kind::is_request) that an actor sends to their ids, in the layouts of
/// [`sinew_core::payload`]; `docs/actors.md` has them all. They are no actors: they do not count, and cannot be stopped,
/// linked or monitored.
///
/// ```
/// use sinew_core::payload::{NsLookup, NsReply, SystemPayload};
/// use sinew_core::Path;
/// use sinew_kernel::{Flow, Kind, Node, Received};
///
/// let node = Node::builder().identity("alpha").build().unwrap();
/// let asks = node.actor().spawn_process::<(), _>(|process| {
///     let request = NsLookup { path: Path::new("/node/alpha/caps").unwrap() };
///     process.ctx().send_named("ns", Kind::NS_LOOKUP, request.encode()).unwrap();
///     let Ok(Received::Raw(answer)) = process.recv() else { panic!("it is answered") };
///     let caps = NsReply::decode(answer.payload.bytes()).unwrap().actor;
///
///     process.ctx().send(caps, Kind::CAPS_REQUEST, &b""[..]).unwrap();
///     let Ok(Received::Raw(answer)) = process.recv() else { panic!("it is answered") };
///     let lines = String::from_utf8(answer.payload.bytes().to_vec()).unwrap();
///     assert!(lines.contains("identity=alpha\n"));
///     Flow::Stop
/// });
/// assert!(!asks.unwrap().join().unwrap().is_abnormal());
/// ```
impl NodeRef {
    /// Gives an actor a name or a path, as [`Ctx::register`] does.
    ///
    /// # Errors
    ///
    /// If it is no name or path, if somebody has it, who keeps it, or if there is no such actor on this node.
    pub fn register(self, name: &str, actor: ActorId) -> Result<(), RegisterError> {
        self.registered(actor, |cell| self.0.names.register(name, cell))
    }

    /// Takes a name or a path from whoever has it, and returns that one. The [services](NodeRef#services) keep theirs.
    pub fn unregister(self, name: &str) -> Option<ActorId> {
        self.0.names.unregister(self, name, |_| true)
    }

    /// Whom a name or a path leads to. A path leads to the longest mount at or above it, or else to who has registered it, or else, as
    /// `/node/<identity>/<name>` with the identity of this node, to who has that name.
    pub fn lookup(self, name: &str) -> Option<ActorId> {
        self.0.names.tables.read().lookup(name)
    }

    /// Whom a name or a path leads to: an actor whose messages are of type `M`.
    ///
    /// # Errors
    ///
    /// If it leads to nobody, or that actor's messages are of another type.
    pub fn lookup_as<M: Send + 'static>(self, name: &str) -> Result<ActorRef<M>, LookupError> {
        let id = self.lookup(name).ok_or_else(|| LookupError::UnknownName(name.into()))?;
        self.actor_ref(id).map_err(|error| match error {
            LookupError::OtherType { actor, wanted, .. } => {
                LookupError::OtherType { name: Some(name.into()), actor, wanted }
            }
            // It has ended this moment, and its name is free.
            _ => LookupError::UnknownName(name.into()),
        })
    }

    /// A reference to the actor with this id, whose messages are of type `M`.
    ///
    /// # Errors
    ///
    /// If there is no such actor on this node, or its messages are of another type. To services there are no references.
    pub fn actor_ref<M: Send + 'static>(self, id: ActorId) -> Result<ActorRef<M>, LookupError> {
        let other_type = || LookupError::OtherType { name: None, actor: id, wanted: type_name::<M>() };
        let unknown = || if is_service(id) { other_type() } else { LookupError::NoActor(id) };
        let cell = self.0.table.get(id).ok_or_else(unknown)?.as_any();
        Arc::downcast::<Cell<M>>(cell).map(ActorRef).map_err(|_| other_type())
    }

    /// Whom a path leads to, and what is left of the path below a mount.
    pub fn resolve(self, path: &str) -> Option<Resolved<'_, ActorId>> {
        self.0.names.tables.read().resolve(path)
    }

    /// All names of an actor, then all of its paths, each in order.
    pub fn names_of(self, actor: ActorId) -> Vec<Box<str>> {
        self.0.names.tables.read().of(actor).map(Box::from).collect()
    }

    /// The paths at and below `prefix`, by components, or the names that start with it, and who has them, in order. `/` stands for
    /// all paths, an empty prefix for everything. Mounts are not among them, and hide none.
    pub fn list(self, prefix: &str) -> Vec<(Box<str>, ActorId)> {
        let tables = self.0.names.tables.read();
        let names = tables.names.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
        let names = names.map(|(name, actor)| (name.as_str().into(), actor));
        let paths = tables.paths.list(prefix).map(|(path, actor)| (path.as_str().into(), actor));
        names.chain(paths).collect()
    }

    /// Mounts an actor: all paths at and below `point` lead to it, also those that somebody has registered, unless a mount below
    /// is closer.
    ///
    /// # Errors
    ///
    /// If it is no path, if somebody is mounted just there, or if there is no such actor on this node.
    pub fn mount(self, point: &str, actor: ActorId) -> Result<(), RegisterError> {
        self.registered(actor, |cell| self.0.names.mount(point, cell))
    }

    /// Undoes the mount at `point`, and returns who was mounted.
    pub fn unmount(self, point: &str) -> Option<ActorId> {
        self.0.names.unmount(point, |_| true)
    }

    /// The mounts and who is mounted there, in order.
    pub fn mounts(self) -> Vec<(Box<str>, ActorId)> {
        let tables = self.0.names.tables.read();
        tables.paths.mounts().map(|(point, target)| (point.as_str().into(), target)).collect()
    }

    /// Sends bytes or a value to whom a name or a path leads, from nobody. Never waits.
    ///
    /// # Errors
    ///
    /// With the message: if that is nobody, and as for [`send`](NodeRef::send).
    pub fn send_named(
        self,
        name: &str,
        kind: Kind,
        payload: impl Into<Payload>,
    ) -> Result<(), SendError<Message>> {
        self.route_named(name, Message::new(ActorId::NOBODY, kind, payload.into()))
    }

    fn route_named(self, name: &str, message: Message) -> Result<(), SendError<Message>> {
        match self.lookup(name) {
            Some(dest) => self.route(Message { dest, ..message }),
            None => Err(SendError::new(message, Unsent::UnknownName(name.into()))),
        }
    }

    fn registered(
        self,
        actor: ActorId,
        register: impl FnOnce(&dyn AnyCell) -> Result<bool, RegisterError>,
    ) -> Result<(), RegisterError> {
        let cell = self.0.table.get(actor).ok_or(RegisterError::NoActor(actor))?;
        if register(&*cell)? { Ok(()) } else { Err(RegisterError::NoActor(actor)) }
    }
}

/// # Names
///
/// An actor gives itself any number of [names and paths](NodeRef#names); they are free again when it ends.
impl<M: Send + 'static> Ctx<'_, M> {
    /// Gives this actor a name or a path.
    ///
    /// # Errors
    ///
    /// If it is no name or path, or if somebody has it, who keeps it.
    pub fn register(&self, name: &str) -> Result<(), RegisterError> {
        self.node().registered(self.id(), |cell| cell.head().node.names.register(name, cell))
    }

    /// Takes a name or a path of this actor's back. False if it is not this actor's.
    pub fn unregister(&self, name: &str) -> bool {
        let (node, me) = (self.node(), self.id());
        node.0.names.unregister(node, name, |holder| holder == me).is_some()
    }

    /// Mounts this actor, as [`NodeRef::mount`] does.
    ///
    /// # Errors
    ///
    /// If it is no path, or if somebody is mounted just there.
    pub fn mount(&self, point: &str) -> Result<(), RegisterError> {
        self.node().mount(point, self.id())
    }

    /// Undoes a mount of this actor's. False if it is not this actor's.
    pub fn unmount(&self, point: &str) -> bool {
        let me = self.id();
        self.node().0.names.unmount(point, |target| target == me).is_some()
    }

    /// Sends bytes or a value to whom a name or a path leads, as this actor. Never waits.
    ///
    /// # Errors
    ///
    /// With the message: if that is nobody, and as for [`send`](Ctx::send).
    pub fn send_named(
        &self,
        name: &str,
        kind: Kind,
        payload: impl Into<Payload>,
    ) -> Result<(), SendError<Message>> {
        let message = Message { source: self.id(), dest: ActorId::NOBODY, kind, payload: payload.into() };
        self.node().route_named(name, message)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use sinew_core::Name;
    use sinew_core::payload::SystemPayload;

    use super::*;
    use crate::{Flow, Node};

    #[test]
    fn whoever_connects_nodes_gets_all_names_and_then_every_change_in_order() {
        let node = Node::new();
        let idle = |name: &str| node.actor().name(name).spawn_raw((), |_, _, _| Flow::Continue).unwrap();
        let (one, other) = (idle("one"), idle("/sys/other"));
        let (known, changes) = node.0.names.subscribe();
        let name = |name: &str, actor: ActorId| NameRegister { name: Name::new(name).unwrap(), actor };
        let path = PathRegister { path: Path::new("/sys/other").unwrap(), actor: other.id() };
        let of_node = node.list("").len(); // those of services are told to other nodes as well
        assert_eq!(known.len(), of_node);
        for change in [NameChange::Name(name("one", one.id())), NameChange::Path(path.clone())] {
            assert_eq!(known.iter().filter(|known| **known == change).count(), 1);
        }
        assert!(known.contains(&NameChange::Name(name("ns", node.lookup("ns").unwrap()))));

        node.register("two", one.id()).unwrap();
        node.unregister("one");
        node.register("two", other.id()).unwrap_err();
        other.kill();
        other.join().unwrap();
        assert_eq!(changes.recv().unwrap(), NameChange::Name(name("two", one.id())));
        let gone = NameUnregister { name: Name::new("one").unwrap() };
        assert_eq!(changes.recv().unwrap(), NameChange::NoName(gone));
        assert_eq!(changes.recv().unwrap(), NameChange::NoPath(PathUnregister { path: path.path }));
        assert!(matches!(changes.try_recv(), Ok(None)));
    }

    #[test]
    fn a_change_travels_in_the_layout_of_its_kind() {
        let register = NameRegister { name: Name::new("one").unwrap(), actor: ActorId::from_u64(7) };
        let (kind, bytes) = NameChange::Name(register.clone()).encode();
        assert_eq!((kind, bytes.len()), (Kind::NAME_REGISTER, 72));
        assert_eq!(NameRegister::decode(&bytes), Ok(register));
    }
}
