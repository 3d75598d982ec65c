//! How whoever runs on a worker waits, or gives way.

use sinew_fiber::raw::Running;
use sinew_fiber::{Refused, await_};

use super::{Left, Worker, current, here};
use crate::notes::What;
use crate::task::{Kind, Task};
use crate::wait::block_thread;
use crate::wait_kind::WaitKind;

/// Suspends the running task until somebody unparks it. May return early.
pub(crate) fn park() {
    let worker = current().expect("only tasks park");
    worker.park(worker.place().running(), worker.announced.replace(What::of(WaitKind::Await)));
}

/// The same, and says what for.
pub(crate) fn park_for(what: What) {
    let worker = current().expect("only tasks park");
    worker.park(worker.place().running(), what);
}

/// The next park that comes through a hook is for this, and so is a poll that is pending.
pub fn announce(what: What) {
    if let Some(worker) = current() {
        worker.announced.set(what);
    }
}

/// Waits as [`await_`] does, and says what for.
///
/// # Errors
///
/// As for [`await_`].
#[track_caller]
pub(crate) fn await_for(what: What) -> Result<(), Refused> {
    let _announced = Announced; // a fiber may have caught the await, or the task been killed before it
    announce(what);
    await_(()).map(drop)
}

/// Takes back what was announced and nobody has taken.
pub(crate) struct Announced;

impl Drop for Announced {
    fn drop(&mut self) {
        announce(What::of(WaitKind::Await));
    }
}

/// Waits as [`await_`] does, for what was announced by the poll of a future; if nothing was, for something of this kind.
///
/// # Errors
///
/// As for [`await_`].
pub(crate) fn await_announced(kind: WaitKind) -> Result<(), Refused> {
    let announced = current().map(|worker| worker.announced.get());
    await_for(announced.unwrap_or(What::of(kind)).or(kind))
}

/// Lets another ready task of the worker run first: one that was spawned or woken and has not run since, if there is
/// any, and else the next in the worker's queue. On a thread that is no worker, yields to other threads.
///
/// A task that yields repeatedly lets every ready task of its worker run: one of those that were just spawned or woken
/// at each yield, and all others between two yields.
///
/// Does nothing where a task cannot be suspended: in a destructor while the thread unwinds, in the poll of a future, in
/// a callback of foreign code. Unwinds if the task is cancelled or killed.
#[inline]
pub fn yield_now() {
    let Some(worker) = current() else { return sinew_sync::thread::yield_now() };
    let task = worker.current.get().expect("a worker runs nothing but tasks");
    match worker.place().awaits_alone(&task.word) {
        Some(running) => worker.yield_as(running),
        None => yield_if_possible(),
    }
}

#[cold]
fn yield_if_possible() {
    sinew_fiber::checkpoint();
    if sinew_fiber::raw::may_await().is_ok() {
        here().yield_as(here().place().running());
    }
}

/// Lets the other tasks of the worker that are ready run first, if nothing speaks against that.
pub(crate) fn give_way() {
    let Some(worker) = current() else { return };
    if let Some(task) = worker.current.get()
        && let Some(running) = worker.place().awaits_alone(&task.word)
    {
        worker.yield_as(running);
    }
}

impl Worker {
    /// Waits once, for whoever runs on this thread: until its task is unparked, or perhaps less long.
    #[inline(always)]
    pub(crate) fn wait(&self, what: What) -> Result<(), Refused> {
        let task = self.current.get().expect("a worker runs nothing but tasks");
        match self.place().awaits_alone(&task.word) {
            Some(running) => {
                self.park(running, what);
                running.has_waited()
            }
            None if self.place().is_under(&task.word) => await_for(what),
            None => block_thread(),
        }
    }

    #[inline(always)]
    pub(super) fn yield_as(&self, running: Running) {
        let task = self.current.get().expect("a worker runs nothing but tasks");
        self.tell_turn(task);
        self.push_ready(task);
        self.leave(task, running, Left::Nothing, self.find_newcomer());
    }

    /// Tells a body that runs in turns that it is about to wait, or to use up a wake-up that it was sent.
    #[inline(always)]
    pub(super) fn tell_turn(&self, task: &'static Task) {
        if task.table().kind == Kind::Turn {
            // SAFETY: it is in the middle of a turn, here.
            unsafe { (task.table().blocks)(task) };
        }
    }

    #[inline(always)]
    pub(super) fn park(&self, running: Running, what: What) {
        let task = self.current.get().expect("only tasks park");
        self.tell_turn(task);
        if !task.state.take_notification() {
            task.notes.parks(what, self.stamp());
            self.parks.set(self.parks.get() + 1);
            self.leave(task, running, Left::Park(task), None);
        }
    }
}
