//! Bodies that run in turns, and own no stack between two of them.
//!
//! A [`Turn`] has work now and then. It is woken, runs one turn on its worker's stack like a new task, and is idle again:
//! in between it has no stack, and may go on on any worker. In the middle of a turn it may block like any native code; then it
//! keeps the stack and the worker that it is on until the turn is over.
//!
//! State, queues, cancelling and joining are those of all tasks. A task's wake-up has it run a turn if it is idle and goes on
//! with the turn that it is in if that is blocked: so whoever wakes a turn for new work should know that it is idle, or the
//! blocked call in it looks round in vain.
//!
//! A turn that is cancelled or killed while it is idle has no more turns: it is told so, as one that fails is.

use std::any::type_name;
use std::cell::Cell;
use std::collections::HashMap;
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use sinew_fiber::raw::polling;
use sinew_fiber::{CancelLevel, Raised, Refused};

use crate::children::cancelled;
use crate::core::Core;
use crate::handle::Handle;
use crate::join::JoinHandle;
use crate::notes::What;
use crate::options::over;
use crate::reach;
use crate::shared::{RuntimeId, Shared, SharedRef};
use crate::task::{
    Kind, Ran, Table, Task, TaskRef, drop_result, never_again, never_blocks, no_options, no_tag,
};
use crate::task_id::TaskId;
use crate::wait;
use crate::wait_kind::WaitKind;
use crate::waker::waker_of;
use crate::worker;

/// A body that runs in turns, one at a time. It has shared references of itself only, since [`blocks`](Turn::blocks) comes in
/// the middle of a turn: what turns change is in cells.
pub trait Turn: Send + 'static {
    /// One turn: some work, at the end of which it says when there is more. It may block, raise and panic.
    fn turn(&self) -> After;

    /// The turn that runs is about to give up its worker in the middle, and to use up wake-ups that came during it: at its end
    /// it has to look itself whether there is more to do. Must not block or panic.
    fn blocks(&self) {}

    /// What it is called to who looks on.
    fn type_name() -> &'static str
    where
        Self: Sized,
    {
        type_name::<Self>()
    }

    /// A number that identifies it to the crate that spawned it ([`current_tag`]). Async-signal-safe: it must not block, panic or allocate.
    fn tag(&self) -> u64 {
        0
    }

    /// There are no more turns: it said so, or `raised` ended one, or it was cancelled while it was idle. It may block.
    fn ended(&self, raised: Option<Raised>);
}

/// What comes after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing, until somebody [wakes](Waker::wake) it.
    Idle,
    /// Another one, when those that are ready have had theirs.
    Again,
    /// Nothing, until the future that it has [polled](poll) wakes it. Dumps show what that waits for.
    Pending,
    /// No more turns.
    Ended,
}

/// Wakes a body that runs in turns, or the blocked call in it. It may be stale.
///
/// Packed, since there may be millions of them: what is kept beside it takes the place of its padding.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Waker {
    slot: &'static Task,
    generation: u32,
}

impl Waker {
    fn of(id: TaskId) -> Waker {
        Waker { slot: id.slot(), generation: id.generation() }
    }

    /// Has the body run a turn, if it is idle or becomes so.
    #[inline]
    pub fn wake(self) {
        worker::unpark_turn(TaskRef::new(self.slot, self.generation));
    }

    /// The task that it wakes.
    pub fn task(self) -> TaskId {
        let slot = self.slot;
        slot.id().with_generation(self.generation)
    }
}

impl Handle {
    /// Starts a body that runs in turns, which `make` makes of its waker. Its first turn comes at once.
    #[track_caller]
    pub fn spawn_turn<T: Turn>(self, make: impl FnOnce(Waker) -> T) -> JoinHandle<()> {
        let worker = worker::current().filter(|worker| worker.runtime == self.runtime);
        let outside = if worker.is_none() { self.runtime.upgrade() } else { None };
        let shared = worker.map(|worker| worker.shared).or_else(|| outside.as_ref().map(SharedRef::get));
        let Some(shared) = shared.filter(|shared| worker.is_some() || shared.count_outside()) else {
            let handle = over(cancelled());
            make(Waker::of(handle.id())).ended(Some(cancelled()));
            return handle;
        };
        let task = worker.map_or_else(|| shared.take_slot(), |worker| worker.take_slot());
        let stamp = worker.map_or_else(|| shared.stamp(), |worker| worker.stamp());
        let start = Start { task, shared, stamp, runtime: self.runtime, is_outside: worker.is_none() };
        let unmade = OnUnwind(&start);
        let body = make(Waker::of(task.id()));
        mem::forget(unmade);
        start.with(body)
    }
}

