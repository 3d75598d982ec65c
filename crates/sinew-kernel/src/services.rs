//! What the node does for an actor, and undoes at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;

use sinew_core::Name;
use sinew_sync::Arc;

use crate::cell::Head;
use crate::failure;
use crate::notice::Handled;
use crate::timer::{self, TimerId};
use crate::timers::Expire;
use crate::watch::Watch;

/// The timers of an actor.
pub(crate) type Timers = BTreeMap<TimerId, Arc<dyn Expire>>;

/// What an actor has of the node's services.
#[derive(Default)]
pub(crate) struct Owned {
    /// It has, or had, names, paths or mounts.
    pub(crate) named: bool,
    pub(crate) groups: BTreeSet<Name>,
    pub(crate) timers: Timers,
    pub(crate) watches: BTreeMap<RawFd, Arc<Watch>>,
    /// Whose notices it has handled, and who are not told so yet.
    pub(crate) handled: Vec<Arc<dyn Handled>>,
}

impl Owned {
    /// Frees it all but the timers, which run code of the actor's: they have gone with its mailbox.
    pub(crate) fn release(self, head: &Head) {
        if self.named {
            head.node.names.release(head);
        }
        if !self.groups.is_empty() {
            head.node.groups.release(&self.groups, head.id);
        }
        self.watches.values().for_each(|watch| watch.end());
    }
}

/// Frees timers. What they were to send is dropped, by code of the actor's.
pub(crate) fn release_timers(timers: Timers, head: &Head) {
    for timer in timers.into_values() {
        failure::contain("a timer's message", head, || timer::end(head.node, &*timer));
    }
}
