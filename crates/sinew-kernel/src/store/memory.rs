//! A store without a file: a map under a lock, so that no call waits.

use std::collections::BTreeMap;
use std::ops::Bound;

use sinew_sync::Mutex;

use super::StoreError;
use super::writer::{Change, Counters};

type Values = BTreeMap<String, Vec<u8>>;

/// None when it was closed.
pub(super) struct Memory(Mutex<Option<BTreeMap<String, Values>>>);

impl Default for Memory {
    fn default() -> Memory {
        Memory(Mutex::new(Some(BTreeMap::new())))
    }
}

impl Memory {
    pub(super) fn change(&self, changes: Vec<Change>, counters: &Counters) -> Result<bool, StoreError> {
        let mut owners = self.0.lock();
        let owners = owners.as_mut().ok_or(StoreError::Closed)?;
        counters.count(&changes);
        Ok(changes.into_iter().fold(false, |replaced, change| replaced | make(change, owners)))
    }

    pub(super) fn load(&self, owner: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let owners = self.0.lock();
        let owners = owners.as_ref().ok_or(StoreError::Closed)?;
        Ok(owners.get(owner).and_then(|values| values.get(key)).cloned())
    }

    pub(super) fn keys(&self, owner: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.list(owner, prefix, |key, _| key.clone())
    }

    pub(super) fn entries(&self, owner: &str, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.list(owner, prefix, |key, value| (key.clone(), value.clone()))
    }

    fn list<T>(
        &self,
        owner: &str,
        prefix: &str,
        read: impl Fn(&String, &Vec<u8>) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let owners = self.0.lock();
        let owners = owners.as_ref().ok_or(StoreError::Closed)?;
        let Some(values) = owners.get(owner) else { return Ok(Vec::new()) };
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let entries = values.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        Ok(entries.map(|(key, value)| read(key, value)).collect())
    }

    pub(super) fn close(&self) {
        let closed = self.0.lock().take();
        drop(closed); // without the lock
    }
}

/// Makes a change. True if there was a value before.
fn make(change: Change, owners: &mut BTreeMap<String, Values>) -> bool {
    let owner = &*change.owner;
    let Some(value) = change.value else {
        let Some(values) = owners.get_mut(owner) else { return false };
        let removed = values.remove(&change.key).is_some();
        if values.is_empty() {
            owners.remove(owner);
        }
        return removed;
    };
    owners.entry(owner.to_owned()).or_default().insert(change.key, value).is_some()
}
