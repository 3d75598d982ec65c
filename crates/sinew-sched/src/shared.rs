//! What the workers of a runtime share: the queue for outsiders, each worker's inbox, the slots of tasks, and who
//! sleeps.
//!
//! # Work and sleepers
//!
//! "There is work" and "a worker sleeps" must not be missed by both sides. Each stores its own, passes a
//! sequentially consistent fence, and then loads the other's:
//!
//! - a producer pushes, fences, and looks for somebody to wake ([`Shared::wake_one`], [`Shared::push_to`]); whoever stops
//!   the runtime, or moves its clock, says so, fences, and wakes all who sleep ([`Shared::wake_all`]);
//! - a worker lies down, fences, and looks through all queues once more ([`Shared::sleep`]).
//!
//! Who is woken is settled by one exchange of that worker's bed: it is made awake by a waker, who then unparks the
//! thread, or by itself. It is counted as a sleeper until it has got up. One of those who sleep does so in the reactor,
//! if there is one ([`serving`]); its bed says so, and whoever wakes it wakes the reactor. What the reactor has for tasks
//! is told when that worker has got up.
//!
//! # Who looks after a backlog
//!
//! One new task of a worker is no reason to wake another: mostly its spawner runs it next. But somebody has to look
//! whether it does. A worker is *idle* from when it lies down until it finds something, also while it is up to look. One
//! that lies down while another is not idle looks again every [`LOOK_AGAIN`]; else it sleeps until it is woken. So those
//! who look do not keep each other up, and a worker that finds something sees to it that somebody looks: if others work
//! too it wakes one that sleeps, for it may have been the one who looked; if none does, it wakes one with the first task
//! that it spawns. Whoever is woken so, and finds nothing, lies down while another works.
//!
//! # The end
//!
//! A runtime ends when it is closed and as many tasks have ended as were spawned. Tasks are spawned by tasks, which are
//! counted themselves, and by threads. So the end is one exchange of the word in which the threads count ([`ENDED`]):
//! a thread that counts before it is waited for, and one that comes later is told.
//!
//! Workers may come and go while the runtime lasts: see [`service`].
//!
//! Models: `shared_push_or_sleep`, `shared_inject_or_sleep`, `shared_ask_or_sleep`, `shared_backlog_or_sleep`, `shared_stop_or_sleep`,
//! `shared_clock_moves_or_sleep`, `shared_two_wake_two`, `shared_work_or_sleep`, `shared_clock_or_task`,
//! `shared_clock_or_timer`, `shared_last_end_is_seen`, `shared_close_or_end`, `shared_child_or_end`,
//! `shared_late_spawn_or_end`.
//!
//! A runtime's `Shared` is never freed, nor are its slots: a waker may still be about to wake a worker when the
//! task that it woke has ended, and the runtime with it. That is some hundred bytes per runtime and 128 for each task
//! that was ever alive at once.

mod end;
mod service;
mod serving;

use std::collections::HashMap;
use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::{Level, StackSize};
use sinew_sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use sinew_sync::statics::{Mutex as OwnMutex, MutexGuard as OwnGuard, OnceLock};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Arc, Mutex, fence_after_rmw, fetch_to_write, park_timeout};

use crate::blocking::pool::{Limits, Pool};
use crate::clock::Clock;
use crate::counters::Own;
use crate::dump::Request;
use crate::names::Names;
use crate::notes;
use crate::placement::Watch;
use crate::queues::{Injector, Steal};
use crate::reactor::{Reactor, Server};
use crate::slots::{self, CHUNK, TaskId};
use crate::sysmon::capture::Capture;
use crate::task::{Task, TaskRef};
use crate::timers::Timers;
use crate::worker::{Queues, Stealers};
pub(crate) use service::Slept;
use service::{Duty, SysmonBed};

/// How late another worker's timers are when somebody else rings them.
pub(crate) const OVERDUE: Duration = Duration::from_millis(1);

