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
    pub(super) fn change(&self, change: Option<Change>, counters: &Counters) -> Result<bool, StoreError> {
        let mut owners = self.0.lock();
        let owners = owners.as_mut().ok_or(StoreError::Closed)?;
        let Some(change) = change else { return Ok(false) };
        counters.count([&change]);
        let owner = &*change.owner;
        let Some(value) = change.value else {
            let Some(values) = owners.get_mut(owner) else { return Ok(false) };
            let removed = values.remove(&change.key).is_some();
            if values.is_empty() {
                owners.remove(owner);
            }
            return Ok(removed);
        };
        Ok(owners.entry(owner.to_owned()).or_default().insert(change.key, value).is_some())
    }

    pub(super) fn load(&self, owner: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let owners = self.0.lock();
        let owners = owners.as_ref().ok_or(StoreError::Closed)?;
        Ok(owners.get(owner).and_then(|values| values.get(key)).cloned())
    }

    pub(super) fn keys(&self, owner: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
        let owners = self.0.lock();
        let owners = owners.as_ref().ok_or(StoreError::Closed)?;
        let Some(values) = owners.get(owner) else { return Ok(Vec::new()) };
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = values.range::<str, _>(from).map(|(key, _)| key);
        Ok(keys.take_while(|key| key.starts_with(prefix)).cloned().collect())
    }

    pub(super) fn close(&self) {
        let closed = self.0.lock().take();
        drop(closed); // without the lock
    }
}
