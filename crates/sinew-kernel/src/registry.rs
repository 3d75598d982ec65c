//! The tables of a node's names and paths. [`names`](crate::names) has the rules by which they
//! change, and the order of locks.

pub(crate) mod waiting;

use sinew_core::payload::{NameRegister, NameUnregister, PathRegister, PathUnregister};
use sinew_core::{ActorId, Identity, Kind, Name, NameError, NameTable, NodeId, Path, PathTable, Resolved};
use sinew_sync::RwLock;
use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::bus::{Bus, Told};
use crate::lifecycle::Lifecycle;
use crate::message::encoded;
use crate::service::{Service, is_service};
use waiting::{Waiting, Woken};

/// The names of a node.
pub(crate) struct Names {
    pub(crate) tables: RwLock<Tables>,
    pub(crate) changes: Bus<NameChange>,
    /// Changes that may have led a name away from an actor that has not ended.
    moves: AtomicU64,
}

pub(crate) struct Tables {
    pub(crate) names: NameTable<ActorId>,
    pub(crate) paths: PathTable<ActorId>,
    /// What the paths of this node's flat names begin with: `/node/<identity>/`.
    home: Box<str>,
    pub(crate) waiting: Waiting,
}

/// A text that can be registered.
pub(crate) enum Text {
    Name(Name),
    Path(Path),
}

/// A name or a path came or went.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum NameChange {
    Name(NameRegister),
    NoName(NameUnregister),
    Path(PathRegister),
    NoPath(PathUnregister),
}

#[cfg_attr(any(not(test), loom, shuttle), expect(dead_code, reason = "the seam to other nodes"))]
impl NameChange {
    /// The change as it travels.
    pub(crate) fn encode(&self) -> (Kind, Vec<u8>) {
        match self {
            NameChange::Name(payload) => encoded(payload),
            NameChange::NoName(payload) => encoded(payload),
            NameChange::Path(payload) => encoded(payload),
            NameChange::NoPath(payload) => encoded(payload),
        }
    }
}

impl Text {
    pub(crate) fn new(text: &str) -> Result<Text, NameError> {
        match text.starts_with('/') {
            true => Path::new(text).map(Text::Path),
            false => Name::new(text).map(Text::Name),
        }
    }
}

impl Tables {
    fn new(node: NodeId, identity: &Identity) -> Tables {
        let (mut names, mut paths) = (NameTable::new(), PathTable::new());
        let [ns, caps] = [Service::Namespace, Service::Capabilities].map(|service| service.id(node));
        let _ = names.register(Name::new("ns").expect("it is a name"), ns); // nobody has it
        let of_node = format!("/node/{identity}");
        let of_services = [("/sys/ns", ns), (&of_node, ns), (&format!("{of_node}/caps"), caps)];
        for (text, service) in of_services {
            let path = Path::new(text).expect("an identity is a component of a path");
            let _ = paths.register(path, service); // nobody has it
        }
        Tables { names, paths, home: (of_node + "/").into(), waiting: Waiting::default() }
    }

    /// Who has this name, or this very path.
    pub(crate) fn holder(&self, text: &str) -> Option<ActorId> {
        match text.starts_with('/') {
            true => self.paths.lookup(text),
            false => self.names.lookup(text),
        }
    }

    /// Whom a name or a path leads to.
    pub(crate) fn lookup(&self, text: &str) -> Option<ActorId> {
        match text.starts_with('/') {
            true => self.resolve(text).map(Resolved::target),
            false => self.names.lookup(text),
        }
    }

    pub(crate) fn resolve<'p>(&self, path: &'p str) -> Option<Resolved<'p, ActorId>> {
        if let Some(service) = self.paths.lookup(path).filter(|holder| is_service(*holder)) {
            return Some(Resolved::Exact(service));
        }
        self.paths.resolve(path).or_else(|| {
            let named = self.names.lookup(path.strip_prefix(&*self.home)?)?;
            Path::new(path).is_ok().then_some(Resolved::Exact(named))
        })
    }

    /// Who is mounted at just this point.
    pub(crate) fn mounted(&self, point: &str) -> Option<ActorId> {
        match self.paths.resolve(point)? {
            Resolved::Mount { target, rest: "" } => Some(target),
            _ => None,
        }
    }

    /// All names and paths of an actor.
    pub(crate) fn of(&self, id: ActorId) -> impl Iterator<Item = &str> {
        self.names.names_of(id).map(Name::as_str).chain(self.paths.paths_of(id).map(Path::as_str))
    }
}

impl Names {
    pub(crate) fn new(node: NodeId, identity: &Identity) -> Names {
        let tables = RwLock::new(Tables::new(node, identity));
        Names { tables, changes: Bus::default(), moves: AtomicU64::new(0) }
    }

    /// Returns the number of changes that may have led a name away from an actor that has not
    /// ended.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Counts a move. Called under the lock.
    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Release);
    }

    /// Looks up a name or a path. Also returns the number of [moves](Names::moves) at that time.
    pub(crate) fn lookup_counted(&self, text: &str) -> (Option<ActorId>, u64) {
        let tables = self.tables.read();
        (tables.lookup(text), self.moves())
    }

    /// Frees all that an actor has. Subscribers of `events` are told in the order of the lock.
    pub(crate) fn release(&self, id: ActorId, events: &Bus<Lifecycle>) {
        let gone = |name: &str| Lifecycle::NameUnregistered { actor: id, name: name.into() };
        let (mut told, mut woken) = (Told::default(), Woken::default());
        let mut tables = self.tables.write();
        tables.waiting.paths_changed(&mut woken);
        for name in tables.names.remove_all(id) {
            events.put(|| gone(name.as_str()), &mut told);
            self.changes.put(|| NameChange::NoName(NameUnregister { name }), &mut told);
        }
        for path in tables.paths.remove_all(id) {
            events.put(|| gone(path.as_str()), &mut told);
            self.changes.put(|| NameChange::NoPath(PathUnregister { path }), &mut told);
        }
    }

    /// Gives memory back, of a node whose actors have ended.
    pub(crate) fn shrink(&self) {
        let mut woken = Woken::default();
        let mut tables = self.tables.write();
        (tables.names, tables.paths) = Default::default(); // maps keep a node while they are empty
        tables.waiting.closed(&mut woken);
        drop(tables);
        self.changes.close();
    }
}
