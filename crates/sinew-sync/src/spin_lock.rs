//! A lock for a few instructions: one compare-and-swap to take it, one store to give it back.
//!
//! Whoever finds it taken pauses for longer and longer, then lets other threads run, since the holder may be one that
//! does not. Only code of ours runs while it is held, none that waits, allocates without need, or calls back.
//!
//! Taking it acquires, giving it back releases.
//!
//! In a build for a model checker [`ShortLock`](crate::ShortLock) is a lock that the checker knows, which explores less; this one
//! has a model of its own: `spin_lock_excludes`.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::atomic::{AtomicBool, Ordering};
use crate::{hint, thread};

/// The longest pause between two looks, in spins. After it the thread yields.
const LONGEST: u32 = 256;

/// A lock for a few instructions.
#[repr(C)]
pub struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, whoever has the lock.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> SpinLock<T> {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        if !self.take() {
            self.wait();
        }
        SpinGuard { lock: self }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut pause = 8;
        loop {
            if pause <= LONGEST && !crate::MODEL {
                (0..pause).for_each(|_| hint::spin_loop());
                pause *= 2;
            } else {
                thread::yield_now();
            }
            if !self.locked.load(Ordering::Relaxed) && self.take() {
                return;
            }
        }
    }
}

/// What [`SpinLock::lock`] returns.
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: whoever has the guard has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::atomic::AtomicUsize;
    use crate::{Arc, model};

    use super::*;

    #[test]
    fn two_who_count_under_a_spin_lock_lose_nothing() {
        model("spin_lock_excludes", || {
            // The count is an atomic so that what the lock itself orders is all that there is.
            let lock = Arc::new(SpinLock::new(()));
            let count = Arc::new(AtomicUsize::new(0));
            let counts = move |lock: &SpinLock<()>, count: &AtomicUsize| {
                let _held = lock.lock();
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            };
            let other = {
                let (lock, count) = (lock.clone(), count.clone());
                thread::spawn(move || counts(&lock, &count))
            };
            counts(&lock, &count);
            other.join().unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 2);
        });
    }
}
