//! Sinew is an actor runtime: supervised actors and tasks, written as plain blocking code.
//!
//! An [`Actor`](actor::Actor) owns its state and handles one message at a time. It may sleep, read
//! a socket or ask another actor; only that actor waits, and its worker thread runs others. When an
//! actor panics, its supervisor restarts it. Under the actors are tasks, and under the tasks are
//! fibers; both can be used without actors. There is no `async` unless you bring a future.
//!
//! ```
//! use sinew::prelude::*;
//!
//! struct Counter(u64);
//!
//! impl Actor for Counter {
//!     type Msg = (u64, Reply<u64>);
//!
//!     fn handle(&mut self, (amount, reply): Self::Msg, _: &mut Ctx<Self::Msg>) -> Flow {
//!         self.0 += amount;
//!         reply.send(self.0);
//!         Flow::Continue
//!     }
//! }
//!
//! let node = Node::new();
//! let counter = node.spawn(Counter(40)).unwrap();
//! assert_eq!(counter.ask(|reply| (2, reply)).unwrap(), 42);
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`prelude`] | the names that most programs use |
//! | [`actor`] | actors, nodes, supervision, links, monitors, names, groups, timers |
//! | [`store`] | state of actors that survives restarts of the process |
//! | [`log`] | the log of a node |
//! | [`task`] | runtimes, tasks, scopes, cancellation, blocking calls, futures |
//! | [`time`] | sleeping, timeouts, intervals, clocks for tests |
//! | [`chan`] | channels and pools |
//! | [`select`](mod@select) | [`select!`], which waits for the first of several operations, and its cases |
//! | [`sync`] | locks that may be held across blocking calls |
//! | [`net`] | TCP, UDP and Unix sockets |
//! | [`fs`] | files and directories |
//! | [`io`] | standard input, and telling a cancelled call from a failed one |
//! | [`process`] | child processes |
//! | [`signal`] | signals of the operating system |
//! | [`fd`] | readiness of any file descriptor |
//! | [`fiber`] | fibers, generators, recoverable errors, cleanup |
//! | [`diagnostics`] | snapshots, dumps, counters, stall and deadlock reports, memory |
//!
//! `net`, `fs`, `process`, `sync` and `time` use std's names and signatures where std has them.
//! **Use them in actors and tasks instead of std's**: a blocking call of std blocks the worker
//! thread and all other tasks on it.
//!
//! # Where to read on
//!
//! The repository has guides in `docs/`: `actors.md`, `scheduler.md` for tasks, `channels.md`,
//! `network.md`, `fibers.md` and `operations.md`. `semantics.md` is the contract of the actors, each
//! sentence with its test. `crates/sinew/examples` has whole programs.
//!
//! This crate only re-exports. The items are defined in `sinew-kernel` (actors), `sinew-io`,
//! `sinew-chan`, `sinew-sched` (tasks), `sinew-fiber` and `sinew-core`, and the examples on their
//! pages name those crates; programs need only this one.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `hyper`: adapters for hyper 1 in [`net::compat`].
//! - `futures-io`: `AsyncRead` and `AsyncWrite` for the streams of [`net`].
//! - `tracing`: connects the [`log`] of a node with the crate `tracing`.

#![forbid(unsafe_code)]

pub mod actor;
pub mod chan;
pub mod diagnostics;
pub mod fd;
pub mod fiber;
pub mod fs;
pub mod io;
pub mod log;
pub mod net;
pub mod prelude;
pub mod process;
pub mod signal;
pub mod store;
pub mod sync;
pub mod task;
pub mod time;

/// The macro waits for the first of several operations; the module has its cases.
///
/// ```
/// use std::time::Duration;
///
/// use sinew::select::{recv, sleep};
/// use sinew::task::{Runtime, spawn};
/// use sinew::{chan, select};
///
/// let word = Runtime::new().run(|| {
///     let (sender, receiver) = chan::bounded(1);
///     spawn(move || sender.send("hello")).detach();
///     select! {
///         word = recv(&receiver) => word.unwrap(),
///         _ = sleep(Duration::from_secs(60)) => "nothing came",
///     }
/// });
/// assert_eq!(word.unwrap().unwrap(), "hello");
/// ```
#[doc(inline)]
pub use sinew_chan::select; // both: a `use` imports a name from every namespace
