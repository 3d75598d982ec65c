//! A lock around a value.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::{WaitError, now};
use sinew_sync::const_unless_model;

use super::lock::Lock;

/// A value that one task or thread uses at a time. Whoever has to wait for it suspends its task, or blocks its thread
/// if it is no task; it may be held across blocking calls.
///
/// ```
/// use std::sync::Arc;
///
/// use sinew_chan::sync::Mutex;
/// use sinew_sched::{Runtime, spawn, yield_now};
///
/// let total = Runtime::new().run(|| {
///     let total = Arc::new(Mutex::new(0));
///     let tasks: Vec<_> = (0..10)
///         .map(|n| {
///             let total = total.clone();
///             spawn(move || {
///                 let mut total = total.lock().unwrap();
///                 let before = *total;
///                 yield_now(); // others run, and wait
///                 *total = before + n;
///             })
///         })
///         .collect();
///     tasks.into_iter().for_each(|task| task.join().unwrap());
///     *total.lock().unwrap()
/// });
/// assert_eq!(total.unwrap(), 45);
/// ```
///
/// # Who is next
///
/// Waiters are woken one by one, first come first served. While one that was woken is on its way, others who come may
/// take the lock for a short time. But each waiter is passed over only once so: if it has come and found the lock
/// taken, whoever has it gives it to this waiter, and nobody else gets it before. So nobody starves, and a lock that is
/// used often for a short time is seldom idle.
///
/// # Panics and cancelling
///
/// A panic while the lock is held gives it back, and the value stays as it is: there is no poisoning. A task that is
/// cancelled or killed while it waits leaves the queue; if the lock was being given to it, it is given on.
pub struct Mutex<T: ?Sized> {
    pub(super) lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by whoever has the lock, one at a time; so it is sent, and never shared.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_unless_model! {
        /// An unlocked mutex around `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex { lock: Lock::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it. A lock that is free is taken also by a task that is cancelled.
    ///
    /// Waits for ever if the caller has the lock already.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Refused> {
        self.lock.lock(None)?;
        Ok(MutexGuard::new(self))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.lock.try_lock().then(|| MutexGuard::new(self))
    }

    /// [`lock_timeout`](Self::lock_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn lock_until(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, WaitError> {
        if self.lock.lock(Some(deadline))? { Ok(MutexGuard::new(self)) } else { Err(WaitError::Timeout) }
    }

    /// Like [`lock`](Mutex::lock), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Mutex::lock), and [`WaitError::Timeout`].
    pub fn lock_timeout(&self, timeout: Duration) -> Result<MutexGuard<'_, T>, WaitError> {
        match self.try_lock() {
            Some(guard) => Ok(guard),
            None => self.lock_until(now() + timeout),
        }
    }

    /// The value, for whoever has the mutex to itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// True while somebody has the lock.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("Mutex").field(&&*value).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

/// The value of a locked [`Mutex`]; gives the lock back when it is dropped.
///
/// It may be sent to another thread and dropped there: the lock does not know who has it.
#[must_use = "the lock is given back at once if the guard is not kept"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// It is as good as this.
    _value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The caller has the lock.
    #[inline]
    pub(super) fn new(mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        MutexGuard { mutex, _value: PhantomData }
    }

    /// The mutex that is locked.
    pub fn mutex(guard: &MutexGuard<'a, T>) -> &'a Mutex<T> {
        guard.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the lock, and lends the value for no longer than it is borrowed itself.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.lock.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
