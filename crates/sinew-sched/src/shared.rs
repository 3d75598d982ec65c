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
//! A `Shared` is freed with the last reference to it: see [`reference`].

mod end;
mod inbox;
pub(crate) mod reference;
mod service;
mod serving;
mod sleep;

use std::time::Duration;

use sinew_fiber::{CancelLevel, StackSize};
use sinew_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sinew_sync::statics::OnceLock;
use sinew_sync::thread::Thread;
use sinew_sync::{Mutex, fence_after_rmw};

use crate::blocking::pool::{Limits, Pool};
use crate::clock::Clock;
use crate::cpu::{self, Steering};
use crate::names::Names;
use crate::notes;
use crate::queues::{Injector, Steal};
use crate::reactor::Reactor;
use crate::slots::{self, CHUNK};
use crate::task::{Task, TaskRef};
use crate::task_id::TaskId;
use crate::worker::{Queues, Stealers};
pub(crate) use inbox::Inbox;
pub(crate) use reference::{RuntimeId, SharedRef};
pub(crate) use service::Slept;
use service::SysmonBed;

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
    /// How many blocking calls had not returned by the deadline. Their threads are left running.
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
    pub(crate) id: RuntimeId,
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
    /// There is a CPU for each worker, so workers keep away from each other's ([`crate::cpu`]).
    places: bool,
    /// Whether workers that wake others choose their CPUs.
    steering: Steering,
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
        let id = RuntimeId::new();
        Shared {
            id,
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
            places: !sinew_sync::MODEL && (2..=cpu::parallelism()).contains(&base),
            steering: Steering::new(),
            chunks: Mutex::new(Vec::new()),
            free: Mutex::new(Vec::new()),
            spawned_outside: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            names: Names::new(),
            drained: Mutex::new(None),
            blocking: Pool::new(Limits::default(), id),
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
            task.word.cancel(CancelLevel::Cancel);
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
    pub(crate) fn cancel_all(&self, level: CancelLevel) {
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
}

/// Slots and reactor go to later runtimes. A slot that a handle still has comes later: see [`slots`].
impl Drop for Shared {
    fn drop(&mut self) {
        self.reactor.get().into_iter().for_each(|reactor| reactor.give());
        slots::give_loose(self.free.lock().drain(..));
    }
}

#[cfg(test)]
mod tests;
