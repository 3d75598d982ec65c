//! Why something was not sent, not answered, not started.

use std::fmt;
use std::time::Duration;

use sinew_core::{ActorId, ExitReason, Kind, NameError, NodeId};
use sinew_fiber::Refused;

/// A message that was not sent, and why.
#[derive(thiserror::Error)]
#[error("{why}")]
pub struct SendError<M> {
    /// What was to be sent.
    pub item: M,
    /// Why it was not.
    #[source]
    pub why: Unsent,
}

impl<M> SendError<M> {
    pub(crate) fn new(item: M, why: Unsent) -> SendError<M> {
        SendError { item, why }
    }

    /// The same for a message of another type.
    pub(crate) fn map<N>(self, map: impl FnOnce(M) -> N) -> SendError<N> {
        SendError { item: map(self.item), why: self.why }
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("why", &self.why).finish_non_exhaustive()
    }
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// The mailbox is full, and its policy is to refuse, or the call does not wait.
    #[error("the mailbox is full: send less, or later, or give the actor a larger mailbox or another policy")]
    Full,
    /// There was no room before the timeout.
    #[error("the mailbox was full for {0:?}")]
    Timeout(Duration),
    /// The actor has ended, or ends.
    #[error("the actor has ended: {0}")]
    Stopped(ExitReason),
    /// There is no such actor on this node.
    #[error("there is no actor {0}: it has ended, or never was")]
    Unknown(ActorId),
    /// No actor has this name at the moment.
    #[error("no actor is called {0:?}: it is being restarted, has ended, or has not registered")]
    UnknownName(Box<str>),
    /// The messages of the actor of this name are of another type.
    #[error(
        "actor {actor}, called {name:?}, takes messages of another type than {wanted}: ask for the type that it takes, or send to its id"
    )]
    OtherType {
        /// The name or path.
        name: Box<str>,
        /// The actor that has it.
        actor: ActorId,
        /// The type of the message.
        wanted: &'static str,
    },
    /// The group has no members.
    #[error("the group {0:?} has no members")]
    NoMembers(Box<str>),
    /// An actor whose mailbox is full must not wait for itself.
    #[error("an actor cannot wait for room in its own mailbox: use `try_tell`, or a larger mailbox")]
    ToItself,
    /// Nothing waits here, or not any more: inside the poll of a future, or in an actor that was cancelled.
    #[error("the message would have to wait for room or for its actor, and the sender cannot wait: {0}")]
    Refused(#[from] Refused),
    /// The node has as many bytes queued as it may.
    #[error(
        "the node has {queued} of {most} bytes queued, and no room for {bytes}: raise `Builder::max_queued_bytes`, or send less"
    )]
    NodeFull {
        /// How many bytes the message has.
        bytes: usize,
        /// How many the node had queued.
        queued: usize,
        /// How many it may have.
        most: usize,
    },
    /// The kind is the system's, and the message is no request of its sender to the service that answers such.
    #[error(
        "{0} is a kind of the system's, and this is no request to its service: use a kind of your own, below 0xFF000000"
    )]
    SystemKind(Kind),
    /// A service of the node takes requests only.
    #[error("{service} is a service, which takes requests to it only, and no messages of kind {kind}")]
    NotARequest {
        /// Which service.
        service: ActorId,
        /// The kind of the message.
        kind: Kind,
    },
    /// The sender has asked the node's services without handling their answers. The request was not carried out.
    #[error("{0} answers of the node's services wait for the sender: handle these before you ask again")]
    TooManyAnswers(usize),
    /// There is no connection to the actor's node.
    #[error("there is no connection to node {}", .0.0)]
    NoConnection(NodeId),
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It was not sent.
    #[error("the question was not sent: {0}")]
    Unsent(#[source] Unsent),
    /// The actor ended before it answered.
    #[error("the actor ended before it answered: {0}")]
    Stopped(ExitReason),
    /// The actor goes on, but has dropped the question.
    #[error("the actor dropped the question without an answer")]
    NoReply,
    /// The question was sent, but there was no answer before the timeout. One that comes later is dropped.
    #[error("there was no answer within {0:?}")]
    Timeout(Duration),
    /// An actor must not wait for its own answer. The question was not sent.
    #[error("an actor cannot wait for its own answer: call what answers it, or use `tell`")]
    ToItself,
    /// Nothing waits here, or not any more.
    #[error("the answer cannot be waited for: {0}")]
    Refused(#[from] Refused),
}

/// Why the end of an actor was not waited for.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// An actor must not wait for its own end.
    #[error("an actor cannot wait for its own end: have it return `Flow::Stop`, and another wait for it")]
    Itself,
    /// The actor has not ended before the timeout.
    #[error("the actor has not ended within {0:?}")]
    Timeout(Duration),
    /// Nothing waits here, or not any more.
    #[error("the end of the actor cannot be waited for: {0}")]
    Refused(#[from] Refused),
}

impl From<Unsent> for AskError {
    fn from(why: Unsent) -> AskError {
        match why {
            Unsent::Stopped(reason) => AskError::Stopped(reason),
            why => AskError::Unsent(why),
        }
    }
}

/// Why an actor was not started.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SpawnError {
    /// There are as many actors as there may be.
    #[error("the node has {0} actors, which is as many as it may: raise `Builder::max_actors`, or stop some")]
    TooMany(usize),
    /// The name is taken.
    #[error("the name {0:?} is taken by actor {1}: choose another, or stop that one first")]
    NameTaken(Box<str>, ActorId),
    /// The name cannot be one.
    #[error(transparent)]
    BadName(#[from] NameError),
    /// A mailbox holds at least one message.
    #[error("a mailbox holds at least one message: give it a capacity above zero")]
    NoCapacity,
    /// The actor whose child it was to be has ended.
    #[error("actor {0}, whose child it was to be, has ended")]
    ParentEnded(ActorId),
    /// Two children of a supervisor have the same key.
    #[error("the supervisor has a child {0:?} already: give each its own key")]
    DuplicateChild(Box<str>),
    /// The node is shutting down.
    #[error("the node is shutting down, or has ended: start it before that, or on another node")]
    ShuttingDown,
}

impl From<RegisterError> for SpawnError {
    fn from(error: RegisterError) -> SpawnError {
        match error {
            RegisterError::Bad(error) => SpawnError::BadName(error),
            RegisterError::Taken { name, holder } => SpawnError::NameTaken(name, holder),
            RegisterError::NoActor(_) => SpawnError::ShuttingDown, // only then has one ended that was not yet started
        }
    }
}

/// Why an actor did not get a name, a path or a mount.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// It cannot be one.
    #[error(transparent)]
    Bad(#[from] NameError),
    /// Somebody has it, and keeps it.
    #[error("{name:?} is taken by actor {holder}: choose another, or unregister that one first")]
    Taken {
        /// What was asked for.
        name: Box<str>,
        /// Who has it.
        holder: ActorId,
    },
    /// There is no such actor on this node.
    #[error("there is no actor {0} on this node: it has ended, or never was")]
    NoActor(ActorId),
}

/// Why there is no reference to an actor by a name or an id.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// There is nobody of this name, or this path leads to nobody.
    #[error("nobody is called {0:?}: its actor has ended, or has not registered; `list` says who is there")]
    UnknownName(Box<str>),
    /// There is no such actor on this node.
    #[error("there is no actor {0} on this node: it has ended, or never was")]
    NoActor(ActorId),
    /// The actor's messages are of another type.
    #[error(
        "actor {actor}{} takes messages of another type than {wanted}: ask for the type that it takes, or send to its id",
        called(.name.as_deref())
    )]
    OtherType {
        /// By which name or path it was looked up, if it was.
        name: Option<Box<str>>,
        /// Who it is.
        actor: ActorId,
        /// The type that was asked for.
        wanted: &'static str,
    },
}

fn called(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(", called {name:?},"))
}
