//! A lock around a value that many may read at once.
//!
//! A reader takes one of the [`Permits`], a writer all of them. They are given out in order, so neither kind starves.
//!
//! Model: `rwlock_readers_see_whole_changes`; those of the order are in `permits.rs`.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::{WaitError, WaitKind, now};
use sinew_sync::const_unless_model;

use super::permits::{Acquired, MOST, Permits};

pub(super) const READER: usize = 1;
pub(super) const WRITER: usize = MOST;

/// A value that many tasks and threads read at a time, or one changes.
///
/// ```
/// use sinew_chan::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// {
///     let (one, other) = (lock.read()?, lock.read()?);
///     assert_eq!(*one + *other, 10);
///     assert!(lock.try_write().is_none());
/// }
/// *lock.write()? += 1;
/// assert_eq!(*lock.read()?, 6);
/// # Ok::<(), sinew_fiber::Refused>(())
/// ```
///
/// # Who is next
///
/// Strictly first come first served; readers that wait one behind the other go together. A reader does not pass a writer
/// that waits, so writers do not starve, and neither do readers. It follows that who reads already must not wait to
/// read once more: a writer may have come in between, and both wait for ever.
///
/// # Panics and cancelling
///
/// As for a [`Mutex`](super::Mutex): no poisoning, and who gives up leaves the queue to the others.
pub struct RwLock<T: ?Sized> {
    pub(super) permits: Permits,
    value: UnsafeCell<T>,
}

// SAFETY: the value is shared by readers, and reached by one writer at a time from wherever that is.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_model! {
        /// An unlocked lock around `value`.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock { permits: Permits::new(WRITER), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes. A lock that is free is taken also by a task that is cancelled.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    #[inline]
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>, Refused> {
        self.permits.acquire(READER, None, WaitKind::RwLockRead)?;
        Ok(RwLockReadGuard::new(self))
    }

    /// A reader's share, if nobody writes or waits.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.permits.try_acquire(READER).then(|| RwLockReadGuard::new(self))
    }

    /// [`read_timeout`](Self::read_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn read_until(&self, deadline: Instant) -> Result<RwLockReadGuard<'_, T>, WaitError> {
        let acquired = self.permits.acquire(READER, Some(deadline), WaitKind::RwLockRead)?;
        if acquired == Acquired::Granted { Ok(RwLockReadGuard::new(self)) } else { Err(WaitError::Timeout) }
    }

    /// Like [`read`](RwLock::read), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`read`](RwLock::read), and [`WaitError::Timeout`].
    pub fn read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard<'_, T>, WaitError> {
        self.read_until(now() + timeout)
    }

    /// Waits until nobody reads or writes. A lock that is free is taken also by a task that is cancelled.
    ///
    /// # Errors
    ///
    /// As for [`read`](RwLock::read).
    #[inline]
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>, Refused> {
        self.permits.acquire(WRITER, None, WaitKind::RwLockWrite)?;
        Ok(RwLockWriteGuard::new(self))
    }

    /// The whole lock, if nobody has any of it.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.permits.try_acquire(WRITER).then(|| RwLockWriteGuard::new(self))
    }

    /// [`write_timeout`](Self::write_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn write_until(&self, deadline: Instant) -> Result<RwLockWriteGuard<'_, T>, WaitError> {
        let acquired = self.permits.acquire(WRITER, Some(deadline), WaitKind::RwLockWrite)?;
        if acquired == Acquired::Granted { Ok(RwLockWriteGuard::new(self)) } else { Err(WaitError::Timeout) }
    }

    /// Like [`write`](RwLock::write), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`read`](RwLock::read), and [`WaitError::Timeout`].
    pub fn write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard<'_, T>, WaitError> {
        self.write_until(now() + timeout)
    }

    /// The value, for whoever has the lock to itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(value) => f.debug_tuple("RwLock").field(&&*value).finish(),
            None => f.write_str("RwLock(<locked>)"),
        }
    }
}

/// A share of an [`RwLock`]; gives it back when it is dropped, on any thread.
#[must_use = "the lock is given back at once if the guard is not kept"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// It is as good as this.
    _value: PhantomData<&'a T>,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// The caller has a reader's permit.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard { lock, _value: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has a permit, so no writer has them all.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.permits.release(READER);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The whole of an [`RwLock`]; gives it back when it is dropped, on any thread.
#[must_use = "the lock is given back at once if the guard is not kept"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// It is as good as this.
    _value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// The caller has all permits.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard { lock, _value: PhantomData }
    }

    /// Keeps a reader's share and gives the rest back: nobody writes in between.
    pub fn downgrade(guard: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let lock = guard.lock;
        mem::forget(guard);
        lock.permits.release(WRITER - READER);
        RwLockReadGuard::new(lock)
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has all permits, and lends the value for no longer than it is borrowed itself.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.permits.release(WRITER);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::{AtomicUsize, Ordering};
    use sinew_sync::{Arc, model, thread};

    use super::*;

    /// Both halves of the value are changed by a writer; a reader, also one that a writer has become, sees no half of it.
    #[test]
    fn a_reader_sees_all_of_a_change_or_nothing() {
        model("rwlock_readers_see_whole_changes", || {
            let lock = Arc::new(RwLock::new([AtomicUsize::new(0), AtomicUsize::new(0)]));
            let value =
                |halves: &[AtomicUsize; 2]| halves.each_ref().map(|half| half.load(Ordering::Relaxed));
            let writer = {
                let lock = lock.clone();
                thread::spawn(move || {
                    let guard = lock.write().unwrap();
                    guard.iter().for_each(|half| half.store(1, Ordering::Relaxed));
                    let guard = RwLockWriteGuard::downgrade(guard);
                    assert_eq!(value(&guard), [1, 1]);
                    assert!(lock.try_write().is_none(), "it is still read");
                })
            };
            let reader = {
                let lock = lock.clone();
                thread::spawn(move || {
                    let [one, other] = value(&lock.read().unwrap());
                    assert_eq!(one, other);
                })
            };
            writer.join().unwrap();
            reader.join().unwrap();
            assert!(lock.try_write().is_some());
        });
    }
}
