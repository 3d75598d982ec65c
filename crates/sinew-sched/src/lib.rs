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
//! Channels, select and locks are in `sinew-chan`; sockets, files, processes, signals and calls that block their thread
//! are in `sinew-io`. Programs depend on the crate `sinew`, which has all of it.
//!
//! # Where to start
//!
//! - Run things: [`Runtime`], [`spawn`], [`JoinHandle::join`]; with a name, a stack size, a supervisor: [`task`].
//! - Borrow, and wait for all: [`scope`].
//! - Limit the time: [`timeout`], [`deadline`]; repeat at a period: [`interval`].
//! - End a task: [`JoinHandle::cancel`] and [`kill`](JoinHandle::kill); [`shield`](sinew_fiber::shield) and
//!   [`defer`](sinew_fiber::defer) protect a cleanup.
//! - Restart what fails, and continue what stops to ask: [`Events`].
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
//! stack. Tasks that have not started may be taken by any worker; a task that has blocked stays with its worker,
//! since a stack must not change threads in the middle of code that may know its thread.
//!
//! `ARCHITECTURE.md` in the repository lists the files, in the order in which to read them, and the layers that they form.

mod backtrace_request;
mod bell;
mod blocked;
mod blocking;
mod capture;
mod case;
mod children;
mod clock;
mod core;
mod countdown;
mod counters;
mod cpu;
mod current_thread;
mod dump;
mod events;
mod failure;
mod future;
mod group;
mod handle;
mod join;
mod names;
mod notes;
mod options;
#[doc(hidden)]
pub mod os_signal;
mod pace;
mod placement;
mod queues;
#[doc(hidden)]
pub mod raw;
mod reach;
mod reactor;
mod ready;
mod returned;
mod runtime;
mod scope;
mod shared;
mod sleep;
mod slots;
mod spawn;
mod state;
mod sysmon;
mod task;
mod task_id;
mod thunk;
mod time;
mod timeout;
mod timers;
#[doc(hidden)]
pub mod turn;
mod wait;
mod wait_error;
mod wait_kind;
mod waker;
mod wheel;
mod worker;

pub use blocking::pool::BlockingDump;
pub use blocking::{ClockHold, hold_clock};
pub use clock::{ManualClock, now};
pub use counters::WorkerCounters;
pub use current_thread::CurrentThread;
pub use dump::{
    Backtraces, Dump, FiberDump, HandleState, TaskDump, TaskState, Wait, WorkerDump, WorkerState,
};
pub use events::{Event, Events, RecvEvent, TellError, tell_supervisor};
pub use failure::SupervisedError;
pub use future::{block_on, spawn_future};
pub use handle::Handle;
pub use join::{JoinFuture, JoinHandle};
pub use returned::ReturnError;
pub use runtime::{Builder, Runtime};
pub use scope::{Scope, ScopedJoinHandle, ScopedTaskBuilder, scope};
pub use shared::Report;
pub use sinew_core::Instant;
pub use sinew_fiber::{
    CancelLevel, Cancelled, Raised, Reason, Refused, Signal, StackSize, lost_reports, trim,
};
pub use sleep::{Sleep, sleep_async};
pub use spawn::{TaskBuilder, spawn, task};
pub use sysmon::{Deadlock, Diagnostic, Frame, Stall, Sysmon};
pub use task_id::TaskId;
pub use time::{sleep, sleep_until};
pub use timeout::{Elapsed, Interval, deadline, interval, timeout};
pub use wait_error::WaitError;
pub use wait_kind::WaitKind;
pub use worker::yield_now;
