//! Groups: many actors under one name.
//!
//! Nothing is sent under the lock of the [members](crate::membership): a send goes to those who
//! were members when it began.

use std::fmt;

use sinew_core::{ActorId, Kind, Name, NameError};

use crate::cell::Phase;
use crate::ctx::Ctx;
use crate::error::{SendError, Unsent};
use crate::message::{Message, Payload};
use crate::shared::NodeRef;
use crate::stream::SendCounts;

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
    pub fn tell_all<M: Clone + Send + 'static>(&self, message: M) -> SendCounts {
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
    pub fn send_all(&self, kind: Kind, bytes: &[u8]) -> SendCounts {
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

    fn each(&self, mut message: impl FnMut(ActorId) -> Message) -> SendCounts {
        let mut sent = SendCounts { accepted: 0, refused: 0 };
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
                Err(error) => (message, why) = (error.item, error.why),
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
        let (name, cell) = (Name::new(group)?, self.cell);
        let mark = |name: &Name| {
            let life = &mut cell.lock().life;
            let alive = life.phase < Phase::Leaving;
            if alive {
                life.more().services.groups.insert(name.clone());
            }
            alive
        };
        Ok(cell.head.node.groups.join(name, cell.head.id, mark))
    }

    /// Has this actor leave a group. False if it was no member.
    pub fn leave_group(&self, group: &str) -> bool {
        let cell = self.cell;
        cell.head.node.groups.leave(group, cell.head.id, || {
            let mark = cell.lock().life.more.as_mut().and_then(|more| more.services.groups.take(group));
            drop(mark); // without the actor's lock
        })
    }
}
