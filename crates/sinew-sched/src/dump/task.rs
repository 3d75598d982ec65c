//! One task, as a dump sees it.

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::CancelLevel;
use sinew_sync::atomic::Ordering;

use super::{FiberDump, rounded};
use crate::notes::{Noted, age, pinned_to, worker_of};
use crate::shared::{Inbox, Shared};
use crate::state::Seen;
use crate::task::{DETACHED, DONE, Task};
use crate::task_id::TaskId;
use crate::wait_kind::WaitKind;

/// What a task is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskState {
    /// It is in a queue.
    Ready,
    /// It runs, or is about to be seen doing something else.
    Running,
    /// It waits.
    Parked,
    /// It has ended, and nobody has taken its result.
    Ended,
}

/// What has become of a task's handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HandleState {
    /// Somebody has it.
    Kept,
    /// Somebody waits by it for the task to end.
    Joining,
    /// It is gone: the task goes on alone.
    Detached,
}

/// What a parked task waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// The kind of thing.
    pub kind: WaitKind,
    /// The address of the thing, if it has one: the same for all who wait for the same.
    pub object: Option<usize>,
    /// The descriptor that it waits for.
    pub fd: Option<i32>,
    /// The task whose end it waits for.
    pub task: Option<TaskId>,
    /// The number of the thing that it waits for, if the kind is a label of a crate above the scheduler.
    pub tag: Option<u32>,
    /// When it goes on at the latest, on the clock of the runtime.
    pub deadline: Option<Instant>,
    /// The kinds of the cases of a select, up to eight.
    pub cases: Vec<WaitKind>,
}

/// One task: see [`Dump`](crate::Dump).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskDump {
    /// Its number.
    pub id: TaskId,
    /// Its name, if it has one and has not ended.
    pub name: Option<String>,
    /// The type of its body: of a task that was spawned with a closure, that of the closure. Empty if it has ended.
    pub type_name: &'static str,
    /// Bytes that its body takes, but for what it has on a stack or elsewhere.
    pub size: usize,
    /// What it is doing.
    pub state: TaskState,
    /// Whether somebody woke it before it could park.
    pub notified: bool,
    /// Whether it was cancelled or killed.
    pub level: Option<CancelLevel>,
    /// What has become of its handle.
    pub handle: HandleState,
    /// The worker that runs it, or that it has to go on on.
    pub worker: Option<usize>,
    /// Where it was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// What it waits for, if it is parked and has been for the time of the look.
    pub wait: Option<Wait>,
    /// For how long it has been parked, or, if it never has, since it was spawned. Too long by up to 61 turns of its worker
    /// and some milliseconds.
    pub since: Option<Duration>,
    /// The fibers that it is in, the outermost first, if backtraces were asked for and it is parked.
    pub fibers: Vec<FiberDump>,
    /// The frames of its stack, the innermost first, and those of the fibers around it, likewise.
    pub backtrace: Vec<String>,
}

impl Shared {
    pub(super) fn dump_tasks(&self) -> Vec<TaskDump> {
        let now = self.clock.coarse();
        let slots = self.chunks().into_iter().flatten();
        let mut tasks: Vec<TaskDump> = slots.filter_map(|task| self.look(task, now)).collect();
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        let mut names = self.names.of(&ids);
        tasks.iter_mut().for_each(|task| task.name = names.remove(&task.id));
        tasks
    }

    /// The task with this id, if it has not ended; without its name.
    pub(crate) fn dump_task(&self, id: TaskId) -> Option<TaskDump> {
        self.look(id.slot(), self.clock.coarse()).filter(|task| task.id == id)
    }

    /// True if a task is ready that has to run on `worker`. Looks at all tasks.
    pub(crate) fn has_ready_on(&self, worker: usize) -> bool {
        let now = self.clock.coarse();
        let waits = |task: &Task| {
            task.state.see().is_some_and(|seen| !seen.is_parked)
                && self
                    .look(task, now)
                    .is_some_and(|seen| seen.state == TaskState::Ready && seen.worker == Some(worker))
        };
        self.chunks().into_iter().flatten().any(waits)
    }

