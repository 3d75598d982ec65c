//! Tasks: functions that block, many on a few threads.
//!
//! - Run tasks: [`Runtime`], [`spawn`], [`JoinHandle`]; with a name, a stack size or a supervisor:
//!   [`task`](fn@task).
//! - Borrow from the caller, and wait for all children: [`scope`].
//! - End a task: [`JoinHandle::cancel`], [`JoinHandle::kill`]. A blocking call in a cancelled task
//!   fails with [`Refused`] or [`Cancelled`]. [`fiber::defer`](crate::fiber::defer) and
//!   [`fiber::shield`](crate::fiber::shield) protect a cleanup.
//! - Learn how tasks end, and answer the ones that stop to ask: [`Events`].
//! - Call code that blocks its thread: [`blocking`].
//! - Use futures: [`spawn_future`], [`block_on`].
//! - Run tasks on the calling thread, one step at a time: [`CurrentThread`].
//!
//! ```
//! use sinew::task::{Runtime, scope, spawn};
//!
//! let runtime = Runtime::new();
//! let total = runtime.run(|| {
//!     let squares: Vec<_> = (1..=3u32).map(|n| spawn(move || n * n)).collect();
//!     let squares: Vec<u32> = squares.into_iter().map(|task| task.join().unwrap()).collect();
//!     scope(|tasks| {
//!         let sum = tasks.spawn(|| squares.iter().sum::<u32>()); // borrows
//!         sum.join().unwrap()
//!     })
//! });
//! assert_eq!(total.unwrap().unwrap(), 14);
//! ```
//!
//! `docs/scheduler.md` in the repository is the guide.

#[doc(inline)]
pub use sinew_io::{BlockingError, blocking, blocking_async};
#[doc(inline)]
pub use sinew_sched::{
    Builder as RuntimeBuilder, CancelLevel, Cancelled, CurrentThread, Event, Events, Handle, JoinFuture,
    JoinHandle, Raised, Reason, RecvEvent, Refused, Report, ReturnError, Runtime, Scope, ScopedJoinHandle,
    ScopedTaskBuilder, Signal, StackSize, SupervisedError, TaskBuilder, TaskId, TellError, block_on, scope,
    spawn, spawn_future, task, tell_supervisor, yield_now,
};
