//! Starting temporary workers: when, how many, how often.
//!
//! One is started when a worker is stuck, there is something that another could run (in the stuck worker's queues, among
//! the tasks that were handed to it, or from outside), and no worker that is idle would take it, nor has one been taking
//! from others since the last tick. If one is there that only serves its own bodies, it is called back instead. There are so many at most, and one is started in so much time.
//!
//! A place that is free is a pair of an index and the queues for it. Sysmon puts it into service and takes the tasks that were
//! handed to stuck workers into its queues, to see whether there are any; only if there is something to do is a thread
//! started, which gets the queues with what is in them. The thread gives the place back as the last thing that it does.

use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::Ordering;
use sinew_sync::thread::{self, JoinHandle as ThreadHandle};
use sinew_sync::{Arc, Mutex};

use super::Sysmon;
use crate::shared::Shared;
use crate::worker::{Queues, Worker};

type Free = Arc<Mutex<Vec<(usize, Queues)>>>;

pub(super) struct Temporary {
    shared: &'static Shared,
    free: Free,
    /// The last thread of each place.
    threads: Vec<Option<ThreadHandle<()>>>,
    scale_interval: Duration,
    idle_timeout: Duration,
    last_start: Option<Instant>,
    /// How often workers had taken tasks from others when sysmon last looked.
    steals: u64,
}

impl Temporary {
    pub(super) fn new(shared: &'static Shared, settings: &Sysmon, spare: Vec<Queues>) -> Temporary {
        let threads = spare.iter().map(|_| None).collect();
        let mut free: Vec<_> = (shared.base..).zip(spare).collect();
        free.reverse(); // the first is taken first
        Temporary {
            shared,
            free: Arc::new(Mutex::new(free)),
            threads,
            scale_interval: settings.scale_interval,
            idle_timeout: settings.idle_timeout,
            last_start: None,
            steals: 0,
        }
    }

    /// Sees to it that somebody takes what the `stuck` workers do not get round to.
    pub(super) fn help(&mut self, stuck: &[usize], somebody_takes: bool, now: Instant) {
        if self.shared.inboxes.iter().any(|inbox| inbox.would_take()) {
            if self.has_movable(stuck) {
                self.shared.wake_one();
            }
            return;
        }
        if somebody_takes || self.last_start.is_some_and(|last| now - last < self.scale_interval) {
            return;
        }
        if self.call_back(stuck) || self.start(stuck) {
            self.last_start = Some(now);
        }
    }

    /// True if a worker has taken from others since the last look. It does so when it has nothing of its own to do, and will
    /// take what is left as well.
    pub(super) fn somebody_takes(&mut self) -> bool {
        let steals = self.shared.inboxes.iter().map(|inbox| inbox.own.steals.load(Ordering::Relaxed)).sum();
        std::mem::replace(&mut self.steals, steals) != steals
    }

    /// True if there is something that a `stuck` worker does not get round to, others could take, and no worker that is idle
    /// would.
    pub(super) fn is_left_untaken(&self, stuck: &[usize]) -> bool {
        let handed = |index: &usize| !self.shared.stealers[*index].handed.is_empty();
        (self.has_movable(stuck) || stuck.iter().any(handed))
            && !self.shared.inboxes.iter().any(|inbox| inbox.would_take())
    }

    /// True if there is something that a stuck worker, or nobody, gets round to and others could take as it is.
    fn has_movable(&self, stuck: &[usize]) -> bool {
        let queues = stuck.iter().map(|index| &self.shared.stealers[*index]);
        !self.shared.injector.is_empty()
            || queues.into_iter().any(|queues| !queues.new.is_empty() || !queues.woken.is_empty())
    }

    /// True if there may be a task that was handed to a stuck worker and has not started.
    fn may_have_handed(&self, stuck: &[usize]) -> bool {
        let handed = |index: &usize| {
            !self.shared.inboxes[*index].is_empty() || !self.shared.stealers[*index].handed.is_empty()
        };
        stuck.iter().any(handed)
    }

