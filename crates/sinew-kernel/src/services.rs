//! What the node does for an actor, and undoes at its end.

use crate::cell::Head;

/// What an actor has of the node's services.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) names: Vec<Box<str>>,
}

impl Owned {
    /// Frees it all.
    pub(crate) fn release(self, head: &Head) {
        self.names.iter().for_each(|name| head.node.names.release(name, head));
    }
}