/// How long an idle worker sleeps while others are busy before it looks whether one of them has a backlog.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// How a runtime ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a runtime may leave tasks behind"]
#[non_exhaustive]
pub struct Report {
    /// How many tasks had not ended by the deadline, although they were cancelled and then killed. Their workers are
    /// left running, and their stacks are never reused.
    pub left: u64,
    /// Which: their numbers, and the names of those that have one. At most 100.
    pub tasks: Vec<(TaskId, Option<String>)>,
    /// How many [blocking](crate::blocking()) calls had not returned by the deadline. Their threads are left running.
    pub blocking: usize,
}

/// The bit of the count of outsiders' tasks that says that the runtime has ended, so there will be no more.
const ENDED: u64 = 1 << 63;

/// Tasks that a report names.
const MOST_REPORTED: usize = 100;

/// A worker's bed: it is up, or sleeps until its thread is unparked, or in the reactor.
const UP: u8 = 0;
const PARKED: u8 = 1;
const SERVING: u8 = 2;

/// The word of the beds: 16 bits count those who sleep, 16 those who are out of service, and the rest how often somebody
/// has got up.
const OUT: u64 = 1 << 16;
const GOT_UP: u64 = 1 << 32;

/// As many workers as the word can count.
pub(crate) const MOST_WORKERS: usize = 1 << 14;

fn sleepers(beds: u64) -> usize {
    (beds % OUT) as usize
}

fn out_of_service(beds: u64) -> usize {
    (beds % GOT_UP / OUT) as usize
}

pub(crate) struct Shared {
    pub(crate) injector: Injector<&'static Task>,
    /// The other ends of each worker's queues.
    pub(crate) stealers: Box<[Stealers]>,
    pub(crate) inboxes: Box<[Inbox]>,
    /// How many workers there always are; the places after theirs are for temporary ones.
    pub(crate) base: usize,
    /// How many workers lie in their beds, or are about to get up, how many are out of service, and how often one has got
    /// up ([`GOT_UP`]).
    beds: AtomicU64,
    reactor: OnceLock<&'static Reactor>,
    pub(crate) tick: Tick,
    /// How often in a row a worker got up and found nothing to take from another.
    in_vain: AtomicU32,
    pub(crate) stack: StackSize,
    pub(crate) clock: Clock,
    /// Whether idle workers look again while others are up.
    look_again: bool,
    chunks: Mutex<Vec<&'static [Task]>>,
    free: Mutex<Vec<&'static Task>>,
    /// Tasks spawned by threads that are no workers, and [`ENDED`].
    spawned_outside: AtomicU64,
    /// No task is admitted any more.
    closed: AtomicBool,
    /// The workers end when no task is left.
    stopping: AtomicBool,
    pub(crate) names: Names,
    /// Who waits for the last task to end.
    drained: Mutex<Option<Thread>>,
    /// The threads for calls that block.
    pub(crate) blocking: Pool,
    sysmon: SysmonBed,
}

/// Counts the ticks of sysmon while a worker is up. All workers read it in every turn, so it has a cache line of its own.
#[repr(align(128))]
pub(crate) struct Tick(AtomicU32);

impl Tick {
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A worker's queue for other threads, its bed, and its counts.
#[repr(align(128))]
pub(crate) struct Inbox {
    head: AtomicPtr<Task>,
    bed: AtomicU8,
    /// The worker has lain down, and has found nothing since. Only the worker writes it.
    idle: AtomicBool,
    /// What the reactor last had for tasks when the worker slept there was for those of others alone. Only the worker
    /// writes it.
    serves_others: AtomicBool,
    duty: Duty,
    /// Who sleeps in the bed.
    thread: OwnMutex<Option<Thread>>,
    /// How many cores belong to the worker.
    pub(crate) cores: AtomicUsize,
    pub(crate) capture: Capture,
    pub(crate) timers: Timers,
    pub(crate) watch: Watch,
    /// What the worker is asked for dumps.
    pub(crate) requests: Mutex<Vec<Arc<Request>>>,
    pub(crate) own: Own,
}

impl Inbox {
    fn new(in_service: bool) -> Inbox {
        Inbox {
            head: AtomicPtr::new(ptr::null_mut()),
            bed: AtomicU8::new(UP),
            idle: AtomicBool::new(!in_service),
            serves_others: AtomicBool::new(false),
            duty: Duty::new(in_service),
            thread: OwnMutex::new(None),
            cores: AtomicUsize::new(0),
            capture: Capture::new(),
            timers: Timers::new(),
            watch: Watch::new(),
            requests: Mutex::new(Vec::new()),
            own: Own::new(),
        }
    }

