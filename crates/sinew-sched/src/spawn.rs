//! Starting tasks: bodies, their options, and where a new task goes.

use std::any::type_name;
use std::borrow::Cow;
use std::ptr;

use sinew_core::{Bindings, Signal};
use sinew_fiber::raw::{Inherited, inherit_bindings, set_task_bindings, set_task_mask, set_task_name};
use sinew_fiber::{Cancelled, Fiber, IntoValue, Raised, Reason, StackSize, Value, propagate};
use sinew_sync::Arc;

use crate::core::Core;
use crate::events::{EventSender, Events, STOPPING, Supervised};
use crate::future::future_table;
use crate::join::JoinHandle;
use crate::scope::{Children, End, cancelled};
use crate::shared::Shared;
use crate::task::{Kind, Ran, Table, Task, drop_result, never_blocks, no_options, no_tag};
use crate::worker;

/// What a task was started with besides its body.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Cow<'static, str>>,
    /// None: the runtime's.
    pub(crate) stack: Option<StackSize>,
    /// Never stolen, also before it has started.
    pub(crate) pinned: bool,
    pub(crate) supervisor: Option<EventSender>,
    pub(crate) bindings: Option<Inherited>,
    /// The scope that waits for it.
    pub(crate) scope: Option<Arc<Children>>,
}

impl Options {
    /// The handle of a task with these options that was over before it began, because its runtime has ended.
    #[track_caller]
    fn over<T>(self, shared: &'static Shared) -> JoinHandle<T> {
        let handle = over(shared, cancelled());
        if let Some(events) = self.supervisor {
            let supervised = Supervised { events, task: handle.id(), name: self.name };
            drop(supervised.raised(cancelled(), Cancelled.to_string()));
        }
        handle
    }
}

/// A body with options.
#[repr(C)]
pub(crate) struct Configured<F> {
    pub(crate) options: Options,
    pub(crate) body: F,
}

/// Starts a task on the runtime that runs the caller.
///
/// # Panics
///
/// If the caller is not a task; use [`Runtime::spawn`](crate::Runtime::spawn) there.
#[inline]
#[track_caller]
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let worker = worker::current().expect("`spawn` is for tasks: use `Runtime::spawn` on this thread");
    let task = worker.take_slot();
    // SAFETY: a fresh slot, prepared for a body that returns a `T`.
    let handle = unsafe {
        task.prepare(body, thunk_table::<F, T>(), worker.shared, worker.stamp());
        JoinHandle::new(task, worker.shared)
    };
    worker.shared.admit(task);
    worker.push_new(task);
    handle
}

/// Starts a task on the runtime of `shared`, for a thread that may be no worker of it.
#[track_caller]
pub(crate) fn spawn_on<F, T>(shared: &'static Shared, body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if !shared.count_outside() {
        drop(body);
        return over(shared, cancelled());
    }
    let task = shared.take_slot();
    // SAFETY: a fresh slot, prepared for a body that returns a `T`.
    let handle = unsafe {
        task.prepare(body, thunk_table::<F, T>(), shared, shared.stamp());
        JoinHandle::new(task, shared)
    };
    shared.admit(task);
    shared.inject(task);
    handle
}

/// The handle of a task that was over before it began, because its runtime has ended.
#[track_caller]
pub(crate) fn over<T>(shared: &'static Shared, raised: Raised) -> JoinHandle<T> {
    let task = shared.take_slot();
    // SAFETY: a fresh slot, which holds no result of any type.
    unsafe {
        task.prepare_ended(raised, shared);
        JoinHandle::new(task, shared)
    }
}

/// The options of a task, for the runtime that runs the caller; [`Runtime::task`](crate::Runtime::task) is for others.
///
/// ```
/// use sinew_sched::{Runtime, task};
///
/// let answer = Runtime::new().run(|| {
///     let parser = task().name("parser").pinned().spawn(|| 42);
///     parser.join().unwrap()
/// });
/// assert_eq!(answer.unwrap(), 42);
/// ```
///
/// # Panics
///
/// If the caller is not a task.
#[track_caller]
pub fn task() -> TaskBuilder {
    let worker = worker::current().expect("`task` is for tasks: use `Runtime::task` on this thread");
    TaskBuilder { shared: worker.shared, options: Options::default() }
}

/// The options of a new task; see [`task`].
#[must_use = "a builder does nothing until `spawn`"]
pub struct TaskBuilder {
    pub(crate) shared: &'static Shared,
    pub(crate) options: Options,
}

