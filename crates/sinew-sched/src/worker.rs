//! A worker: a thread with queues, which runs tasks on its cores.
//!
//! # Who touches what
//!
//! All of a [`Worker`] but its deque's other end belongs to one thread. Its cells are read and written from
//! several stacks of that thread, so no borrow of one lives across a switch, a task or a destructor: each is taken
//! and given back within one statement of [`Worker`]'s own methods. The thread-local that leads to the worker is
//! read behind a function that is never inlined.
//!
//! # Leaving a stack
//!
//! Whatever makes the stack that was left usable by others (a task that parks, a core that becomes spare) is noted
//! in `left` and done by [`Worker::arrived`], first of all, on the stack that was switched to. So a task is only
//! published as parked, and a core only handed out, when nobody runs on it any more.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ptr;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker as Deque};
use sinew_fiber::StackError;
use sinew_fiber::raw::{Running, StackPointer, leave_tasks, switch};
use sinew_sync::atomic::Ordering;

use crate::core::Core;
use crate::shared::{Inbox, Shared};
use crate::task::{DETACHED, DONE, Task, TaskRef};
use crate::time::Timers;
use crate::wait::Node;

/// Every how many turns the global queue, the inbox and the timers are looked at although there is local work.
const FAIR: u32 = 61;

/// Spare cores that a worker keeps.
const SPARE_CORES: usize = 64;

/// Slots that a worker keeps for new tasks; half of more than that goes to the others.
const FREE_SLOTS: usize = 4096;

/// How often a worker looks for work before it sleeps.
const SEARCHES: u32 = 200;

/// What has to be done about the stack that was just left.
#[derive(Clone, Copy)]
enum Left {
    Nothing,
    Park(&'static Task),
    Spare(*const Core),
}

pub(crate) struct Worker {
    index: usize,
    pub(crate) shared: &'static Shared,
    /// Tasks that have not started; others may steal them.
    deque: Deque<&'static Task>,
    /// Tasks that have blocked on this worker and are ready.
    ready: UnsafeCell<VecDeque<&'static Task>>,
    spare: UnsafeCell<Vec<*const Core>>,
    /// How many cores there are: the active one, the spare ones, and those of tasks that have blocked.
    cores: Cell<usize>,
    free: UnsafeCell<Vec<&'static Task>>,
    pub(crate) timers: Timers,
    current: Cell<Option<&'static Task>>,
    /// A task for the loop that is switched to.
    next: Cell<Option<&'static Task>>,
    active: Cell<*const Core>,
    left: Cell<Left>,
    /// All other workers were in bed when this one got up, and it has not woken one: nobody looks whether it has a
    /// backlog.
    unwatched: Cell<bool>,
    turns: Cell<u32>,
    /// Where the thread's own stack goes on when the worker ends.
    thread: Cell<StackPointer>,
}

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

#[inline(never)]
fn worker_pointer() -> *const Worker {
    WORKER.with(Cell::get)
}

/// The worker of this thread, if it is one.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Worker> {
    // SAFETY: the worker lies on its thread's own stack for as long as the pointer is set, and everything that runs
    // on the thread meanwhile runs within `Worker::run`.
    unsafe { worker_pointer().as_ref() }
}

pub(crate) fn current_task() -> Option<&'static Task> {
    current()?.current.get()
}

/// Suspends the running task until somebody unparks it. May return early.
pub(crate) fn park() {
    let worker = current().expect("only tasks park");
    let task = worker.current.get().expect("only tasks park");
    if !task.state.take_notification() {
        worker.leave(task, Left::Park(task));
    }
}

/// Lets the other tasks of the worker that are ready run first; on any other thread, other threads. Does nothing
/// in a destructor while the thread unwinds.
///
/// Unwinds if the task is cancelled or killed.
#[inline]
pub fn yield_now() {
    let Some(worker) = current() else { return sinew_sync::thread::yield_now() };
    let task = worker.current.get().expect("a worker runs nothing but tasks");
    sinew_fiber::checkpoint();
    if !std::thread::panicking() {
        task.state.yield_();
        worker.push_ready(task);
        worker.leave(task, Left::Nothing);
    }
}