    fn thread(&self) -> OwnGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// True while the worker lies in its bed.
    pub(crate) fn is_asleep(&self) -> bool {
        self.bed.load(Ordering::Relaxed) != UP
    }

    /// True if there is nothing in the queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Begins to fetch what it takes to put a task into the queue.
    #[inline(always)]
    pub(crate) fn fetch_to_push(&self) {
        fetch_to_write(&raw const self.head);
    }

    /// Puts a task into the queue.
    fn push(&self, task: &'static Task) {
        // Mostly it is empty, and to look first would take the cache line twice.
        let mut head = ptr::null_mut();
        loop {
            task.next.set(head);
            let new = ptr::from_ref(task).cast_mut();
            match self.head.compare_exchange_weak(head, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything that is in the queue, oldest first. False if there was nothing. The worker does this, and others
    /// if it is stuck. Whoever sees that it is empty sees that the worker is up ([`Shared::clock_jumps`]).
    pub(crate) fn drain(&self, mut each: impl FnMut(&'static Task)) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::AcqRel).cast_const();
        let mut oldest: *const Task = ptr::null();
        while !newest.is_null() {
            // SAFETY: slots are never freed, and the link of a queued task is its queue's.
            let task = unsafe { &*newest };
            newest = task.next.replace(oldest);
            oldest = task;
        }
        while !oldest.is_null() {
            // SAFETY: as above; the link is read before the task is handed on.
            let task: &'static Task = unsafe { &*oldest };
            oldest = task.next.get();
            each(task);
        }
        true
    }
}

impl Shared {
    /// What workers with these queues share. The last `temporary` of the queues are for workers that come and go.
    pub(crate) fn new(
        queues: &[Queues],
        temporary: usize,
        stack: StackSize,
        clock: Clock,
        look_again: bool,
    ) -> Shared {
        let base = queues.len() - temporary;
        Shared {
            injector: Injector::new(),
            inboxes: (0..queues.len()).map(|index| Inbox::new(index < base)).collect(),
            stealers: queues.iter().map(Queues::stealers).collect(),
            base,
            beds: AtomicU64::new((temporary as u64 + 1) * OUT), // sysmon is the one more
            reactor: OnceLock::new(),
            tick: Tick(AtomicU32::new(0)),
            in_vain: AtomicU32::new(0),
            stack,
            clock,
            look_again,
            chunks: Mutex::new(Vec::new()),
            free: Mutex::new(Vec::new()),
            spawned_outside: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            names: Names::new(),
            drained: Mutex::new(None),
            blocking: Pool::new(Limits::default()),
            sysmon: SysmonBed::new(),
        }
    }

    /// Counts a task that a thread which is no worker is about to spawn. False if the runtime has ended: nobody would run
    /// it. One that is counted is waited for, and cancelled if need be ([`Shared::try_end`]).
    pub(crate) fn count_outside(&self) -> bool {
        let one_more = |count| (count & ENDED == 0).then_some(count + 1);
        self.spawned_outside.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// The time, for the notes of a task that a thread spawns which is no worker.
    pub(crate) fn stamp(&self) -> u64 {
        notes::stamp(self.clock.coarse(), usize::MAX)
    }

    /// What becomes of a new task: once the runtime is shutting down it is cancelled from its start.
    #[inline]
    pub(crate) fn admit(&self, task: &'static Task) {
        if self.closed.load(Ordering::Relaxed) {
            task.word.cancel(Level::Cancel);
        }
    }

    /// Queues a task that may run anywhere.
    pub(crate) fn inject(&self, task: &'static Task) {
        self.injector.push(task);
        self.wake_one();
    }

    /// Queues a task that has to run on `worker`.
    pub(crate) fn push_to(&self, worker: usize, task: &'static Task) {
        self.inboxes[worker].push(task);
        fence_after_rmw();
        self.wake(worker);
    }

    /// Wakes a worker, if one sleeps, for work that was just pushed.
    #[inline]
    pub(crate) fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if sleepers(self.beds.load(Ordering::Relaxed)) > 0 {
            self.wake_any();
        }
    }

    #[cold]
    fn wake_any(&self) {
        let _ = (0..self.inboxes.len()).any(|worker| self.inboxes[worker].takes_all() && self.wake(worker));
    }

    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for worker in 0..self.inboxes.len() {
            self.wake(worker);
        }
    }

    /// Has all workers look at their requests.
    pub(crate) fn ask_all(&self) {
        let asked = self.inboxes.iter().filter(|inbox| !inbox.requests.lock().is_empty());
        asked.for_each(|inbox| inbox.watch.ask());
        self.wake_all();
    }

    fn wake(&self, worker: usize) -> bool {
        let inbox = &self.inboxes[worker];
        if inbox.bed.load(Ordering::Acquire) == UP {
            return false;
        }
        match inbox.bed.swap(UP, Ordering::AcqRel) {
            PARKED => {
                let thread = inbox.thread().clone();
                thread.expect("a worker that sleeps has said who it is").unpark();
            }
            SERVING => self.reactor.get().expect("one that serves has a reactor").wake(),
            _ => return false,
        }
        true
    }

    /// A worker that looked everywhere has found nothing.
    pub(crate) fn found_nothing(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        self.in_vain.store(in_vain.saturating_add(1), Ordering::Relaxed);
    }

    /// A worker has taken work from another.
    pub(crate) fn found_something(&self) {
        if self.in_vain.load(Ordering::Relaxed) != 0 {
            self.in_vain.store(0, Ordering::Relaxed);
        }
    }

    /// How often in a row getting up was in vain, at most 14.
    pub(crate) fn in_vain(&self) -> u32 {
        self.in_vain.load(Ordering::Relaxed).min(14)
    }

    /// `worker`, which was idle, has found something. True if no other works.
    pub(crate) fn goes_to_work(&self, worker: usize) -> bool {
        self.inboxes[worker].idle.store(false, Ordering::Relaxed);
        !self.another_works(worker)
    }

    fn another_works(&self, worker: usize) -> bool {
        let mut others = self.inboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        others.any(|(_, inbox)| !inbox.idle.load(Ordering::Relaxed))
    }

    /// Sleeps until there is something for `worker` to do, or until `alarm`, when its next timer is due.
    pub(crate) fn sleep(&self, worker: usize, alarm: Option<Instant>) {
        self.sleep_for(worker, alarm, None);
    }

    /// The same, for at most `limit`.
    pub(crate) fn sleep_for(&self, worker: usize, alarm: Option<Instant>, limit: Option<Duration>) {
        let inbox = &self.inboxes[worker];
        let leaves = self.leaves_reactor(worker);
        let mut server = self.reactor.get().filter(|_| !leaves).and_then(|reactor| reactor.serve());
        let beds = self.lie_down(inbox, if server.is_some() { SERVING } else { PARKED });
        let (own, takes_all) =
            (!inbox.is_empty() || inbox.watch.is_asked() || self.has_ended(), inbox.takes_all());
        let anywhere = self.has_movable();
        let work = own || anywhere && takes_all || leaves && self.is_left_alone(worker);
        if !work && (anywhere || !self.clock_jumps(beds, server.as_mut())) {
            let look = if leaves || self.another_works(worker) {
                Some(LOOK_AGAIN)
            } else {
                self.until_overdue(worker)
            };
            let limits = [self.until(alarm), limit, look.filter(|_| self.look_again && takes_all)];
            let timeout = limits.into_iter().flatten().min();
            match (&mut server, timeout) {
                (_, Some(timeout)) if timeout.is_zero() => (),
                (Some(server), timeout) => _ = server.wait(timeout),
                (None, Some(timeout)) => park_timeout(timeout),
                (None, None) => {
                    while inbox.bed.load(Ordering::Acquire) != UP {
                        thread::park();
                    }
                }
            }
        }
        self.get_up(inbox);
        if let Some(server) = server {
            self.tell(inbox, server);
        }
    }

    /// Puts a worker, whose inbox this is, to bed, and returns the word of the beds. The fence is one of two pairs, both
    /// with [`Shared::wake_one`]: the worker sees what was pushed before it, and who had gone to work.
    fn lie_down(&self, inbox: &Inbox, bed: u8) -> u64 {
        inbox.thread().get_or_insert_with(thread::current);
        inbox.idle.store(true, Ordering::Relaxed);
        inbox.bed.store(bed, Ordering::Release); // whoever sees it sees the thread
        let beds = self.beds.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        beds
    }

    fn get_up(&self, inbox: &Inbox) {
        inbox.bed.store(UP, Ordering::Relaxed);
        self.beds.fetch_add(GOT_UP - 1, Ordering::SeqCst);
        fence_after_rmw(); // one of a pair, with `sleep_as_sysmon`
        self.wake_sysmon();
    }

    /// True if there is something in a queue that any worker takes from.
    fn has_movable(&self) -> bool {
        let queued = |queues: &Stealers| !queues.new.is_empty() || !queues.woken.is_empty();
        !self.injector.is_empty() || self.stealers.iter().any(queued)
    }

    /// How long to sleep until `alarm`. On a manual clock, whose time does not pass by itself, whoever moves it wakes
    /// everybody.
    fn until(&self, alarm: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        match (&self.clock, alarm?) {
            (Clock::Manual(_), alarm) if alarm > now => None,
            (_, alarm) => Some(alarm - now),
        }
    }

    /// How long it takes until a timer of another worker is late: if that worker got up for it and is stuck, somebody has to
    /// look.
    fn until_overdue(&self, worker: usize) -> Option<Duration> {
        let others = self.inboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        let next = others.filter_map(|(_, inbox)| inbox.timers.next()).min();
        self.until(next.map(|next| next + OVERDUE)).map(|overdue| overdue.max(LOOK_AGAIN))
    }

    /// Moves a manual clock to the next deadline of all, if everybody sleeps, nothing is queued and nobody waits for a
    /// blocking call; `beds` is what
    /// [`Shared::lie_down`] returned. If somebody has got up since, an inbox may be empty that was not, and a timer may
    /// have rung or be missing: whoever lies down last looks again.
    ///
    /// News that the reactor has comes first. Only who serves it knows that there is none: any other has that one get up,
    /// which is last then.
    fn clock_jumps(&self, beds: u64, server: Option<&mut Server>) -> bool {
        let Clock::Manual(clock) = &self.clock else { return false };
        let idle = self.nobody_is_up(beds) && self.inboxes.iter().all(Inbox::is_empty);
        let next = self.inboxes.iter().filter_map(|inbox| inbox.timers.next()).min();
        let held = clock.is_held() || self.blocking.is_awaited();
        fence(Ordering::SeqCst);
        let Some(next) = next else { return false };
        if !idle || self.beds.load(Ordering::Relaxed) != beds || held {
            return false;
        }
        if server.is_none() && self.reactor.get().is_some() {
            let serves = |inbox: &Inbox| inbox.bed.load(Ordering::Acquire) == SERVING;
            let server = self.inboxes.iter().position(serves);
            server.into_iter().for_each(|server| _ = self.wake(server));
            return false;
        }
        let news = server.is_some_and(|server| server.wait(Some(Duration::ZERO)));
        if !news {
            clock.jump_to(next);
        }
        true
    }

    /// Takes tasks that have not started and may run anywhere from `worker`, which is stuck.
    pub(crate) fn rescue(&self, worker: usize, into: &Queues) {
        self.inboxes[worker]
            .drain(|task| if task.is_unstarted() { into.new.push(task) } else { self.push_to(worker, task) });
        let handed = self.stealers[worker].handed.steal_batch_and_pop(&into.new);
        handed.success().into_iter().for_each(|task| into.new.push(task));
    }

    /// Takes tasks that outsiders have spawned or woken.
    pub(crate) fn steal_from_outside(&self, into: &Queues) -> Option<&'static Task> {
        loop {
            let steal = self.injector.steal_batch_and_pop(&into.new);
            if !steal.is_retry() {
                return steal.success();
            }
        }
    }

    /// The workers after this one, and round to the one before it.
    fn others(&self, worker: usize) -> impl Iterator<Item = usize> {
        let workers = self.stealers.len();
        (worker + 1..worker + workers).map(move |other| other % workers)
    }

    /// How many tasks the other workers have that may run anywhere.
    pub(crate) fn backlog(&self, worker: usize) -> usize {
        let queued = |other: usize| self.stealers[other].new.len() + self.stealers[other].woken.len();
        self.others(worker).map(queued).sum()
    }

    /// Takes work that may run anywhere from the other workers.
    pub(crate) fn steal(&self, worker: usize, into: &Queues) -> Option<&'static Task> {
        loop {
            let mut retry = false;
            let mut attempt = |steal: Steal<&'static Task>| {
                retry |= steal.is_retry();
                steal.success()
            };
            for victim in self.others(worker) {
                let Stealers { new, woken, .. } = &self.stealers[victim];
                if let Some(task) = attempt(woken.steal_batch_and_pop(&into.woken)) {
                    return Some(task);
                }
                if let Some(task) = attempt(new.steal_batch_and_pop(&into.new)) {
                    return Some(task);
                }
            }
            if !retry {
                return None;
            }
        }
    }