    /// Has a worker that serves its own take from others again, if there is one that is not stuck itself.
    fn call_back(&self, stuck: &[usize]) -> bool {
        let mut serving = self.shared.in_service().filter(|(_, inbox)| inbox.serves_own());
        let Some((index, _)) = serving.find(|(index, _)| !stuck.contains(index)) else { return false };
        let work = self.has_movable(stuck) || self.may_have_handed(stuck);
        if work {
            self.shared.call_back(index);
        }
        work
    }

    fn start(&mut self, stuck: &[usize]) -> bool {
        if !self.has_movable(stuck) && !self.may_have_handed(stuck) {
            return false;
        }
        let Some((index, queues)) = self.free.lock().pop() else { return false };
        self.shared.start_service(index);
        stuck.iter().for_each(|worker| self.shared.rescue(*worker, &queues));
        let work = self.has_movable(stuck) || !queues.new.is_empty();
        if !work && self.shared.end_service(index) {
            self.free.lock().push((index, queues));
            return false;
        }
        let last = &mut self.threads[index - self.shared.base];
        if let Some(last) = last.take() {
            let _ = last.join(); // it has given the place back, so it is at its end
        }
        let (shared, free, idle_timeout) = (self.shared, self.free.clone(), self.idle_timeout);
        let reference = shared.keep();
        let place = Arc::new(Mutex::new(Some(queues)));
        let taken = place.clone();
        let thread = thread::Builder::new().name(format!("sinew-temporary-{index}"));
        let started = thread.spawn(move || {
            let queues = taken.lock().take().expect("sysmon takes it back only if there is no thread");
            let worker = Worker::new(index, shared, queues);
            let is_ready = worker.prepare().is_ok();
            if is_ready {
                worker.enter_temporarily(idle_timeout);
            }
            let queues = worker.into_queues();
            if !is_ready {
                give_up(shared, index, &queues);
            }
            free.lock().push((index, queues));
            drop(reference);
        });
        match started {
            Ok(thread) => *last = Some(thread),
            Err(_) => {
                let queues = place.lock().take().expect("there is no thread that would have taken it");
                give_up(shared, index, &queues);
                self.free.lock().push((index, queues));
            }
        }
        true
    }

    /// Waits for those that are there, when the runtime has ended.
    pub(super) fn join(self) {
        for thread in self.threads.into_iter().flatten() {
            let _ = thread.join();
        }
    }
}

/// There is no thread, or no stack, for a worker: what is in its queues goes to whoever takes it.
fn give_up(shared: &'static Shared, index: usize, queues: &Queues) {
    while let Some(task) = queues.new.pop() {
        shared.inject(task);
    }
    shared.give_service_up(index);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use sinew_fiber::StackSize;

    use super::*;
    use crate::clock::{Clock, system_now};
    use crate::counters::count;
    use crate::task::Task;

    /// A worker that is up, a place for a temporary one, and a task that nobody has taken. There are no threads.
    fn with_work() -> Temporary {
        let queues = [Queues::new(), Queues::new()];
        let shared = Shared::new(&queues, 1, StackSize::KiB16, Clock::System, true);
        let shared: &'static Shared = Box::leak(Box::new(shared));
        shared.injector.push(Box::leak(Box::new(Task::new(0))));
        let [_, spare] = queues;
        Temporary::new(shared, &Sysmon::new(), vec![spare])
    }

    #[test]
    fn nobody_is_started_while_a_worker_takes_what_is_there() {
        let mut temporary = with_work();
        assert!(temporary.has_movable(&[0]));
        temporary.help(&[0], true, system_now());
        assert_eq!(temporary.free.lock().len(), 1, "its place is still free");
    }

    #[test]
    fn a_worker_takes_if_it_has_done_so_since_the_last_look() {
        let mut temporary = with_work();
        assert!(!temporary.somebody_takes());
        count(&temporary.shared.inboxes[0].own.steals);
        assert!(temporary.somebody_takes());
        assert!(!temporary.somebody_takes());
    }
}
