//! How a task is reached by others than its handle: through the deadlines and scopes that are open around its code, and
//! through a [`Control`](sinew_fiber::Control) of it.
//!
//! # Frames
//!
//! What is open around the code of a task, the outermost first, are its frames.
//!
//! A frame can be *tripped*, from any thread: by its alarm, by a child that failed. Everything inside it then unwinds, up
//! to it: the task's word says that a frame is tripped, each blocking call looks which, and unwinds with [`Tripped`],
//! which the frame knows as its own. It stays tripped until it is closed.
//!
//! Cancelling is live: whoever cancels a task reaches the children of its open scopes as well, and theirs, at once and
//! whatever the task is doing; and a deadline that passes reaches the children of the scopes inside it. Each says so in
//! the task's word first and then looks for scopes, under the lock that a scope opens under; and a scope looks at the
//! word when it has opened. So one that is not found passes on what it finds.
//!
//! # The table
//!
//! The frames of all tasks are in one table, by the task's id, behind a few locks. Opening, closing and tripping a frame
//! take the lock of the task, and only under it is the word's bit changed: so the bit is set exactly while an open frame
//! is tripped, and a trip that comes late finds no frame. Nobody waits, wakes or runs foreign code under such a lock.

use std::collections::BTreeMap;

use sinew_fiber::raw::{Remote, is_running};
use sinew_fiber::{CancelLevel, Value};
use sinew_sync::Arc;
use sinew_sync::statics::{AtomicU64, Mutex, MutexGuard, Ordering};

use crate::children::Children;
use crate::task::{Task, TaskRef};
use crate::task_id::TaskId;
use crate::worker;

const SHARDS: usize = 64;

type Shard = BTreeMap<TaskId, Reached>;

static REACHED: [Mutex<Shard>; SHARDS] = [const { Mutex::new(BTreeMap::new()) }; SHARDS];

/// How a task can be reached by others than its handle.
#[derive(Default)]
struct Reached {
    frames: Vec<Open>,
    /// Somebody has a [`Control`](sinew_fiber::Control) of it.
    controlled: bool,
}

struct Open {
    frame: Frame,
    tripped: bool,
    children: Option<Arc<Children>>,
}

/// One frame of one task; a name, which may be stale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    task: TaskId,
    number: u64,
    /// The fiber that it is open in: code of other fibers of the task is not inside it.
    fiber: u64,
}

/// What code inside a tripped frame unwinds with.
#[derive(Debug, thiserror::Error)]
#[error("left, because the deadline or scope around it is over")]
pub(crate) struct Tripped(pub(crate) Frame);

fn shard(task: TaskId) -> MutexGuard<'static, Shard> {
    let index = task.as_u64() as usize % SHARDS;
    REACHED[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Frame {
    /// A frame of `task` that is not open yet.
    pub(crate) fn new(task: &Task) -> Frame {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Frame { task: task.id(), number, fiber: sinew_fiber::current().id() }
    }

    /// A frame that is never open.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Frame {
        Frame { task: TaskId::new(0, u32::MAX), number: u64::MAX, fiber: u64::MAX }
    }

    /// Opens the frame, inside all that are open. Only its task does.
    pub(crate) fn open(self, children: Option<Arc<Children>>) {
        worker::mark_reached(); // a frame that is never closed, of a fiber that was given up, goes with the task
        let open = Open { frame: self, tripped: false, children };
        shard(self.task).entry(self.task).or_default().frames.push(open);
    }

    /// Closes the frame. Only its task does.
    pub(crate) fn close(self) {
        let mut shard = shard(self.task);
        let Some(reached) = shard.get_mut(&self.task) else { return };
        reached.frames.retain(|open| open.frame != self);
        if !reached.frames.iter().any(|open| open.tripped) {
            self.task.slot().word.clear_trip();
        }
        if reached.frames.is_empty() && !reached.controlled {
            shard.remove(&self.task);
        }
    }

    /// Has everything inside the frame, if it is open, unwind, and cancels the children of the scopes there.
    pub(crate) fn trip(self) {
        let mut inside = Vec::new();
        {
            let mut shard = shard(self.task);
            let Some(reached) = shard.get_mut(&self.task) else { return };
            let Some(at) = reached.frames.iter().position(|open| open.frame == self) else { return };
            reached.frames[at].tripped = true;
            self.task.slot().word.trip();
            inside.extend(reached.frames[at..].iter().filter_map(|open| open.children.clone()));
        }
        worker::unpark(TaskRef::of(self.task));
        cancel_children(inside, CancelLevel::Cancel);
    }
}