/// Makes sure that the task runs once more, if it is still the one that is meant.
pub(crate) fn unpark(task: TaskRef) {
    if !task.task.state.unpark(task.generation) {
        return;
    }
    // SAFETY: the task was parked, so it has a core, which it keeps until it has ended; and it does not run
    // before it is queued, just below.
    let home = unsafe { &*task.task.core.get() };
    match current() {
        Some(worker) if ptr::eq(worker.shared, home.shared) && worker.index == home.worker => {
            worker.push_ready(task.task);
        }
        _ => home.shared.push_to(home.worker, task.task),
    }
}

/// Makes the slot of a task that has ended, and whose result is gone, free for another of its runtime.
pub(crate) fn free(task: &'static Task, shared: &'static Shared) {
    task.state.recycle();
    match current() {
        Some(worker) if ptr::eq(worker.shared, shared) => worker.give_slot(task),
        _ => shared.give_slots([task]),
    }
}

/// The loop of a core.
///
/// # Safety
///
/// Called once, by the first switch to a core of the worker of this thread.
pub(crate) unsafe extern "C" fn core_main(core: *mut ()) -> ! {
    // SAFETY: the core outlives its loop.
    let core: &Core = unsafe { &*core.cast::<Core>() };
    let worker = current().expect("cores run on workers");
    worker.arrived();
    loop {
        let Some(task) = worker.next.take().or_else(|| worker.find()).or_else(|| worker.search()) else {
            // SAFETY: the thread's own stack is suspended in `Worker::run`.
            unsafe { switch(core.sp.as_ptr(), worker.thread.get()) };
            unreachable!("a worker that has ended is not continued");
        };
        task.state.claim();
        worker.current.set(Some(task));
        if task.core.get().is_null() {
            // SAFETY: claimed just now, and it has not started: it has no core.
            unsafe { (task.table().run)(task, core) };
            worker.finish(task, core);
        } else {
            let to = task.core.get();
            worker.left.set(Left::Spare(core));
            worker.active.set(to);
            // SAFETY: the task was parked or has yielded on that core, and it is ours to continue.
            unsafe { switch(core.sp.as_ptr(), (*to).sp.get()) };
            worker.arrived();
        }
    }
}

impl Worker {
    pub(crate) fn new(index: usize, shared: &'static Shared, deque: Deque<&'static Task>) -> Worker {
        Worker {
            index,
            shared,
            deque,
            ready: UnsafeCell::default(),
            spare: UnsafeCell::default(),
            cores: Cell::new(0),
            free: UnsafeCell::default(),
            timers: Timers::new(),
            current: Cell::new(None),
            next: Cell::new(None),
            active: Cell::new(ptr::null()),
            left: Cell::new(Left::Nothing),
            unwatched: Cell::new(true),
            turns: Cell::new(0),
            thread: Cell::new(ptr::null_mut()),
        }
    }

    /// Runs tasks on this thread until the runtime stops.
    pub(crate) fn run(&self) {
        WORKER.with(|worker| worker.set(self));
        let core = self.spare_core().expect("there is memory for a worker's first stack");
        self.active.set(core);
        // SAFETY: a fresh core of this worker, which nobody else knows.
        unsafe { switch(self.thread.as_ptr(), (*core).sp.get()) };
        WORKER.with(|worker| worker.set(ptr::null()));
        leave_tasks();
        // SAFETY: within one statement each (module prose); spare cores have no task, and the active one was left
        // for good.
        unsafe {
            (*self.spare.get()).drain(..).for_each(|core| Core::free(core));
            Core::free(self.active.get());
            self.shared.give_slots((*self.free.get()).drain(..));
        }
    }