impl TaskBuilder {
    /// A name for traces, reports and dumps.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> TaskBuilder {
        self.options.name = Some(name.into());
        self
    }

    /// How large the stack is that the task runs on; the runtime's if not said. A task that asks for another size
    /// pays for a switch of stacks when it starts.
    pub fn stack(mut self, stack: StackSize) -> TaskBuilder {
        self.options.stack = Some(stack);
        self
    }

    /// The task stays on the worker that it is first queued on, also before it has started: that of its spawner, or
    /// from outside the first one.
    pub fn pinned(mut self) -> TaskBuilder {
        self.options.pinned = true;
        self
    }

    /// Who is told how the task ends, and may continue it when it stops: see [`Events`]. A task with a supervisor may
    /// stop on yield, user5, user6 and user7; whatever it raises in the end is the supervisor's, and whoever joins it
    /// gets the text.
    pub fn supervisor(mut self, events: &Events) -> TaskBuilder {
        self.options.supervisor = Some(events.sender());
        self
    }

    /// Where the task's dynamic bindings come from: none of them, if not said, those of the fiber that calls this, or a
    /// layer of its own over those.
    pub fn bindings(mut self, bindings: Bindings) -> TaskBuilder {
        self.options.bindings = inherit_bindings(bindings);
        self
    }

    /// Starts a task.
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the body is `Send`, and the table is its own.
        unsafe { self.start(body, configured_table::<F, T>(Kind::Thunk)) }
    }

    /// Starts a task that may go on on another thread whenever it blocks.
    ///
    /// # Safety
    ///
    /// Nothing that the body has on its stack across a blocking call may belong to a thread: no reference to a
    /// thread-local, no guard of a lock that knows its thread (std's do), no value that is not `Send`. And since a
    /// compiler may keep the address of a thread-local across a call, functions that use one and block have to reach it
    /// behind a call that is never inlined.
    #[track_caller]
    pub unsafe fn spawn_migrating<F, T>(self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let kind = if self.options.pinned { Kind::Thunk } else { Kind::Migrating };
        // SAFETY: the body is `Send`, and the table is its own; the rest is the caller's promise.
        unsafe { self.start(body, configured_table::<F, T>(kind)) }
    }

    /// Starts a task that stays on the worker of its spawner, so that its body may hold what must not leave the
    /// thread: a [`Fiber`](sinew_fiber::Fiber), an `Rc`.
    ///
    /// # Panics
    ///
    /// If the caller is not a task of the builder's runtime.
    #[track_caller]
    pub fn spawn_local<F, T>(mut self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        let here = worker::current().is_some_and(|worker| ptr::eq(worker.shared, self.shared));
        assert!(here, "`spawn_local` is for tasks of the same runtime: it starts a task on their worker");
        self.options.pinned = true;
        // SAFETY: pinned, so the body does not leave this thread, on which it is run, or dropped; and a handle of
        // a `T` that is not `Send` does not leave it either.
        unsafe { self.start(body, configured_table::<F, T>(Kind::Thunk)) }
    }

    /// Starts a task that runs `fiber`, a new one, from its first resume, with `value`, to its end, on the worker of the
    /// caller. Signals that the fiber's mask catches are the task's: a terminal one ends it, any other stops it for its
    /// supervisor.
    ///
    /// ```
    /// use sinew_fiber::{Fiber, Value};
    /// use sinew_sched::{Runtime, task};
    ///
    /// let answer = Runtime::new().run(|| {
    ///     let fiber = Fiber::new(|value: Value| value.downcast::<u32>().unwrap() + 1).unwrap();
    ///     task().spawn_fiber(fiber, 41u32).join().unwrap().downcast::<u32>().unwrap()
    /// });
    /// assert_eq!(answer.unwrap(), 42);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`spawn_local`](TaskBuilder::spawn_local).
    #[track_caller]
    pub fn spawn_fiber(self, fiber: Fiber, value: impl IntoValue) -> JoinHandle<Value> {
        let value = value.into_value();
        self.spawn_local(move || {
            let mut signal = fiber.resume(value).unwrap_or_else(|refused| sinew_fiber::error(refused));
            let mut value = fiber.take_value();
            while signal != Signal::Ok {
                value = propagate(value, &fiber).unwrap_or_else(|refused| sinew_fiber::error(refused));
                signal = fiber.status().signal().unwrap_or(Signal::Ok);
            }
            value
        })
    }

    /// Starts a task whose body borrows.
    ///
    /// # Safety
    ///
    /// The task has ended, and let go of body and result, before anything that they borrow is gone.
    #[track_caller]
    pub(crate) unsafe fn spawn_borrowing<F, T>(self, body: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the body is `Send`, and the table is its own; the rest is the caller's promise.
        unsafe { self.start(body, configured_table::<F, T>(Kind::Thunk)) }
    }

    /// Starts a task that polls `future`. If it is pinned, it has a stack of its own, like any body that stays on its
    /// worker.
    #[track_caller]
    pub fn spawn_future<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        if self.options.pinned {
            // Polled by a body that stays where it is.
            return self.spawn(|| {
                crate::future::block_on(future).unwrap_or_else(|refused| match refused.reason() {
                    Reason::Cancelled => sinew_fiber::error(Cancelled),
                    _ => sinew_fiber::error(refused),
                })
            });
        }
        // SAFETY: the future is `Send`, and the table is its own.
        unsafe { self.start(future, future_table::<Configured<F>>()) }
    }

    /// # Safety
    ///
    /// `table` is for `Configured<F>`, whose result is a `T`; the body may be sent to wherever the options let it go.
    #[track_caller]
    unsafe fn start<F, T>(self, body: F, table: &'static Table) -> JoinHandle<T> {
        let TaskBuilder { shared, options } = self;
        let (pinned, name, scope) = (options.pinned, options.name.clone(), options.scope.clone());
        let worker = worker::current().filter(|worker| ptr::eq(worker.shared, shared));
        if worker.is_none() && !shared.count_outside() {
            drop(body);
            return options.over(shared);
        }
        let task = worker.map_or_else(|| shared.take_slot(), |worker| worker.take_slot());
        let stamp = worker.map_or_else(|| shared.stamp(), |worker| worker.stamp());
        // SAFETY: a fresh slot; the caller's promise.
        let handle = unsafe {
            task.prepare(Configured { options, body }, table, shared, stamp);
            JoinHandle::new(task, shared)
        };
        if let Some(scope) = scope {
            scope.admit(task);
        }
        if let Some(name) = name {
            shared.names.insert(task.id(), name);
        }
        shared.admit(task);
        if pinned {
            task.notes.pinned(worker.map_or(0, |worker| worker.index()));
        }
        match worker {
            Some(worker) if pinned => worker.push_new_pinned(task),
            Some(worker) => worker.push_new(task),
            None if pinned => shared.push_to(0, task),
            None => shared.inject(task),
        }
        handle
    }
}

