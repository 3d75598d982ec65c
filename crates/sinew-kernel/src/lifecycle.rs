//! What a node tells its subscribers of its actors.

use sinew_core::{ActorId, ExitReason};

/// Something in the life of an actor.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Lifecycle {
    /// It has started.
    Started(ActorId),
    /// It has started in the place of one that ended; told after [`Started`](Lifecycle::Started).
    Restarted {
        /// Which.
        actor: ActorId,
        /// Its name, if it has one.
        name: Option<Box<str>>,
        /// How often that has happened.
        restarts: u32,
        /// Why the one before it ended, if that is known.
        after: Option<ExitReason>,
    },
    /// It is called so from now on.
    NameRegistered {
        /// Who.
        actor: ActorId,
        /// The name.
        name: Box<str>,
    },
    /// It is not called so any more.
    NameUnregistered {
        /// Who.
        actor: ActorId,
        /// The name.
        name: Box<str>,
    },
    /// It was killed and does not end: it counts as ended, and is listed with the
    /// [zombies](crate::NodeRef::zombies).
    GivenUp(ActorId),
    /// It has ended.
    Ended {
        /// Which.
        actor: ActorId,
        /// Its name, if it had one.
        name: Option<Box<str>>,
        /// Why.
        reason: ExitReason,
    },
}
