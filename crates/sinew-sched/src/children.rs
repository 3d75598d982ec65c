//! The children of a scope: who is live, who is counted, and the wait for the last of them. `scope.rs` says why this
//! makes borrowing sound.
//!
//! Model: `scope_waits_for_the_last_child`.

use std::collections::HashSet;
use std::thread::panicking;

use sinew_core::Signal;
use sinew_fiber::raw::{abandon, catch, report};
use sinew_fiber::{CancelLevel, Cancelled, Raised, Reason, Refused, Value};
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::{Mutex, thread};

use crate::notes::What;
use crate::reach::Frame;
use crate::task::Task;
use crate::task_id::TaskId;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter, Waiting};
use crate::wait_kind::WaitKind;
use crate::worker;

/// How often a scope tries to wait for its children where something prevents it.
const MOST_TRIES: usize = 10_000;

/// The children of a scope.
pub(crate) struct Children {
    frame: Frame,
    /// Whether the first failure leaves the others alone.
    keep_going: AtomicBool,
    state: Mutex<State>,
}

/// How the body of a child ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Returned,
    Failed,
    Cancelled,
}

impl End {
    pub(crate) fn of<T>(outcome: &Result<T, Raised>) -> End {
        match outcome {
            Ok(_) => End::Returned,
            Err(raised) if raised.is_cancelled() => End::Cancelled,
            Err(_) => End::Failed,
        }
    }
}

struct State {
    live: HashSet<TaskId>,
    /// Children that have not let go of everything.
    count: usize,
    /// What new children start with.
    level: Option<CancelLevel>,
    /// A child has ended because all were cancelled.
    cut_short: bool,
    /// [`Scope::cancel`] was called: the scope reports it, whatever the body and the children return.
    cancelled: bool,
    /// The first failure that nobody else was told of.
    error: Option<Raised>,
    waiters: Queue,
}

