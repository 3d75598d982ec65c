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
//! thread, or by itself. It is counted as a sleeper until it has got up.
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
//! Models: `shared_push_or_sleep`, `shared_inject_or_sleep`, `shared_backlog_or_sleep`, `shared_stop_or_sleep`,
//! `shared_clock_moves_or_sleep`, `shared_two_wake_two`, `shared_work_or_sleep`, `shared_clock_or_task`,
//! `shared_clock_or_timer`, `shared_last_end_is_seen`, `shared_close_or_end`, `shared_child_or_end`,
//! `shared_late_spawn_or_end`.
//!
//! A runtime's `Shared` is never freed, nor are its slots: a waker may still be about to wake a worker when the
//! task that it woke has ended, and the runtime with it. That is some hundred bytes per runtime and 64 for each task
//! that was ever alive at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::{Level, StackSize};
use sinew_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use sinew_sync::statics::OnceLock;
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Mutex, fence_after_rmw, park_timeout};

use crate::clock::{Clock, system_now};
use crate::placement::Watch;
use crate::queues::{Injector, Steal};
use crate::slots::{self, CHUNK, TaskId};
use crate::task::{DONE, Task, TaskRef};
use crate::timers::Timers;
use crate::worker::{Queues, Stealers};

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
}

/// The bit of the count of outsiders' tasks that says that the runtime has ended, so there will be no more.
const ENDED: u64 = 1 << 63;

/// Tasks that a report names.
const MOST_REPORTED: usize = 100;

/// One worker that has got up, in the word of the beds, whose lower half counts those who sleep.
const GOT_UP: u64 = 1 << 32;

fn sleepers(beds: u64) -> usize {
    (beds % GOT_UP) as usize
}

pub(crate) struct Shared {
    pub(crate) injector: Injector<&'static Task>,
    /// The other ends of each worker's queues.
    pub(crate) stealers: Box<[Stealers]>,
    pub(crate) inboxes: Box<[Inbox]>,
    /// How many workers lie in their beds, or are about to get up, and how often one has got up ([`GOT_UP`]).
    beds: AtomicU64,
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
    /// The names of the tasks that have one and have not ended.
    pub(crate) names: Mutex<HashMap<TaskId, Cow<'static, str>>>,
    /// Who waits for the last task to end.
    drained: Mutex<Option<Thread>>,
}

/// A worker's queue for other threads, its bed, and its counts.
#[repr(align(128))]
pub(crate) struct Inbox {
    head: AtomicPtr<Task>,
    asleep: AtomicBool,
    /// The worker has lain down, and has found nothing since. Only the worker writes it.
    idle: AtomicBool,
    thread: OnceLock<Thread>,
    pub(crate) timers: Timers,
    pub(crate) watch: Watch,
    pub(crate) own: Own,
}

/// What only the worker writes, often: on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Own {
    /// Tasks that the worker has spawned and ended.
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// The task that the worker runs, for who looks on.
    pub(crate) running: AtomicPtr<Task>,
}

impl Inbox {
    fn new() -> Inbox {
        Inbox {
            head: AtomicPtr::new(ptr::null_mut()),
            asleep: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            thread: OnceLock::new(),
            timers: Timers::new(),
            watch: Watch::new(),
            own: Own {
                spawned: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                running: AtomicPtr::new(ptr::null_mut()),
            },
        }
    }

    /// True while the worker lies in its bed.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// True if there is nothing in the queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
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
    /// What workers with these queues share.
    pub(crate) fn new(queues: &[Queues], stack: StackSize, clock: Clock, look_again: bool) -> Shared {
        Shared {
            injector: Injector::new(),
            inboxes: queues.iter().map(|_| Inbox::new()).collect(),
            stealers: queues.iter().map(Queues::stealers).collect(),
            beds: AtomicU64::new(0),
            in_vain: AtomicU32::new(0),
            stack,
            clock,
            look_again,
            chunks: Mutex::new(Vec::new()),
            free: Mutex::new(Vec::new()),
            spawned_outside: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            names: Mutex::new(HashMap::new()),
            drained: Mutex::new(None),
        }
    }

