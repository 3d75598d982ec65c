//! Names of actors.

use std::collections::BTreeMap;

use sinew_core::ActorId;
use sinew_sync::{Arc, Mutex};

use crate::cell::{Cell, Head, Phase};
use crate::error::SpawnError;
use crate::node::Lifecycle;

/// The names of a node.
#[derive(Default)]
pub(crate) struct Names(Mutex<BTreeMap<Box<str>, ActorId>>);

impl Names {
    /// Gives an actor a name.
    pub(crate) fn register<M: Send + 'static>(
        &self,
        name: &str,
        cell: &Arc<Cell<M>>,
    ) -> Result<(), SpawnError> {
        let mut names = self.0.lock();
        if let Some(owner) = names.get(name) {
            return Err(SpawnError::NameTaken(name.into(), *owner));
        }
        let mut state = cell.lock();
        if state.life.phase != Phase::Dead {
            names.insert(name.into(), cell.head.id);
            let more = state.life.more();
            more.services.names.push(name.into());
            more.name.get_or_insert_with(|| name.into());
        }
        drop((state, names));
        let (actor, node) = (cell.head.id, cell.head.node);
        node.lifecycle(|| Lifecycle::NameRegistered { actor, name: name.into() });
        Ok(())
    }

    pub(crate) fn release(&self, name: &str, owner: &Head) {
        let mut names = self.0.lock();
        if names.get(name) == Some(&owner.id) {
            names.remove(name);
            drop(names);
            owner.node.lifecycle(|| Lifecycle::NameUnregistered { actor: owner.id, name: name.into() });
        }
    }
}
