//! Locks without poisoning, over whichever library the build chose.

use crate::chosen::sync;
use crate::const_unless_model;

/// A mutual exclusion lock; [`std::sync::Mutex`] without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// What [`Mutex::lock`] returns.
pub type MutexGuard<'a, T> = sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    const_unless_model! {
        /// An unlocked mutex around `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(sync::Mutex::new(value))
        }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// A reader-writer lock; [`std::sync::RwLock`] without poisoning.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

/// What [`RwLock::read`] returns.
pub type RwLockReadGuard<'a, T> = sync::RwLockReadGuard<'a, T>;

/// What [`RwLock::write`] returns.
pub type RwLockWriteGuard<'a, T> = sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits for a share of the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the whole lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
