//! What a runtime is doing, for whoever looks at one that hangs.
//!
//! Without backtraces ([`backtrace`]), a dump reads atomics, the list of slots and the table of names. It waits for no worker and no task, and touches no
//! cell and no stack that belongs to either, so it may be made at any time and on any thread. Each task is seen as it is
//! at one moment ([`crate::notes`]), all of them at different ones. What was not the same from the beginning to the end of
//! a look is left out.
//!
//! The locks that it takes, of the lists of slots and names and of whoever [names turns](crate::names), are held by others for
//! some instructions only, and never while code of a task runs.

mod backtrace;
mod json;
pub(crate) mod signal;
mod task;
mod worker;

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;

use crate::blocking::pool::BlockingDump;
use crate::shared::Shared;
pub use backtrace::{Backtraces, FiberDump};
pub use task::{HandleState, TaskDump, TaskState, Wait};
pub use worker::{WorkerDump, WorkerState};

/// Tasks that the text of a dump shows.
const MOST_SHOWN: usize = 200;

/// What a runtime was doing: see [`Runtime::dump`](crate::Runtime::dump). Its `Display` is for people, and shows up to
/// 200 tasks; [`to_json`](Dump::to_json) is for tools, and has all of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// When it was made, on the clock of the runtime.
    pub now: Instant,
    /// How far the runtime is: `open`, `shutting down` or `stopping`.
    pub phase: &'static str,
    /// How many tasks were spawned and have not ended.
    pub active: u64,
    /// How many tasks were spawned by threads that are no workers.
    pub spawned_outside: u64,
    /// How many of those, and of tasks that such threads have woken, wait for a worker to take them.
    pub queued_outside: usize,
    /// How many descriptors are registered with the reactor; none if there is no reactor.
    pub descriptors: Option<usize>,
    /// The blocking calls, and their threads.
    pub blocking: BlockingDump,
    /// The workers, in the order of their numbers.
    pub workers: Vec<WorkerDump>,
    /// The tasks: those that have not ended, and those that have but whose result nobody has taken.
    pub tasks: Vec<TaskDump>,
    /// The workers that were asked for backtraces and did not answer in time: they run a task for too long.
    pub unanswered: Vec<usize>,
}

impl Shared {
    pub(crate) fn dump(&self) -> Dump {
        let mut workers = self.dump_workers();
        let tasks = self.dump_tasks();
        for task in tasks.iter().filter(|task| task.state == TaskState::Ready) {
            let owner = workers.iter_mut().find(|worker| Some(worker.index) == task.worker);
            owner.into_iter().for_each(|worker| worker.ready += 1);
        }
        Dump {
            now: self.clock.now(),
            phase: self.phase(),
            active: self.active(),
            spawned_outside: self.spawned_outside(),
            queued_outside: self.injector.len(),
            descriptors: self.descriptors(),
            blocking: self.blocking.counts(),
            workers,
            tasks,
            unanswered: Vec::new(),
        }
    }
}

impl Dump {
    /// A dump of a runtime that is gone.
    pub(crate) fn of_none(now: Instant) -> Dump {
        Dump {
            now,
            phase: "stopping",
            active: 0,
            spawned_outside: 0,
            queued_outside: 0,
            descriptors: None,
            blocking: BlockingDump { threads: 0, idle: 0, queued: 0, running: 0, alone: 0 },
            workers: Vec::new(),
            tasks: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// The dump as one object of JSON; `docs/operations.md` has its shape.
    pub fn to_json(&self) -> String {
        json::of(self)
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "runtime: {} workers, {} tasks, {} spawned from outside, {}",
            self.workers.len(),
            self.active,
            self.spawned_outside,
            self.phase
        )?;
        writeln!(f, "injector: {} queued", self.queued_outside)?;
        if let Some(descriptors) = self.descriptors {
            writeln!(f, "reactor: {descriptors} descriptors")?;
        }
        let BlockingDump { threads, idle, queued, running, alone } = self.blocking;
        writeln!(
            f,
            "blocking: {threads} threads, {idle} idle; {queued} calls queued, {running} running, of which nobody waits for {alone}"
        )?;
        self.workers.iter().try_for_each(|worker| worker.write(f, self.now))?;
        for worker in &self.unanswered {
            writeln!(f, "worker {worker} did not answer: the tasks that belong to it have no backtraces")?;
        }
        let live = || self.tasks.iter().filter(|task| task.state != TaskState::Ended);
        live().take(MOST_SHOWN).try_for_each(|task| task.write(f, self.now))?;
        let shown = live().count();
        if shown > MOST_SHOWN {
            writeln!(f, "and {} more tasks", shown - MOST_SHOWN)?;
        }
        writeln!(f, "{} ended tasks whose result nobody has taken", self.tasks.len() - shown)
    }
}

/// A duration for people: whole milliseconds are enough above one.
fn rounded(duration: Duration) -> Duration {
    match duration.as_millis() {
        0 => duration,
        millis => Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
    }
}
