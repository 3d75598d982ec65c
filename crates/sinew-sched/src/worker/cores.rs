//! A worker's cores: the loop that runs on each, and how one is left for another.
//!
//! # Leaving a stack
//!
//! Whatever makes the stack that was left usable by others (a task that parks, a core that becomes spare) is noted
//! in `left` and done by [`Worker::arrived`], first of all, on the stack that was switched to. So a task is only
//! published as parked, and a core only handed out, when nobody runs on it any more.

use std::ptr;

use sinew_fiber::StackError;
use sinew_fiber::raw::{Running, empty_stack_cache, is_stack_cache_asked, is_stack_cache_empty, switch};
use sinew_sync::atomic::Ordering;

use super::{Worker, here};
use crate::core::Core;
use crate::notes::{ANYWHERE, What};
use crate::reach;
use crate::task::{Home, Kind, Ran, Task};
use crate::wait_kind::WaitKind;

/// Spare cores that a worker keeps.
const SPARE_CORES: usize = 64;

/// What has to be done about the stack that was just left.
#[derive(Clone, Copy)]
pub(super) enum Left {
    Nothing,
    Park(&'static Task),
    Spare(*const Core),
}

/// The loop of a core.
///
/// # Safety
///
/// Called once, by the first switch to a core of the worker of this thread.
pub(crate) unsafe extern "C" fn core_main(core: *mut ()) -> ! {
    // SAFETY: the core outlives its loop.
    let core: &Core = unsafe { &*core.cast::<Core>() };
    let mut worker = here();
    worker.arrived();
    let mut migrates = false;
    loop {
        // A task that migrates takes its core with it: mostly one that was made for it, unless there was no stack for that.
        if core.private || migrates {
            worker = here();
        }
        if core.private && worker.next.get().is_none() {
            worker.leave_private_core(core);
        }
        let task = worker.next.take().or_else(|| worker.find(true)).or_else(|| worker.search());
        let Some(task) = task else {
            // SAFETY: the thread's own stack is suspended in `Worker::enter`.
            unsafe { switch(core.sp.as_ptr(), worker.thread.get()) };
            here().arrived();
            continue;
        };
        match task.home() {
            Home::Core(to) => worker.resume(core, task, to),
            _ => {
                migrates = task.table().kind == Kind::Migrating;
                worker.start(core, task);
            }
        }
    }
}

impl Worker {
    /// Continues `task`, which has blocked on the core `to`; `core`, whose loop this is, becomes a spare one.
    #[inline]
    fn resume(&self, core: &Core, task: &'static Task, to: &Core) {
        self.run(task);
        self.left.set(Left::Spare(core));
        self.active.set(to);
        to.go_to(self.index);
        // SAFETY: the task was parked or has yielded on that core, and it is ours to continue.
        unsafe { switch(core.sp.as_ptr(), to.sp.get()) };
        here().arrived();
    }

    /// Runs `task`, which has not started, is a future or is between two turns, on `core`.
    #[inline]
    fn start(&self, core: &Core, task: &'static Task) {
        let table = task.table();
        if table.configured && !self.has_stack_for(core, task) {
            return;
        }
        self.run(task);
        // SAFETY: it was taken out of a queue, and it is not on another core.
        let ran = unsafe { (table.run)(task, core) };
        if core.reached.get() {
            core.reached.set(false);
            if matches!(ran, Ran::Ended | Ran::EndedIn(_)) {
                reach::forget(task.id());
            }
        }
        match ran {
            Ran::Ended => here().finish(task, core),
            Ran::EndedIn(children) => here().finish_in(task, core, &children),
            Ran::Idle => {
                self.run_nothing();
                task.notes.parks(What::of(WaitKind::Turn), self.stamp() | ANYWHERE);
                if !task.state.commit_park() {
                    self.queues.woken.push(task);
                }
            }
            Ran::Again => {
                self.run_nothing();
                self.push_woken(task);
            }
            Ran::Pending => {
                self.run_nothing();
                let what = self.announced.replace(What::of(WaitKind::Await)).or(WaitKind::Future);
                task.notes.parks(what, self.stamp() | ANYWHERE);
                self.parks.set(self.parks.get() + 1);
                if !task.state.commit_park() {
                    self.queues.woken.push(task);
                }
            }
        }
    }

    /// True if `task` can run on `core`, or there is no stack for it at all. Else it was started on another core, and this
    /// one has been a spare one meanwhile.
    ///
    /// One that asks for a stack of another size gets a core of its own, and so does one that migrates: what other tasks
    /// leave behind on this thread, fibers in a thread-local, may belong to the core that they ran on.
    #[cold]
    fn has_stack_for(&self, core: &Core, task: &'static Task) -> bool {
        let size = match (task.table().kind, task.options().and_then(|options| options.stack)) {
            (Kind::Future | Kind::Turn, _) => return true,
            _ if core.private => return true, // it was made for this task
            (Kind::Thunk, None) => return true,
            (Kind::Thunk, Some(size)) if size == core.size => return true,
            (_, size) => size.unwrap_or(self.shared.stack),
        };
        match Core::new(size, self.shared, self.index, true) {
            Ok(to) => {
                self.next.set(Some(task));
                self.leave_core(core, to);
                false
            }
            Err(error) => {
                self.refusal.set(Some(error));
                true
            }
        }
    }

