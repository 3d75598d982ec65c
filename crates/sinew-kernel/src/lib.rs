//! Sinew's actor kernel: a node of actors that block, crash and are restarted.
//!
//! An [`Actor`] has a state and handles messages one at a time. Its methods are straight code: they sleep, read sockets and ask
//! other actors, and only that actor waits. A [`Node`] runs any number of them on a few threads.
//!
//! ```
//! use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
//!
//! struct Greeter;
//!
//! impl Actor for Greeter {
//!     type Msg = (&'static str, Reply<String>);
//!
//!     fn handle(&mut self, (name, reply): Self::Msg, _: &mut Ctx<Self::Msg>) -> Flow {
//!         reply.send(format!("hello, {name}"));
//!         Flow::Continue
//!     }
//! }
//!
//! let node = Node::new();
//! let greeter = node.spawn(Greeter).unwrap();
//! assert_eq!(greeter.ask(|reply| ("world", reply)).unwrap(), "hello, world");
//! ```
//!
//! A [`Supervisor`] starts actors again that have failed.
//!
//! `docs/semantics.md` in the repository is the contract: ordering, delivery, overflow, exits, supervision, sentence by sentence.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod actor;
mod actor_ref;
mod ask;
mod books;
mod bus;
mod cell;
mod ctx;
mod dead;
mod end;
mod error;
mod event;
mod failure;
mod groups;
mod inspect;
mod limits;
mod log;
mod mailbox;
mod message;
#[cfg(all(test, not(loom)))]
#[path = "tests/models.rs"]
mod models;
mod names;
mod node;
mod notice;
mod process;
mod router;
mod run;
mod services;
mod spawn;
mod stop;
pub mod store;
mod supervisor;
mod table;
mod timer;
mod timers;
mod watch;
mod zombies;

pub use actor::{Actor, Flow};
pub use actor_ref::ActorRef;
pub use ask::Reply;
pub use ctx::Ctx;
pub use dead::{DeadLetter, Why};
pub use error::{AskError, JoinError, LookupError, RegisterError, SendError, SpawnError, Unsent};
pub use event::{Exit, MonitorId, Relation};
pub use groups::{Group, Sent};
pub use inspect::{ActorInfo, ActorState, Blocked, Snapshot, Stage, Totals, Tree};
#[cfg(feature = "tracing")]
pub use log::LogSubscriber;
pub use log::{LevelFilter, Logger};
pub use mailbox::Policy;
pub use message::{Message, Payload};
pub use node::{Builder, Lifecycle, LocalNode, Node, NodeRef};
pub use process::{Process, Received};
pub use sinew_core::{
    ActorId, Backoff, ExitReason, Failure, Kind, Level, NameError, NodeId, Resolved, Restart, Strategy,
};
pub use sinew_sched::fd::Interest;
pub use sinew_sched::{Wait, WaitKind};
pub use spawn::Spawn;
pub use supervisor::{
    ChildCounts, ChildInfo, ChildSpec, ChildState, Supervisor, SupervisorError, SupervisorRef,
};
pub use timer::{TimerError, TimerId};
pub use watch::WatchError;
