//! Futures as tasks, and waiting for one from a task or thread.
//!
//! A future is polled on a worker's stack and has none of its own, so while it is polled nothing may block: the stack
//! belongs to the loop. Its waker is the id of its task, so cloning and dropping one is free; waking is
//! [`worker::unpark`], with all that the state word promises: a wake-up during the poll has it polled again, a late
//! one changes nothing.
//!
//! A cancelled future is not polled any more: it is dropped, by the worker that would have polled it.

use std::any::type_name;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::ptr;
use std::task::{Context, Poll, Wake, Waker};

use sinew_core::Mask;
use sinew_fiber::raw::{may_await, polling, set_task_bindings};
use sinew_fiber::{Cancelled, Hook, Refused};
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::thread::{self, Thread};

use crate::children::cancelled;
use crate::core::{Core, PARK};
use crate::events::Supervised;
use crate::join::JoinHandle;
use crate::notes::What;
use crate::options::{Configured, Options, options_of, over, start_options_of};
use crate::reach;
use crate::returned::{ByType, outcome_of};
use crate::shared::Shared;
use crate::sleep::OwnTimers;
use crate::task::{Kind, Ran, StartOptions, Table, Task, drop_result, never_blocks, no_options, no_tag};
use crate::wait_kind::WaitKind;
use crate::waker::waker_of;
use crate::worker;

/// Starts a task that polls `future`, on the runtime that runs the caller. Unlike a body that blocks it needs no stack
/// while it waits, and may go on on any worker.
///
/// # Panics
///
/// If the caller is not a task; use [`Runtime::spawn_future`](crate::Runtime::spawn_future) there.
#[track_caller]
pub fn spawn_future<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let worker = worker::current().expect("`spawn_future` is for tasks: use `Runtime::spawn_future` here");
    spawn_future_on(worker.shared, future)
}

#[track_caller]
pub(crate) fn spawn_future_on<F>(shared: &'static Shared, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let worker = worker::current().filter(|worker| ptr::eq(worker.shared, shared));
    if worker.is_none() && !shared.count_outside() {
        drop(future);
        return over(cancelled());
    }
    let task = worker.map_or_else(|| shared.take_slot(), |worker| worker.take_slot());
    let stamp = worker.map_or_else(|| shared.stamp(), |worker| worker.stamp());
    // SAFETY: a fresh slot, with a table for what is put there.
    let handle = unsafe {
        task.prepare(Plain(future), future_table::<Plain<F>>(), shared, stamp);
        JoinHandle::new(task, shared.id)
    };
    shared.admit(task);
    match worker {
        Some(worker) => worker.push_new(task),
        None => shared.inject(task),
    }
    handle
}

