//! The state of one actor.

use std::fmt;
use std::sync::Arc;

use super::disk::{Disk, Failure};
use super::memory::Memory;
use super::writer::{Change, weight_of};
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
    /// # Cost
    ///
    /// Each call waits for a commit, and a commit waits until the disk confirms what was written
    /// (`fdatasync`). Calls of several actors share a commit, but one actor makes one call after
    /// the other. An actor that calls `save` for each message therefore handles no more messages
    /// per second than the disk makes commits. Two calls avoid that:
    ///
    /// - [`save_many`](State::save_many) makes many values durable by one commit.
    /// - [`Ctx::save_then`](crate::Ctx::save_then) reports the outcome by a message, and the actor
    ///   handles other messages meanwhile. Saves that are queued during a commit share the next
    ///   one.
    ///
    /// # Errors
    ///
    /// [`BadKey`](StoreError::BadKey), [`TooLarge`](StoreError::TooLarge) and [`Refused`](StoreError::Refused) if nothing
    /// was begun. [`Failed`](StoreError::Failed) and [`Unconfirmed`](StoreError::Unconfirmed) if it may have been saved or
    /// not. [`Damaged`](StoreError::Damaged), [`Broken`](StoreError::Broken), [`Closed`](StoreError::Closed).
    pub fn save(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        self.store.change(vec![self.saving(key, value.into())?]).map(drop)
    }

    /// [`save`](State::save) for futures. Nothing happens before it is polled; dropped after that, the value is saved or
    /// not, as a whole.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn save_async(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        let change = self.saving(key, value.into())?;
        self.store.change_async(vec![change]).await.map(drop)
    }

    /// Keeps each value under its key, by one commit: all of them or none. Returns when they are
    /// durable, or at once if there are no values. If a key occurs twice, its last value is kept.
    ///
    /// ```
    /// use sinew_kernel::store::Store;
    ///
    /// let accounts = Store::in_memory().of("accounts");
    /// accounts.save_many([("ann", "90"), ("bob", "30")])?; // a transfer: never one without the other
    /// assert_eq!(accounts.entries("")?, [("ann".into(), b"90".to_vec()), ("bob".into(), b"30".to_vec())]);
    /// # Ok::<(), sinew_kernel::store::StoreError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save), for all values together; and
    /// [`TooLargeTogether`](StoreError::TooLargeTogether), if nothing was begun.
    pub fn save_many<K, V>(&self, values: impl IntoIterator<Item = (K, V)>) -> Result<(), StoreError>
    where
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        let changes = self.saving_many(values)?;
        if changes.is_empty() { Ok(()) } else { self.store.change(changes).map(drop) }
    }

    /// [`save_many`](State::save_many) for futures, as [`save_async`](State::save_async).
    ///
    /// # Errors
    ///
    /// As for [`save_many`](State::save_many).
    pub async fn save_many_async<K, V>(
        &self,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), StoreError>
    where
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        let changes = self.saving_many(values)?;
        if changes.is_empty() { Ok(()) } else { self.store.change_async(changes).await.map(drop) }
    }

    /// Queues `value` to be kept under `key`. Unless this returns an error, `tell` is called once
    /// with the outcome, on a thread of the store.
    pub(crate) fn save_reporting(
        &self,
        key: &str,
        value: Vec<u8>,
        tell: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.store.change_reporting(self.saving(key, value)?, tell)
    }

    /// The value under `key`, if there is one.
    ///
    /// # Errors
    ///
    /// [`DamagedValue`](StoreError::DamagedValue) if it is not what was saved; otherwise as for [`save`](State::save).
    pub fn load(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read(self.loading(key)?)
    }

    /// [`load`](State::load) for futures.
    ///
    /// # Errors
    ///
    /// As for [`load`](State::load).
    pub async fn load_async(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read_async(self.loading(key)?).await
    }

    /// Removes what is under `key`. Returns when that is durable; false if there was nothing.
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        self.store.change(vec![self.deleting(key)?])
    }

    /// [`delete`](State::delete) for futures, as [`save_async`](State::save_async).
    ///
    /// # Errors
    ///
    /// As for [`save`](State::save).
    pub async fn delete_async(&self, key: &str) -> Result<bool, StoreError> {
        self.store.change_async(vec![self.deleting(key)?]).await
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

    /// Returns the keys that begin with `prefix`, each with its value, in the order of the keys'
    /// bytes; with an empty prefix, all of them. All entries are from the same commit: of a
    /// [`save_many`](State::save_many) all values are seen, or none.
    ///
    /// # Errors
    ///
    /// As for [`load`](State::load). One damaged value fails the whole call.
    pub fn entries(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store.read(Entries(self.listing(prefix)?))
    }

    /// [`entries`](State::entries) for futures.
    ///
    /// # Errors
    ///
    /// As for [`entries`](State::entries).
    pub async fn entries_async(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store.read_async(Entries(self.listing(prefix)?)).await
    }

    /// Whose state it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn saving(&self, key: impl Into<String>, value: Vec<u8>) -> Result<Change, StoreError> {
        let key = key.into();
        self.check(&key)?;
        let (len, limit) = (value.len(), self.store.shared.max_value);
        if len > limit {
            return Err(StoreError::TooLarge { owner: self.owner.to_string(), key, len, limit });
        }
        Ok(Change { owner: self.owner.clone(), key, value: Some(value) })
    }

    fn saving_many<K, V>(&self, values: impl IntoIterator<Item = (K, V)>) -> Result<Vec<Change>, StoreError>
    where
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        let changes = values.into_iter().map(|(key, value)| self.saving(key, value.into()));
        let changes = changes.collect::<Result<Vec<Change>, _>>()?;
        let (len, limit) = (weight_of(&changes), self.store.shared.room);
        if len > limit {
            let (owner, count) = (self.owner.to_string(), changes.len());
            return Err(StoreError::TooLargeTogether { owner, count, len, limit });
        }
        Ok(changes)
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

struct Entries(List);

impl Read<Vec<(String, Vec<u8>)>> for Entries {
    fn in_memory(self, memory: &Memory) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        memory.entries(&self.0.owner, &self.0.prefix)
    }

    fn on_disk(self, disk: &Disk) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        disk.entries(&self.0.owner, &self.0.prefix)
    }
}