    fn inbox(&self) -> &Inbox {
        &self.shared.inboxes[self.index]
    }

    #[inline]
    pub(crate) fn push_ready(&self, task: &'static Task) {
        // SAFETY: within one statement (module prose).
        unsafe { (*self.ready.get()).push_back(task) };
    }

    /// Queues a task that was just made.
    #[inline]
    pub(crate) fn push_new(&self, task: &'static Task) {
        count(&self.inbox().spawned);
        self.deque.push(task);
        if self.deque.len() >= 2 || self.unwatched.get() {
            self.unwatched.set(false);
            self.shared.wake_one();
        }
    }

    /// A free slot.
    #[inline]
    pub(crate) fn take_slot(&self) -> &'static Task {
        // SAFETY: within one statement each (module prose); `take_slots` runs no code but its own.
        unsafe {
            if (*self.free.get()).is_empty() {
                self.shared.take_slots(&mut *self.free.get());
            }
            (*self.free.get()).pop().expect("there is at least one")
        }
    }

    #[inline]
    fn give_slot(&self, task: &'static Task) {
        // SAFETY: as in `take_slot`.
        unsafe {
            (*self.free.get()).push(task);
            if (*self.free.get()).len() > FREE_SLOTS {
                self.shared.give_slots((*self.free.get()).drain(..FREE_SLOTS / 2));
            }
        }
    }

    /// Goes on elsewhere; returns when `task`, which runs, is continued.
    #[inline]
    fn leave(&self, task: &'static Task, left: Left) {
        let to = match self.find() {
            Some(next) if ptr::eq(next, task) => {
                task.state.claim(); // it yielded, and the queue has nobody else
                return;
            }
            Some(next) if !next.core.get().is_null() => {
                next.state.claim();
                self.current.set(Some(next));
                next.core.get()
            }
            other => {
                self.next.set(other);
                match self.spare_core() {
                    Ok(core) => core,
                    Err(error) => return self.stay(task, left, error),
                }
            }
        };
        let fiber = Running::now();
        task.core.set(self.active.get());
        self.active.set(to);
        self.left.set(left);
        // SAFETY: `to` is a spare core, or that of a task that was parked or has yielded and is ours to continue.
        // The active core is the one that `task` runs on, whatever stack of its fibers this is.
        unsafe { switch((*task.core.get()).sp.as_ptr(), (*to).sp.get()) };
        fiber.restore();
        self.arrived();
    }

    /// There is no stack for the loop to go on on: a task that only yields goes on, one that has to wait cannot.
    #[cold]
    fn stay(&self, task: &'static Task, left: Left, error: StackError) {
        if let Some(next) = self.next.take() {
            self.deque.push(next); // it has not started
        }
        if let Left::Park(_) = left {
            panic!("a task that blocks needs a stack: {error}");
        }
        // SAFETY: within one statement (module prose).
        unsafe { (*self.ready.get()).retain(|ready| !ptr::eq(*ready, task)) };
        task.state.claim();
    }

    /// What has to be done first on a stack that was switched to.
    #[inline]
    fn arrived(&self) {
        match self.left.replace(Left::Nothing) {
            Left::Nothing => (),
            Left::Park(task) => {
                if !task.state.commit_park() {
                    self.push_ready(task);
                }
            }
            Left::Spare(core) => {
                // SAFETY: within one statement each (module prose); the core was left and has no task.
                unsafe {
                    if (*self.spare.get()).len() < SPARE_CORES {
                        (*self.spare.get()).push(core);
                    } else {
                        Core::free(core);
                        self.cores.set(self.cores.get() - 1);
                    }
                }
            }
        }
    }

    fn spare_core(&self) -> Result<*const Core, StackError> {
        // SAFETY: within one statement (module prose).
        match unsafe { (*self.spare.get()).pop() } {
            Some(core) => Ok(core),
            None => {
                let core = Core::new(self.shared.stack, self.shared, self.index)?;
                self.cores.set(self.cores.get() + 1);
                Ok(core)
            }
        }
    }

    /// True if a task has blocked on this worker and has not ended. Asked by the loop, on a core without a task.
    fn has_blocked(&self) -> bool {
        // SAFETY: within one statement (module prose).
        self.cores.get() > unsafe { (*self.spare.get()).len() } + 1
    }

    /// The last step of a task: settles with its handle who frees the slot. A result that nobody wants is dropped as
    /// part of the task: its destructor may block, and raise.
    #[inline]
    fn finish(&self, task: &'static Task, core: &Core) {
        match task.join.swap(DONE, Ordering::AcqRel) {
            node if node.is_null() => (),
            DETACHED => {
                // SAFETY: the body has ended, and its handle is gone.
                let outcome = core.run(task, || unsafe { (task.table().drop_result)(task) });
                if let Err(raised) = outcome {
                    // There is nobody to tell, and what was raised may raise again when it is dropped.
                    std::mem::forget(raised);
                }
                free(task, self.shared);
            }
            // SAFETY: whoever waits keeps the node until it is told, and it was in the word once.
            node => unsafe { Node::tell(node) },
        }
        self.current.set(None);
        count(&self.inbox().ended);
    }

    /// The next task that is here, if there is one.
    #[inline]
    fn find(&self) -> Option<&'static Task> {
        let turn = self.turns.get().wrapping_add(1);
        self.turns.set(turn);
        if turn.is_multiple_of(FAIR) {
            self.receive();
            self.timers.expire(Instant::now());
            // The oldest of the outsiders' tasks, and then of our own, which the newest would else keep waiting.
            let oldest = self.shared.injector.steal();
            if let Steal::Success(task) = oldest.or_else(|| self.shared.stealers[self.index].steal()) {
                return Some(task);
            }
        }
        if turn.is_multiple_of(8)
            && let Some(task) = self.deque.pop()
        {
            return Some(task);
        }
        self.pop_ready().or_else(|| self.deque.pop())
    }

    #[inline]
    fn pop_ready(&self) -> Option<&'static Task> {
        // SAFETY: within one statement (module prose).
        unsafe { (*self.ready.get()).pop_front() }
    }

    fn receive(&self) -> bool {
        self.inbox().drain(|task| self.push_ready(task))
    }

    /// Looks everywhere, and sleeps until there is something. None when the runtime stops and nobody has blocked here.
    #[cold]
    fn search(&self) -> Option<&'static Task> {
        let mut slept = false;
        loop {
            for _ in 0..SEARCHES {
                self.receive();
                self.timers.expire(Instant::now());
                if let Some(task) = self.find().or_else(|| self.shared.steal(self.index, &self.deque)) {
                    if slept {
                        self.hand_over_the_watch();
                    }
                    return Some(task);
                }
                sinew_sync::hint::spin_loop();
            }
            // Nobody else can go on with what has blocked here.
            let may_end = !self.has_blocked();
            if may_end && self.shared.stopping.load(Ordering::Acquire) {
                return None;
            }
            self.shared.tell_idle();
            let timeout = self.timers.next().map(|next| next.saturating_duration_since(Instant::now()));
            self.shared.sleep(
                self.index,
                timeout.map(|timeout| timeout.max(Duration::from_micros(1))),
                may_end,
            );
            slept = true;
        }
    }

    /// Sees to it that somebody looks for backlogs while this worker, which was in bed, works.
    fn hand_over_the_watch(&self) {
        let alone = self.shared.all_others_sleep() && self.deque.is_empty();
        self.unwatched.set(alone);
        if !alone {
            self.shared.wake_one();
        }
    }
}

/// Counts one more, in a counter that only this thread writes.
#[inline]
fn count(counter: &sinew_sync::atomic::AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}
