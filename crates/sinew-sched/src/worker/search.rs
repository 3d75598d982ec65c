//! Where a worker's next task comes from, and where a task goes that is ready.
//!
//! A turn takes the next task from the worker's own queues; every so often it looks elsewhere first, so that nobody is
//! kept waiting by those who are always ready. A worker that finds nothing here looks everywhere, and sleeps in the end.
//! The order is in `docs/scheduler.md`; how nothing is missed on the way to bed, in [`crate::shared`].

use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::Ordering;
use sinew_sync::hint::spin_loop;
use sinew_sync::thread::yield_now;

use super::temporary::Nothing;
use super::{Mode, Queues, Worker};
use crate::clock::system_now;
use crate::counters::count;
use crate::placement;
use crate::queues::Steal;
use crate::shared::OVERDUE;
use crate::task::{Home, Task};

/// The most turns between two looks at the global queue, the inbox and the timers while there is local work. Turns may be
/// long: so there are fewer if the last ones took longer than a slice together, and it is done at every tick of sysmon.
const FAIRNESS_INTERVAL: u32 = 61;

/// The looks around between two at which the timers of the other workers are looked at as well.
const OVERDUE_INTERVAL: u32 = 16;

/// How long others have to have a backlog before a worker that is idle takes from it. Tasks that talk to each other are
/// spawned together, and start and block one after the other within this time, on one worker, where talking is cheap.
const PATIENCE: Duration = Duration::from_micros(20);

/// How long a backlog is at most that may be gone in a moment, and for how long that is believed.
const SHORT: usize = 16;
const GONE_SOON: Duration = Duration::from_micros(100);

/// What a worker that looks for work has seen of the others' backlog.
#[derive(Clone, Copy)]
pub(super) struct Backlog {
    first_seen: Instant,
    /// Since when it has not got shorter.
    since: Instant,
    len: usize,
}

/// How often a worker that looks for work looks into its inbox before it looks elsewhere.
const LOOKS: u32 = 8;

/// How many searches in a row have to be in vain before a worker sleeps at once, and every how many it tries again then.
const FEW: u32 = 8;
const MANY: u32 = 64;

/// How long a worker looks for work before it sleeps: longer than it takes another to answer, and shorter than it takes to
/// be woken.
const SEARCH: Duration = Duration::from_micros(40);
/// The same if there is a reactor: who talks to this process through sockets may be waiting for the processor. It is given
/// way to, and the reactor looked at again: a worker that has not gone to sleep need not be woken, and the system, which
/// puts a thread on the processor of who wakes it, leaves the two on different ones.
const SHORT_SEARCH: Duration = Duration::from_micros(4);

impl Worker {
    /// Queues a task that may go on anywhere.
    pub(super) fn push_woken(&self, task: &'static Task) {
        self.queues.woken.push(task);
        if self.pace.is_short() {
            self.wake_now_and_then(); // mostly it is soon gone
        } else {
            self.wake_for(self.queues.woken.len());
        }
    }

    /// Queues a task that was just made.
    #[inline]
    pub(crate) fn push_new(&self, task: &'static Task) {
        count(&self.inbox.own.spawned);
        if placement::spreads(task.table()) {
            return self.hand_out(task);
        }
        self.queues.new.push(task);
        self.wake_for(self.queues.new.len());
    }

    /// Queues a task that was just made on the next worker in turn.
    #[cold]
    fn hand_out(&self, task: &'static Task) {
        let next = (self.next_in_turn.get() + 1) % self.shared.base;
        self.next_in_turn.set(next);
        if next == self.index {
            self.queues.handed.push(task);
        } else {
            self.shared.push_to(next, task);
        }
    }

    /// Queues a task that was just made and must run here.
    pub(crate) fn push_new_pinned(&self, task: &'static Task) {
        count(&self.inbox.own.spawned);
        self.push_ready(task);
        if self.unwatched.replace(false) {
            self.shared.wake_one(); // nobody else can run it, but somebody has to look whether this worker is stuck
        }
    }

