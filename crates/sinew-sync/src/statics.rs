//! What a `static` may hold: always std's types, also under a model.
//!
//! A model checker rebuilds the world for each execution, which a process-wide singleton would outlive;
//! so nothing that a model explores may rest on these.

pub use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub use std::sync::{Mutex, MutexGuard, Once, OnceLock};
