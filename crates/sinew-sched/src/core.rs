//! A virtual core: a pooled stack on which a worker's loop runs, and tasks inline on it.
//!
//! Exactly one core of a worker is active. A task that blocks keeps the core that it is on; the worker goes on on
//! another: that of a task that was blocked and is ready, or a spare one, whose loop then looks for work. When a
//! task ends that had been blocked, it returns into the loop underneath it, and its core is the active one again.
//!
//! A core that is not active is one saved stack pointer. It lies in the top page of its own stack, beside the record of
//! the root that its tasks run under, so a blocked task takes one page and no allocation. Its loop holds nothing that
//! would need a destructor, so a spare core may be dropped where it stands.

use std::cell::Cell;
use std::ptr;

use sinew_core::Signal;
use sinew_fiber::raw::{
    Inside, Remote, StackPointer, TaskSetup, look_inside, place_task_root, prepare, run_task,
};
use sinew_fiber::{Hook, Raised, Root, Stack, StackError, StackSize, Value};
use sinew_sync::atomic::{AtomicUsize, Ordering};

use crate::reach;
use crate::shared::Shared;
use crate::task::Task;
use crate::worker;

pub(crate) struct Core {
    /// Where the core goes on when it is not active.
    pub(crate) sp: Saved,
    pub(crate) shared: &'static Shared,
    /// The worker that the core belongs to; for that of a task that migrates, the last one.
    pub(crate) worker: Cell<usize>,
    pub(crate) size: StackSize,
    /// Made for one task, and freed after it.
    pub(crate) private: bool,
    /// The task that runs here can be [reached](crate::reach), which has to end with it.
    pub(crate) reached: Cell<bool>,
    root: Root,
}

/// A saved stack pointer. It is written at every switch, so it has a cache line of its own: whoever wakes a task from
/// another processor reads the rest of its core.
#[repr(align(64))]
pub(crate) struct Saved(Cell<StackPointer>);

impl Saved {
    #[inline(always)]
    pub(crate) fn get(&self) -> StackPointer {
        self.0.get()
    }

    /// Where a switch saves it.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut StackPointer {
        self.0.as_ptr()
    }
}

/// The hook of tasks: await parks the task, any other signal that reaches its root goes on.
pub(crate) struct Park;

impl Hook for Park {
    fn stop(&self, signal: Signal, _payload: Value) -> Value {
        park_on_await(signal)
    }

    fn remote(&self) -> Option<(&'static dyn Remote, u64)> {
        reach::remote()
    }

    fn tripped(&self) -> Option<Value> {
        reach::tripped_now()
    }
}

pub(crate) fn park_on_await(signal: Signal) -> Value {
    if signal == Signal::Await {
        worker::park();
    }
    Value::UNIT
}

pub(crate) static PARK: Park = Park;

impl Core {
    /// A core whose loop has not started.
    pub(crate) fn new(
        size: StackSize,
        shared: &'static Shared,
        worker: usize,
        private: bool,
    ) -> Result<*const Core, StackError> {
        let stack = Stack::take(size)?;
        // SAFETY: the core and the loop's frames are small; the core goes with the root, in `free`.
        let (root, core, top) = unsafe { place_task_root::<Core>(stack) };
        let sp = Saved(Cell::new(ptr::null_mut()));
        let (worker, reached) = (Cell::new(worker), Cell::new(false));
        let fresh = Core { sp, shared, worker, size, private, reached, root };
        // SAFETY: the place is the core's; the frames start below it, where the stack is the core's alone.
        unsafe {
            core.write(fresh);
            (*core).sp.0.set(prepare(top, worker::core_main, core.cast()));
            (*core).count().fetch_add(1, Ordering::Relaxed);
        }
        Ok(core)
    }

    /// The core belongs to this worker now.
    #[inline(always)]
    pub(crate) fn go_to(&self, worker: usize) {
        if self.worker.get() != worker {
            self.count().fetch_sub(1, Ordering::Relaxed);
            self.worker.set(worker);
            self.count().fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many cores its worker has.
    fn count(&self) -> &AtomicUsize {
        &self.shared.inboxes[self.worker.get()].cores
    }

    /// What is inside the task that is parked here.
    ///
    /// # Safety
    ///
    /// There is one, and this is the thread that alone may continue it.
    pub(crate) unsafe fn look_inside(&self) -> Inside {
        // SAFETY: the caller's promise.
        unsafe { look_inside(&self.root, self.sp.get()) }
    }

    /// Gives a spare core's stack back.
    ///
    /// # Safety
    ///
    /// `core` came from [`Core::new`], is not active, has no task, and is not used again.
    pub(crate) unsafe fn free(core: *const Core) {
        // SAFETY: the caller's promise. With the root goes the stack that the core lies in: the core is moved out first.
        let core = unsafe { core.read() };
        core.count().fetch_sub(1, Ordering::Relaxed);
    }

    /// Runs the body of `task` as a root on this core.
    #[inline]
    pub(crate) fn run<T>(&self, task: &'static Task, body: impl FnOnce() -> T) -> Result<T, Raised> {
        self.run_hooked(task, &raw const PARK as *const dyn Hook, body)
    }

    /// The same, with `hook` for the signals that reach the root.
    #[inline]
    pub(crate) fn run_hooked<T>(
        &self,
        task: &'static Task,
        hook: *const dyn Hook,
        body: impl FnOnce() -> T,
    ) -> Result<T, Raised> {
        let setup = TaskSetup { word: &task.word, hook, id: task.id().as_u64() };
        // SAFETY: task slots live for ever, and the callers' hooks until this returns; the root is the core's, which
        // runs one task at a time.
        unsafe { run_task(&self.root, &setup, body) }
    }
}
