//! Channels, select and locks, for tasks, threads and futures alike.
//!
//! - [`chan`]: channels of exact capacity, of one value, of bytes, for all receivers, of tasks' results, and pools.
//! - [`select!`] and [`select`](mod@select): wait for the first of several operations.
//! - [`sync`]: locks that may be held across blocking calls. **Those of std may not.**
//!
//! ```
//! use sinew_chan::chan;
//! use sinew_sched::{Runtime, spawn};
//!
//! let sum = Runtime::new().run(|| {
//!     let (sender, receiver) = chan::bounded(2);
//!     spawn(move || (1..=4).try_for_each(|number| sender.send(number))).detach();
//!     receiver.iter().sum::<u32>()
//! });
//! assert_eq!(sum.unwrap(), 10);
//! ```
//!
//! `docs/channels.md` in the repository has the tables of what each side of a channel sees.
//!
//! # Layers
//!
//! `select` is built on `chan` and `sync`, which do not know of each other; `source` is below them. All are built on the
//! wait objects of `sinew-sched` (its hidden module `raw`).

pub mod chan;
pub mod select;
mod source;
pub mod sync;

#[doc(hidden)]
pub use sinew_fiber::Refused; // for the expansion of `select!`
