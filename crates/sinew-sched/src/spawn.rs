//! Starting tasks: bodies, their options, and where a new task goes.

use std::any::type_name;
use std::borrow::Cow;

use sinew_core::{Bindings, Mask, Signal};
use sinew_fiber::raw::{inherit_bindings, set_task_bindings, set_task_mask, set_task_name};
use sinew_fiber::{Cancelled, Fiber, IntoValue, Reason, StackSize, Value, propagate};

use crate::children::{End, cancelled};
use crate::core::Core;
use crate::events::{Events, STOPPING, Supervised, supervisor_of_running_task};
use crate::future::future_table;
use crate::join::JoinHandle;
use crate::options::{Configured, Options, over, start_options_of};
use crate::returned::{ByType, InScope, Return, outcome_of};
use crate::shared::{RuntimeId, Shared, SharedRef};
use crate::task::{Kind, Ran, Table, Task, drop_result, never_blocks, no_tag};
use crate::thunk::thunk_table;
use crate::worker;

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
        JoinHandle::new(task, worker.runtime)
    };
    worker.shared.admit(task);
    worker.push_new(task);
    handle
}

/// Defines the ways to start a task that both owners of a runtime have, [`Runtime`](crate::Runtime) and
/// [`CurrentThread`](crate::CurrentThread). The owner has the field `shared`.
macro_rules! owner_spawns {
    ($owner:ident) => {
        impl $owner {
            /// Starts a task. On a runtime that is shutting down it starts cancelled.
            #[track_caller]
            pub fn spawn<F, T>(&self, body: F) -> $crate::JoinHandle<T>
            where
                F: FnOnce() -> T + Send + 'static,
                T: Send + 'static,
            {
                $crate::spawn::spawn_on(self.shared.get(), body)
            }

            /// Starts a task that polls `future`.
            #[track_caller]
            pub fn spawn_future<F>(&self, future: F) -> $crate::JoinHandle<F::Output>
            where
                F: Future<Output: Send + 'static> + Send + 'static,
            {
                $crate::future::spawn_future_on(self.shared.get(), future)
            }

            /// The options of a task.
            pub fn task(&self) -> $crate::TaskBuilder {
                $crate::TaskBuilder { runtime: self.shared.id, options: $crate::options::Options::default() }
            }
        }
    };
}

pub(crate) use owner_spawns;

/// Starts a task on the runtime of `shared`, for a thread that may be no worker of it.
#[track_caller]
pub(crate) fn spawn_on<F, T>(shared: &'static Shared, body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if !shared.count_outside() {
        drop(body);
        return over(cancelled());
    }
    let task = shared.take_slot();
    // SAFETY: a fresh slot, prepared for a body that returns a `T`.
    let handle = unsafe {
        task.prepare(body, thunk_table::<F, T>(), shared, shared.stamp());
        JoinHandle::new(task, shared.id)
    };
    shared.admit(task);
    shared.inject(task);
    handle
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
    TaskBuilder { runtime: worker.runtime, options: Options::default() }
}