    /// Wakes another worker if there is a backlog for it, or if nobody looks whether there is. A lone task, or a few, are worth
    /// it too, if this worker goes on computing; mostly it does not. So that is tried, and the more often it was in vain the
    /// more rarely.
    #[inline]
    fn wake_for(&self, backlog: usize) {
        if backlog < SHORT && !self.unwatched.get() {
            return self.wake_now_and_then();
        }
        self.unwatched.set(false);
        self.shared.wake_one();
    }

    /// Wakes another worker, unless that was in vain lately: then the next so many times are passed over.
    #[inline]
    fn wake_now_and_then(&self) {
        let lone = self.lone.get();
        if lone > 0 {
            return self.lone.set(lone - 1);
        }
        self.lone.set((1 << self.shared.in_vain()) - 1);
        self.unwatched.set(false);
        self.shared.wake_one();
    }

    /// The next task that is here, if there is one. Whether this is the stack of a `core`'s loop, and not of a task,
    /// decides where requests are answered.
    #[inline]
    pub(super) fn find(&self, in_loop: bool) -> Option<&'static Task> {
        match self.mode.get() {
            Mode::Free => (),
            Mode::Steps(left) => return self.find_stepping(left, in_loop),
            Mode::Temporary { .. } => return self.find_temporarily(in_loop),
        }
        let found = self.find_any();
        if self.inbox.watch.is_on() { self.find_watched(found, in_loop) } else { found }
    }

    /// What becomes of `found` on a worker that is watched, or asked something.
    #[cold]
    fn find_watched(&self, found: Option<&'static Task>, in_loop: bool) -> Option<&'static Task> {
        let watch = &self.inbox.watch;
        if watch.is_watched() {
            let waiting = !self.ready.is_empty() || !self.queues.handed.is_empty();
            self.stopwatch.turn(watch, found, waiting);
        }
        if watch.is_asked() {
            if in_loop {
                self.answer();
            } else if self.keep_spare_core() {
                // A task's stack may be too small for that: the loop of a spare core comes first, and finds it again.
                found.into_iter().for_each(|task| match task.home() {
                    // It yields, and is still on its stack: where it goes on is noted when it leaves.
                    _ if self.runs(task) => self.push_ready(task),
                    Home::None => self.put_back(task),
                    _ => self.queue_woken(task),
                });
                return None;
            }
        }
        found
    }

    #[inline]
    fn find_any(&self) -> Option<&'static Task> {
        let turn = self.next_turn();
        if (turn.wrapping_sub(self.look_around_at.get()).cast_signed() >= 0
            || self.shared.tick.get() != self.tick.get())
            && let Some(task) = self.find_fairly(turn)
        {
            return Some(task);
        }
        if turn.is_multiple_of(8)
            && let Some(task) = self.queues.new.pop()
        {
            return Some(task);
        }
        if turn.is_multiple_of(2)
            && let Some(task) = self.queues.woken.pop()
        {
            return Some(task);
        }
        if turn % 8 == 1
            && let Some(task) = self.queues.handed.pop()
        {
            return Some(task);
        }
        let here = self.ready.pop().or_else(|| self.queues.woken.pop());
        here.or_else(|| self.queues.handed.pop()).or_else(|| self.queues.new.pop())
    }

    /// The next task that was spawned or woken and may run on any worker, for a task that yields. None where only
    /// [`Worker::find`] may choose.
    #[inline(always)]
    pub(super) fn find_newcomer(&self) -> Option<&'static Task> {
        let Queues { new, woken, .. } = &self.queues;
        if new.is_empty() && woken.is_empty() { None } else { self.take_newcomer() }
    }

    #[cold]
    fn take_newcomer(&self) -> Option<&'static Task> {
        match self.mode.get() {
            Mode::Steps(0) | Mode::Temporary { .. } => return None,
            _ if self.inbox.watch.is_on() => return None,
            Mode::Steps(left) => self.mode.set(Mode::Steps(left - 1)),
            Mode::Free => (),
        }
        let Queues { new, woken, .. } = &self.queues;
        if self.next_turn().is_multiple_of(2) {
            new.pop().or_else(|| woken.pop())
        } else {
            woken.pop().or_else(|| new.pop())
        }
    }

    /// Looks around in the next turn.
    pub(super) fn look_around_soon(&self) {
        self.look_around_at.set(self.turns().wrapping_add(1));
    }

    #[inline(always)]
    pub(crate) fn next_turn(&self) -> u32 {
        count(&self.inbox.own.turns) as u32
    }

    fn turns(&self) -> u32 {
        self.inbox.own.turns.load(Ordering::Relaxed) as u32
    }

    /// The next task, wherever it is, if there are turns left; it takes one of them.
    #[cold]
    fn find_stepping(&self, left: u64, in_loop: bool) -> Option<&'static Task> {
        if in_loop && self.inbox.watch.is_asked() {
            self.answer();
        }
        self.look_at_the_clock();
        if left == 0 {
            return None;
        }
        self.receive();
        self.timers().expire(&self.shared.clock);
        self.shared.serve_if_late();
        let task = self.find_any().or_else(|| self.shared.steal_from_outside(&self.queues));
        let task = task.or_else(|| if self.shared.serve() { self.find_any() } else { None })?;
        self.mode.set(Mode::Steps(left - 1));
        Some(task)
    }

    /// Looks at the inbox and the timers, and takes the oldest of the outsiders' tasks or of our own, in turns,
    /// which the newest would else keep waiting.
    #[cold]
    fn find_fairly(&self, turn: u32) -> Option<&'static Task> {
        self.tick.set(self.shared.tick.get());
        let interval = self.pace.measure(turn, system_now()).clamp(1, FAIRNESS_INTERVAL);
        self.look_around_at.set(turn.wrapping_add(interval));
        self.look_at_the_clock();
        self.receive();
        self.timers().expire(&self.shared.clock);
        self.shared.serve_if_late();
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        if looks.is_multiple_of(OVERDUE_INTERVAL) {
            self.ring_overdue();
        }
        let (own, outsiders) = (&self.shared.stealers[self.index].new, &self.shared.injector);
        let oldest = if looks.is_multiple_of(2) {
            outsiders.steal().or_else(|| own.steal())
        } else {
            own.steal().or_else(|| outsiders.steal())
        };
        match oldest {
            Steal::Success(task) => Some(task),
            _ => None,
        }
    }

    /// Rings the timers of workers that are stuck. Who is idle does that too, but perhaps nobody is.
    fn ring_overdue(&self) {
        let clock = &self.shared.clock;
        let overdue = |next| clock.now() - next >= OVERDUE;
        let timers = self.shared.inboxes.iter().map(|inbox| inbox.timers);
        timers.filter(|timers| timers.next().is_some_and(overdue)).for_each(|timers| timers.expire(clock));
    }

    pub(super) fn receive(&self) -> bool {
        self.inbox.drain(|task| {
            if task.is_unstarted() { self.queues.handed.push(task) } else { self.push_ready(task) }
        })
    }

    /// Looks everywhere, and sleeps until there is something. None when the runtime stops and no task is left, or, for
    /// a worker that runs for some turns only, when there is nothing to do.
    #[cold]
    pub(super) fn search(&self) -> Option<&'static Task> {
        if let Mode::Steps(_) = self.mode.get() {
            return None;
        }
        let (mut slept, since) = (false, system_now());
        self.pace.measure(self.turns(), since);
        loop {
            let has_reactor = self.shared.has_reactor();
            let search = if has_reactor { SHORT_SEARCH } else { SEARCH };
            let (until, may_spin) = (system_now() + search, self.may_spin());
            let mut looked = false;
            loop {
                // What comes from others comes to the inbox first of all.
                (0..LOOKS).take_while(|_| may_spin && self.inbox.is_empty()).for_each(|_| spin_loop());
                self.receive();
                self.timers().expire(&self.shared.clock);
                if looked && has_reactor {
                    self.shared.serve_own_place(self.index);
                }
                let found = self.find(true).or_else(|| self.steal());
                if let Some(task) = found {
                    if looked {
                        self.searches_in_vain.set(0);
                    }
                    self.look_at_the_clock();
                    if slept {
                        self.hand_over_the_watch();
                        self.pace.begin(self.turns(), system_now());
                    }
                    return Some(task);
                }
                if !may_spin || system_now() >= until {
                    break;
                }
                looked = true;
                if has_reactor {
                    // A thread with a backlog, or one that is about to send something, may want this very CPU.
                    yield_now();
                }
            }
            self.searches_in_vain.update(|searches| searches.wrapping_add(1));
            self.publish(); // it may sleep for long
            if self.backlog.get().is_some() {
                continue; // in a moment it is worth taking, or gone
            }
            if self.shared.tell_idle() {
                self.shared.tell_end();
                return None;
            }
            self.look_after_others();
            // Both may have woken tasks of this worker, and nobody else would tell it.
            if self.has_work() {
                continue;
            }
            let limit = match self.what_if_nothing_is_found(since) {
                Nothing::Sleep(limit) => limit,
                Nothing::LookAgain => continue,
                Nothing::Leave => return None,
            };
            self.shared.found_nothing();
            self.give_stacks_back_if_asked();
            self.shared.sleep_for(self.index, self.timers().next(), limit);
            self.backlog.set(None);
            slept = true;
        }
    }

    /// True if a worker that finds nothing looks for a while before it sleeps: if that was worth it lately. Now and then it
    /// tries.
    fn may_spin(&self) -> bool {
        let in_vain = self.searches_in_vain.get();
        self.may_spin && !self.shared.has_temporary() && (in_vain < FEW || in_vain.is_multiple_of(MANY))
    }

    fn steal(&self) -> Option<&'static Task> {
        if !self.inbox.takes_all() {
            return None;
        }
        let from_outside = self.shared.steal_from_outside(&self.queues);
        let stolen = from_outside.or_else(|| match self.others_have_a_backlog() {
            true => self.shared.steal(self.index, &self.queues),
            false => None,
        });
        if stolen.is_some() {
            count(&self.inbox.own.steals);
            self.shared.found_something();
        }
        stolen
    }

    /// True if others have had more to do than they get round to since some time ago. A short backlog that gets shorter is
    /// being seen to.
    fn others_have_a_backlog(&self) -> bool {
        let len = self.shared.backlog(self.index);
        if len == 0 {
            self.backlog.set(None);
            return false;
        }
        let now = system_now();
        let mut seen = self.backlog.get().unwrap_or(Backlog { first_seen: now, since: now, len });
        if len < seen.len && len <= SHORT && now - seen.first_seen < GONE_SOON {
            seen.since = now;
        }
        self.backlog.set(Some(Backlog { len, ..seen }));
        now - seen.since >= PATIENCE
    }

    /// Looks whether others have too much to do. For one that has not changed tasks since the last look it does what does
    /// not need that worker: rings its timers, and takes what may run anywhere from its queues.
    fn look_after_others(&self) {
        if !self.inbox.takes_all() {
            return;
        }
        let others = self.shared.inboxes.iter().enumerate().filter(|(index, _)| *index != self.index);
        for (index, inbox) in others.filter(|(_, inbox)| !inbox.is_asleep()) {
            if inbox.watch.look() {
                inbox.timers.expire(&self.shared.clock);
                self.shared.rescue(index, &self.queues);
            }
        }
    }

    /// True if there is a task in a queue of this worker, the inbox aside.
    pub(crate) fn has_work(&self) -> bool {
        let Queues { new, woken, handed } = &self.queues;
        !self.ready.is_empty() || !new.is_empty() || !woken.is_empty() || !handed.is_empty()
    }

    /// Sees to it that somebody looks for backlogs while this worker, which was idle, works.
    fn hand_over_the_watch(&self) {
        let alone = self.shared.goes_to_work(self.index) && self.queues.new.is_empty();
        self.unwatched.set(alone);
        if !alone {
            self.shared.wake_one();
        }
    }
}