/// A slot that was taken for a task, which counts from then on.
struct Start {
    task: &'static Task,
    shared: &'static Shared,
    stamp: u64,
    runtime: RuntimeId,
    is_outside: bool,
}

impl Start {
    /// Starts the task. Once.
    fn with<T: Turn>(&self, body: T) -> JoinHandle<()> {
        // SAFETY: a fresh slot, with a table for what is put there.
        let handle = unsafe {
            self.task.prepare(body, turn_table::<T>(), self.shared, self.stamp);
            JoinHandle::new(self.task, self.runtime)
        };
        self.shared.admit(self.task);
        match worker::current().filter(|_| !self.is_outside) {
            Some(worker) => worker.push_new(self.task),
            None => self.shared.inject(self.task),
        }
        handle
    }
}

/// Guards the construction of a body. If that unwinds, [`Unmade`] takes its place, so that the counted task ends.
struct OnUnwind<'a>(&'a Start);

impl Drop for OnUnwind<'_> {
    fn drop(&mut self) {
        self.0.with(Unmade).detach();
    }
}

struct Unmade;

impl Turn for Unmade {
    fn turn(&self) -> After {
        After::Ended
    }

    fn ended(&self, _: Option<Raised>) {}
}

impl Handle {
    /// Has dumps and reports of the runtime ask `names` what tasks are called that run in turns: it is given tasks of all kinds,
    /// and names those that it knows. The first that is set stays.
    ///
    /// It is called by any thread, while workers are stuck, too: it must not wait for a task, nor take a lock that is held while
    /// one runs.
    pub fn name_turns_by<F>(self, names: F)
    where
        F: Fn(&[TaskId]) -> HashMap<TaskId, String> + Send + Sync + 'static,
    {
        if let Some(shared) = self.runtime.upgrade() {
            shared.names.set_of_turns(Box::new(names));
        }
    }
}

/// Suspends the turn that runs until `is_told`, which is looked at after every [wake-up](Waker::wake), or until `deadline`:
/// then it is false.
///
/// # Errors
///
/// Refused if the turn is cancelled, or must not block here.
#[inline]
pub fn wait_until(
    is_told: impl Fn() -> bool,
    deadline: Option<sinew_core::Instant>,
    kind: WaitKind,
) -> Result<bool, Refused> {
    wait::wait(is_told, deadline, What::of(kind))
}

/// True if other tasks are ready that the worker which runs the caller may have to run: its own, or those of threads that are no
/// workers.
#[inline]
pub fn others_wait() -> bool {
    worker::current().is_some_and(|worker| {
        worker.has_work() || !worker.inbox().is_empty() || !worker.shared.injector.is_empty()
    })
}

/// Polls `future` as a part of the turn that runs: its waker wakes the body. Nothing may block meanwhile.
///
/// # Panics
///
/// If the caller is not a task.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    let task = worker::current_task().expect("only a task polls a future as its turn");
    let waker = ManuallyDrop::new(waker_of(task.id()));
    worker::begin_poll();
    let polled = polling(|| future.poll(&mut Context::from_waker(&waker)));
    if polled.is_ready() {
        worker::announce(What::of(WaitKind::Await)); // what it waited for is over
    }
    polled
}

/// Says that the turn that runs is not stuck, and ends in time by itself: a guest that is interrupted at the end of its slice.
/// Counts as a turn, so sysmon starts no worker in place of this one.
pub fn keep_alive() {
    if let Some(worker) = worker::current() {
        worker.next_turn();
    }
}

/// Lets other tasks that are ready run first, if there are some. Not in a body that runs in turns, whose turn that would make one
/// that has blocked, nor where a task cannot be suspended.
pub fn give_way() {
    if others_wait() && worker::current_task().is_some_and(|task| task.table().kind == Kind::Thunk) {
        worker::give_way();
    }
}

/// Charges a call that could have waited and did not to the budget of the worker: the task yields when that is used up,
/// so that a loop of such calls does not keep its worker.
#[inline]
pub fn charge() {
    worker::charge();
}

/// Says of the future that is polled, and about to be pending, that it waits as a body between two turns does: for work, which may
/// never come.
pub fn announce_idle() {
    worker::announce(What::of(WaitKind::Turn));
}

/// The task that runs the caller.
#[inline]
pub fn current() -> Option<TaskId> {
    worker::current_task().map(Task::id)
}

