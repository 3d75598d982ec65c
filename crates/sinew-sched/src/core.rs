//! A virtual core: a pooled stack on which a worker's loop runs, and tasks inline on it.
//!
//! Exactly one core of a worker is active. A task that blocks keeps the core that it is on; the worker goes on on
//! another: that of a task that was blocked and is ready, or a spare one, whose loop then looks for work. When a
//! task ends that had been blocked, it returns into the loop underneath it, and its core is the active one again.
//!
//! A core that is not active is one saved stack pointer. Its loop holds nothing that would need a destructor, so
//! a spare core may be dropped where it stands.

use std::cell::Cell;
use std::ptr;

use sinew_core::Signal;
use sinew_fiber::raw::{StackPointer, TaskSetup, place_task_root, prepare, run_task};
use sinew_fiber::{Hook, Raised, Root, Stack, StackError, StackSize, Value};

use crate::shared::Shared;
use crate::task::Task;
use crate::worker;

pub(crate) struct Core {
    /// Where the core goes on when it is not active.
    pub(crate) sp: Cell<StackPointer>,
    /// The worker that the core belongs to.
    pub(crate) shared: &'static Shared,
    pub(crate) worker: usize,
    /// In the stack itself, as the core is: dropping it gives the stack back.
    root: Root,
}

/// What a signal that reaches a task's root does: await parks the task, any other goes on.
struct Park;

impl Hook for Park {
    fn stop(&self, signal: Signal, _payload: Value) -> Value {
        if signal == Signal::Await {
            worker::park();
        }
        Value::UNIT
    }
}

static PARK: Park = Park;

/// A number for a task, for traces: its slot and how often that was used.
fn number(task: &Task) -> u64 {
    (ptr::from_ref(task).addr() as u64 >> 6) << 32 | u64::from(task.state.generation())
}

impl Core {
    /// A core whose loop has not started.
    pub(crate) fn new(
        size: StackSize,
        shared: &'static Shared,
        worker: usize,
    ) -> Result<*const Core, StackError> {
        let stack = Stack::take(size)?;
        // SAFETY: the stack is the core's alone and has room for a first frame below the core, which is there until
        // `free` drops the root.
        unsafe {
            let (root, core, top) = place_task_root::<Core>(stack);
            let sp = prepare(top, worker::core_main, core.cast());
            core.write(Core { sp: Cell::new(sp), shared, worker, root });
            Ok(core)
        }
    }

    /// Gives a spare core's stack back.
    ///
    /// # Safety
    ///
    /// `core` came from [`Core::new`], is not active, has no task, and is not used again.
    pub(crate) unsafe fn free(core: *const Core) {
        // SAFETY: the caller's promise.
        drop(unsafe { core.read() });
    }

    /// Runs the body of `task` as a root on this core.
    #[inline]
    pub(crate) fn run<T>(&self, task: &'static Task, body: impl FnOnce() -> T) -> Result<T, Raised> {
        let setup = TaskSetup { word: &task.word, hook: &raw const PARK, id: number(task) };
        // SAFETY: task slots and the hook live for ever; the root is the core's, which runs one task at a time.
        unsafe { run_task(&self.root, &setup, body) }
    }
}
