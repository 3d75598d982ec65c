//! A worker: a thread with queues, which runs tasks on its cores.
//!
//! # Who touches what
//!
//! All of a [`Worker`] but its deque's other end belongs to one thread. Its cells are read and written from
//! several stacks of that thread, so no borrow of one lives across a switch, a task or a destructor: each is taken
//! and given back within one statement of [`Worker`]'s own methods. The thread-local that leads to the worker is
//! read behind a function that is never inlined.

mod budget;
mod cores;
mod finish;
mod park;
mod search;
mod temporary;
mod wake;

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::time::Duration;

use sinew_fiber::StackError;
use sinew_fiber::raw::{Place, StackPointer, switch};
use sinew_sync::atomic::Ordering;

use crate::clock::Clock;
use crate::core::Core;
use crate::countdown::Countdowns;
use crate::counters::raise;
use crate::cpu;
use crate::notes::{self, What};
use crate::pace::Pace;
use crate::placement::Stopwatch;
use crate::queues::{Deque, Stealer};
use crate::ready::Ready;
use crate::shared::{Inbox, RuntimeId, Shared};
use crate::task::Task;
use crate::timers::Timers;
use crate::wait_kind::WaitKind;
use budget::Budget;
pub use budget::{Prepaid, charge, poll_charge};
pub(crate) use budget::{begin_poll, end_poll};
use cores::Left;
pub(crate) use cores::core_main;
pub(crate) use park::{Announced, await_announced, await_for, give_way, park, park_for};
pub use park::{announce, yield_now};
use search::Backlog;
pub(crate) use wake::{free, unpark, unpark_turn, wakes};

/// Slots that a worker keeps for new tasks; half of more than that goes to the others.
const FREE_SLOTS: usize = 4096;

/// How long a worker runs.
#[derive(Clone, Copy)]
enum Mode {
    /// Until the runtime ends.
    Free,
    /// So many more turns.
    Steps(u64),
    /// Until it has found nothing for some time.
    Temporary { idle_timeout: Duration },
}

/// The queues of a worker that others may steal from.
pub(crate) struct Queues {
    /// Tasks that have not started, newest first.
    pub(crate) new: Deque<&'static Task>,
    /// Tasks that may go on on any worker and are ready, oldest first.
    pub(crate) woken: Deque<&'static Task>,
    /// Tasks that have not started and were handed to this worker, oldest first. They stay, unless it is stuck.
    pub(crate) handed: Deque<&'static Task>,
}

/// The other ends of a worker's [`Queues`].
pub(crate) struct Stealers {
    pub(crate) new: Stealer<&'static Task>,
    pub(crate) woken: Stealer<&'static Task>,
    pub(crate) handed: Stealer<&'static Task>,
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues { new: Deque::new_lifo(), woken: Deque::new_fifo(), handed: Deque::new_fifo() }
    }

    pub(crate) fn stealers(&self) -> Stealers {
        let (new, woken) = (self.new.stealer(), self.woken.stealer());
        Stealers { new, woken, handed: self.handed.stealer() }
    }
}

pub(crate) struct Worker {
    index: usize,
    pub(crate) shared: &'static Shared,
    pub(crate) runtime: RuntimeId,
    inbox: &'static Inbox,
    timers: &'static Timers,
    queues: Queues,
    /// Tasks that belong to this worker and are ready: they have blocked here, or are pinned.
    ready: Ready,
    spare: UnsafeCell<Vec<*const Core>>,
    free: UnsafeCell<Vec<&'static Task>>,
    current: Cell<Option<&'static Task>>,
    /// A task for the loop that is switched to.
    next: Cell<Option<&'static Task>>,
    /// Why that task has to end at once instead of running: there is no stack of the size that it wants.
    pub(crate) refusal: Cell<Option<StackError>>,
    active: Cell<*const Core>,
    left: Cell<Left>,
    /// All other workers were idle when this one found something, and it has not woken one: nobody looks whether it has
    /// a backlog.
    unwatched: Cell<bool>,
    /// There is a processor for each worker: one that looks for work for a while takes nobody's. Not on a clock that is
    /// moved when all are idle, which is to be soon.
    may_spin: bool,
    /// The tick of sysmon at which the worker last looked around.
    tick: Cell<u32>,
    /// How often in a row the worker looked for work for a while, or slept without, and found nothing.
    searches_in_vain: Cell<u32>,
    /// How long its turns take.
    pace: Pace,
    /// The backlog of the others, while this worker looks for work and has seen one.
    backlog: Cell<Option<Backlog>>,
    /// How many lone tasks to let pass before another worker is woken for one.
    lone: Cell<u32>,
    /// The worker that was last handed a task of a kind that is spread.
    next_in_turn: Cell<usize>,
    stopwatch: Stopwatch,
    /// The current budget of calls that need not wait ([`budget`]).
    budget: Cell<Budget>,
    /// The poll of a future has begun, and no call in it has met the end of a slice yet.
    begins_poll: Cell<bool>,
    /// A call in the present poll is pending because the slice is over.
    gives_way: Cell<bool>,
    /// The turn at which the worker looks around next, whatever there is to do here.
    look_around_at: Cell<u32>,
    /// How often it has done so.
    looks: Cell<u32>,
    /// What a park is for that comes through a hook, or a poll that is pending.
    announced: Cell<What>,
    /// The time of the last look at the clock, and the worker's number; what it has counted: published every so many turns.
    stamp: Cell<u64>,
    parks: Cell<u64>,
    wakes: Cell<u64>,
    /// How often something that ran here woke a task of another worker.
    wakes_elsewhere: Cell<u64>,
    mode: Cell<Mode>,
    /// Where the thread's own stack goes on when the loop returns to it.
    thread: Cell<StackPointer>,
    /// Where the thread keeps its running fiber. Set while the worker runs, on its thread.
    place: Cell<Option<Place>>,
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
    // SAFETY: the worker stays where it is for as long as the pointer is set, and everything that runs on the thread
    // meanwhile runs within `Worker::enter`.
    unsafe { worker_pointer().as_ref() }
}