/// Waits for `future`: suspends the running task, or blocks the thread, whenever it is pending.
///
/// ```
/// use std::time::Duration;
///
/// use sinew_sched::{Runtime, block_on, sleep_async};
///
/// let answer = Runtime::new().run(|| {
///     block_on(async {
///         sleep_async(Duration::from_millis(1)).await; // the worker runs other tasks meanwhile
///         42
///     })
/// });
/// assert_eq!(answer.unwrap().unwrap(), 42);
/// assert_eq!(block_on(async { 42 }).unwrap(), 42); // on any thread
/// ```
///
/// # Errors
///
/// Refused where nothing may block ([`Reason::InsidePoll`](sinew_fiber::Reason::InsidePoll) inside the poll of another
/// future), and when the task is cancelled: the future is dropped then.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Refused> {
    may_await()?;
    let mut future = pin!(future);
    if let Some(task) = worker::current_task() {
        let waker = waker_of(task.id());
        let mut context = Context::from_waker(&waker);
        let _announced = worker::Announced; // the last poll may have waited for nothing after all
        loop {
            worker::begin_poll();
            match polling(|| future.as_mut().poll(&mut context)) {
                Poll::Ready(output) => return Ok(output),
                Poll::Pending if worker::end_poll() => may_await()?,
                Poll::Pending => worker::await_announced(WaitKind::Future)?,
            }
        }
    }
    let wakes = std::sync::Arc::new(ThreadWaker { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let timers = OwnTimers::enter();
    loop {
        match polling(|| future.as_mut().poll(&mut context)) {
            Poll::Ready(output) => return Ok(output),
            Poll::Pending => {
                while !wakes.woken.swap(false, Ordering::Acquire) {
                    timers.park();
                }
            }
        }
    }
}

/// Wakes a thread in [`block_on`]. That it was woken is noted here as well: other code that parks on the thread, inside
/// the poll, may use up the unpark.
struct ThreadWaker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for ThreadWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// What a future task's storage holds: a future, and perhaps options.
pub(crate) trait Polled {
    type Future: Future;
    const CONFIGURED: bool;
    const OPTIONS: unsafe fn(&Task) -> *const StartOptions;

    /// The options of `task`, which holds one of these, if there are any.
    ///
    /// # Safety
    ///
    /// As for [`options_of`].
    unsafe fn options(task: &Task) -> Option<&Options>;

    /// The future in it.
    ///
    /// # Safety
    ///
    /// `this` is valid.
    unsafe fn future(this: *mut Self) -> *mut Self::Future;
}

pub(crate) struct Plain<F>(pub(crate) F);

impl<F: Future> Polled for Plain<F> {
    type Future = F;
    const CONFIGURED: bool = false;
    const OPTIONS: unsafe fn(&Task) -> *const StartOptions = no_options;

    unsafe fn options(_: &Task) -> Option<&Options> {
        None
    }

    unsafe fn future(this: *mut Plain<F>) -> *mut F {
        // SAFETY: the caller's promise.
        unsafe { &raw mut (*this).0 }
    }
}

impl<F: Future> Polled for Configured<F> {
    type Future = F;
    const CONFIGURED: bool = true;
    const OPTIONS: unsafe fn(&Task) -> *const StartOptions = start_options_of::<Configured<F>>;

    unsafe fn options(task: &Task) -> Option<&Options> {
        // SAFETY: the caller's promise.
        unsafe { options_of::<Configured<F>>(task).as_ref() }
    }

    unsafe fn future(this: *mut Configured<F>) -> *mut F {
        // SAFETY: the caller's promise.
        unsafe { &raw mut (*this).body }
    }
}

pub(crate) fn future_table<P: Polled>() -> &'static Table
where
    <P::Future as Future>::Output: 'static,
{
    const {
        &Table {
            kind: Kind::Future,
            configured: P::CONFIGURED,
            run: poll::<P>,
            drop_result: drop_result::<<P::Future as Future>::Output>(),
            options: P::OPTIONS,
            blocks: never_blocks,
            tag: no_tag,
            type_name: type_name::<P::Future>,
            size: size_of::<P::Future>(),
        }
    }
}

/// Polls a future once, or drops it if it was cancelled.
///
/// # Safety
///
/// The caller has claimed the task, which holds a `P` that is not ready yet.
unsafe fn poll<P: Polled>(task: &'static Task, core: &Core) -> Ran
where
    <P::Future as Future>::Output: 'static,
{
    // SAFETY: the task holds a `P` that has not ended.
    let options = unsafe { P::options(task) };
    let (supervised, bindings) = match options {
        Some(options) => {
            let (name, task) = (options.name.clone(), task.id());
            let stops = Mask::NONE; // a future cannot
            let supervised =
                options.supervisor.clone().map(|events| Supervised { events, task, name, stops });
            (supervised, options.bindings.clone())
        }
        None => (None, None),
    };
    let dropped = Cell::new(false);
    let drop_future = || {
        dropped.set(true);
        // SAFETY: the future is there, and nobody uses it after this.
        unsafe { task.drop_stored::<P>() };
    };
    let hook = hook_of(supervised.as_ref());
    let outcome = core.run_hooked(task, hook, || {
        bindings.into_iter().for_each(set_task_bindings);
        polling(|| {
            if task.word.level().is_some() {
                drop_future();
                sinew_fiber::error(Cancelled);
            }
            let waker = ManuallyDrop::new(waker_of(task.id()));
            worker::begin_poll();
            // SAFETY: the future is there, and does not move until it is dropped where it is.
            let future = unsafe { Pin::new_unchecked(&mut *P::future(task.stored::<P>())) };
            let polled = future.poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                drop_future();
            }
            polled
        })
    });
    if !matches!(outcome, Ok(Poll::Pending)) {
        worker::announce(What::of(WaitKind::Await)); // what it waited for is over
    }
    let mut outcome = match outcome {
        Ok(Poll::Pending) => return Ran::Pending,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(raised) => {
            if !dropped.get()
                && let Err(again) = core.run_hooked(task, hook, || polling(drop_future))
            {
                std::mem::forget(again); // the first error is the one that is told
            }
            outcome_of::<_, ByType>(raised)
        }
    };
    if let Some(supervised) = supervised {
        outcome = supervised.ended(core, outcome);
    }
    if P::CONFIGURED {
        core.shared.names.forget(task.id());
    }
    reach::forget(task.id()); // an earlier poll may have been asked for its control, on another core
    // SAFETY: the future was dropped, and the task is still ours.
    unsafe { task.end_as_thunk(outcome) };
    Ran::Ended
}

/// With what the poll of a future that has perhaps a supervisor is run.
fn hook_of(supervised: Option<&Supervised>) -> *const dyn Hook {
    match supervised {
        Some(supervised) => supervised,
        None => &raw const PARK as *const dyn Hook,
    }
}
