//! Tasks that block, on a few threads.
//!
//! A [`Runtime`] runs any number of tasks on a fixed number of worker threads. A task is straight code: it calls
//! [`sleep`], [`JoinHandle::join`] or [`yield_now`] from any depth, and its worker runs other tasks meanwhile. There
//! is no `async`, unless you bring a future.
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
//! # Where to start
//!
//! - Run things: [`Runtime`], [`spawn`], [`JoinHandle::join`]; with a name, a stack size, a supervisor: [`task`].
//! - Borrow, and wait for all: [`scope`].
//! - Limit the time: [`timeout`], [`deadline`]; repeat at a period: [`interval`].
//! - Share a value or take turns: [`sync`], whose locks may be held across blocking calls. **Those of std may not.**
//! - Hand items over: [`chan`]; wait for the first of several things: [`select!`].
//! - End a task: [`JoinHandle::cancel`] and [`kill`](JoinHandle::kill); [`shield`](sinew_fiber::shield) and
//!   [`defer`](sinew_fiber::defer) protect a cleanup.
//! - Restart what fails, and continue what stops to ask: [`Events`].
//! - Call what blocks its thread: [`blocking()`]; use files: [`fs`]; run other programs: [`process`];
//!   read what is typed: [`stdin()`]; be told of Ctrl-C and other signals: [`signal`].
//! - Use futures: [`spawn_future`], [`block_on`], [`sleep_async`].
//! - Run a fiber as a task: [`TaskBuilder::spawn_fiber`].
//! - See what a runtime is doing: [`Runtime::dump`], [`Runtime::counters`].
//! - Test what takes time: [`ManualClock`], and [`CurrentThread`] for one step at a time.
//!
//! `docs/scheduler.md` in the repository explains all of it, with the rules and the limits.
//!
//! # How it works
//!
//! A worker's loop runs on a pooled stack, and tasks run inline on it, calls and returns. A task that blocks keeps
//! the stack that it is on, and the worker goes on elsewhere: so work that never blocks costs no switch and owns no
//! stack. Tasks that have not started may be taken by any worker; one that has blocked stays with its worker,
//! since a stack must not change threads in the middle of code that may know its thread.
//!
//! # Reading the code
//!
//! - How tasks share a thread: `core.rs` has the stacks, `worker/cores.rs` the loop, `task.rs` a task and who frees it,
//!   `state.rs` the protocol of parking and waking, `slots.rs` the ids, `turn.rs` tasks that run in turns.
//! - How threads share tasks: `shared.rs` (sleeping and waking workers), `queues.rs`, `placement.rs`, `cpu.rs`.
//! - How they start and end: `runtime.rs`, `current_thread.rs`, `handle.rs`, `spawn.rs`, `join.rs`.
//! - How they wait: `wait.rs` has the protocol, `sync/` the locks, `chan/` the channels, `group.rs`, `case.rs` and
//!   `select.rs` what they have in common; `clock.rs`, `wheel.rs`, `timers.rs`, `countdown.rs` and
//!   `time.rs` deal with time, `future.rs` and `sleep.rs` with futures, `blocking.rs` with calls that block their thread.
//! - What is built on it: `reach.rs` (what is open around the code of a task), `timeout.rs`, `scope.rs`, `events.rs`.
//! - What is seen of it: `notes.rs`, `names.rs`, `counters.rs`, `dump/`.

#![warn(missing_docs)]

mod bell;
mod blocking;
mod case;
pub mod chan;
mod clock;
mod core;
mod countdown;
mod counters;
mod cpu;
mod current_thread;
mod dump;
mod events;
pub mod fd;
pub mod fs;
mod future;
mod group;
mod handle;
mod join;
mod names;
pub mod net;
mod notes;
mod pace;
mod placement;
pub mod process;
mod queues;
mod reach;
mod reactor;
mod ready;
mod runtime;
mod scope;
pub mod select;
mod shared;
pub mod signal;
mod sleep;
mod slots;
mod spawn;
mod state;
mod stdin;
pub mod sync;
mod sysmon;
mod task;
mod time;
mod timeout;
mod timers;
pub mod turn;
mod wait;
mod wheel;
mod worker;

pub use blocking::pool::BlockingDump;
pub use blocking::{BlockingError, ClockHold, blocking, blocking_async, hold_clock};
pub use clock::{ManualClock, now};
#[doc(hidden)]
pub use countdown::Limit;
pub use counters::WorkerCounters;
pub use current_thread::CurrentThread;
pub use dump::{
    Backtraces, Dump, FiberDump, HandleState, TaskDump, TaskState, Wait, WaitKind, WorkerDump, WorkerState,
};
pub use events::{Event, Events, RecvEvent, Told};
pub use future::{block_on, spawn_future};
pub use handle::Handle;
pub use join::JoinHandle;
pub use runtime::{Builder, Runtime};
pub use scope::{Scope, ScopedJoinHandle, ScopedTaskBuilder, scope};
pub use shared::Report;
pub use sinew_core::Instant;
pub use sinew_fiber::{Cancelled, Level, Raised, Reason, Refused, Signal, StackSize};
pub use sleep::{Sleep, sleep_async};
pub use slots::TaskId;
pub use spawn::{TaskBuilder, spawn, task};
pub use stdin::{Lines, Stdin, stdin};
pub use sysmon::{Deadlock, Diagnostic, Frame, Stall, Sysmon};
pub use time::{sleep, sleep_until};
pub use timeout::{Elapsed, Interval, deadline, interval, timeout};
pub use worker::yield_now;
