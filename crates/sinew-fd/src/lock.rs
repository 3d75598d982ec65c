//! Locks with ranks, and the check of their order in debug builds.
//!
//! The locks of this crate are taken in one order only, and a thread that holds one takes only locks of higher ranks:
//!
//! 1. [`Rank::Table`]: the slots of a table;
//! 2. [`Rank::Epoll`]: the watches, the ready list and the waiters of an epoll;
//! 3. [`Rank::Object`]: the state of one object;
//! 4. the locks of [`Watchers`](crate::Watchers) and of wake flags, which are leaves: nothing is called while
//!    one of them is held.
//!
//! `epoll_ctl` holds the table and then the epoll, so that a number cannot be closed between the check and the
//! registration. A wait holds the epoll and asks each candidate for its mask, which takes the lock of the object. The
//! reverse direction would be a transition that is pushed: it therefore starts without any lock. An object changes its
//! state under its lock, releases it, and then notifies; [`assert_unlocked`] checks that.
//!
//! In debug builds each thread keeps the set of ranks that it holds, and taking a lock out of order panics. No lock is
//! held across a wait, so the set belongs to a thread and not to a task. A model runs all of its threads on one thread
//! of the system: there the check is off.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use sinew_sync::{Mutex, MutexGuard};

const CHECKED: bool = cfg!(debug_assertions) && !sinew_sync::MODEL;

/// The position of a lock in the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Rank {
    Table = 1,
    Epoll = 2,
    Object = 3,
}

thread_local! {
    /// Bit `r` is set while the thread holds a lock of rank `r`.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

#[inline(never)]
fn held() -> u8 {
    HELD.try_with(Cell::get).unwrap_or(0)
}

#[inline(never)]
fn set_held(ranks: u8) {
    let _ = HELD.try_with(|held| held.set(ranks));
}

/// Panics in debug builds if the thread holds a lock of this rank or a higher one.
#[track_caller]
fn assert_below(rank: Rank, action: &str) {
    if CHECKED && !std::thread::panicking() {
        let held = held();
        assert!(
            held >> rank as u8 == 0,
            "lock order: {action} while locks {held:#06b} are held (bit = rank)"
        );
    }
}

/// Panics in debug builds if the thread holds the lock of an epoll or an object: notifying takes epoll locks.
#[track_caller]
pub(crate) fn assert_unlocked() {
    assert_below(Rank::Epoll, "notifying watchers");
}

/// A mutex with a rank.
pub(crate) struct Ranked<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

impl<T> Ranked<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Ranked<T> {
        Ranked { rank, mutex: Mutex::new(value) }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        assert_below(self.rank, "taking a lock");
        let guard = self.mutex.lock();
        if CHECKED {
            set_held(held() | 1 << self.rank as u8);
        }
        RankedGuard { guard, rank: self.rank }
    }
}

/// A [`Ranked`] lock that is held.
pub(crate) struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    rank: Rank,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for RankedGuard<'_, T> {
    fn drop(&mut self) {
        if CHECKED {
            set_held(held() & !(1 << self.rank as u8));
        }
    }
}

/// The lock of an object's state, for implementations of [`FdObject`](crate::FdObject): a mutex that takes part in the
/// check of the lock order. A debug build panics if watchers are notified while it is held.
///
/// No user code may run and nothing may wait while it is held.
pub struct ObjectLock<T>(Ranked<T>);

impl<T> ObjectLock<T> {
    /// Creates an unlocked lock around `state`.
    pub fn new(state: T) -> ObjectLock<T> {
        ObjectLock(Ranked::new(Rank::Object, state))
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    ///
    /// In debug builds, if the thread holds the lock of an object already.
    #[track_caller]
    pub fn lock(&self) -> ObjectGuard<'_, T> {
        ObjectGuard(self.0.lock())
    }
}

impl<T> fmt::Debug for ObjectLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectLock").finish_non_exhaustive()
    }
}

/// What [`ObjectLock::lock`] returns.
pub struct ObjectGuard<'a, T>(RankedGuard<'a, T>);

impl<T> Deref for ObjectGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for ObjectGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> fmt::Debug for ObjectGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectGuard").finish_non_exhaustive()
    }
}

#[cfg(all(test, debug_assertions, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_ascending_ranks() {
        let (table, epoll, object) =
            (Ranked::new(Rank::Table, ()), Ranked::new(Rank::Epoll, ()), ObjectLock::new(()));
        let _table = table.lock();
        let _epoll = epoll.lock();
        let _object = object.lock();
    }

    #[test]
    #[should_panic(expected = "lock order: taking a lock")]
    fn an_epoll_is_not_locked_by_the_holder_of_an_object() {
        let (epoll, object) = (Ranked::new(Rank::Epoll, ()), ObjectLock::new(()));
        let _object = object.lock();
        let _epoll = epoll.lock();
    }

    #[test]
    #[should_panic(expected = "lock order: notifying watchers")]
    fn watchers_are_not_notified_by_the_holder_of_an_object() {
        let object = ObjectLock::new(());
        let _object = object.lock();
        assert_unlocked();
    }

    #[test]
    fn a_lock_that_was_released_does_not_count() {
        let (epoll, object) = (Ranked::new(Rank::Epoll, ()), ObjectLock::new(()));
        drop(object.lock());
        drop(epoll.lock());
        assert_unlocked();
    }
}
