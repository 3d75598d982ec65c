//! Tasks that may borrow: a scope ends after all of its children.
//!
//! # Why it is sound
//!
//! [`scope`] returns, or unwinds, only when every child has ended and let go of all that it borrowed. Whatever the body
//! does, unwinding included, is caught first; then the children are cancelled if need be and waited for, outside the
//! unwind and under a shield, so that neither cancel nor kill nor a deadline cuts that short. Only structure can refuse
//! the wait: the fiber around it is being dropped by a destructor that unwinds. Then the fiber is quarantined: its stack,
//! with what the children borrow, stays for ever. A scope that can do neither ends the process ([`Children::wait_out`]).
//!
//! A child is *live* from its spawn until its body has ended, and *counted* until its result, if nobody wants it, was
//! dropped as well: [`Children::ended`] is the last thing it does, and it has a reference of its own to the [`Children`],
//! so that nothing of the scope is touched after the count. The result of a child whose handle is still there is the
//! handle's, which cannot outlive the scope.
//!
//! While a child is live it is not freed, so cancelling all that are live, under the lock, meets no other task.
//!
//! Model: `scope_waits_for_the_last_child`.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::thread::panicking;
use std::time::Duration;

use sinew_core::{Bindings, Instant, Signal};
use sinew_fiber::raw::{abandon, catch, is_shielded, may_await, open_scope, re_raise};
use sinew_fiber::{Cancelled, Level, Raised, Reason, Refused, StackSize, Value, shield};
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::{Arc, Mutex, thread};

use crate::dump::WaitKind;
use crate::events::Events;
use crate::join::JoinHandle;
use crate::notes::What;
use crate::reach::{self, Frame, Tripped, cancel_children};
use crate::slots::TaskId;
use crate::spawn::{Options, TaskBuilder};
use crate::task::Task;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter, Waiting};
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
    level: Option<Level>,
    /// A child has ended because all were cancelled.
    cut_short: bool,
    /// The first failure that nobody else was told of.
    error: Option<Raised>,
    waiters: Queue,
}

impl Children {
    fn new(frame: Frame) -> Children {
        let state = State {
            live: HashSet::new(),
            count: 0,
            level: None,
            cut_short: false,
            error: None,
            waiters: Queue::new(),
        };
        Children { frame, keep_going: AtomicBool::new(false), state: Mutex::new(state) }
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
    pub(crate) fn cancel(&self, level: Level) -> Vec<TaskId> {
        let mut state = self.state.lock();
        state.level = state.level.max(Some(level));
        for child in &state.live {
            child.slot().word.cancel(level);
        }
        state.live.iter().copied().collect()
    }

    /// Waits until all children have ended.
    fn wait(&self) -> Result<(), Refused> {
        self.wait_by(|node| node.wait(None, What::at(WaitKind::Scope, self)))
    }

    fn wait_by(&self, wait: impl FnOnce(&Node) -> Result<bool, Refused>) -> Result<(), Refused> {
        let node = Node::new(0);
        {
            let mut state = self.state.lock();
            if state.count == 0 {
                return Ok(());
            }
            // SAFETY: `Waiting` takes it out before it goes.
            unsafe { state.waiters.push(&node) };
        }
        Waiting::new(self, &node).wait_by(wait).map(|_| ())
    }

    /// Waits, where a fiber that is being dropped was refused: whoever drops it catches what it awaits, and has it end
    /// instead. The children end by themselves, so the task may wait for them, unless its thread unwinds.
    fn wait_as_task(&self, refused: Refused) -> Result<(), Refused> {
        if refused.reason() != Reason::Ending || panicking() || worker::current_task().is_none() {
            return Err(refused);
        }
        self.wait_by(|node| {
            node.park(What::at(WaitKind::Scope, self));
            Ok(true)
        })
    }

    /// Waits until all children have ended, whatever comes: it neither returns nor unwinds before.
    fn wait_out(&self) {
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
        eprintln!("a scope can neither wait for its children nor leave them: they borrow from its stack");
        std::process::abort();
    }
}

impl Awaited for Children {
    fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: it was pushed into this queue.
        unsafe { self.state.lock().waiters.remove(node) }
    }

    fn hand_on(&self, _: &Node) {} // everybody is told
}

/// A scope whose children may borrow what lives longer than it; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Arc<Children>,
    /// They live as long as the scope, which empties this before it ends.
    closers: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// Runs `body` with a scope, in which it starts tasks that may borrow from around the scope, and returns when all of
