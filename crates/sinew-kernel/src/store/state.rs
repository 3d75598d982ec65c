//! The state of one actor.

use std::fmt;
use std::sync::Arc;

use super::disk::{Disk, Failure};
use super::memory::Memory;
use super::writer::Change;
use super::{BadName, Read, Store, StoreError};

/// What a [`Store`] keeps for one name: see [`Store::of`]. The [module](super) says what is promised.
#[derive(Clone)]
pub struct State {
    store: Store,
    owner: Arc<str>,
}

impl State {
    pub(super) fn new(store: Store, owner: &str) -> State {
        State { store, owner: owner.into() }
    }

    /// Keeps `value` under `key`, in the place of what was there. Returns when it is durable.
    ///
    /// # Errors
    ///
    /// [`BadKey`](StoreError::BadKey), [`TooLarge`](StoreError::TooLarge) and [`Refused`](StoreError::Refused) if nothing
    /// was begun. [`Failed`](StoreError::Failed) and [`Unconfirmed`](StoreError::Unconfirmed) if it may have been saved or
    /// not. [`Broken`](StoreError::Broken), [`Closed`](StoreError::Closed).
    pub fn save(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        self.store.change(Some(self.saving(key, value.into())?)).map(drop)
    }

    /// [`save`](State::save) for futures. Nothing happens before it is polled; dropped after that, the value is saved or
    /// not, as a whole.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn save_async(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        let change = self.saving(key, value.into())?;
        self.store.change_async(Some(change)).await.map(drop)
    }

    /// The value under `key`, if there is one.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub fn load(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read(self.loading(key)?)
    }

    /// [`load`](State::load) for futures.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn load_async(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read_async(self.loading(key)?).await
    }

    /// Removes what is under `key`. Returns when that is durable; false if there was nothing.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        self.store.change(Some(self.deleting(key)?))
    }

    /// [`delete`](State::delete) for futures, as [`save_async`](State::save_async).
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn delete_async(&self, key: &str) -> Result<bool, StoreError> {
        self.store.change_async(Some(self.deleting(key)?)).await
    }

    /// The keys that begin with `prefix`, in the order of their bytes; with an empty one, all.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.read(self.listing(prefix)?)
    }

    /// [`keys`](State::keys) for futures.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn keys_async(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.read_async(self.listing(prefix)?).await
    }

    /// Whose state it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn saving(&self, key: &str, value: Vec<u8>) -> Result<Change, StoreError> {
        self.check(key)?;
        let (len, limit) = (value.len(), self.store.shared.max_value);
        if len > limit {
            let (owner, key) = (self.owner.to_string(), key.to_owned());
            return Err(StoreError::TooLarge { owner, key, len, limit });
        }
        Ok(Change { owner: self.owner.clone(), key: key.to_owned(), value: Some(value) })
    }

    fn deleting(&self, key: &str) -> Result<Change, StoreError> {
        self.check(key)?;
        Ok(Change { owner: self.owner.clone(), key: key.to_owned(), value: None })
    }

    fn loading(&self, key: &str) -> Result<Load, StoreError> {
        self.check(key)?;
        Ok(Load { owner: self.owner.clone(), key: key.to_owned() })
    }

    fn listing(&self, prefix: &str) -> Result<List, StoreError> {
        BadName::check(&self.owner).map_err(StoreError::BadOwner)?;
        Ok(List { owner: self.owner.clone(), prefix: prefix.to_owned() })
    }

    fn check(&self, key: &str) -> Result<(), StoreError> {
        BadName::check(&self.owner).map_err(StoreError::BadOwner)?;
        BadName::check(key).map_err(StoreError::BadKey)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("owner", &self.owner).field("store", &self.store).finish()
    }
}

struct Load {
    owner: Arc<str>,
    key: String,
}

impl Read<Option<Vec<u8>>> for Load {
    fn in_memory(self, memory: &Memory) -> Result<Option<Vec<u8>>, StoreError> {
        memory.load(&self.owner, &self.key)
    }

    fn on_disk(self, disk: &Disk) -> Result<Option<Vec<u8>>, Failure> {
        disk.load(&self.owner, &self.key)
    }
}

struct List {
    owner: Arc<str>,
    prefix: String,
}

impl Read<Vec<String>> for List {
    fn in_memory(self, memory: &Memory) -> Result<Vec<String>, StoreError> {
        memory.keys(&self.owner, &self.prefix)
    }

    fn on_disk(self, disk: &Disk) -> Result<Vec<String>, Failure> {
        disk.keys(&self.owner, &self.prefix)
    }
}
