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

/// What an actor has of the node's services.
#[derive(Default)]
pub(crate) struct Owned {
    /// It has, or had, names, paths or mounts.
    pub(crate) named: bool,
    pub(crate) groups: BTreeSet<Name>,
    pub(crate) timers: BTreeMap<TimerId, Arc<dyn Expire>>,
    pub(crate) watches: BTreeMap<RawFd, Arc<Watch>>,
    /// Whose notices it has handled, and who are not told so yet.
    pub(crate) handled: Vec<Arc<dyn Handled>>,
}

impl Owned {
    /// Frees it all.
    pub(crate) fn release(self, head: &Head) {
        if self.named {
            head.node.names.release(head);
        }
        if !self.groups.is_empty() {
            head.node.groups.release(&self.groups, head.id);
        }
        for timer in self.timers.into_values() {
            // What it was to send is dropped, by code of the actor's.
            failure::contain("a timer's message", head, || timer::end(head.node, &*timer));
        }
        self.watches.values().for_each(|watch| watch.end());
    }
}