fn thunk_table<F, T>() -> &'static Table
where
    F: FnOnce() -> T,
{
    const {
        &Table {
            kind: Kind::Thunk,
            configured: false,
            run: run_thunk::<F, T>,
            drop_result: drop_result::<T>(),
            options: no_options,
            blocks: never_blocks,
            tag: no_tag,
            type_name: type_name::<F>,
            size: size_of::<F>(),
        }
    }
}

fn configured_table<F, T>(kind: Kind) -> &'static Table
where
    F: FnOnce() -> T,
{
    match kind {
        Kind::Migrating => const { &configured::<F, T>(Kind::Migrating) },
        _ => const { &configured::<F, T>(Kind::Thunk) },
    }
}

const fn configured<F, T>(kind: Kind) -> Table
where
    F: FnOnce() -> T,
{
    Table {
        kind,
        configured: true,
        run: run_configured::<F, T>,
        drop_result: drop_result::<T>(),
        options: options_of::<Configured<F>>,
        blocks: never_blocks,
        tag: no_tag,
        type_name: type_name::<F>,
        size: size_of::<F>(),
    }
}

/// # Safety
///
/// The task has a body of type `C`, a [`Configured`], that has not ended.
pub(crate) unsafe fn options_of<C>(task: &Task) -> *const Options {
    // SAFETY: the caller's promise; the options come first in it.
    unsafe { task.stored::<C>().cast() }
}

/// # Safety
///
/// The caller has claimed the task, and its body, of type `F`, has not run.
unsafe fn run_thunk<F, T>(task: &'static Task, core: &Core) -> Ran
where
    F: FnOnce() -> T,
{
    // SAFETY: the caller's promise.
    let body = unsafe { task.take::<F>() };
    let outcome = core.run(task, body);
    // SAFETY: the body was taken out, so nothing is there; the task is still ours.
    unsafe { task.end::<T>(outcome) };
    Ran::Ended
}

/// # Safety
///
/// As for [`run_thunk`].
unsafe fn run_configured<F, T>(task: &'static Task, core: &Core) -> Ran
where
    F: FnOnce() -> T,
{
    // SAFETY: the caller's promise.
    let Configured { options, body } = unsafe { task.take::<Configured<F>>() };
    let Options { name, supervisor, bindings, scope, .. } = options;
    let refused = worker::current().and_then(|worker| worker.refusal.take());
    let named = name.is_some();
    let supervised = supervisor.map(|events| Supervised { events, task: task.id(), name: name.clone() });
    let stops = supervised.is_some();
    let body = move || {
        name.into_iter().for_each(set_task_name);
        bindings.into_iter().for_each(set_task_bindings);
        if stops {
            set_task_mask(STOPPING);
        }
        match refused {
            None => body(),
            Some(error) => {
                drop(body);
                sinew_fiber::error(error)
            }
        }
    };
    let mut outcome = match &supervised {
        Some(hook) => core.run_hooked(task, hook, body),
        None => core.run(task, body),
    };
    let end = End::of(&outcome);
    if let Some(supervised) = supervised {
        outcome = supervised.ended(core, outcome);
    }
    if named {
        core.shared.names.forget(task.id());
    }
    // SAFETY: the body was taken out, so nothing is there; the task is still ours.
    unsafe { task.end::<T>(outcome) };
    match scope {
        None => Ran::Ended,
        Some(children) => {
            children.leaves(task.id(), end);
            Ran::EndedIn(children)
        }
    }
}
