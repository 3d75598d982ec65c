//! Locks and permits, as cases of a select.

use std::cell::Cell;
use std::fmt;

use sinew_sched::WaitKind;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, What};

use super::lock::Lock;
use super::permits::Permits;
use super::rwlock::{READER, WRITER};
use super::{Mutex, MutexGuard, Permit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore};

/// A lock, or permits, that a select waits for: see [`select::lock`](crate::select::lock).
pub struct Acquire<'a, M: ?Sized, G> {
    from: &'a M,
    wanted: Wanted<'a>,
    kind: WaitKind,
    guard: fn(&'a M, usize) -> G,
    /// It has what it wants, and has not given it yet.
    has: Cell<bool>,
}

#[derive(Clone, Copy)]
enum Wanted<'a> {
    Lock(&'a Lock),
    Permits(&'a Permits, usize),
}

/// Locks `mutex`. Gives the guard.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> Acquire<'_, Mutex<T>, MutexGuard<'_, T>> {
    Acquire::new(mutex, WaitKind::Mutex, Wanted::Lock(&mutex.lock), |mutex, _| MutexGuard::new(mutex))
}

/// Takes a share of `lock`. Gives the guard.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> Acquire<'_, RwLock<T>, RwLockReadGuard<'_, T>> {
    Acquire::new(lock, WaitKind::RwLockRead, Wanted::Permits(&lock.permits, READER), |lock, _| {
        RwLockReadGuard::new(lock)
    })
}

/// Takes the whole of `lock`. Gives the guard.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> Acquire<'_, RwLock<T>, RwLockWriteGuard<'_, T>> {
    Acquire::new(lock, WaitKind::RwLockWrite, Wanted::Permits(&lock.permits, WRITER), |lock, _| {
        RwLockWriteGuard::new(lock)
    })
}

/// Takes so many permits of `semaphore`. Gives them.
pub fn acquire(semaphore: &Semaphore, count: usize) -> Acquire<'_, Semaphore, Permit<'_>> {
    let wanted = Wanted::Permits(&semaphore.permits, count);
    Acquire::new(semaphore, WaitKind::Semaphore, wanted, |semaphore, count| Permit { semaphore, count })
}

impl<'a, M: ?Sized, G> Acquire<'a, M, G> {
    fn new(
        from: &'a M,
        kind: WaitKind,
        wanted: Wanted<'a>,
        guard: fn(&'a M, usize) -> G,
    ) -> Acquire<'a, M, G> {
        Acquire { from, wanted, kind, guard, has: Cell::new(false) }
    }
}

impl<M: ?Sized, G> Awaited for Acquire<'_, M, G> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which is with what is wanted.
        unsafe {
            match self.wanted {
                Wanted::Lock(lock) => lock.withdraw(node),
                Wanted::Permits(permits, _) => permits.withdraw(node),
            }
        }
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: as in `withdraw`.
        unsafe {
            match self.wanted {
                Wanted::Lock(lock) => lock.hand_on(node),
                Wanted::Permits(permits, _) => permits.hand_on(node),
            }
        }
    }
}

impl<M: ?Sized, G> Attempt for Acquire<'_, M, G> {
    fn attempt(&self) -> bool {
        let has = match self.wanted {
            Wanted::Lock(lock) => lock.try_lock(),
            Wanted::Permits(permits, count) => permits.try_acquire(count),
        };
        self.has.set(has);
        has
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        let enrolled = unsafe {
            match self.wanted {
                Wanted::Lock(lock) => lock.enroll(node),
                Wanted::Permits(permits, count) => permits.enroll(count, node),
            }
        };
        self.has.set(enrolled == Enrolled::Done);
        enrolled
    }

    fn what(&self) -> What {
        match self.wanted {
            Wanted::Lock(lock) => What::at(self.kind, lock),
            Wanted::Permits(permits, _) => What::at(self.kind, permits),
        }
    }

    /// Who waits for several things is told when it has what it wants.
    unsafe fn settle(&self, _: &Node) -> bool {
        self.has.set(true);
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        match self.wanted {
            Wanted::Lock(lock) => lock.under_lock(change),
            Wanted::Permits(permits, _) => permits.under_lock(change),
        }
    }
}

impl<'a, M: ?Sized, G> Case for Acquire<'a, M, G> {
    type Output = G;

    fn output(self) -> G {
        assert!(self.has.replace(false), "a case gives a guard when it has happened");
        let count = match self.wanted {
            Wanted::Lock(_) => 1,
            Wanted::Permits(_, count) => count,
        };
        (self.guard)(self.from, count)
    }
}

/// One that has happened, and whose guard nobody has taken, gives back what it has.
impl<M: ?Sized, G> Drop for Acquire<'_, M, G> {
    fn drop(&mut self) {
        match self.wanted {
            _ if !self.has.get() => (),
            Wanted::Lock(lock) => lock.unlock(),
            Wanted::Permits(permits, count) => permits.release(count),
        }
    }
}

impl<M: ?Sized, G> fmt::Debug for Acquire<'_, M, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