    /// Counts a task that a thread which is no worker is about to spawn. False if the runtime has ended: nobody would run
    /// it. One that is counted is waited for, and cancelled if need be ([`Shared::try_end`]).
    pub(crate) fn count_outside(&self) -> bool {
        let one_more = |count| (count & ENDED == 0).then_some(count + 1);
        self.spawned_outside.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
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
        let _ = (0..self.inboxes.len()).any(|worker| self.wake(worker));
    }

    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for worker in 0..self.inboxes.len() {
            self.wake(worker);
        }
    }

    fn wake(&self, worker: usize) -> bool {
        let inbox = &self.inboxes[worker];
        let woken = inbox.asleep.load(Ordering::Acquire) && inbox.asleep.swap(false, Ordering::AcqRel);
        if woken {
            inbox.thread.get().expect("a worker that sleeps has said who it is").unpark();
        }
        woken
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

    /// How often in a row getting up was in vain, at most 10.
    pub(crate) fn in_vain(&self) -> u32 {
        self.in_vain.load(Ordering::Relaxed).min(10)
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
        let beds = self.lie_down(inbox);
        let work = !inbox.is_empty()
            || !self.injector.is_empty()
            || self.stealers.iter().any(|queues| !queues.new.is_empty() || !queues.woken.is_empty())
            || self.has_ended();
        if !work && !self.clock_jumps(beds) {
            let look = if self.another_works(worker) { Some(LOOK_AGAIN) } else { self.until_overdue(worker) };
            let limits = [self.until(alarm), limit, look.filter(|_| self.look_again)];
            let timeout = limits.into_iter().flatten().min();
            match timeout {
                Some(timeout) if timeout.is_zero() => (),
                Some(timeout) => park_timeout(timeout),
                None => {
                    while inbox.asleep.load(Ordering::Acquire) {
                        thread::park();
                    }
                }
            }
        }
        self.get_up(inbox);
    }

    /// Puts a worker, whose inbox this is, to bed, and returns the word of the beds. The fence is one of two pairs, both
    /// with [`Shared::wake_one`]: the worker sees what was pushed before it, and who had gone to work.
    fn lie_down(&self, inbox: &Inbox) -> u64 {
        inbox.thread.get_or_init(thread::current);
        inbox.idle.store(true, Ordering::Relaxed);
        inbox.asleep.store(true, Ordering::Release); // whoever sees it sees the thread
        let beds = self.beds.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        beds
    }

    fn get_up(&self, inbox: &Inbox) {
        inbox.asleep.store(false, Ordering::Relaxed);
        self.beds.fetch_add(GOT_UP - 1, Ordering::Relaxed);
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

    /// Moves a manual clock to the next deadline of all, if everybody sleeps and nothing is queued; `beds` is what
    /// [`Shared::lie_down`] returned. If somebody has got up since, an inbox may be empty that was not, and a timer may
    /// have rung or be missing: whoever lies down last looks again.
    fn clock_jumps(&self, beds: u64) -> bool {
        let Clock::Manual(clock) = &self.clock else { return false };
        let idle = sleepers(beds) == self.inboxes.len() && self.inboxes.iter().all(Inbox::is_empty);
        let next = self.inboxes.iter().filter_map(|inbox| inbox.timers.next()).min();
        fence(Ordering::SeqCst);
        match next {
            Some(next) if idle && self.beds.load(Ordering::Relaxed) == beds && !clock.is_held() => {
                clock.jump_to(next);
                true
            }
            _ => false,
        }
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

    /// Admits no task any more. The fence is one of a pair, with [`Shared::tell_idle`]: either a worker sees that it
    /// has to tell, or what it has ended is seen here.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Cancels or kills every task, and waits until the runtime has ended, or until `deadline`. True if it has ended.
    pub(crate) fn drain(&self, level: Level, grace: Duration) -> bool {
        const LONGEST: Duration = Duration::from_millis(100);
        let deadline = system_now() + grace;
        *self.drained.lock() = Some(thread::current());
        let mut pause = Duration::from_millis(1);
        loop {
            // Again and again: who spawns pays for no fence, so a new task may have found the runtime open and not
            // been found here.
            self.cancel_all(level);
            let (ended, left) = (self.try_end(), deadline - system_now());
            if ended || left.is_zero() {
                *self.drained.lock() = None;
                return ended;
            }
            park_timeout(left.min(pause));
            pause = (2 * pause).min(LONGEST);
        }
    }

    /// Lets the workers end when no task is left.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_all();
        if let Clock::Manual(clock) = &self.clock {
            clock.forgets(self);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// How far the runtime is, for people.
    pub(crate) fn phase(&self) -> &'static str {
        match (self.closed.load(Ordering::Relaxed), self.stopping.load(Ordering::Relaxed)) {
            (_, true) => "stopping",
            (true, false) => "shutting down",
            (false, false) => "open",
        }
    }

    /// Tasks that were spawned by threads that are no workers.
    pub(crate) fn spawned_outside(&self) -> u64 {
        self.spawned_outside.load(Ordering::Acquire) & !ENDED
    }

    /// Which tasks are left of the runtime, which is closed. If none, it has ended.
    pub(crate) fn report(&self) -> Report {
        let mut tasks = Vec::new();
        let left = loop {
            let left = self.active();
            if left > 0 || self.try_end() {
                break left;
            }
        };
        if left > 0 {
            let live = self.chunks().into_iter().flatten().filter(|task| task.state.is_live());
            let unfinished = live.filter(|task| task.join.load(Ordering::Relaxed) != DONE).map(Task::id);
            let names = self.names.lock();
            let named = unfinished.map(|id| (id, names.get(&id).map(|name| name.clone().into_owned())));
            tasks.extend(named.take(MOST_REPORTED));
        }
        Report { left, tasks }
    }

    /// True if the workers may end.
    fn has_ended(&self) -> bool {
        self.is_stopping() && self.try_end()
    }

    /// Ends the runtime, which is closed, if no task is left: from then on there will be none. If a thread counts one
    /// meanwhile, the exchange fails. True if it has ended.
    pub(crate) fn try_end(&self) -> bool {
        let (active, outside) = self.active_and_outside();
        if outside & ENDED != 0 || active > 0 {
            return outside & ENDED != 0;
        }
        let (word, ended) = (&self.spawned_outside, outside | ENDED);
        match word.compare_exchange(outside, ended, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now & ENDED != 0,
        }
    }

    /// Nobody will run anything any more, although tasks are left.
    pub(crate) fn abandon(&self) {
        self.spawned_outside.fetch_or(ENDED, Ordering::AcqRel);
    }

    /// Cancels the tasks that nobody has cancelled. A runtime that a task of its own has shut down has nobody else who
    /// looks again for tasks that found it open and were not found.
    fn cancel_missed(&self) {
        let live = self.chunks().into_iter().flatten().filter(|task| task.state.is_live());
        for task in live.filter(|task| task.word.level().is_none()) {
            let reference = task.reference();
            task.word.cancel(Level::Cancel);
            crate::worker::unpark(reference);
        }
    }

    /// A worker has run out of work: tells whoever waits in [`Shared::drain`], if the runtime is closed. True if the
    /// workers may end. The fence is one of a pair also with itself: of two workers that end the last two tasks, one
    /// sees that both have ended.
    pub(crate) fn tell_idle(&self) -> bool {
        fence(Ordering::SeqCst); // see `close`
        if self.closed.load(Ordering::Relaxed)
            && let Some(thread) = &*self.drained.lock()
        {
            thread.unpark();
        }
        let ended = self.has_ended();
        if self.is_stopping() && !ended {
            self.cancel_missed();
        }
        ended
    }

    /// Gives the slots of a runtime that has ended to others; chunks with a slot that a handle still has stay.
    pub(crate) fn give_chunks(&self) {
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
