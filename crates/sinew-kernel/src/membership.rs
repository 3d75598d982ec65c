//! Which actors are in which groups of a node.
//!
//! All groups are under one lock, under which an actor's own is taken, as for
//! [names](crate::names): an actor that joins leaves a mark of the group in its cell under this
//! lock, so the thread that ends the actor finds all groups that it is in. Members are kept in the
//! order of their ids; sending to one goes round, from the member that had the last.
//!
//! Model: `group_against_end`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use sinew_core::{ActorId, Name};
use sinew_sync::Mutex;

/// The groups of a node; none is empty.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<Name, Members>>);

#[derive(Default)]
struct Members {
    ids: BTreeSet<ActorId>,
    /// Who was sent to last, of those that go round.
    last: Option<ActorId>,
}

impl Groups {
    /// Adds a member, if `mark` says so, which runs under the lock. Returns false if it was a
    /// member.
    pub(crate) fn join(&self, name: Name, id: ActorId, mark: impl FnOnce(&Name) -> bool) -> bool {
        let mut groups = self.0.lock();
        mark(&name) && groups.entry(name).or_default().ids.insert(id)
    }

    /// Takes a member out. `unmark` runs under the lock if it was one. Returns false if it was not.
    pub(crate) fn leave(&self, name: &str, id: ActorId, unmark: impl FnOnce()) -> bool {
        let mut groups = self.0.lock();
        let left = remove(&mut groups, name, id);
        if left {
            unmark();
        }
        left
    }

    /// Gives memory back, of a node whose actors have ended.
    pub(crate) fn shrink(&self) {
        *self.0.lock() = BTreeMap::new(); // a map keeps a node while it is empty
    }

    /// An actor has ended that is in these groups.
    pub(crate) fn release(&self, names: &BTreeSet<Name>, id: ActorId) {
        let mut groups = self.0.lock();
        for name in names {
            remove(&mut groups, name.as_str(), id);
        }
    }

    pub(crate) fn members(&self, name: &str) -> Vec<ActorId> {
        self.0.lock().get(name).map_or(Vec::new(), |members| members.ids.iter().copied().collect())
    }

    /// Whose turn it is.
    pub(crate) fn next(&self, name: &str) -> Option<ActorId> {
        let mut groups = self.0.lock();
        let members = groups.get_mut(name)?;
        let after = members.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = members.ids.range((after, Bound::Unbounded)).next();
        members.last = next.or_else(|| members.ids.first()).copied();
        members.last
    }
}

fn remove(groups: &mut BTreeMap<Name, Members>, name: &str, id: ActorId) -> bool {
    let Some(members) = groups.get_mut(name) else { return false };
    let removed = members.ids.remove(&id);
    if members.ids.is_empty() {
        groups.remove(name);
    }
    removed
}
