//! The list of those that are told about transitions of an object.
//!
//! The list is replaced as a whole, under a lock of its own, when a watcher comes or goes. A notification takes a reference
//! to the list of the moment and calls the watchers without any lock. So a watcher may be called once more after it has
//! left, which watchers put up with: they look at the object, and find nothing new.
//!
//! A watcher that was added before an object changed its state is told of the change: the state is changed first and
//! the list is read then; a watcher adds itself first and looks at the object then.

use std::fmt;
use std::sync::{Arc, Weak};

use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::bits::Events;
use crate::lock::assert_unlocked;

/// Something that is told about transitions.
pub(crate) trait Watch: Send + Sync {
    /// `events` may have become set for what is watched as `key`. Called without locks; does not wait.
    fn notify(&self, key: Key, events: Events);
}

/// Which of its registrations a [`Watch`] is told about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) fd: i32,
    /// Tells registrations of one watch and number apart: a number may be watched, dropped and watched again.
    pub(crate) registration: u64,
}

#[derive(Clone)]
struct Watcher {
    watch: Weak<dyn Watch>,
    key: Key,
}

/// The watchers of one object: the epolls and waits that are told when it becomes ready. Every
/// [`FdObject`](crate::FdObject) has one.
#[derive(Default)]
pub struct Watchers {
    list: Mutex<Option<Arc<[Watcher]>>>,
    wakeups: AtomicU64,
}

impl Watchers {
    /// Creates an empty list.
    pub fn new() -> Watchers {
        Watchers { list: Mutex::new(None), wakeups: AtomicU64::new(0) }
    }

    /// Tells every watcher that `events` may have become set. Call it after each change of state that sets one of the
    /// object's events, and without holding the object's lock.
    ///
    /// # Panics
    ///
    /// In debug builds, if the thread holds an [`ObjectLock`](crate::ObjectLock).
    #[track_caller]
    pub fn notify(&self, events: Events) {
        assert_unlocked();
        let Some(list) = self.list.lock().clone() else { return };
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        for watcher in list.iter() {
            if let Some(watch) = watcher.watch.upgrade() {
                watch.notify(watcher.key, events);
            }
        }
    }

    /// Returns the number of notifications that had a watcher.
    pub fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Returns the number of watchers.
    pub fn len(&self) -> usize {
        self.list.lock().as_ref().map_or(0, |list| list.len())
    }

    /// Returns true if nothing watches the object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn add(&self, watch: Weak<dyn Watch>, key: Key) {
        self.replace(|list| list.iter().cloned().chain([Watcher { watch, key }]).collect());
    }

    pub(crate) fn remove(&self, watch: &Weak<dyn Watch>, key: Key) {
        self.replace(|list| {
            let stays = |watcher: &&Watcher| watcher.key != key || !Weak::ptr_eq(&watcher.watch, watch);
            list.iter().filter(stays).cloned().collect()
        });
    }

    fn replace(&self, change: impl FnOnce(&[Watcher]) -> Vec<Watcher>) {
        let mut list = self.list.lock();
        let changed = change(list.as_deref().unwrap_or(&[]));
        let old = std::mem::replace(&mut *list, (!changed.is_empty()).then(|| changed.into()));
        drop(list);
        drop(old);
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").field("watchers", &self.len()).field("wakeups", &self.wakeups()).finish()
    }
}
