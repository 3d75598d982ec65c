//! The lock of the channels, and of whatever else waiters queue for: a spin lock, or in a build for a model checker one that the checker knows.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use crate::spin_lock::{SpinGuard as Guard, SpinLock as Lock};

#[cfg(any(loom, shuttle))]
pub(crate) use sinew_sync::{Mutex as Lock, MutexGuard as Guard};
