//! A number of a table while it is open, and the object that it refers to.
//!
//! Several numbers may refer to one object ([`FdTable::dup`](crate::FdTable::dup)). Each number holds a reference to
//! one [`Open`]; when the last of them goes, the object is closed. Calls that are under way hold the object and not the
//! `Open`, so they do not keep it open.
//!
//! A number is closed once. The step is a store to `closed`, followed by a notification of the number's own watchers;
//! after it the number's mask is `HUP`, whatever becomes of the object.
//!
//! Epolls that watch the number count themselves in `watches`. The count grows only under the lock of the table, for a number
//! that is open; it shrinks at any time. The table reserves a number that is watched when it is closed, and gives it out
//! again when nothing refers to the [`Number`] any more.

use std::fmt;
use std::sync::{Arc, Weak};

use sinew_sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::bits::{Events, Flags};
use crate::object::FdObject;
use crate::watchers::{Key, Watch, Watchers};

/// An object that is open: closes it when the last reference goes.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) object: Arc<dyn FdObject>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.object.close();
    }
}

/// A number that was given to an object.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) object: Arc<dyn FdObject>,
    /// Told when the number is closed.
    pub(crate) watchers: Watchers,
    closed: AtomicBool,
    watches: AtomicUsize,
}

impl Number {
    pub(crate) fn new(object: Arc<dyn FdObject>) -> Number {
        Number {
            object,
            watchers: Watchers::new(),
            closed: AtomicBool::new(false),
            watches: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Marks the number as closed. The caller notifies the watchers, without locks.
    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns what the number is ready for.
    pub(crate) fn mask(&self) -> Events {
        if self.is_closed() { Events::HUP } else { self.object.poll_mask() }
    }

    /// Returns true if an epoll still watches the number.
    pub(crate) fn is_watched(&self) -> bool {
        self.watches.load(Ordering::Acquire) > 0
    }
}

/// A registration of a watch with a number and its object. Ends when it is dropped, which must not happen under the lock
/// of an epoll: the object may be dropped with it.
pub(crate) struct Registered {
    pub(crate) number: Arc<Number>,
    watch: Weak<dyn Watch>,
    key: Key,
    reserves: bool,
}

impl Registered {
    /// Registers a watch of an epoll, which keeps the number reserved.
    pub(crate) fn reserving(number: Arc<Number>, watch: Weak<dyn Watch>, key: Key) -> Registered {
        number.watches.fetch_add(1, Ordering::AcqRel);
        Registered::register(number, watch, key, true)
    }

    /// Registers a watch of a single wait.
    pub(crate) fn new(number: Arc<Number>, watch: Weak<dyn Watch>) -> Registered {
        Registered::register(number, watch, Key { fd: 0, registration: 0 }, false)
    }

    fn register(number: Arc<Number>, watch: Weak<dyn Watch>, key: Key, reserves: bool) -> Registered {
        number.watchers.add(watch.clone(), key);
        number.object.watchers().add(watch.clone(), key);
        Registered { number, watch, key, reserves }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.number.watchers.remove(&self.watch, self.key);
        self.number.object.watchers().remove(&self.watch, self.key);
        if self.reserves {
            self.number.watches.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("number", &self.number).field("key", &self.key).finish()
    }
}

/// A file descriptor that was taken out of a table, on its way to another: see [`FdTable::take`](crate::FdTable::take).
/// Dropped, it closes the object, unless other numbers refer to it.
#[must_use = "a descriptor that is dropped is closed"]
#[derive(Debug)]
pub struct Descriptor {
    pub(crate) open: Arc<Open>,
    pub(crate) flags: Flags,
}

impl Descriptor {
    /// Creates a descriptor of a new object.
    pub fn new(object: Arc<dyn FdObject>, flags: Flags) -> Descriptor {
        Descriptor { open: Arc::new(Open { object }), flags }
    }

    /// Returns the object.
    pub fn object(&self) -> &Arc<dyn FdObject> {
        &self.open.object
    }
}
