//! The budget of calls that complete without waiting.
//!
//! A task gives its worker up when it waits. A loop whose calls never have to (a receiver with a standing backlog, a
//! lock that is always free) would keep the worker for as long as it runs. So every call that could have waited and
//! did not is charged to a budget. When that is used up, the worker looks at the clock, and the task yields if a
//! [`SLICE`] has passed since a task last had to.
//!
//! Budget and slice belong to the worker and not to the task: they are not reset by a switch, which would cost every
//! switch a store. A task that begins when the slice is nearly over yields early, which is cheap. How many calls a
//! budget covers follows from how long the previous one lasted: as many as take about [`CHECK_INTERVAL`], at most
//! [`CALL_BUDGET`]. So a loop of fast calls pays for a look at the clock once in 128 calls, and a loop that computes for a
//! millisecond between two calls yields at each of them. A change of pace is noticed at the end of the budget, or at the
//! next tick of sysmon, which takes what is left away (the worker and sysmon both write it; a lost write costs one tick).
//!
//! The poll of a future cannot yield: a call in it is pending instead, and completes in the next poll, after the others. The
//! time that those took counts as well, so the first call in a poll that ends a slice only begins the next one. Each poll
//! completes at least one call then, however long the others take.
//!
//! Locks are charged before they are taken: a task that yielded with a lock in hand would have others wait for it.
//! Calls that never wait (`try_recv`, `try_lock`) are not charged, since callers rely on them not to switch tasks.

use std::task::{Context, Poll};
use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::MODEL;
use sinew_sync::atomic::{AtomicU32, Ordering};

use super::{Mode, Worker, current, give_way};
use crate::clock::system_now;
use crate::counters::CALL_BUDGET;
use crate::pace::SLICE;
use crate::waker::task_of;

/// The time between two looks at the clock, as far as the pace of the calls is known.
const CHECK_INTERVAL: Duration = Duration::from_micros(50);

/// Charges one call that completes without waiting. Yields when the slice is over, unless the task cannot be suspended
/// here; never unwinds.
#[inline]
pub fn charge() {
    if let Some(worker) = current()
        && worker.charge(1)
    {
        give_way();
    }
}

/// Calls on one end of a channel that were charged ahead: to find the worker takes longer than the call itself, so at a
/// fast pace it is done for four calls at a time. If the pace changes, that is noticed three calls later.
pub struct Prepaid(AtomicU32);

/// The calls that are charged ahead.
const AHEAD: u32 = 3;

impl Prepaid {
    /// Creates one that nothing was charged for.
    #[allow(clippy::new_without_default, reason = "it is a part of an end of a channel")]
    pub fn new() -> Prepaid {
        Prepaid(AtomicU32::new(0))
    }

    /// [`charge`] for a call on this end. Tasks that share the end may both take what was charged for one.
    #[inline(always)]
    pub fn charge(&self) {
        if MODEL {
            return;
        }
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            return self.0.store(left - 1, Ordering::Relaxed);
        }
        let Some(worker) = current() else { return };
        let ahead = if worker.budget.get().calls == CALL_BUDGET { AHEAD } else { 0 };
        self.0.store(ahead, Ordering::Relaxed);
        if worker.charge(1 + ahead) {
            give_way();
        }
    }
}

/// [`charge`] for the poll of a future: pending, and woken again, when the slice is over. Only if a task of ours polls
/// it to be woken: a poll by hand, which looks whether something is ready, is told the truth.
#[inline]
pub fn poll_charge(context: &Context<'_>) -> Poll<()> {
    if task_of(context.waker()).is_none() {
        return Poll::Ready(());
    }
    match current() {
        Some(worker) if worker.charge(1) && !worker.begins_poll.replace(false) => {
            worker.gives_way.set(true);
            context.waker().wake_by_ref();
            Poll::Pending
        }
        _ => Poll::Ready(()),
    }
}

/// The running task is about to poll its future.
#[inline]
pub(crate) fn begin_poll() {
    if let Some(worker) = current() {
        worker.begins_poll.set(true);
        worker.gives_way.set(false);
    }
}

/// For a body that has polled a future, which is pending: yields if that was because the slice is over, and returns true.
#[inline]
pub(crate) fn end_poll() -> bool {
    let is_over = current().is_some_and(|worker| worker.gives_way.replace(false));
    if is_over {
        give_way();
    }
    is_over
}

impl Worker {
    /// Charges `calls`. True if a slice has passed since this last was: the caller has to yield.
    #[inline(always)]
    pub(crate) fn charge(&self, calls: u32) -> bool {
        let budget = &self.inbox.own.budget;
        let left = budget.load(Ordering::Relaxed);
        if left > calls {
            budget.store(left - calls, Ordering::Relaxed);
            return false;
        }
        self.renew_budget()
    }

    /// Begins a new budget, of as many calls as took [`CHECK_INTERVAL`] lately. True if the slice is over.
    #[cold]
    fn renew_budget(&self) -> bool {
        if matches!(self.mode.get(), Mode::Steps(_)) {
            // A worker that is run step by step does the same each time, however long that takes.
            self.inbox.own.budget.store(CALL_BUDGET, Ordering::Relaxed);
            return true;
        }
        let (now, budget) = (system_now(), self.budget.get());
        let calls = next_grant(budget.calls, now - budget.since);
        self.inbox.own.budget.store(calls, Ordering::Relaxed);
        let is_over = now - budget.yielded >= SLICE;
        self.budget.set(Budget { calls, since: now, yielded: if is_over { now } else { budget.yielded } });
        if now - self.pace.since() >= SLICE {
            self.look_around_soon();
        }
        is_over
    }
}

/// The budget that follows one of `calls` calls that lasted for `took`.
fn next_grant(calls: u32, took: Duration) -> u32 {
    if took <= CHECK_INTERVAL {
        return CALL_BUDGET;
    }
    let next = u128::from(calls) * CHECK_INTERVAL.as_nanos() / took.as_nanos();
    u32::try_from(next).unwrap_or(CALL_BUDGET).clamp(1, CALL_BUDGET)
}

/// The current budget of a worker.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// How many calls it covers.
    calls: u32,
    since: Instant,
    /// When a task last had to yield because its slice was over.
    yielded: Instant,
}

impl Budget {
    pub(super) fn first() -> Budget {
        let now = system_now();
        Budget { calls: CALL_BUDGET, since: now, yielded: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_covers_as_many_calls_as_take_the_time_between_two_checks() {
        assert_eq!(next_grant(CALL_BUDGET, CHECK_INTERVAL / 8), CALL_BUDGET, "fast calls");
        assert_eq!(next_grant(CALL_BUDGET, CHECK_INTERVAL * 2), CALL_BUDGET / 2);
        assert_eq!(next_grant(CALL_BUDGET, CHECK_INTERVAL * 1000), 1, "at least one");
        assert_eq!(next_grant(1, CHECK_INTERVAL / 2), CALL_BUDGET, "fast again");
        assert_eq!(next_grant(1, Duration::MAX), 1);
    }
}
