//! What the node does for an actor, and undoes at its [end](crate::end).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;

use sinew_core::Name;
use sinew_sync::Arc;

use crate::timers::{Expire, TimerId};

/// Answers that an actor has in its lane and has not come to.
pub(crate) const MAX_ANSWERS: u8 = 64;

/// The timers of an actor.
pub(crate) type Timers = BTreeMap<TimerId, Arc<dyn Expire>>;

/// The saves of an actor whose outcomes it has not handled, by their numbers.
pub(crate) type Saves = BTreeMap<u64, Arc<dyn Pending>>;

/// A save whose outcome the actor has not come to.
pub(crate) trait Pending: Send + Sync {
    /// Drops what would make the message of the outcome: code of the actor's.
    fn cancel(&self);
}

/// A descriptor that is watched for an actor.
pub(crate) trait Watched: Send + Sync {
    /// Takes the watch back.
    fn end(&self);
}

/// Told when what it told has been handled.
pub(crate) trait Handled: Send + Sync {
    /// The actor has handled it.
    fn handled(self: Arc<Self>);
}

/// What an actor has of the node's services.
#[derive(Default)]
pub(crate) struct Owned {
    /// It has, or had, names, paths or mounts.
    pub(crate) named: bool,
    pub(crate) groups: BTreeSet<Name>,
    pub(crate) timers: Timers,
    pub(crate) saves: Saves,
    pub(crate) watches: BTreeMap<RawFd, Arc<dyn Watched>>,
    /// Whose notices it has handled, and who are not told so yet.
    pub(crate) handled: Vec<Arc<dyn Handled>>,
    /// Answers of the node's own services that it has not come to.
    answers: u8,
}

impl Owned {
    /// Takes a place for an answer. False if there is none.
    pub(crate) fn take_place(&mut self) -> bool {
        let has_place = self.answers < MAX_ANSWERS;
        self.answers += u8::from(has_place);
        has_place
    }

    /// The actor has come to an answer.
    pub(crate) fn free_place(&mut self) {
        self.answers = self.answers.saturating_sub(1);
    }
}

/// An actor, as the services see it.
pub(crate) trait Owner {
    /// Calls `what` with what it has of the services, under its lock, if it ever had something:
    /// `what` runs no foreign code, and takes no other lock.
    fn with_services(&self, what: &mut dyn FnMut(&mut Owned));
}

impl dyn Owner + '_ {
    /// [`Owner::with_services`] with a result. Returns `None` if the actor never had anything of
    /// them.
    pub(crate) fn services<T>(&self, what: impl FnOnce(&mut Owned) -> T) -> Option<T> {
        let (mut what, mut result) = (Some(what), None);
        self.with_services(&mut |owned| result = what.take().map(|what| what(owned)));
        result
    }
}
