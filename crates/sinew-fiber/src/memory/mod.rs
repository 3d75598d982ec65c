//! Memory for stacks and for linear memories: few mappings, many slots, each with a guard.
//!
//! A mapping for each stack ends at `vm.max_map_count`, some 32,000 stacks. So slots are cut from large
//! mappings, and guards are markers in the page tables. From the system upwards:
//!
//! - [`sys`]: the system calls;
//! - [`slab`]: one mapping cut into slots of one shape, and their guards;
//! - [`pool`]: the free slots of one shape, shared by all threads;
//! - [`registry`]: which pools there are; [`usage`] and [`trim`] walk over them;
//! - [`idle`]: after which time, and how much at once, [`trim_idle`] gives back;
//! - [`cache`]: a few free slots of the standard stack sizes for each thread, without a lock;
//! - [`stack`] and [`linear`]: what owns a slot and gives it back, [`Stack`] and [`Memory`].
//!
//! `valgrind` is in builds for that tool only and tells it where stacks lie.
//!
//! A take goes down this list as far as it has to (cache, pool, slab, system) and a drop comes back up to
//! the cache. Nothing is unmapped while the process lives; [`trim`] and [`trim_idle`] give back the pages of what idles.

pub(crate) mod cache;
mod error;
mod idle;
mod linear;
mod pool;
mod registry;
mod slab;
mod stack;
pub(crate) mod sys;
#[cfg(valgrind)]
mod valgrind;

pub use error::StackError;
pub use idle::Idle;
pub use linear::Memory;
pub use registry::{Usage, tell_of_trims_by, trim, trim_idle, usage};
pub use slab::GuardKind;
pub use stack::{Stack, StackSize};
