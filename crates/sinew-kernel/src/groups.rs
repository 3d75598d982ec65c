//! Groups: many actors under one name.
//!
//! All groups of a node are under one lock, under which an actor's own is taken, as for [names](crate::names). Members are kept in the
//! order of their ids; sending to one goes round, from the member that had the last. Nothing is sent under the lock: a send goes
//! to those who were members when it began.
//!
//! Model: `group_against_end`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use sinew_core::{ActorId, Kind, Name, NameError};
use sinew_sync::Mutex;

use crate::cell::{AnyCell, Phase};
use crate::ctx::Ctx;
use crate::error::{SendError, Unsent};
use crate::message::{Message, Payload};
use crate::node::NodeRef;

/// The groups of a node; none is empty.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<Name, Members>>);

#[derive(Default)]
struct Members {
    ids: BTreeSet<ActorId>,
    /// Who was sent to last, of those that go round.
    last: Option<ActorId>,
}

impl Groups {
    fn join(&self, name: &str, cell: &dyn AnyCell) -> Result<bool, NameError> {
        let (name, id) = (Name::new(name)?, cell.head().id);
        let mut groups = self.0.lock();
        // The mark is left under this lock: so who ends the actor finds all that it is in.
        let alive = cell.life(|life| {
            let alive = life.phase < Phase::Leaving;
            if alive {
                life.more().services.groups.insert(name.clone());
            }
            alive
        });
        Ok(alive && groups.entry(name).or_default().ids.insert(id))
    }

    fn leave(&self, name: &str, cell: &dyn AnyCell) -> bool {
        let mut groups = self.0.lock();
        let left = remove(&mut groups, name, cell.head().id);
        if left {
            let mark = cell.life(|life| life.more.as_mut()?.services.groups.take(name));
            drop(mark);
        }
        left
    }

    /// An actor has ended that is in these groups.
    pub(crate) fn release(&self, names: &BTreeSet<Name>, id: ActorId) {
        let mut groups = self.0.lock();
        for name in names {
            remove(&mut groups, name.as_str(), id);
        }
    }

    fn members(&self, name: &str) -> Vec<ActorId> {
        self.0.lock().get(name).map_or(Vec::new(), |members| members.ids.iter().copied().collect())
    }

    /// Whose turn it is.
    fn next(&self, name: &str) -> Option<ActorId> {
        let mut groups = self.0.lock();
        let members = groups.get_mut(name)?;
        let after = members.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = members.ids.range((after, Bound::Unbounded)).next();
        members.last = next.or_else(|| members.ids.first()).copied();
        members.last
    }
}

fn remove(groups: &mut BTreeMap<Name, Members>, name: &str, id: ActorId) -> bool {
    let Some(members) = groups.get_mut(name) else { return false };
    let removed = members.ids.remove(&id);
    if members.ids.is_empty() {
        groups.remove(name);
    }
    removed
}

/// Many actors under one name: what is sent to a group goes to all of its members, or to one of them.
///
/// ```
/// use sinew_kernel::{Actor, Ctx, Flow, Node};
///
/// struct Guest(std::sync::mpsc::Sender<String>);
///
/// impl Actor for Guest {
///     type Msg = String;
///
///     fn started(&mut self, ctx: &mut Ctx<String>) -> Flow {
///         ctx.join_group("room").unwrap();
///         self.0.send("here".to_owned()).unwrap();
///         Flow::Continue
///     }
///
///     fn handle(&mut self, line: String, _: &mut Ctx<String>) -> Flow {
///         self.0.send(line).unwrap();
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let (sender, lines) = std::sync::mpsc::channel();
/// for _ in 0..2 {
///     node.spawn(Guest(sender.clone())).unwrap();
///     assert_eq!(lines.recv().unwrap(), "here");
/// }
/// let room = node.group("room");
/// assert_eq!(room.tell_all("hello".to_owned()).accepted, 2);
/// assert_eq!((lines.recv().unwrap(), lines.recv().unwrap()), ("hello".to_owned(), "hello".to_owned()));
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    node: NodeRef,
    name: Box<str>,
}

/// How many messages got into mailboxes: one for each member of a group, or one for each item of a
/// [stream](crate::ActorRef::stream).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "what was refused is gone"]
pub struct Sent {
    /// So many did.
    pub accepted: usize,
    /// So many did not: there was no room, or the actor has ended meanwhile.
    pub refused: usize,
}

impl Group {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its members, in the order of their ids.
    pub fn members(&self) -> Vec<ActorId> {
        self.node.0.groups.members(&self.name)
    }

    /// Sends a clone of `message` to each member. Members whose messages are of another type get it by [`raw`](crate::Actor::raw).
    /// Never waits.
    pub fn tell_all<M: Clone + Send + 'static>(&self, message: M) -> Sent {
        self.each(|dest| Message::new(dest, Kind(0), Payload::value(message.clone())))
    }

    /// Sends `message` to the member whose turn it is, or to the next that takes it, and returns that one. Never waits.
    ///
    /// # Errors
    ///
    /// With the message, if there are no members, or no member takes it.
    pub fn tell_one<M: Send + 'static>(&self, message: M) -> Result<ActorId, SendError<M>> {
        let message = Message::new(ActorId::NOBODY, Kind(0), Payload::value(message));
        let value = |message: Message| message.payload.downcast::<M>().expect("it comes back as it was");
        self.one(message).map_err(|error| error.map(value))
    }

    /// Sends bytes to each member, from nobody. Never waits.
    pub fn send_all(&self, kind: Kind, bytes: &[u8]) -> Sent {
        self.each(|dest| Message::new(dest, kind, Payload::copy(bytes)))
    }

    /// Sends bytes or a value to the member whose turn it is, or to the next that takes it, from nobody, and returns that one. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// With the message, if there are no members, or no member takes it.
    pub fn send_one(&self, kind: Kind, payload: impl Into<Payload>) -> Result<ActorId, SendError<Message>> {
        self.one(Message::new(ActorId::NOBODY, kind, payload.into()))
    }

    fn each(&self, mut message: impl FnMut(ActorId) -> Message) -> Sent {
        let mut sent = Sent { accepted: 0, refused: 0 };
        for member in self.members() {
            match self.node.route(message(member)) {
                Ok(()) => sent.accepted += 1,
                Err(_) => sent.refused += 1,
            }
        }
        sent
    }

    fn one(&self, mut message: Message) -> Result<ActorId, SendError<Message>> {
        let mut why = Unsent::NoMembers(self.name.clone());
        for _ in 0..self.members().len() {
            let Some(dest) = self.node.0.groups.next(&self.name) else { break };
            match self.node.route(Message { dest, ..message }) {
                Ok(()) => return Ok(dest),
                Err(error) => (message, why) = (error.message, error.why),
            }
        }
        Err(SendError::new(message, why))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// # Groups
impl NodeRef {
    /// The group of this name, whether it has members or not.
    pub fn group(self, name: impl Into<Box<str>>) -> Group {
        Group { node: self, name: name.into() }
    }
}

/// # Groups
///
/// An actor is in any number of [groups](Group), and leaves them when it ends.
impl<M: Send + 'static> Ctx<'_, M> {
    /// Has this actor join a group. False if it was a member.
    ///
    /// # Errors
    ///
    /// If it is no name: groups are called as actors are, but not by paths.
    pub fn join_group(&self, group: &str) -> Result<bool, NameError> {
        self.cell.head.node.groups.join(group, &**self.cell)
    }

    /// Has this actor leave a group. False if it was no member.
    pub fn leave_group(&self, group: &str) -> bool {
        self.cell.head.node.groups.leave(group, &**self.cell)
    }
}