    /// The task in a slot, if there is one.
    fn look(&self, task: &Task, now: Instant) -> Option<TaskDump> {
        let seen = task.state.see()?;
        let (join, level) = (task.join.load(Ordering::Relaxed), task.word.level());
        let handle = match join {
            DETACHED => HandleState::Detached,
            node if node.is_null() || node == DONE => HandleState::Kept,
            _ => HandleState::Joining,
        };
        let runs = |inbox: &Inbox| ptr::eq(inbox.own.running.load(Ordering::Relaxed), task);
        let runs_on = self.inboxes.iter().position(runs);
        let state = match runs_on {
            _ if join == DONE => TaskState::Ended,
            _ if seen.is_parked => TaskState::Parked,
            Some(_) => TaskState::Running,
            None => TaskState::Ready,
        };
        let (spawned_at, stamp, migrates) = (task.notes.site(), task.notes.stamp(), task.notes.migrates());
        let worker_of = |stamp| if migrates { None } else { worker_of(stamp) };
        let noted = if state == TaskState::Parked { parked(task, &seen) } else { None };
        let (worker, since) = match (state, &noted) {
            (TaskState::Parked, Some(noted)) => (worker_of(noted.stamp), Some(age(noted.stamp, now))),
            (TaskState::Running, _) => (runs_on, None),
            // One that has parked before is queued where it has to go on, nobody knows since when. One that migrates has
            // the stamp of its spawn or its last park.
            (TaskState::Ready, _) if worker_of(stamp).is_some() => (worker_of(stamp), None),
            (TaskState::Ready, _) => (pinned_to(stamp), Some(age(stamp, now))),
            _ => (None, None),
        };
        let Seen { id, notified, .. } = seen;
        let wait = noted.map(wait_of);
        let (fibers, backtrace) = (Vec::new(), Vec::new());
        let name = None; // looked up once for all
        let table = task.seen_table();
        let task_dump = TaskDump {
            id,
            name,
            type_name: table.map_or("", |table| (table.type_name)()),
            size: table.map_or(0, |table| table.size),
            state,
            notified,
            level,
            handle,
            worker,
            spawned_at,
            wait,
            since,
            fibers,
            backtrace,
        };
        // The rest may be about the next task of the slot: then this one has ended.
        (task.state.id() == id).then_some(task_dump)
    }
}

/// What is noted about a task that was seen parked. A look may fail because the task goes on: it is looked at once more.
fn parked(task: &Task, seen: &Seen) -> Option<Noted> {
    task.notes.of_parked(&task.state, seen).or_else(|| task.notes.of_parked(&task.state, seen))
}

fn wait_of(noted: Noted) -> Wait {
    let (kind, object) = (noted.what.kind(), noted.what.object());
    let task = (kind == WaitKind::Join).then(|| TaskId::new(object as u32, 0).slot().id());
    let fd = kind.is_of_a_descriptor().then_some(object as i32);
    let tag = kind.tagged().map(|_| object as u32);
    let is_number = fd.is_some() || tag.is_some() || matches!(kind, WaitKind::Join | WaitKind::Sleep);
    let object = (object != 0 && !is_number).then_some(object as usize);
    Wait { kind, object, fd, task, tag, deadline: noted.deadline(), cases: noted.cases() }
}

impl TaskState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            TaskState::Ready => "ready",
            TaskState::Running => "running",
            TaskState::Parked => "parked",
            TaskState::Ended => "ended",
        }
    }
}

impl HandleState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            HandleState::Kept => "not joined yet",
            HandleState::Joining => "joined",
            HandleState::Detached => "detached",
        }
    }
}

pub(super) fn level_word(level: CancelLevel) -> &'static str {
    match level {
        CancelLevel::Cancel => "cancelled",
        CancelLevel::Kill => "killed",
    }
}

impl TaskDump {
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, now: Instant) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, ": {}", self.state.as_str())?;
        if let (TaskState::Running, Some(worker)) = (self.state, self.worker) {
            write!(f, " on worker {worker}")?;
        }
        if self.notified {
            write!(f, ", notified")?;
        }
        if let Some(level) = self.level {
            write!(f, ", {}", level_word(level))?;
        }
        write!(f, ", {}", self.handle.as_str())?;
        if let Some(wait) = &self.wait {
            write!(f, "; waits for: ")?;
            wait.write(f, now)?;
        }
        if let Some(since) = self.since {
            write!(f, "; for {:?}", rounded(since))?;
        }
        if let (TaskState::Parked | TaskState::Ready, Some(worker)) = (self.state, self.worker) {
            write!(f, "; belongs to worker {worker}")?;
        }
        if let Some(site) = self.spawned_at {
            write!(f, "; spawned at {}:{}", site.file(), site.line())?;
        }
        writeln!(f)?;
        for FiberDump { id, name, status, created_at } in &self.fibers {
            let name = name.as_deref().unwrap_or("");
            writeln!(f, "    in fiber {name}#{id}, {status}, created at {created_at}")?;
        }
        self.backtrace.iter().enumerate().try_for_each(|(at, frame)| writeln!(f, "    {at}: {frame}"))
    }
}

impl Wait {
    fn write(&self, f: &mut fmt::Formatter<'_>, now: Instant) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(task) = self.task {
            write!(f, " of task {task}")?;
        }
        if let (Some(tag), Some(tagged)) = (self.tag, self.kind.tagged()) {
            write!(f, ", {tagged} {tag}")?;
        }
        if let Some(object) = self.object {
            write!(f, " at {object:#x}")?;
        }
        if let Some(fd) = self.fd {
            write!(f, ", fd {fd}")?;
        }
        if !self.cases.is_empty() {
            let cases: Vec<&str> = self.cases.iter().map(|case| case.as_str()).collect();
            write!(f, " of [{}]", cases.join("; "))?;
        }
        match self.deadline {
            None => Ok(()),
            Some(deadline) if deadline <= now => write!(f, ", due since {:?}", rounded(now - deadline)),
            Some(deadline) => write!(f, ", {:?} left", rounded(deadline - now)),
        }
    }
}
