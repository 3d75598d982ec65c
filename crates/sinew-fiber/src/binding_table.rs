//! The tables in which fibers keep their dynamic bindings.
//!
//! A table belongs to a fiber or is shared by several; a layered table reads through to the one that its
//! creator had, live, and keeps writes to itself. Tables are shared by `Arc` and locked, because a task may
//! inherit from one on another thread; no user code runs under a lock.

use std::any::Any;

use sinew_sync::{Arc, RwLock};

/// A key together with a value for it: see [`Key::to`](crate::Key::to).
pub struct Binding {
    pub(crate) key: u32,
    /// None to remove what the table has.
    pub(crate) value: Option<Entry>,
}

pub(crate) type Entry = std::sync::Arc<dyn Any + Send + Sync>;

/// The bindings of one or several fibers.
pub(crate) struct Table {
    entries: RwLock<Vec<(u32, Entry)>>,
    below: Option<Arc<Table>>,
}

impl Table {
    pub(crate) fn over(below: Option<Arc<Table>>) -> Arc<Table> {
        Arc::new(Table { entries: RwLock::new(Vec::new()), below })
    }

    pub(crate) fn get(&self, key: u32) -> Option<Entry> {
        let mut table = self;
        loop {
            let found = table.entries.read().iter().find(|(k, _)| *k == key).map(|(_, value)| value.clone());
            match (found, &table.below) {
                (Some(value), _) => return Some(value),
                (None, Some(below)) => table = below,
                (None, None) => return None,
            }
        }
    }

    pub(crate) fn write(&self, binding: Binding) {
        let mut entries = self.entries.write();
        let old = entries.iter().position(|(key, _)| *key == binding.key).map(|at| entries.swap_remove(at));
        if let Some(value) = binding.value {
            entries.push((binding.key, value));
        }
        drop(entries);
        drop(old); // its destructor is the user's code: not under the lock
    }
}