impl Children {
    pub(crate) fn new(frame: Frame) -> Children {
        let state = State {
            live: HashSet::new(),
            count: 0,
            level: None,
            cut_short: false,
            cancelled: false,
            error: None,
            waiters: Queue::new(),
        };
        Children { frame, keep_going: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Lets the first failure leave the others alone.
    pub(crate) fn keep_going(&self) {
        self.keep_going.store(true, Ordering::Relaxed);
    }

    /// Ends the scope: everything inside unwinds, and the scope reports that it was cancelled.
    pub(crate) fn end_scope(&self) {
        self.state.lock().cancelled = true;
        self.frame.trip();
    }

    /// Returns the error of the scope, once all children have ended: the first failure that nobody else was told of, or
    /// that they were cancelled.
    pub(crate) fn take_error(&self) -> Option<Raised> {
        let mut state = self.state.lock();
        state.error.take().or_else(|| (state.cut_short || state.cancelled).then(cancelled))
    }

    /// Returns how many children have not let go of everything.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().count
    }

    /// Takes `task`, which is not queued yet, for a child.
    pub(crate) fn admit(&self, task: &'static Task) {
        let mut state = self.state.lock();
        state.live.insert(task.id());
        state.count += 1;
        if let Some(level) = state.level {
            task.word.cancel(level);
        }
    }

    /// The body of a child has ended, and its slot is about to be the handle's.
    pub(crate) fn leaves(&self, task: TaskId, end: End) {
        {
            let mut state = self.state.lock();
            state.live.remove(&task);
            state.cut_short |= end == End::Cancelled && state.level.is_some();
        }
        if end == End::Failed && !self.keep_going.load(Ordering::Relaxed) {
            self.frame.trip();
        }
    }

    /// A child has let go of everything: the last thing that it does.
    pub(crate) fn ended(&self) {
        let waiters: Vec<Waiter> = {
            let mut state = self.state.lock();
            state.count -= 1;
            match state.count {
                0 => std::iter::from_fn(|| state.waiters.tell(TOLD)).collect(),
                _ => Vec::new(),
            }
        };
        waiters.into_iter().for_each(Waiter::wake);
    }

    /// Notes the failure of a child that its handle did not take, if it is the first; a child that was cancelled has not
    /// failed. Returns what is not kept: its destructor may do anything, and is the caller's to run.
    #[must_use = "its destructor is run by the caller"]
    pub(crate) fn failed(&self, error: Option<Raised>) -> Option<Raised> {
        let mut state = self.state.lock();
        match error {
            Some(error) if state.error.is_none() && !error.is_cancelled() => {
                state.error = Some(error);
                None
            }
            unwanted => unwanted,
        }
    }

    /// Cancels or kills the words of all live children, and of those to come; says which have to be woken.
    pub(crate) fn cancel(&self, level: CancelLevel) -> Vec<TaskId> {
        let mut state = self.state.lock();
        state.level = state.level.max(Some(level));
        for child in &state.live {
            child.slot().word.cancel(level);
        }
        state.live.iter().copied().collect()
    }

    /// Waits until all children have ended.
    pub(crate) fn wait(&self) -> Result<(), Refused> {
        // SAFETY: `Node::wait` returns true only if the node was told.
        unsafe { self.wait_by(|node| node.wait(None, What::at(WaitKind::Scope, self))) }
    }

    /// # Safety
    ///
    /// As for [`Waiting::wait_by`].
    unsafe fn wait_by(&self, wait: impl FnOnce(&Node) -> Result<bool, Refused>) -> Result<(), Refused> {
        let node = Node::new(0);
        {
            let mut state = self.state.lock();
            if state.count == 0 {
                return Ok(());
            }
            // SAFETY: the node is new, and `Waiting` takes it out before it goes.
            unsafe { state.waiters.push(&node) };
        }
        // SAFETY: the node was pushed into this queue just now; the caller answers for `wait`.
        unsafe { Waiting::new(self, &node).wait_by(wait) }.map(|_| ())
    }

    /// Waits, where a fiber that is being dropped was refused: whoever drops it catches what it awaits, and has it end
    /// instead. The children end by themselves, so the task may wait for them, unless its thread unwinds.
    fn wait_as_task(&self, refused: Refused) -> Result<(), Refused> {
        if refused.reason() != Reason::Ending || panicking() || worker::current_task().is_none() {
            return Err(refused);
        }
        let wait = |node: &Node| {
            node.park(What::at(WaitKind::Scope, self));
            Ok(true)
        };
        // SAFETY: `Node::park` returns only when the node was told.
        unsafe { self.wait_by(wait) }
    }

    /// Waits until all children have ended, whatever comes: it neither returns nor unwinds before.
    pub(crate) fn wait_out(&self) {
        for _ in 0..MOST_TRIES {
            match catch(|| self.wait().or_else(|refused| self.wait_as_task(refused))) {
                Ok(Ok(())) => return,
                // The fiber around us is being dropped in a way that lets nobody wait. What the children borrow has to
                // stay.
                Ok(Err(_)) => drop(abandon()),
                // There is no stack to go on on meanwhile, or the hook of a root of the user's own has panicked.
                Err(raised) => std::mem::forget(raised),
            }
            thread::yield_now();
        }
        report(format_args!(
            "a scope can neither wait for its children nor leave them: they borrow from its stack"
        ));
        std::process::abort();
    }
}

impl Awaited for Children {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().waiters.remove(node) }
    }

    unsafe fn hand_on(&self, _: &Node) {} // everybody is told
}

/// What a task that was cancelled ends with.
pub(crate) fn cancelled() -> Raised {
    Raised { signal: Signal::Error, value: Value::new(Cancelled), trace: None }
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::AtomicUsize;
    use sinew_sync::{Arc, model};

    use super::*;

    /// The last child against a parent that waits: it is woken, after the child has let go of everything, and what the
    /// child touches last is not gone.
    #[test]
    fn a_parent_waits_for_the_last_child() {
        model("scope_waits_for_the_last_child", || {
            let children = Arc::new(Children::new(Frame::of_nobody()));
            let borrowed = Arc::new(AtomicUsize::new(2));
            children.state.lock().count = 2;
            let parent = {
                let (children, borrowed) = (children.clone(), borrowed.clone());
                thread::spawn(move || {
                    children.wait().unwrap();
                    borrowed.load(Ordering::Relaxed)
                })
            };
            for _ in 0..2 {
                borrowed.fetch_sub(1, Ordering::Relaxed);
                children.ended();
            }
            assert_eq!(parent.join().unwrap(), 0, "a child still borrows");
        });
    }
}
