//! A worker that came because others are stuck, and leaves when it is of no use.
//!
//! It is for what may move. Woken futures come first, wherever they are. It starts a body only when no such task waits: the
//! body would stay here once it blocks, and the worker with it. One turn in [`FAIR`] goes the other way round, so
//! that a future that is always ready keeps nobody waiting for ever.
//!
//! After some time without work it leaves. If bodies have blocked on it, or a future that it has polled has set a timer
//! here, it stays, for those alone; [`crate::shared`]'s `service.rs` has the protocol.

use std::time::Duration;

use sinew_core::Instant;

use sinew_sync::atomic::Ordering;

use super::{Mode, Worker};
use crate::clock::system_now;
use crate::queues::Steal;
use crate::task::Task;

/// Every how many turns a body is started although something else waits.
const FAIR: u32 = 61;

/// How many tasks of the outsiders it looks through for one that has started.
const BATCH: usize = 32;

/// What a worker does that has looked everywhere.
pub(super) enum Nothing {
    Sleep(Option<Duration>),
    LookAgain,
    Leave,
}

impl Worker {
    /// The next task for a temporary worker, as far as it need not be taken from another's deque of bodies.
    #[cold]
    pub(super) fn find_temporarily(&self, in_loop: bool) -> Option<&'static Task> {
        if self.inbox.watch.is_asked() {
            if in_loop {
                self.answer();
            } else if self.keep_spare_core() {
                return None; // the loop of a spare core answers, as on any worker
            }
        }
        let turn = self.next_turn();
        self.receive();
        self.timers().expire(&self.shared.clock);
        if turn.is_multiple_of(FAIR) {
            self.look_at_the_clock();
        }
        if turn.is_multiple_of(FAIR)
            && let Some(task) = self.oldest_body()
        {
            return Some(task);
        }
        let (ready, woken) = (|| self.ready.pop(), || self.queues.woken.pop());
        let own = if turn.is_multiple_of(2) { ready().or_else(woken) } else { woken().or_else(ready) };
        own.or_else(|| self.steal_woken()).or_else(|| self.new_body())
    }

    /// The task that has waited longest to start, which the newest would else keep waiting.
    fn oldest_body(&self) -> Option<&'static Task> {
        let oldest = || self.shared.stealers[self.index].new.steal().success();
        self.queues.handed.pop().or_else(oldest)
    }

    fn new_body(&self) -> Option<&'static Task> {
        self.queues.handed.pop().or_else(|| self.queues.new.pop())
    }

    /// Takes a task that has started and may move. Those that have not, and are in front of it in the queue of the
    /// outsiders, become this worker's own.
    fn steal_woken(&self) -> Option<&'static Task> {
        if !self.inbox.takes_all() {
            return None;
        }
        for queues in &self.shared.stealers {
            if let Steal::Success(task) = queues.woken.steal() {
                return Some(task);
            }
        }
        for _ in 0..BATCH {
            let Steal::Success(task) = self.shared.injector.steal() else { break };
            if !task.is_unstarted() {
                return Some(task);
            }
            self.queues.new.push(task);
        }
        None
    }

    /// What to do when nothing was found since `since`.
    pub(super) fn what_if_nothing_is_found(&self, since: Instant) -> Nothing {
        let Mode::Temporary { idle_timeout } = self.mode.get() else { return Nothing::Sleep(None) };
        let takes_all = self.inbox.takes_all();
        let left = since + idle_timeout - system_now();
        if takes_all && !left.is_zero() {
            return Nothing::Sleep(Some(left));
        }
        if self.has_bodies() || self.timers().next().is_some() {
            if takes_all && !self.shared.serve_own(self.index) {
                return Nothing::LookAgain;
            }
            if takes_all {
                self.shared.wake_one(); // it may have been this worker that looked after the others
            }
            return Nothing::Sleep(None);
        }
        if !self.shared.end_service(self.index) {
            return Nothing::LookAgain;
        }
        self.shared.wake_one(); // as above
        Nothing::Leave
    }

    /// True if a body has blocked here. All cores but the active one and the spare ones are somebody's.
    fn has_bodies(&self) -> bool {
        // SAFETY: within one statement (module prose of the worker).
        let spare = unsafe { (*self.spare.get()).len() };
        self.inbox.cores.load(Ordering::Relaxed) > spare + 1
    }
}
