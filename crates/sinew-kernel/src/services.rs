//! What the node does for an actor, and undoes at its end.

use crate::cell::Head;

/// What an actor has of the node's services.
#[derive(Default)]
pub(crate) struct Owned {
    /// It has, or had, names, paths or mounts.
    pub(crate) named: bool,
}

impl Owned {
    /// Frees it all.
    pub(crate) fn release(self, head: &Head) {
        if self.named {
            head.node.names.release(head.id);
        }
    }
}
