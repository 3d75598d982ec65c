//! Gives the memory of idle stacks back to the system: when, and who has to be asked.
//!
//! What the process has of free stacks is looked through at the ticks, some at a time (`trim_idle` of the fibers). While nobody
//! is up, sysmon gets up for it: when the idle time is over, and again at its end as long as there was something. Free stacks
//! of a worker's own, which only it gives back, are left alone while anybody is up: they are few, and likely to be needed.
//! When nobody was for the idle time, workers that say that they have some are asked, once. They get up for it, find
//! nothing else, and have none when they lie down again: so a process that does nothing is soon left alone.

use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::{Idle, ask_for_cached_stacks, trim_idle};
use sinew_sync::atomic::Ordering;

use crate::shared::Shared;

/// The pause between two steps while nobody is up.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct IdleStacks {
    shared: &'static Shared,
    /// None: they are kept.
    idle_time: Option<Duration>,
}

impl IdleStacks {
    pub(super) fn new(shared: &'static Shared, idle_time: Duration) -> IdleStacks {
        IdleStacks { shared, idle_time: Some(idle_time).filter(|time| *time != Duration::MAX) }
    }

    /// Looks for stacks that nobody has needed for the idle time.
    pub(super) fn look(&self, now: Instant) {
        self.idle_time.into_iter().for_each(|idle_time| _ = trim_idle(now, idle_time));
    }

    /// When to [give back](IdleStacks::give_back) if nobody gets up, and nobody has been up since `now`.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        Some(now + self.idle_time?)
    }

    /// The same as [`look`](IdleStacks::look) while nobody is up, since `since`; has workers give theirs back, too. Returns when to
    /// look again.
    pub(super) fn give_back(&self, since: Instant, now: Instant) -> Option<Instant> {
        let idle_time = self.idle_time?;
        let idle = trim_idle(now, idle_time);
        let has_free =
            self.shared.in_service().any(|(_, inbox)| inbox.has_free_stacks.load(Ordering::Relaxed));
        if has_free && now >= since + idle_time {
            ask_for_cached_stacks();
            self.shared.wake_all();
        }
        match idle {
            Idle::None => None,
            Idle::Until(at) => Some(at),
            Idle::More => Some(now + PAUSE),
        }
    }
}