/// True if the task that runs the caller was killed.
pub fn is_killed() -> bool {
    worker::current_task().is_some_and(|task| task.word.level() == Some(CancelLevel::Kill))
}

/// Cancels or kills a task in two steps, for whoever has its handle under a lock: this one only says it in the task's word. The
/// other wakes the task, and reaches the children of its scopes, however many; it needs no handle, and takes locks.
pub fn mark<T>(handle: &JoinHandle<T>, level: CancelLevel) -> Marked {
    handle.task().word.cancel(level);
    Marked { task: handle.id(), level }
}

/// A task that was [marked](mark), and does not know yet.
#[must_use = "a task that waits has to be told"]
#[derive(Debug)]
pub struct Marked {
    task: TaskId,
    level: CancelLevel,
}

impl Marked {
    /// Has it and the children of its scopes end. It may have ended meanwhile.
    pub fn tell(self) {
        reach::pass_on(self.task, self.level);
    }
}

/// The [tag](Turn::tag) of the body whose turn runs the caller; zero if there is none.
pub fn current_tag() -> u64 {
    // SAFETY: the task runs on this thread; while its body is dropped it has another table.
    worker::current_task().map_or(0, |task| unsafe { (task.table().tag)(task) })
}

/// The type of the body that runs the caller, as dumps have it; empty if there is none.
pub fn current_type_name() -> &'static str {
    worker::current_task().map_or("", |task| (task.table().type_name)())
}

/// The number of the worker that runs the caller.
#[inline]
pub fn worker_index() -> Option<usize> {
    worker::current().map(|worker| worker.index())
}

fn turn_table<T: Turn>() -> &'static Table {
    const {
        &Table {
            kind: Kind::Turn,
            configured: false,
            run: run_turn::<T>,
            drop_result: drop_result::<()>(),
            options: no_options,
            blocks: blocks::<T>,
            tag: tag::<T>,
            type_name: T::type_name,
            size: size_of::<T>(),
        }
    }
}

/// For a body that is being dropped: it is asked nothing any more.
static LEAVING: Table = Table {
    kind: Kind::Turn,
    configured: false,
    run: never_again,
    drop_result: drop_result::<()>(),
    options: no_options,
    blocks: never_blocks,
    tag: no_tag,
    type_name: || "",
    size: 0,
};

/// # Safety
///
/// The task holds a `T` and is in the middle of a turn of it, on this thread.
unsafe fn blocks<T: Turn>(task: &'static Task) {
    // SAFETY: the caller's promise.
    unsafe { (*task.stored::<T>()).blocks() };
}

/// # Safety
///
/// As for [`blocks`].
unsafe fn tag<T: Turn>(task: &'static Task) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (*task.stored::<T>()).tag() }
}

/// Drops the body.
///
/// # Safety
///
/// The task, which runs here, holds a `T`, and nobody uses that again.
unsafe fn leave<T: Turn>(task: &'static Task) {
    task.set_table(&LEAVING);
    // SAFETY: the caller's promise.
    unsafe { task.drop_stored::<T>() };
}

/// # Safety
///
/// The caller has claimed the task, which holds a `T` that has not ended.
unsafe fn run_turn<T: Turn>(task: &'static Task, core: &Core) -> Ran {
    let was_reached = task.was_reached();
    let outcome = if task.word.level().is_some() {
        Err(cancelled())
    } else {
        // SAFETY: the body is there, and this is the only turn of it.
        core.run(task, || unsafe { (*task.stored::<T>()).turn() })
    };
    let reached = was_reached || core.reached.get();
    task.leave_core(core.shared, reached);
    let raised = match outcome {
        Ok(After::Idle) => return Ran::Idle,
        Ok(After::Again) => return Ran::Again,
        Ok(After::Pending) => return Ran::Pending,
        Ok(After::Ended) => None,
        Err(raised) => Some(raised),
    };
    let raised = Cell::new(raised);
    // SAFETY: as above; nobody uses the body after that.
    let told = core.run(task, || unsafe {
        (*task.stored::<T>()).ended(raised.take());
        leave::<T>(task);
    });
    // The first error is the one that is told, and dropping one may raise again.
    mem::forget(told.err());
    if !ptr::eq(task.table(), &LEAVING) {
        // SAFETY: it did not come to that.
        mem::forget(core.run(task, || unsafe { leave::<T>(task) }).err());
    }
    if reached {
        reach::forget(task.id());
    }
    // SAFETY: the body was dropped, and the task is still ours.
    unsafe { task.end_as_thunk::<()>(Ok(())) };
    Ran::Ended
}