/// them have ended.
///
/// ```
/// use sinew_sched::{Runtime, scope};
///
/// let total = Runtime::new().run(|| {
///     let words = vec!["plain", "blocking", "code"];
///     scope(|scope| {
///         let lengths: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
///         lengths.into_iter().map(|length| length.join().unwrap()).sum::<usize>()
///     })
/// });
/// assert_eq!(total.unwrap().unwrap(), 17);
/// ```
///
/// A child fails if it panics or raises; an `Err` that it returns is a result like any other, and dropped with its handle:
/// join the handle, or raise it with [`error`](sinew_fiber::error). The first child that fails has the others cancelled, and the body unwind at its next blocking call, unless the scope
/// was told to [keep going](Scope::keep_going); so does [`Scope::cancel`]. A child that ends because it was cancelled has
/// not failed. If the body unwinds, or the task around it is cancelled while it waits here, the children are cancelled;
/// and whoever cancels that task, or a [`timeout`](crate::timeout) around the scope, reaches the children at once.
///
/// # Errors
///
/// The first failure of a child whose handle was not joined, with its trace; the refusal if nothing may block here; an
/// error with [`Cancelled`] if the scope or its task was cancelled.
///
/// # Panics
///
/// If the caller is not a task; and if `body` does, after the children have ended.
#[track_caller]
pub fn scope<'env, F, T>(body: F) -> Result<T, Raised>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    may_await().map_err(refusal)?;
    let task = worker::current_task().expect("`scope` is for tasks: call it inside `Runtime::run`");
    let frame = Frame::new(task);
    let children = Arc::new(Children::new(frame));
    let scope = Scope {
        children: children.clone(),
        closers: Mutex::new(Vec::new()),
        _scope: PhantomData,
        _env: PhantomData,
    };
    open_scope(|| {
        frame.open(Some(children.clone()));
        // Whoever ends the task, or a deadline around it, may have looked for its scopes too early to find this one.
        if !task.word.is_quiet() && !is_shielded() {
            reach::level(task).into_iter().for_each(|level| cancel_children(vec![children.clone()], level));
        }
        let outcome = catch(|| {
            let result = body(&scope);
            scope.children.wait().map(|()| result)
        });
        if !matches!(outcome, Ok(Ok(_))) {
            cancel_children(vec![children.clone()], Level::Cancel);
        }
        let closed = shield(|| scope.close());
        frame.close();
        let error = {
            let mut state = children.state.lock();
            state.error.take().or_else(|| state.cut_short.then(cancelled))
        };
        match (outcome, closed) {
            (Err(raised), _) if !is_trip_of(&raised, frame) => go_on(raised, error),
            (_, Err(raised)) => go_on(raised, error),
            (Ok(Ok(result)), Ok(())) => error.map_or(Ok(result), Err),
            (Ok(Err(refused)), Ok(())) => Err(error.unwrap_or_else(|| refusal(refused))),
            (Err(_), Ok(())) => Err(error.unwrap_or_else(cancelled)),
        }
    })
}

/// Leaves a scope by an unwind that is not its own. The failure of a child, which nobody will see, is told.
fn go_on(raised: Raised, error: Option<Raised>) -> ! {
    if let Some(error) = error.filter(|error| !error.is_cancelled()) {
        eprintln!("a child failed in a scope that was left by an unwind: {error:#}");
    }
    re_raise(raised)
}

fn is_trip_of(raised: &Raised, frame: Frame) -> bool {
    raised.value.downcast_ref::<Tripped>().is_some_and(|tripped| tripped.0 == frame)
}

fn refusal(refused: Refused) -> Raised {
    Raised { signal: Signal::Error, value: Value::new(refused), trace: None }
}

