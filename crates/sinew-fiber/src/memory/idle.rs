//! After which time idle stacks go back to the system by themselves.
//!
//! Time is cut into periods, each at least the idle time long. When one begins, each pool notes how many of its slots are warm,
//! and every take lowers that to what is left ([`super::pool`]). So when it ends, as many slots as the note says were not
//! needed in all that time: however many tasks came and went, the most that were alive at once did not reach them. Those are
//! decommitted, and the next period begins. A slot goes back after one to two idle times without use; one that a burst
//! needs every period stays.
//!
//! Some are decommitted at a time ([`AT_ONCE`]), so that the caller, which has other things to look after, is soon back.

use std::time::Duration;

use sinew_core::Instant;

use super::pool::{Backing, Pool};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Slots that are decommitted at a time: a millisecond or two.
const AT_ONCE: usize = 1024;

/// When there may be more stacks to give back: see [`trim_idle`](super::trim_idle).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Not before stacks are used again: none is in memory that could be given back.
    None,
    /// Not before then.
    Until(Instant),
    /// At once.
    More,
}

/// How far the present period is.
#[derive(Debug)]
pub(super) struct Idling {
    since: Option<Instant>,
    is_trimming: bool,
}

impl Idling {
    pub(super) const fn new() -> Idling {
        Idling { since: None, is_trimming: false }
    }

    /// When the period ends, if that is not yet.
    pub(super) fn not_due(&self, now: Instant, idle_time: Duration) -> Option<Idle> {
        let end = self.since? + idle_time;
        (!self.is_trimming && now < end).then_some(Idle::Until(end))
    }

    /// The period is over: decommits some of what has idled in it, or, if nothing has, begins the next.
    pub(super) fn trim<B: Backing>(&mut self, pools: &[&Pool<B>], now: Instant, idle_time: Duration) -> Idle {
        let goes_on = self.is_trimming;
        self.is_trimming = self.since.is_some();
        if self.is_trimming {
            let mut left = AT_ONCE;
            for pool in pools {
                let trimmed = pool.trim_idle(left);
                left -= trimmed;
                if left == 0 {
                    return Idle::More;
                }
                if trimmed > 0 || goes_on {
                    pool.renew();
                }
            }
        }
        pools.iter().for_each(|pool| pool.begin_period());
        *self = Idling { since: Some(now), is_trimming: false };
        if pools.iter().any(|pool| pool.is_warm()) { Idle::Until(now + idle_time) } else { Idle::None }
    }
}
