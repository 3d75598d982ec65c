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
//! Model: `scope_waits_for_the_last_child` in `children.rs`.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use sinew_core::{Bindings, Instant, Signal};
use sinew_fiber::raw::{catch, is_shielded, may_await, open_scope, re_raise, report};
use sinew_fiber::{CancelLevel, Raised, Refused, StackSize, Value, shield};
use sinew_sync::{Arc, Mutex};

use crate::children::{Children, cancelled};
use crate::events::Events;
use crate::join::JoinHandle;
use crate::options::Options;
use crate::reach::{self, Frame, Tripped, cancel_children};
use crate::spawn::TaskBuilder;
use crate::task_id::TaskId;
use crate::worker;

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
/// error with [`Cancelled`](sinew_fiber::Cancelled) if [`Scope::cancel`] was called, or if the task was cancelled and the scope had to wait or a
/// child ended because of it.
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
            cancel_children(vec![children.clone()], CancelLevel::Cancel);
        }
        let closed = shield(|| scope.close());
        frame.close();
        let error = children.take_error();
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
        report(format_args!("a child failed in a scope that was left by an unwind: {error:#}"));
    }
    re_raise(raised)
}

fn is_trip_of(raised: &Raised, frame: Frame) -> bool {
    raised.value.downcast_ref::<Tripped>().is_some_and(|tripped| tripped.0 == frame)
}

fn refusal(refused: Refused) -> Raised {
    Raised { signal: Signal::Error, value: Value::new(refused), trace: None }
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
        let builder = TaskBuilder { runtime: worker.runtime, options };
        ScopedTaskBuilder { builder, children: &self.children }
    }

    /// A failure of a child is only reported: the others and the body go on.
    pub fn keep_going(&self) {
        self.children.keep_going();
    }

    /// Cancels all children, and has the body unwind at its next blocking call.
    ///
    /// The [`scope`] then returns an error: the first failure of a child that nobody joined, or else one with
    /// [`Cancelled`](sinew_fiber::Cancelled), also if no child was live and if the body and all children return.
    pub fn cancel(&self) {
        self.children.end_scope();
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
        let children = self.children.count();
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

    /// See [`TaskBuilder::inherit_supervisor`].
    pub fn inherit_supervisor(mut self) -> Self {
        self.builder = self.builder.inherit_supervisor();
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
    /// The handle, if the child has not ended. The inner result is that of [`join`](Self::join).
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, Raised>, Self> {
        self.join_until(crate::clock::now() + timeout)
    }

    /// [`join_timeout`](Self::join_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn join_until(self, deadline: Instant) -> Result<Result<T, Raised>, Self> {
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