/// What a task that was cancelled ends with.
pub(crate) fn cancelled() -> Raised {
    Raised { signal: Signal::Error, value: Value::new(Cancelled), trace: None }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a child. Dropping its handle lets it go on; the scope waits for it.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.task().spawn(body)
    }

    /// The options of a child.
    pub fn task(&'scope self) -> ScopedTaskBuilder<'scope> {
        let worker = worker::current().expect("a scope is used by tasks");
        let options = Options { scope: Some(self.children.clone()), ..Options::default() };
        let builder = TaskBuilder { shared: worker.shared, options };
        ScopedTaskBuilder { builder, children: &self.children }
    }

    /// A failure of a child is only reported: the others and the body go on.
    pub fn keep_going(&self) {
        self.children.keep_going.store(true, Ordering::Relaxed);
    }

    /// Cancels all children, and has the body unwind at its next blocking call.
    pub fn cancel(&self) {
        self.children.frame.trip();
    }

    /// Has `closer` run when all children have ended, however the scope ends; the last one first. It may block, and is
    /// shielded from cancellation.
    pub fn on_exit(&self, closer: impl FnOnce() + Send + 'scope) {
        let closer: Box<dyn FnOnce() + Send + 'scope> = Box::new(closer);
        // SAFETY: only the lifetime changes. The closer is called, and gone, before the scope ends; if that never
        // happens, because the fiber around it is quarantined, what it borrows stays as well.
        let closer = unsafe {
            std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send>>(closer)
        };
        self.closers.lock().push(closer);
    }

    /// Waits for the children, and runs the closers, all of them; the first that fails is told. A closer may start
    /// children, and these may register closers.
    fn close(&self) -> Result<(), Raised> {
        let mut outcome = Ok(());
        loop {
            self.children.wait_out();
            let Some(closer) = self.closers.lock().pop() else { return outcome };
            let closed = catch(closer);
            match (&outcome, closed) {
                (Ok(()), closed) => outcome = closed,
                (Err(_), Err(raised)) => std::mem::forget(raised), // what it holds may panic when it is dropped
                (Err(_), Ok(())) => (),
            }
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children.state.lock().count;
        f.debug_struct("Scope").field("children", &children).finish_non_exhaustive()
    }
}

/// The options of a child of a scope; see [`Scope::task`].
#[must_use = "a builder does nothing until `spawn`"]
pub struct ScopedTaskBuilder<'scope> {
    builder: TaskBuilder,
    children: &'scope Arc<Children>,
}

impl<'scope> ScopedTaskBuilder<'scope> {
    /// See [`TaskBuilder::name`].
    pub fn name(mut self, name: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        self.builder = self.builder.name(name);
        self
    }

    /// See [`TaskBuilder::stack`].
    pub fn stack(mut self, stack: StackSize) -> Self {
        self.builder = self.builder.stack(stack);
        self
    }

    /// See [`TaskBuilder::pinned`].
    pub fn pinned(mut self) -> Self {
        self.builder = self.builder.pinned();
        self
    }

    /// See [`TaskBuilder::supervisor`].
    pub fn supervisor(mut self, events: &Events) -> Self {
        self.builder = self.builder.supervisor(events);
        self
    }

    /// See [`TaskBuilder::bindings`].
    pub fn bindings(mut self, bindings: Bindings) -> Self {
        self.builder = self.builder.bindings(bindings);
        self
    }

    /// Starts a child.
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: the body and its result are `Send`, and live as long as the scope, which does not end before the
        // task has let go of both (module prose).
        let handle = unsafe { self.builder.spawn_borrowing(body) };
        ScopedJoinHandle { handle: ManuallyDrop::new(handle), children: self.children }
    }
}

/// The handle of a child of a scope. Dropping it leaves the child to the scope.
pub struct ScopedJoinHandle<'scope, T> {
    handle: ManuallyDrop<JoinHandle<T>>,
    children: &'scope Arc<Children>,
}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    /// See [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// What the child ended with instead of returning. The scope does not report it again.
    pub fn join(self) -> Result<T, Raised> {
        let children = self.children;
        match self.into_handle().join_by(None, Some(children)) {
            Ok(outcome) => outcome,
            Err(_) => unreachable!("there is no deadline"),
        }
    }

    /// See [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    ///
    /// The handle; inside, what the child ended with.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, Raised>, Self> {
        self.join_until(crate::clock::now() + timeout)
    }

    /// See [`JoinHandle::join_until`].
    ///
    /// # Errors
    ///
    /// The handle; inside, what the child ended with.
    pub fn join_until(self, deadline: Instant) -> Result<Result<T, Raised>, Self> {
        let children = self.children;
        self.into_handle()
            .join_by(Some(deadline), Some(children))
            .map_err(|handle| ScopedJoinHandle { handle: ManuallyDrop::new(handle), children })
    }

    /// See [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// See [`JoinHandle::id`].
    pub fn id(&self) -> TaskId {
        self.handle.id()
    }

    /// See [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// See [`JoinHandle::kill`].
    pub fn kill(&self) {
        self.handle.kill();
    }

    fn into_handle(self) -> JoinHandle<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, and `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.handle) }
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        // SAFETY: taken once; `into_handle` does not drop `self`.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        let unwanted = self.children.failed(handle.detach_or_take_error());
        std::mem::forget(catch(|| drop(unwanted)).err()); // what a destructor raises is nobody's
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("finished", &self.is_finished()).finish()
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::AtomicUsize;
    use sinew_sync::model;

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
