//! Permits that are taken and given back.

use std::fmt;
use std::mem;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::{WaitError, WaitKind, now};
use sinew_sync::const_unless_model;

use super::permits::{Acquired, MOST, Permits};

/// So many permits, of which tasks and threads take some and give them back: a limit on how many do something at once.
///
/// ```
/// use std::sync::Arc;
///
/// use sinew_chan::sync::Semaphore;
/// use sinew_sched::{Runtime, spawn, yield_now};
///
/// let runtime = Runtime::new();
/// runtime.run(|| {
///     let connections = Arc::new(Semaphore::new(2));
///     let tasks: Vec<_> = (0..10)
///         .map(|_| {
///             let connections = connections.clone();
///             spawn(move || {
///                 let _permit = connections.acquire(1).unwrap();
///                 yield_now(); // at most two are here
///             })
///         })
///         .collect();
///     tasks.into_iter().for_each(|task| task.join().unwrap());
///     assert_eq!(connections.available(), 2);
/// }).unwrap();
/// ```
///
/// # Who is next
///
/// Strictly first come first served: while somebody waits, nobody passes, also not who wants less. So a large request
/// gets its permits, and the small ones behind it wait with it.
pub struct Semaphore {
    pub(super) permits: Permits,
}

impl Semaphore {
    /// The most permits that a semaphore can have.
    pub const MAX_PERMITS: usize = MOST;

    const_unless_model! {
        /// A semaphore with so many permits.
        ///
        /// # Panics
        ///
        /// If they are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
        pub const fn new(permits: usize) -> Semaphore {
            Semaphore { permits: Permits::new(permits) }
        }
    }

    /// Waits for so many permits and takes them all at once. Permits that are there are taken also by a task that is
    /// cancelled.
    ///
    /// Who asks for more than there are waits until somebody [adds](Semaphore::add_permits) some.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    #[inline]
    pub fn acquire(&self, count: usize) -> Result<Permit<'_>, Refused> {
        self.permits.acquire(count, None, WaitKind::Semaphore)?;
        Ok(Permit { semaphore: self, count })
    }

    /// Takes so many permits if there are, and nobody waits.
    #[inline]
    pub fn try_acquire(&self, count: usize) -> Option<Permit<'_>> {
        self.permits.try_acquire(count).then(|| Permit { semaphore: self, count })
    }

    /// [`acquire_timeout`](Self::acquire_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn acquire_until(&self, count: usize, deadline: Instant) -> Result<Permit<'_>, WaitError> {
        let acquired = self.permits.acquire(count, Some(deadline), WaitKind::Semaphore)?;
        if acquired == Acquired::Granted {
            Ok(Permit { semaphore: self, count })
        } else {
            Err(WaitError::Timeout)
        }
    }

    /// Like [`acquire`](Semaphore::acquire), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Semaphore::acquire), and [`WaitError::Timeout`].
    pub fn acquire_timeout(&self, count: usize, timeout: Duration) -> Result<Permit<'_>, WaitError> {
        self.acquire_until(count, now() + timeout)
    }

    /// Adds permits.
    ///
    /// # Panics
    ///
    /// If there are then more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    pub fn add_permits(&self, count: usize) {
        let most = MOST.checked_sub(self.available());
        assert!(most.is_some_and(|most| count <= most), "a semaphore has at most {MOST} permits");
        self.permits.release(count);
    }

    /// How many permits there are to take now.
    pub fn available(&self) -> usize {
        self.permits.available()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}

/// Permits that were taken from a [`Semaphore`], which gets them back when this is dropped.
#[must_use = "permits are given back at once if they are not kept"]
#[derive(Debug)]
pub struct Permit<'a> {
    pub(super) semaphore: &'a Semaphore,
    pub(super) count: usize,
}

impl Permit<'_> {
    /// How many they are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Does not give them back. Who wants to give them back later, or from elsewhere, does so by
    /// [`Semaphore::add_permits`].
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.permits.release(self.count);
    }
}
