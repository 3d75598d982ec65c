//! One worker, as a dump sees it.

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::Ordering;

use super::rounded;
use crate::counters::WorkerCounters;
use crate::notes::age;
use crate::shared::{Inbox, Shared};
use crate::task_id::TaskId;

/// What a worker is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WorkerState {
    /// It runs this task.
    Running(TaskId),
    /// It looks for work.
    Searching,
    /// It sleeps until there is work.
    Asleep,
}

/// One worker: see [`Dump`](crate::Dump).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerDump {
    /// Its number. Those of temporary workers come after those of the others.
    pub index: usize,
    /// Whether it is there for as long as it is needed only: see [`Sysmon`](crate::Sysmon).
    pub is_temporary: bool,
    /// What it is doing.
    pub state: WorkerState,
    /// How long ago it last looked at the clock, which it does every 61 turns and whenever it has searched for work. So it has run
    /// what it runs for at most so long.
    pub since: Duration,
    /// An idle worker has looked at it, and it has not changed tasks since: it is stuck, or computes.
    pub is_watched: bool,
    /// Whether other threads have put tasks into its inbox that it has not taken out.
    pub has_mail: bool,
    /// Tasks in its queue that have not started.
    pub new: usize,
    /// Tasks in its queue that may go on anywhere.
    pub woken: usize,
    /// Tasks in its queue that were handed to it and have not started.
    pub handed: usize,
    /// Tasks that are ready and have to run here: they have waited here, or are pinned and have not started.
    pub ready: usize,
    /// How many timers are set.
    pub timers: u64,
    /// When the next of them rings, at the earliest, on the clock of the runtime.
    pub next_timer: Option<Instant>,
    /// What it has counted.
    pub counters: WorkerCounters,
}

impl Shared {
    pub(super) fn dump_workers(&self) -> Vec<WorkerDump> {
        self.in_service().map(|(index, inbox)| self.dump_worker(index, inbox)).collect()
    }

    fn dump_worker(&self, index: usize, inbox: &Inbox) -> WorkerDump {
        // SAFETY: slots are never freed.
        let running = unsafe { inbox.own.running.load(Ordering::Relaxed).as_ref() };
        let state = match running {
            _ if inbox.is_asleep() => WorkerState::Asleep,
            Some(task) => WorkerState::Running(task.id()),
            None => WorkerState::Searching,
        };
        let queues = &self.stealers[index];
        WorkerDump {
            index,
            is_temporary: index >= self.base,
            state,
            since: age(inbox.own.stamp.load(Ordering::Relaxed), self.clock.coarse()),
            is_watched: inbox.watch.is_watched(),
            has_mail: !inbox.is_empty(),
            new: queues.new.len(),
            woken: queues.woken.len(),
            handed: queues.handed.len(),
            ready: 0, // counted with the tasks
            timers: inbox.timers.len(),
            next_timer: inbox.timers.next(),
            counters: WorkerCounters::of(inbox),
        }
    }
}

impl WorkerDump {
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, now: Instant) -> fmt::Result {
        let WorkerDump { index, new, woken, handed, ready, counters, .. } = self;
        write!(f, "{}worker {index}: ", if self.is_temporary { "temporary " } else { "" })?;
        match self.state {
            WorkerState::Asleep => write!(f, "asleep")?,
            WorkerState::Searching => write!(f, "awake, searches")?,
            WorkerState::Running(task) => {
                write!(f, "awake, runs task {task} for up to {:?}", rounded(self.since))?;
            }
        }
        if self.is_watched && self.state != WorkerState::Asleep {
            write!(f, ", has not changed tasks since an idle worker looked")?;
        }
        let mail = if self.has_mail { "not empty" } else { "empty" };
        write!(f, ", inbox {mail}, {new} new, {woken} woken, {handed} handed, {ready} ready, ")?;
        write!(f, "spawned {}, ended {}, {} timers", counters.spawns, counters.ends, self.timers)?;
        match self.next_timer {
            None => writeln!(f),
            Some(next) if next <= now => writeln!(f, ", one is due since {:?}", rounded(now - next)),
            Some(next) => writeln!(f, ", next timer in {:?}", rounded(next - now)),
        }
    }
}
