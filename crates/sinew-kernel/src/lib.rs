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

mod actor;
mod actor_ref;
mod ask;
mod blocked_send;
mod books;
mod bus;
mod cell;
mod clock;
mod ctx;
mod dead;
mod end;
mod error;
mod event;
mod failure;
mod groups;
mod identity;
mod inspect;
mod lifecycle;
mod limits;
mod links;
mod log;
mod logger;
mod mailbox;
mod membership;
mod message;
#[cfg(all(test, not(loom)))]
#[path = "tests/models.rs"]
mod models;
mod named;
mod names;
mod namespace;
mod node;
mod node_ref;
mod notice;
mod overdue;
mod patience;
mod polled;
mod process;
mod registry;
mod route;
mod router;
mod run;
mod save;
mod service;
mod services;
mod shared;
mod spawn;
mod start;
mod stop;
pub mod store;
mod stream;
mod supervisor;
mod table;
mod timer;
mod timers;
pub mod waits;
mod watch;
mod zombies;

/// What crates above build actors on that are not native. Not part of the public API: it changes
/// without notice.
#[doc(hidden)]
pub mod raw {
    pub use crate::polled::Inbox;
}

pub use actor::{Actor, Flow, HandlerError};
pub use actor_ref::ActorRef;
pub use ask::Reply;
pub use ctx::Ctx;
pub use dead::{DeadLetter, DeadLetterReason};
pub use error::{AskError, JoinError, LookupError, RegisterError, SendError, SpawnError, Unsent};
pub use event::{Exit, MonitorId, Relation};
pub use groups::Group;
pub use inspect::{ActorInfo, ActorState, Blocked, LifecycleStage, Snapshot, Totals, Tree};
pub use lifecycle::Lifecycle;
pub use log::LevelFilter;
#[cfg(feature = "tracing")]
pub use log::LogSubscriber;
pub use logger::Logger;
pub use mailbox::Policy;
pub use message::{Message, Payload};
pub use named::NamedRef;
pub use node::{Builder, LocalNode, Node};
pub use process::{Process, Received};
pub use shared::NodeRef;
pub use sinew_core::{
    ActorId, Backoff, ExitReason, Failure, Identity, Kind, Level, NameError, NodeId, Resolved, Restart,
    Strategy,
};
pub use sinew_io::fd::Interest;
pub use sinew_sched::{Wait, WaitKind};
pub use spawn::ActorBuilder;
pub use stream::SendCounts;
pub use supervisor::{
    ChildCounts, ChildInfo, ChildSpec, ChildState, Supervisor, SupervisorError, SupervisorRef,
};
pub use timer::TimerError;
pub use timers::TimerId;
pub use watch::WatchError;
