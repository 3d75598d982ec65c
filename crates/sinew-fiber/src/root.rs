//! Roots: the outermost fiber of a chain, on whatever stack it finds itself.
//!
//! A root has a record but no stack of its own. Each thread has one without being asked, and
//! [`run_as_root`] makes another of the current stack for the time of a call. (A scheduler runs its tasks
//! under roots of its own kind: see [`crate::task`].) Signals that reach a root are handed to its [`Hook`], on the stack of the fiber that raised them:
//! the hook returns when the task shall go on, having done with the thread meanwhile what it likes. So an
//! await costs the same whatever the depth of the chain.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use sinew_core::{Mask, Status};

use crate::control::Control;
use crate::hook::Hook;
use crate::raised::Raised;
use crate::record::{Record, Scope};
use crate::terminal::classify;
use crate::view::FiberRef;
use crate::{faults, thread};

/// The record of a root, to be used by one [`run_as_root`] after the other.
#[must_use = "a root is run by `run_as_root`"]
pub struct Root {
    pub(crate) record: *const Record,
}

impl Root {
    /// A root that hands the resumable signals in `mask` to its hook, besides await, interrupt and debug.
    #[track_caller]
    pub fn new(name: impl Into<Cow<'static, str>>, mask: Mask) -> Root {
        faults::install_hook();
        let record = Record::new_root(thread::next_id(), Some(name.into()), mask, Location::caller());
        Root { record }
    }

    /// The handle by which other threads interrupt, cancel and kill what runs under this root.
    pub fn control(&self) -> Control {
        match &self.record().control {
            Some(control) => Control::of_root(control.clone()),
            None => Control::of_task(None),
        }
    }

    /// The status: alive while it runs, afterwards how the last run ended.
    pub fn status(&self) -> Status {
        self.record().status()
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: `self` owns a reference.
        unsafe { &*self.record }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: the reference that `new` got; a root has no body and is not running, since whatever runs it
        // borrows it for as long as it does.
        unsafe { Record::release(self.record) };
    }
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Root({}, {})", self.record().label(), self.status())
    }
}

/// Runs `body` on the current stack as the root of a chain of its own, and returns its result, or the
/// terminal signal (or panic) that it ended with.
///
/// Without a hook nobody waits for the signals of the root: await blocks the thread
/// ([`std::thread::park`]), interrupt and debug go on at once.
///
/// ```
/// use sinew_fiber::{Hook, Mask, Root, Signal, Value, await_, run_as_root};
///
/// struct Answer;
/// impl Hook for Answer {
///     fn stop(&self, _: Signal, question: Value) -> Value {
///         Value::new(question.downcast::<u32>().unwrap() + 1)
///     }
/// }
///
/// let mut root = Root::new("task", Mask::NONE);
/// let answer = run_as_root(&mut root, Some(&Answer), || {
///     await_(41u32).unwrap().downcast::<u32>().unwrap()
/// });
/// assert_eq!(answer.unwrap(), 42);
/// ```
pub fn run_as_root<T>(
    root: &mut Root,
    hook: Option<&dyn Hook>,
    body: impl FnOnce() -> T,
) -> Result<T, Raised> {
    let record = root.record();
    let outer: *const Record = thread::slot().get();
    record.own_status.set(Status::Alive);
    record.runs_on.set(outer);
    let in_destructor = std::thread::panicking();
    record.inherited.set(if in_destructor { Scope::IN_DESTRUCTOR } else { Scope::NONE });
    record.unwinding.set(false);
    // SAFETY: only the lifetime changes. The pointer is used while `record` is the root of the running
    // fiber, which is within this call, and `hook` outlives the call.
    record
        .hook
        .set(hook.map(|hook| unsafe { std::mem::transmute::<*const dyn Hook, *const dyn Hook>(hook) }));
    thread::slot().set(record);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    thread::slot().set(outer);
    record.hook.set(None);
    record.runs_on.set(std::ptr::null());
    match outcome {
        Ok(result) => {
            record.own_status.set(Status::Dead);
            Ok(result)
        }
        Err(payload) => {
            let raised = classify(record, payload);
            record.own_status.set(raised.signal.into());
            Err(raised)
        }
    }
}

/// The running fiber, or the root if none runs.
pub fn current() -> FiberRef {
    FiberRef::of(thread::slot().get())
}

/// The root of the running fiber: the same for all fibers of a task.
pub fn root() -> FiberRef {
    FiberRef::of(thread::slot().get().running_root())
}

/// Calls `look` with the hook of the running root or task, if that is an `H` and says so ([`Hook::as_any`]).
pub fn with_hook<H: 'static, T>(look: impl FnOnce(&H) -> T) -> Option<T> {
    let hook = thread::slot().get().running_root().hook.get()?;
    // SAFETY: whatever runs something under the root keeps the hook for as long as it does.
    unsafe { (*hook).as_any() }?.downcast_ref().map(look)
}

/// The handle by which other threads interrupt, cancel and kill the running root or task.
pub fn control() -> Control {
    let root = thread::slot().get().running_root();
    match (&root.control, root.hook.get()) {
        (Some(control), _) => Control::of_root(control.clone()),
        // SAFETY: whatever runs a task under `root` keeps the hook for as long as it does.
        (None, Some(hook)) => Control::of_task(unsafe { (*hook).remote() }),
        (None, None) => Control::of_task(None),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