    /// Free slots for `free`, at least one.
    #[cold]
    pub(crate) fn take_slots(&self, free: &mut Vec<&'static Task>) {
        let mut shared = self.free.lock();
        let kept = shared.len().saturating_sub(CHUNK);
        free.extend(shared.drain(kept..));
        drop(shared);
        if free.is_empty() {
            let chunk = slots::take_chunk();
            self.chunks.lock().push(chunk);
            free.extend(chunk.iter().rev());
        }
    }

    /// A free slot, for a thread that is no worker.
    pub(crate) fn take_slot(&self) -> &'static Task {
        let mut free = Vec::new();
        self.take_slots(&mut free);
        let slot = free.pop().expect("at least one");
        self.free.lock().append(&mut free);
        slot
    }

    pub(crate) fn give_slots(&self, slots: impl IntoIterator<Item = &'static Task>) {
        self.free.lock().extend(slots);
    }

    /// All slots of the runtime.
    pub(crate) fn chunks(&self) -> Vec<&'static [Task]> {
        self.chunks.lock().clone()
    }

    /// Cancels or kills every task that there is.
    pub(crate) fn cancel_all(&self, level: Level) {
        for task in self.chunks().into_iter().flatten() {
            let reference: TaskRef = task.reference();
            if task.state.is_live() {
                task.word.cancel(level);
                crate::worker::unpark(reference);
            }
        }
    }

    /// How many tasks were spawned and have not ended. Exact when it is zero: what has ended is counted before what
    /// was spawned, and nothing ends before it was spawned.
    pub(crate) fn active(&self) -> u64 {
        self.active_and_outside().0
    }

    /// The same, and the word with the count of the outsiders' tasks that it was found by.
    fn active_and_outside(&self) -> (u64, u64) {
        let ended: u64 = self.inboxes.iter().map(|inbox| inbox.own.ended.load(Ordering::Acquire)).sum();
        let spawned: u64 = self.inboxes.iter().map(|inbox| inbox.own.spawned.load(Ordering::Acquire)).sum();
        let outside = self.spawned_outside.load(Ordering::Acquire);
        (spawned + (outside & !ENDED) - ended, outside)
    }

    /// Gives the slots and the reactor of a runtime that has ended to others; chunks with a slot that a handle still has
    /// stay.
    pub(crate) fn give_back(&self) {
        self.reactor.get().into_iter().for_each(|reactor| reactor.give());
        let mut free = self.free.lock();
        let mut counts = HashMap::new();
        free.iter().for_each(|slot| *counts.entry(slot.id().chunk()).or_insert(0) += 1);
        let whole = |slot: &Task| counts.get(&slot.id().chunk()) == Some(&CHUNK);
        free.retain(|slot| !whole(slot));
        self.chunks.lock().drain(..).filter(|chunk| whole(&chunk[0])).for_each(slots::give_chunk);
    }
}

#[cfg(test)]
mod tests;
