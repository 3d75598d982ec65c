//! What the system tells an actor.

use sinew_core::{ActorId, ExitReason};
use sinew_sync::Arc;

use crate::notice::Notice;

/// What is in the lane of the system.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is to end, for this reason: at once, or when it has handled what is in its mailbox.
    Stop { reason: ExitReason, drain: bool },
    /// It was killed: there is nothing more to handle. It goes before everything else.
    Kill,
    /// An actor that it has to do with has ended.
    Exit(Exit),
    /// A child of it has started.
    Started(ActorId),
    /// It is the time that it has asked the node's timers to tell it of.
    Tick(u64),
    /// A service has something to tell: a timer, a descriptor.
    Notice(Arc<dyn Notice>),
}

/// The end of an actor, told to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Exit {
    /// Who has ended.
    pub actor: ActorId,
    /// Why.
    pub reason: ExitReason,
    /// What it was to the one who is told.
    pub relation: Relation,
}

/// What an actor that has ended was to the one who is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// Its child.
    Child,
    /// Linked to it.
    Link,
    /// Monitored by it.
    Monitor(MonitorId),
}

/// One monitor of one actor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MonitorId(pub(crate) u64);
