//! A runtime by reference.

use std::fmt;

use crate::children::cancelled;
use crate::clock::{Clock, manual_wall, system_now, system_wall};
use crate::current_thread::CurrentThread;
use crate::dump::{Backtraces, Dump};
use crate::future::spawn_future_on;
use crate::join::JoinHandle;
use crate::options::{Options, over};
use crate::shared::{RuntimeId, Shared};
use crate::spawn::{TaskBuilder, spawn_on};
use crate::worker;

/// A runtime by reference: starts tasks on it from any thread, for as long as it lives. Afterwards they start cancelled.
///
/// A handle does not keep the memory of a runtime that has ended.
#[derive(Clone, Copy)]
pub struct Handle {
    pub(crate) runtime: RuntimeId,
    /// The runtime's clock is a [manual](crate::ManualClock) one.
    is_manual: bool,
}

impl Handle {
    /// The runtime that runs the caller.
    pub fn current() -> Option<Handle> {
        worker::current().map(|worker| Handle::of(worker.shared))
    }

    pub(crate) fn of(shared: &Shared) -> Handle {
        Handle { runtime: shared.id, is_manual: matches!(shared.clock, Clock::Manual(_)) }
    }

    /// Starts a task.
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.runtime.upgrade() {
            Some(shared) => spawn_on(shared.get(), body),
            None => {
                drop(body);
                over(cancelled())
            }
        }
    }

    /// Starts a task that polls `future`.
    #[track_caller]
    pub fn spawn_future<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match self.runtime.upgrade() {
            Some(shared) => spawn_future_on(shared.get(), future),
            None => {
                drop(future);
                over(cancelled())
            }
        }
    }

    /// The options of a task.
    pub fn task(self) -> TaskBuilder {
        TaskBuilder { runtime: self.runtime, options: Options::default() }
    }

    /// The time on the runtime's clock. When a runtime with a manual clock is gone, this is a time at or
    /// after its end, which stands still until a later runtime ends.
    pub fn now(self) -> sinew_core::Instant {
        if !self.is_manual {
            return system_now();
        }
        self.runtime.upgrade().map_or_else(|| self.runtime.ended_at(), |shared| shared.clock.now())
    }

    /// What the system's clock says, or said, when the runtime's [`now`](Handle::now) is `at`. A
    /// [manual clock](crate::ManualClock) begins at the Unix epoch.
    pub fn wall_clock(self, at: sinew_core::Instant) -> std::time::SystemTime {
        if self.is_manual { manual_wall(at) } else { system_wall(at) }
    }

    /// One task of the runtime, if it has not ended, as [`Runtime::dump`](crate::Runtime::dump) has it, but for its name.
    pub fn dump_task(self, task: crate::TaskId) -> Option<crate::TaskDump> {
        self.runtime.upgrade()?.dump_task(task)
    }

    /// What the runtime is doing, as [`Runtime::dump`](crate::Runtime::dump) has it. Empty once the runtime is gone.
    pub fn dump(self) -> Dump {
        self.runtime.upgrade().map_or_else(|| Dump::of_none(self.now()), |shared| shared.dump())
    }

    /// The same with backtraces, as [`Runtime::dump_with`](crate::Runtime::dump_with) has it.
    pub fn dump_with(self, backtraces: Backtraces) -> Dump {
        let shared = self.runtime.upgrade();
        shared.map_or_else(|| Dump::of_none(self.now()), |shared| shared.dump_with(backtraces, None))
    }
}

impl CurrentThread {
    /// The runtime by reference.
    pub fn handle(&self) -> Handle {
        Handle::of(&self.shared)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
