//! The handle of a task, and how the two settle who frees its slot (see [`crate::task`]).

mod ended;
mod future;

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::time::Duration;

use sinew_core::{Instant, Signal};
use sinew_fiber::raw::catch;
use sinew_fiber::{CancelLevel, Raised, Refused, Value};
use sinew_sync::atomic::Ordering;

use crate::children::Children;
use crate::clock::now;
use crate::notes::What;
use crate::reach;
use crate::shared::RuntimeId;
use crate::task::{DETACHED, DONE, Task};
use crate::task_id::TaskId;
use crate::wait::Node;
use crate::worker;

pub use ended::Ended;
pub use future::JoinFuture;

/// The handle of a task: joins, cancels or kills it. Dropping it lets the task go on alone.
///
/// [`join`](JoinHandle::join) blocks; in a future, `handle.await` gives the same.
#[must_use = "a handle that is dropped lets the task go on alone: call `detach` if you mean that"]
pub struct JoinHandle<T> {
    task: &'static Task,
    runtime: RuntimeId,
    _result: PhantomData<T>,
}

// SAFETY: the handle is the right to take one result of type `T`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle cancels, kills and asks, by atomics.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    ///
    /// `task` was prepared with a body that returns a `T`, and this is its only handle.
    pub(crate) unsafe fn new(task: &'static Task, runtime: RuntimeId) -> JoinHandle<T> {
        JoinHandle { task, runtime, _result: PhantomData }
    }

    pub(crate) fn task(&self) -> &'static Task {
        self.task
    }

    /// The number of the task, for messages and events.
    pub fn id(&self) -> TaskId {
        self.task.id()
    }

    /// Waits until the task has ended, and returns its result, or the signal or panic that it ended with.
    ///
    /// If the waiting task is itself cancelled or killed meanwhile, the error is that of the wait, and the joined
    /// task goes on alone.
    ///
    /// # Errors
    ///
    /// What the task ended with instead of returning. A task that joins itself has an error at once.
    pub fn join(self) -> Result<T, Raised> {
        match self.join_by(None, None) {
            Ok(outcome) => outcome,
            Err(_) => unreachable!("there is no deadline"),
        }
    }

    /// Like [`join`](JoinHandle::join), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// The handle, if the task has not ended: it can be joined again, or cancelled. The inner result is that of
    /// [`join`](JoinHandle::join).
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, Raised>, JoinHandle<T>> {
        self.join_by(Some(now() + timeout), None)
    }

    /// Joins the task by `deadline`; if the wait unwinds, its failure is for the scope, if it is a child of one.
    #[inline]
    pub(crate) fn join_by(
        self,
        deadline: Option<Instant>,
        scope: Option<&Children>,
    ) -> Result<Result<T, Raised>, JoinHandle<T>> {
        let this = ManuallyDrop::new(self);
        let task = this.task;
        if !this.is_finished() {
            if worker::current_task().is_some_and(|current| ptr::eq(current, task)) {
                drop(ManuallyDrop::into_inner(this));
                return Ok(Err(own_end()));
            }
            match this.wait(deadline, scope) {
                Waited::Ended => (),
                Waited::TimedOut => return Err(ManuallyDrop::into_inner(this)),
                Waited::Refused(refused) => {
                    let (signal, value) = (Signal::Error, Value::new(refused));
                    return Ok(Err(Raised { signal, value, trace: None }));
                }
            }
        } else {
            worker::charge();
        }
        Ok(ManuallyDrop::into_inner(this).take())
    }

    /// What the task, which has ended, ended with.
    #[inline]
    fn take(self) -> Result<T, Raised> {
        debug_assert!(self.is_finished());
        let this = ManuallyDrop::new(self);
        // SAFETY: the task has ended, and we hold its only handle.
        let result = unsafe { this.task.take_outcome::<T>() };
        worker::free(this.task, this.runtime);
        result
    }

    fn wait(&self, deadline: Option<Instant>, scope: Option<&Children>) -> Waited {
        let node = Node::new(0);
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or taken back.
        if !unsafe { enter(self.task, &node) } {
            return Waited::Ended;
        }
        let waiting = Waiting { task: self.task, runtime: self.runtime, node: &node, scope };
        let waited = match node.wait(deadline, What::end_of(self.task.id())) {
            Ok(false) if waiting.take_back(ptr::null_mut()) => Waited::TimedOut,
            Err(refused) if waiting.take_back(DETACHED) => Waited::Refused(refused),
            _ => Waited::Ended,
        };
        std::mem::forget(waiting);
        waited
    }

    /// Lets the task go on alone, as dropping the handle does.
    pub fn detach(self) {
        drop(self);
    }

    /// True once the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.join.load(Ordering::Acquire) == DONE
    }

    /// Asks the task to end: from now on its blocking calls fail, or unwind if they cannot.
    pub fn cancel(&self) {
        self.end(CancelLevel::Cancel);
    }

    /// Makes every blocking call of the task unwind from now on.
    pub fn kill(&self) {
        self.end(CancelLevel::Kill);
    }

    fn end(&self, level: CancelLevel) {
        reach::cancel(self.task, level);
    }

    /// Takes out the node of a wait that was forgotten, which is in nobody's hands any more.
    #[doc(hidden)]
    pub fn clear_wait(&mut self) {
        let word = self.task.join.load(Ordering::Acquire);
        if !word.is_null() && word != DONE {
            // It is null now, or the task has ended.
            let null = ptr::null_mut();
            let _ = self.task.join.compare_exchange(word, null, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Drops the handle; returns what the task has ended with, if it has failed already.
    pub(crate) fn detach_or_take_error(self) -> Option<Raised> {
        let this = ManuallyDrop::new(self);
        let task = this.task;
        if detach(task, ptr::null_mut()) {
            return None;
        }
        if task.has_raised() {
            // SAFETY: the task has ended, and we hold its only handle.
            let raised = unsafe { task.take_raised() };
            worker::free(task, this.runtime);
            return Some(raised);
        }
        // SAFETY: as above.
        unsafe { drop_and_free(task, this.runtime) };
        None
    }
}

/// Puts `node` where the end of `task` finds it. False if the task has ended.
///
/// # Safety
///
/// `node` is in no queue, and was not told. If this returns true it stays where it is until it was told (one of a
/// group: until the group says so) or [taken back](take_back).
pub unsafe fn enter(task: &Task, node: &Node) -> bool {
    node.wake_caller();
    let node = ptr::from_ref(node).cast_mut();
    task.join.compare_exchange(ptr::null_mut(), node, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Takes `node` back and leaves `word` in its place. False if the task has ended: then it has told the node.
pub fn take_back(task: &Task, node: &Node, word: *mut Node) -> bool {
    let address = ptr::from_ref(node).cast_mut();
    let taken = task.join.compare_exchange(address, word, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !taken {
        node.wait_out();
    }
    taken
}

/// Lets the task, whose join word is `word`, free itself. False if it has ended.
pub(crate) fn detach(task: &Task, word: *mut Node) -> bool {
    task.join.compare_exchange(word, DETACHED, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// What a task that joins itself is told.
fn own_end() -> Raised {
    let (signal, value) = (Signal::Error, Value::new("a task cannot wait for its own end"));
    Raised { signal, value, trace: None }
}

/// How a wait for the end of a task came out.
enum Waited {
    Ended,
    TimedOut,
    Refused(Refused),
}

/// A node that is in a task's join word, taken back when the wait is given up or unwinds.
struct Waiting<'a> {
    task: &'static Task,
    runtime: RuntimeId,
    node: &'a Node,
    scope: Option<&'a Children>,
}

impl Waiting<'_> {
    fn take_back(&self, word: *mut Node) -> bool {
        take_back(self.task, self.node, word)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.take_back(DETACHED) {
            return;
        }
        // SAFETY: the task has ended, and its only handle is ours, which unwinds.
        unsafe {
            match self.scope {
                Some(scope) if self.task.has_raised() => {
                    let unwanted = scope.failed(Some(self.task.take_raised()));
                    worker::free(self.task, self.runtime);
                    mem::forget(catch(|| drop(unwanted)).err()); // this unwinds already
                }
                _ => drop_and_free(self.task, self.runtime),
            }
        }
    }
}

/// Drops the result of a task and frees its slot, also if the destructor panics.
///
/// # Safety
///
/// The task has ended, and the caller has its only handle, which it does not use again.
unsafe fn drop_and_free(task: &'static Task, runtime: RuntimeId) {
    struct Free(&'static Task, RuntimeId);
    impl Drop for Free {
        fn drop(&mut self) {
            worker::free(self.0, self.1);
        }
    }
    let _free = Free(task, runtime);
    if let Some(drop_result) = task.table().drop_result {
        // SAFETY: the caller's promise.
        unsafe { drop_result(task) };
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if !detach(self.task, ptr::null_mut()) {
            // SAFETY: the task has ended, and the result is ours to drop.
            unsafe { drop_and_free(self.task, self.runtime) };
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
