//! What a running program does: its actors, tasks, threads and memory.
//!
//! | to see | use |
//! |---|---|
//! | actors, their mailboxes and what they wait for | [`Node::snapshot`], [`Snapshot`] |
//! | tasks and workers | [`Runtime::dump`], [`Dump`] |
//! | what workers have done | [`Runtime::counters`], [`WorkerCounters`] |
//! | tasks that keep their worker, and deadlocks | [`Sysmon`], [`Diagnostic`] |
//! | the memory of stacks | [`usage`], [`trim`] |
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew::actor::{Flow, Node};
//! use sinew::diagnostics::ActorState;
//!
//! let node = Node::new();
//! let actor = node.actor().name("quiet").spawn_raw((), |_, _, _| Flow::Continue)?;
//! let idle = (0..1000).any(|_| {
//!     std::thread::sleep(Duration::from_millis(1));
//!     node.snapshot().actors.iter().any(|info| info.state == ActorState::Idle)
//! });
//! assert!(idle);
//! println!("{}", node.snapshot()); // a table of all actors
//! # drop(actor);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/operations.md` in the repository is the guide.
//!
//! [`Node::snapshot`]: crate::actor::NodeRef::snapshot
//! [`Runtime::dump`]: crate::task::Runtime::dump
//! [`Runtime::counters`]: crate::task::Runtime::counters

#[doc(inline)]
pub use sinew_fiber::{Usage, usage};
#[doc(inline)]
pub use sinew_kernel::{ActorInfo, ActorState, Blocked, LifecycleStage, Snapshot, Totals, Tree, waits};
#[doc(inline)]
pub use sinew_sched::{
    Backtraces, BlockingDump, Deadlock, Diagnostic, Dump, FiberDump, Frame, HandleState, Stall, Sysmon,
    TaskDump, TaskState, Wait, WaitKind, WorkerCounters, WorkerDump, WorkerState, lost_reports, trim,
};
