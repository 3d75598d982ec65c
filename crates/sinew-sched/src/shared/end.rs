//! How a runtime ends: the prose is in [`super`].

use std::time::Duration;

use sinew_fiber::CancelLevel;
use sinew_sync::atomic::{AtomicU64, Ordering, fence};
use sinew_sync::{park_timeout, thread};

use super::{ENDED, MOST_REPORTED, Report, Shared};
use crate::clock::{Clock, system_now};
use crate::counters::Own;
use crate::task::{DONE, Task};
use crate::task_id::TaskId;

impl Shared {
    /// Admits no task any more. The fence is one of a pair, with [`Shared::tell_idle`]: either a worker sees that it
    /// has to tell, or what it has ended is seen here.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Cancels or kills every task, and waits until the runtime has ended, or until `deadline`. True if it has ended.
    pub(crate) fn drain(&self, level: CancelLevel, grace: Duration) -> bool {
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
        self.tell_end();
        self.blocking.stop();
        if let Clock::Manual(clock) = &self.clock {
            clock.forgets(self.id);
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

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// How many tasks have been spawned and have ended so far.
    pub(crate) fn spawned_and_ended(&self) -> (u64, u64) {
        let sum = |count: fn(&Own) -> &AtomicU64| {
            self.inboxes.iter().map(|inbox| count(&inbox.own).load(Ordering::Acquire)).sum::<u64>()
        };
        (sum(|own| &own.spawned) + self.spawned_outside(), sum(|own| &own.ended))
    }

    /// Tasks that were spawned by threads that are no workers.
    pub(crate) fn spawned_outside(&self) -> u64 {
        self.spawned_outside.load(Ordering::Acquire) & !ENDED
    }

    /// Which tasks are left of the runtime, which is closed. If none, it has ended.
    pub(crate) fn report(&self) -> Report {
        loop {
            let report = self.left();
            if report.left > 0 || self.try_end() {
                return report;
            }
        }
    }

    /// Which tasks have not ended.
    pub(crate) fn left(&self) -> Report {
        let (left, mut tasks) = (self.active(), Vec::new());
        if left > 0 {
            let live = self.chunks().into_iter().flatten().filter(|task| task.state.is_live());
            let unfinished = live.filter(|task| task.join.load(Ordering::Relaxed) != DONE).map(Task::id);
            let unfinished: Vec<TaskId> = unfinished.take(MOST_REPORTED).collect();
            let mut names = self.names.of(&unfinished);
            tasks.extend(unfinished.into_iter().map(|id| (id, names.remove(&id))));
        }
        Report { left, tasks, blocking: self.blocking.counts().running }
    }

    /// True if the workers may end.
    pub(crate) fn has_ended(&self) -> bool {
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
        self.forget_descriptors();
    }

    /// Nobody serves the reactor any more: tasks of other runtimes may wait for a descriptor there.
    fn forget_descriptors(&self) {
        self.reactor.get().into_iter().for_each(|reactor| reactor.forget_all());
    }

    /// Cancels the tasks that nobody has cancelled. A runtime that a task of its own has shut down has nobody else who
    /// looks again for tasks that found it open and were not found.
    fn cancel_missed(&self) {
        let live = self.chunks().into_iter().flatten().filter(|task| task.state.is_live());
        for task in live.filter(|task| task.word.level().is_none()) {
            let reference = task.reference();
            task.word.cancel(CancelLevel::Cancel);
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
        if ended {
            self.forget_descriptors();
        } else if self.is_stopping() {
            self.cancel_missed();
        }
        ended
    }
}