/// The options of a new task; see [`task`].
#[must_use = "a builder does nothing until `spawn`"]
pub struct TaskBuilder {
    pub(crate) runtime: RuntimeId,
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
        self.options.start.stack = Some(stack);
        self
    }

    /// The task stays on the worker that it is first queued on, also before it has started: that of its spawner, or
    /// from outside the first one.
    pub fn pinned(mut self) -> TaskBuilder {
        self.options.start.pinned = true;
        self
    }

    /// Who is told how the task ends, and may continue it when it stops: see [`Events`]. A task with a supervisor may
    /// stop on yield, user5, user6 and user7; whatever it raises in the end is the supervisor's, and whoever joins it
    /// gets the text. The task may also [tell](crate::tell_supervisor) its supervisor something and go on.
    pub fn supervisor(mut self, events: &Events) -> TaskBuilder {
        self.options.supervisor = Some(events.sender());
        self
    }

    /// Gives the task the supervisor of the running task, in which this is called; none if that has none, or if no task
    /// runs here. A task does not inherit a supervisor unless it is asked to.
    ///
    /// ```
    /// use sinew_sched::{Events, Runtime, task};
    ///
    /// Runtime::new().run(|| {
    ///     let events = Events::new();
    ///     let parent = task().name("parent").supervisor(&events).spawn(|| {
    ///         task().name("child").inherit_supervisor().spawn(|| ()).join().unwrap();
    ///     });
    ///     let ended = [events.recv().unwrap().name.unwrap(), events.recv().unwrap().name.unwrap()];
    ///     assert_eq!(ended, ["child", "parent"]);
    ///     parent.join().unwrap();
    /// }).unwrap();
    /// ```
    pub fn inherit_supervisor(mut self) -> TaskBuilder {
        self.options.supervisor = supervisor_of_running_task();
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
        unsafe { self.start(body, configured_table::<F, T, ByType>(Kind::Thunk)) }
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
        let kind = if self.options.start.pinned { Kind::Thunk } else { Kind::Migrating };
        // SAFETY: the body is `Send`, and the table is its own; the rest is the caller's promise.
        unsafe { self.start(body, configured_table::<F, T, ByType>(kind)) }
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
        let here = worker::current().is_some_and(|worker| worker.runtime == self.runtime);
        assert!(here, "`spawn_local` is for tasks of the same runtime: it starts a task on their worker");
        self.options.start.pinned = true;
        // SAFETY: pinned, so the body does not leave this thread, on which it is run, or dropped; and a handle of
        // a `T` that is not `Send` does not leave it either.
        unsafe { self.start(body, configured_table::<F, T, ByType>(Kind::Thunk)) }
    }

    /// Starts a task that runs `fiber`, a new one, from its first resume, with `value`, to its end, on the worker of the
    /// caller. Signals that the fiber's mask catches are the task's: a terminal one ends it, any other stops it for its
    /// supervisor, except await, which waits as in any task. Without a supervisor breakpoints and interrupts go on at
    /// once, and the others are errors.
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
    pub fn spawn_fiber(mut self, fiber: Fiber, value: impl IntoValue) -> JoinHandle<Value> {
        let value = value.into_value();
        let caught =
            [Signal::Debug, Signal::Interrupt].into_iter().filter(|signal| fiber.mask().contains(*signal));
        self.options.stops = Some(caught.map(Mask::of).fold(Mask::NONE, Mask::union));
        self.spawn_local(move || {
            let mut signal =
                fiber.resume(value).unwrap_or_else(|refused| sinew_fiber::error(refused)).signal();
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
        unsafe { self.start(body, configured_table::<F, T, InScope>(Kind::Thunk)) }
    }

    /// Starts a task that polls `future`. If it is pinned, it has a stack of its own, like any body that stays on its
    /// worker.
    #[track_caller]
    pub fn spawn_future<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        if self.options.start.pinned {
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
        let TaskBuilder { runtime, options } = self;
        let (pinned, name, scope) = (options.start.pinned, options.name.clone(), options.scope.clone());
        let worker = worker::current().filter(|worker| worker.runtime == runtime);
        let outside = if worker.is_none() { runtime.upgrade() } else { None };
        let shared = worker.map(|worker| worker.shared).or_else(|| outside.as_ref().map(SharedRef::get));
        let Some(shared) = shared.filter(|shared| worker.is_some() || shared.count_outside()) else {
            drop(body);
            return options.over();
        };
        let task = worker.map_or_else(|| shared.take_slot(), |worker| worker.take_slot());
        let stamp = worker.map_or_else(|| shared.stamp(), |worker| worker.stamp());
        // SAFETY: a fresh slot; the caller's promise.
        let handle = unsafe {
            task.prepare(Configured { options, body }, table, shared, stamp);
            JoinHandle::new(task, runtime)
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

fn configured_table<F, T, R>(kind: Kind) -> &'static Table
where
    F: FnOnce() -> T,
    R: Return<T>,
{
    match kind {
        Kind::Migrating => const { &configured::<F, T, R>(Kind::Migrating) },
        _ => const { &configured::<F, T, R>(Kind::Thunk) },
    }
}

const fn configured<F, T, R>(kind: Kind) -> Table
where
    F: FnOnce() -> T,
    R: Return<T>,
{
    Table {
        kind,
        configured: true,
        run: run_configured::<F, T, R>,
        drop_result: drop_result::<T>(),
        options: start_options_of::<Configured<F>>,
        blocks: never_blocks,
        tag: no_tag,
        type_name: type_name::<F>,
        size: size_of::<F>(),
    }
}

/// # Safety
///
/// The caller has claimed the task, and its body, of type `Configured<F>`, has not run.
unsafe fn run_configured<F, T, R>(task: &'static Task, core: &Core) -> Ran
where
    F: FnOnce() -> T,
    R: Return<T>,
{
    // SAFETY: the caller's promise.
    let Configured { options, body } = unsafe { task.take::<Configured<F>>() };
    let Options { name, supervisor, stops, bindings, scope, .. } = options;
    let refused = worker::current().and_then(|worker| worker.refusal.take());
    let named = name.is_some();
    let stops = stops.map_or(STOPPING, |stops| stops | STOPPING);
    let supervised =
        supervisor.map(|events| Supervised { events, task: task.id(), name: name.clone(), stops });
    let is_supervised = supervised.is_some();
    let body = move || {
        name.into_iter().for_each(set_task_name);
        bindings.into_iter().for_each(set_task_bindings);
        if is_supervised {
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
    }
    .or_else(outcome_of::<T, R>);
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