/// The task that runs the caller. A root of the user's own inside a task is none: it waits as its hook says, or blocks
/// the thread.
#[inline]
pub(crate) fn current_task() -> Option<&'static Task> {
    current_task_and_worker().map(|(task, _)| task)
}

/// The same, and the index of the worker that it runs on.
#[inline]
pub(crate) fn current_task_and_worker() -> Option<(&'static Task, usize)> {
    let worker = current()?;
    let task = worker.current.get().filter(|task| worker.place().is_under(&task.word))?;
    Some((task, worker.index))
}

/// The running task can be reached, until it ends.
pub(crate) fn mark_reached() {
    let worker = current().expect("only tasks are reached");
    // SAFETY: the active core is the one that the running task is on, and outlives it.
    unsafe { (*worker.active.get()).reached.set(true) };
}

#[inline]
fn here<'a>() -> &'a Worker {
    current().expect("cores run on workers")
}

impl Worker {
    pub(crate) fn new(index: usize, shared: &'static Shared, queues: Queues) -> Worker {
        Worker {
            index,
            shared,
            runtime: shared.id,
            inbox: &shared.inboxes[index],
            timers: shared.inboxes[index].timers,
            queues,
            ready: Ready::new(),
            spare: UnsafeCell::default(),
            free: UnsafeCell::default(),
            current: Cell::new(None),
            next: Cell::new(None),
            refusal: Cell::new(None),
            active: Cell::new(ptr::null()),
            left: Cell::new(Left::Nothing),
            unwatched: Cell::new(true),
            may_spin: shared.base <= cpu::parallelism()
                && index < shared.base
                && matches!(shared.clock, Clock::System),
            tick: Cell::new(0),
            searches_in_vain: Cell::new(0),
            pace: Pace::new(),
            backlog: Cell::new(None),
            lone: Cell::new(0),
            next_in_turn: Cell::new(index),
            stopwatch: Stopwatch::new(),
            budget: Cell::new(Budget::first()),
            begins_poll: Cell::new(false),
            gives_way: Cell::new(false),
            look_around_at: Cell::new(0),
            looks: Cell::new(0),
            announced: Cell::new(What::of(WaitKind::Await)),
            stamp: Cell::new(notes::stamp(shared.clock.coarse(), index)),
            // A worker that had this index before has counted as well.
            parks: Cell::new(shared.inboxes[index].own.parks.load(Ordering::Relaxed)),
            wakes: Cell::new(shared.inboxes[index].own.wakes.load(Ordering::Relaxed)),
            wakes_elsewhere: Cell::new(0),
            mode: Cell::new(Mode::Free),
            thread: Cell::new(ptr::null_mut()),
            place: Cell::new(None),
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn inbox(&self) -> &'static Inbox {
        self.inbox
    }

    #[inline(always)]
    fn place(&self) -> Place {
        self.place.get().expect("the worker runs")
    }

    /// Takes the worker's first stack. Called on its thread.
    pub(crate) fn prepare(&self) -> Result<(), StackError> {
        if self.active.get().is_null() {
            self.active.set(self.spare_core()?);
        }
        Ok(())
    }

    /// Runs tasks on this thread: until the runtime stops, or so many turns, or until there is nothing to do. Returns how
    /// many of the turns are left.
    ///
    /// # Panics
    ///
    /// If the worker is running already, further down on this thread.
    pub(crate) fn enter(&self, steps: Option<u64>) -> u64 {
        match self.enter_as(steps.map_or(Mode::Free, Mode::Steps)) {
            Mode::Steps(left) => left,
            Mode::Free | Mode::Temporary { .. } => 0,
        }
    }

    /// Runs tasks on this thread until the worker has found nothing for some time and is out of service, or the runtime
    /// ends.
    pub(crate) fn enter_temporarily(&self, idle_timeout: Duration) {
        self.enter_as(Mode::Temporary { idle_timeout });
    }

    fn enter_as(&self, mode: Mode) -> Mode {
        assert!(self.thread.get().is_null(), "a runtime cannot be run by one of its own tasks");
        if std::thread::panicking() {
            return mode;
        }
        self.prepare().expect("there is memory for a worker's first stack");
        self.mode.set(mode);
        let has_thread = !matches!(mode, Mode::Steps(_));
        if has_thread {
            self.inbox.capture.here(true);
        }
        let outer = WORKER.with(|worker| worker.replace(self));
        // SAFETY: the worker is used on this thread until it returns to its stack.
        let place = unsafe { Place::here() };
        self.place.set(Some(place));
        let running = place.running();
        // SAFETY: the active core is fresh or was left by its loop, and nobody else continues it.
        unsafe { switch(self.thread.as_ptr(), (*self.active.get()).sp.get()) };
        place.restore(running);
        WORKER.with(|worker| worker.set(outer));
        self.thread.set(ptr::null_mut());
        if has_thread {
            self.inbox.capture.here(false);
        }
        self.mode.get()
    }

    /// Says where the task is that runs, if somebody asks; its thread was interrupted at `address`. For a signal handler.
    pub(crate) fn answer_sysmon(&self, address: usize) -> bool {
        let turn = self.inbox.own.turns.load(Ordering::Relaxed);
        self.inbox.capture.answer(turn, self.current.get().map(Task::id), address)
    }

    /// The queues of a worker that has left its service.
    pub(crate) fn into_queues(mut self) -> Queues {
        self.publish();
        std::mem::replace(&mut self.queues, Queues::new())
    }

    /// `task`, which was taken out of a queue, is the one that runs.
    #[inline(always)]
    fn run(&self, task: &'static Task) {
        task.state.begin();
        self.current.set(Some(task));
        self.inbox.own.running.store(ptr::from_ref(task).cast_mut(), Ordering::Relaxed);
    }

    /// True if `task` is the one that runs.
    fn runs(&self, task: &'static Task) -> bool {
        self.current.get().is_some_and(|current| ptr::eq(current, task))
    }

    #[inline(always)]
    fn run_nothing(&self) {
        self.current.set(None);
        self.inbox.own.running.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// The time, as of the last look at the clock, and which worker this is.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.get()
    }

    /// Looks at the clock, and at the lengths of the queues, and publishes what it has counted.
    pub(crate) fn look_at_the_clock(&self) {
        let own = &self.inbox.own;
        let Queues { new, woken, handed } = &self.queues;
        let lengths = [self.ready.len(), new.len(), woken.len(), handed.len()];
        raise(&own.longest, lengths.into_iter().max().unwrap_or(0));
        let stamp = notes::stamp(self.shared.clock.coarse(), self.index);
        self.stamp.set(stamp);
        own.stamp.store(stamp, Ordering::Relaxed);
        self.publish();
    }

    /// Publishes what it has counted.
    fn publish(&self) {
        let own = &self.inbox.own;
        own.parks.store(self.parks.get(), Ordering::Relaxed);
        own.wakes.store(self.wakes.get(), Ordering::Relaxed);
    }

    /// The timers of this worker. The time-outs that were put off until then are among them.
    pub(crate) fn timers(&self) -> &'static Timers {
        let (countdowns, timers) = self.countdowns();
        countdowns.begin(timers, &self.shared.clock);
        timers
    }

    /// The time-outs that are put off until the worker looks at its timers, and those.
    pub(crate) fn countdowns(&self) -> (&'static Countdowns, &'static Timers) {
        (&self.inbox.own.countdowns, self.timers)
    }

    #[inline(always)]
    pub(crate) fn push_ready(&self, task: &'static Task) {
        self.ready.push(task);
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
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.timers();
        // SAFETY: within one statement each (module prose); spare cores have no task, and the active one was left for
        // good.
        unsafe {
            (*self.spare.get()).drain(..).for_each(|core| Core::free(core));
            if !self.active.get().is_null() {
                Core::free(self.active.get());
            }
            self.shared.give_slots((*self.free.get()).drain(..));
        }
    }
}
