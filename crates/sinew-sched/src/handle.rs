//! A runtime by reference.

use std::fmt;

use crate::current_thread::CurrentThread;
use crate::dump::{Backtraces, Dump};
use crate::future::spawn_future_on;
use crate::join::JoinHandle;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::spawn::{Options, TaskBuilder, spawn_on};
use crate::worker;

/// A runtime by reference: starts tasks on it from any thread, for as long as it lives. Afterwards they start cancelled.
#[derive(Clone, Copy)]
pub struct Handle(pub(crate) &'static Shared);

impl Handle {
    /// The runtime that runs the caller.
    pub fn current() -> Option<Handle> {
        worker::current().map(|worker| Handle(worker.shared))
    }

    /// Starts a task.
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn_on(self.0, body)
    }

    /// Starts a task that polls `future`.
    #[track_caller]
    pub fn spawn_future<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        spawn_future_on(self.0, future)
    }

    /// The options of a task.
    pub fn task(self) -> TaskBuilder {
        TaskBuilder { shared: self.0, options: Options::default() }
    }

    /// The time on the runtime's clock.
    pub fn now(self) -> sinew_core::Instant {
        self.0.clock.now()
    }

    /// What the system's clock says, or said, when the runtime's [`now`](Handle::now) is `at`. A
    /// [manual clock](crate::ManualClock) begins at the Unix epoch.
    pub fn wall_clock(self, at: sinew_core::Instant) -> std::time::SystemTime {
        self.0.clock.wall(at)
    }

    /// One task of the runtime, if it has not ended, as [`Runtime::dump`] has it, but for its name.
    pub fn dump_task(self, task: crate::TaskId) -> Option<crate::TaskDump> {
        self.0.dump_task(task)
    }

    /// What the runtime is doing, as [`Runtime::dump`] has it.
    pub fn dump(self) -> Dump {
        self.0.dump()
    }

    /// The same with backtraces, as [`Runtime::dump_with`] has it.
    pub fn dump_with(self, backtraces: Backtraces) -> Dump {
        self.0.dump_with(backtraces, None)
    }
}

impl Runtime {
    /// The runtime by reference.
    pub fn handle(&self) -> Handle {
        Handle(self.shared)
    }
}

impl CurrentThread {
    /// The runtime by reference.
    pub fn handle(&self) -> Handle {
        Handle(self.shared)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
