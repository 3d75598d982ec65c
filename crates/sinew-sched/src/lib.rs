//! Tasks that block, on a few threads.
//!
//! A [`Runtime`] runs any number of tasks on a fixed number of worker threads. A task is straight code: it calls
//! [`sleep`], [`JoinHandle::join`] or [`yield_now`] from any depth, and its worker runs other tasks meanwhile. There
//! is no `async`.
//!
//! ```
//! use sinew_sched::{Runtime, spawn};
//!
//! let runtime = Runtime::new();
//! let sum = runtime.run(|| {
//!     let parts: Vec<_> = (0..100u64).map(|n| spawn(move || n * n)).collect();
//!     parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
//! });
//! assert_eq!(sum.unwrap(), 328_350);
//! ```
//!
//! # How it works
//!
//! A worker's loop runs on a pooled stack, and tasks run inline on it, calls and returns. A task that blocks keeps
//! the stack that it is on, and the worker goes on elsewhere: so work that never blocks costs no switch and owns no
//! stack. Tasks that have not started may be taken by any worker; one that has blocked stays with its worker,
//! since a stack must not change threads in the middle of code that may know its thread.
//!
//! `core.rs` has the stacks, `worker.rs` the loop, `state.rs` the protocol of parking and waking, `shared.rs` that of
//! sleeping and waking workers, `join.rs` that of a task's end, `wait.rs` that of all other waits; [`sync`] has locks.

#![warn(missing_docs)]

mod clock;
mod core;
mod future;
mod join;
mod runtime;
mod shared;
mod sleep;
mod slots;
mod spawn;
mod state;
pub mod sync;
mod task;
mod time;
mod timers;
mod wait;
mod wheel;
mod worker;

pub use clock::{ManualClock, now};
pub use future::{block_on, spawn_future};
pub use join::JoinHandle;
pub use runtime::{Builder, Report, Runtime};
pub use sinew_core::Instant;
pub use sleep::{Sleep, sleep_async};
pub use slots::TaskId;
pub use spawn::{TaskBuilder, spawn, task};
pub use time::{sleep, sleep_until};
pub use worker::yield_now;