    /// Goes on on the core `to`; `core`, which has no task, becomes a spare one.
    fn leave_core(&self, core: &Core, to: *const Core) {
        self.left.set(Left::Spare(core));
        self.active.set(to);
        // SAFETY: `to` is a spare core or a fresh one.
        unsafe { switch(core.sp.as_ptr(), (*to).sp.get()) };
        here().arrived();
    }

    /// A core that was made for one task is no place for others: it is given up.
    #[cold]
    fn leave_private_core(&self, core: &Core) {
        match self.spare_core() {
            Ok(to) => self.leave_core(core, to),
            // It will have to do until there is memory again.
            Err(_) => sinew_sync::thread::yield_now(),
        }
    }

    /// Goes on elsewhere, with `next` if there is one; returns when `task`, which runs, in the fiber `running`, is
    /// continued. Inlined into the frame of the waiter: a call less there is a call less for every switch.
    #[inline(always)]
    pub(super) fn leave(
        &self,
        task: &'static Task,
        running: Running,
        left: Left,
        next: Option<&'static Task>,
    ) {
        // SAFETY: the active core is the one that `task` runs on, whatever stack of its fibers this is.
        let core = unsafe { &*self.active.get() };
        let to = match next.or_else(|| self.find(false)) {
            Some(next) if ptr::eq(next, task) => return, // it yielded, and the queue has nobody else
            Some(next) => match next.home() {
                Home::Core(to) => {
                    self.run(next);
                    to.go_to(self.index);
                    ptr::from_ref(to)
                }
                _ => {
                    self.next.set(Some(next));
                    match self.spare_core() {
                        Ok(to) => to,
                        Err(error) => return self.stay(task, left, error),
                    }
                }
            },
            None => match self.spare_core() {
                Ok(to) => {
                    self.inbox.own.running.store(ptr::null_mut(), Ordering::Relaxed);
                    to
                }
                Err(error) => return self.stay(task, left, error),
            },
        };
        task.keep_core(core);
        self.active.set(to);
        self.left.set(left);
        // SAFETY: `to` is a spare core, or that of a task that was parked or has yielded and is ours to continue.
        unsafe { switch(core.sp.as_ptr(), (*to).sp.get()) };
        let worker = here();
        worker.place().restore(running);
        worker.arrived();
    }

    /// There is no stack for the loop to go on on: a task that only yields goes on, one that has to wait cannot.
    #[cold]
    fn stay(&self, task: &'static Task, left: Left, error: StackError) {
        if let Some(next) = self.next.take() {
            self.put_back(next);
        }
        if let Left::Park(_) = left {
            panic!("a task that blocks needs a stack: {error}");
        }
        self.ready.remove(task);
    }

    /// Queues a task again that was found and has not started, is a future or is between two turns.
    pub(super) fn put_back(&self, task: &'static Task) {
        match task.table().kind {
            Kind::Future | Kind::Turn => self.queues.woken.push(task),
            _ if task.options().is_some_and(|options| options.pinned) => self.push_ready(task),
            _ => self.queues.new.push(task),
        }
    }

    /// What has to be done first on a stack that was switched to.
    #[inline]
    fn arrived(&self) {
        match self.left.replace(Left::Nothing) {
            Left::Nothing => (),
            Left::Park(task) => {
                if !task.state.commit_park() {
                    self.queue_woken(task);
                }
            }
            Left::Spare(core) => {
                // SAFETY: within one statement each (module prose of the worker); the core was left and has no task.
                unsafe {
                    if (*self.spare.get()).len() < SPARE_CORES && !(*core).private {
                        (*self.spare.get()).push(core);
                    } else {
                        Core::free(core);
                    }
                }
            }
        }
    }

    /// Queues a task that was just woken while it parked here.
    #[cold]
    pub(super) fn queue_woken(&self, task: &'static Task) {
        match (task.table().kind, task.home()) {
            (Kind::Thunk, _) | (Kind::Turn, Home::Core(_)) => self.push_ready(task),
            (Kind::Migrating | Kind::Future | Kind::Turn, _) => self.push_woken(task),
        }
    }

    /// Gives the worker's free stacks back to the system, if somebody has asked for that, and says whether it has any: the
    /// worker is about to sleep.
    pub(crate) fn give_stacks_back_if_asked(&self) {
        if is_stack_cache_asked() {
            // SAFETY: within one statement each (module prose of the worker); spare cores have no task.
            while let Some(core) = unsafe { (*self.spare.get()).pop() } {
                // SAFETY: as above.
                unsafe { Core::free(core) };
            }
            empty_stack_cache();
        }
        // SAFETY: within one statement (module prose of the worker).
        let has_spare = unsafe { !(*self.spare.get()).is_empty() };
        self.inbox.has_free_stacks.store(has_spare || !is_stack_cache_empty(), Ordering::Relaxed);
    }

    /// Sees to it that there is a spare core. False if there is no stack for one.
    pub(super) fn keep_spare_core(&self) -> bool {
        let Ok(core) = self.spare_core() else { return false };
        // SAFETY: within one statement (module prose of the worker); it has no task.
        unsafe { (*self.spare.get()).push(core) };
        true
    }

    pub(super) fn spare_core(&self) -> Result<*const Core, StackError> {
        // SAFETY: within one statement (module prose of the worker).
        match unsafe { (*self.spare.get()).pop() } {
            Some(core) => Ok(core),
            None => Core::new(self.shared.stack, self.shared, self.index, false),
        }
    }
}
