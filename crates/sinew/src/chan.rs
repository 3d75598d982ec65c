//! Channels and pools for tasks, threads and futures.
//!
//! | to | use |
//! |---|---|
//! | hand over one item at a time, when it is taken | [`rendezvous`] |
//! | let senders run ahead by a number of items | [`bounded`], or [`spsc`] between two ends |
//! | let senders run ahead by a number of bytes, or another weight | [`weighted`] |
//! | hand over one value, once | [`oneshot`] |
//! | run tasks in parallel and receive their results in order | [`ordered`] |
//! | let every receiver see every item | [`broadcast`] |
//! | share a few items that are expensive to create | [`Pool`] |
//!
//! ```
//! use sinew::chan;
//! use sinew::task::{Runtime, spawn};
//!
//! let sum = Runtime::new().run(|| {
//!     let (sender, receiver) = chan::bounded(2);
//!     spawn(move || (1..=4).try_for_each(|number| sender.send(number))).detach();
//!     receiver.iter().sum::<u32>() // ends when the sender is dropped
//! });
//! assert_eq!(sum.unwrap(), 10);
//! ```
//!
//! `docs/channels.md` in the repository is the guide, with tables of how a channel ends.

#[doc(inline)]
pub use sinew_chan::chan::{
    Async, CloseError, Displaced, IntoIter, Iter, Many, One, Pool, PoolBuilder, Pooled, Receiver, RecvCase,
    RecvError, SendCase, SendError, SendOne, Sender, Sending, TakeCase, TakeError, TryIter, Unsent, bounded,
    broadcast, oneshot, ordered, rendezvous, spsc, weighted,
};