/// The outermost frame of `task`, among those that its running code is inside of, that is tripped. Only the task asks.
pub(crate) fn tripped(task: TaskId) -> Option<Frame> {
    let shard = shard(task);
    let mut tripped = shard.get(&task)?.frames.iter().filter(|open| open.tripped).map(|open| open.frame);
    tripped.find(|frame| is_running(frame.fiber))
}

/// What the code of `task` has to end with, outside of shields. Only the task asks.
pub(crate) fn level(task: &Task) -> Option<CancelLevel> {
    task.word.level().or_else(|| tripped(task.id()).map(|_| CancelLevel::Cancel))
}

/// Cancels or kills `task` and the children of its scopes. The caller keeps the task from being freed.
pub(crate) fn cancel(task: &'static Task, level: CancelLevel) {
    task.word.cancel(level);
    pass_on(task.id(), level);
}

/// The second half of [`cancel`], when the word says it: has the task look, if it waits, and reaches the children of its scopes. It
/// may have ended meanwhile.
pub(crate) fn pass_on(task: TaskId, level: CancelLevel) {
    worker::unpark(TaskRef::of(task));
    cancel_children(scopes_of(task), level);
}

/// Cancels or kills all children of these scopes, and theirs.
pub(crate) fn cancel_children(mut scopes: Vec<Arc<Children>>, level: CancelLevel) {
    while let Some(children) = scopes.pop() {
        for child in children.cancel(level) {
            worker::unpark(TaskRef::of(child));
            scopes.extend(scopes_of(child));
        }
    }
}

fn scopes_of(task: TaskId) -> Vec<Arc<Children>> {
    let shard = shard(task);
    shard
        .get(&task)
        .iter()
        .flat_map(|reached| &reached.frames)
        .filter_map(|open| open.children.clone())
        .collect()
}

/// What the running task, whose word is tripped, has to unwind with.
pub(crate) fn tripped_now() -> Option<Value> {
    let frame = tripped(worker::current_task()?.id())?;
    Some(Value::error(Tripped(frame)))
}

/// How others reach the running task, until it [ends](forget).
pub(crate) fn remote() -> Option<(&'static dyn Remote, u64)> {
    let task = worker::current_task()?.id();
    shard(task).entry(task).or_default().controlled = true;
    worker::mark_reached();
    Some((&Tasks, task.as_u64()))
}

/// The task ends: nobody reaches it any more.
pub(crate) fn forget(task: TaskId) {
    shard(task).remove(&task);
}

/// All tasks, by their numbers.
struct Tasks;

impl Tasks {
    /// Does `what` with the task that is meant, unless it has ended; it does not end meanwhile.
    fn reach<T>(id: u64, what: impl FnOnce(&'static Task) -> T) -> Option<T> {
        let task = TaskId::from_u64(id);
        let shard = shard(task);
        shard.get(&task).filter(|reached| reached.controlled).map(|_| what(task.slot()))
    }
}

impl Remote for Tasks {
    /// Takes no lock, since signal handlers call it: an interrupt of a task that ends this very moment may count for the
    /// next one in its slot.
    fn interrupt(&self, id: u64) {
        let task = TaskRef::of(TaskId::from_u64(id));
        if task.task.state.generation() == task.generation() {
            task.task.word.interrupt();
        }
    }

    fn cancel(&self, id: u64, level: CancelLevel) {
        if Tasks::reach(id, |task| task.word.cancel(level)).is_some() {
            pass_on(TaskId::from_u64(id), level);
        }
    }

    fn level(&self, id: u64) -> Option<CancelLevel> {
        Tasks::reach(id, |task| task.word.level()).flatten()
    }
}
