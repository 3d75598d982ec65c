//! How long the turns of a worker take.
//!
//! Another worker that is woken for a task begins with it some 50 µs later, and takes a processor that other programs may want, such
//! as the clients of a server. If turns are shorter than that, what waits behind them mostly begins as soon without it.

use std::time::Duration;

use std::cell::Cell;

use sinew_core::Instant;

/// How long a task that never waits keeps its worker, as far as its calls tell.
pub(crate) const SLICE: Duration = Duration::from_micros(200);

/// Turns that are shorter than this are no reason to wake another worker for those who wait behind them.
const SHORT_NANOS: u64 = 50_000;

/// Whether the turns of a worker were short lately, on average.
pub(crate) struct Pace {
    short: Cell<bool>,
    /// What is measured from: the number of a turn, and when that was.
    since: Cell<(u32, Instant)>,
}

impl Pace {
    /// Long, as far as anybody knows.
    pub(crate) fn new() -> Pace {
        Pace { short: Cell::new(false), since: Cell::new((0, Instant::from_nanos(0))) }
    }

    /// The worker goes to work, after a sleep.
    pub(crate) fn begin(&self, turn: u32, now: Instant) {
        self.since.set((turn, now));
    }

    /// The worker has worked since it began, or since the last measurement. Returns how many such turns take a slice.
    pub(crate) fn measure(&self, turn: u32, now: Instant) -> u32 {
        let (first, since) = self.since.replace((turn, now));
        let turns = turn.wrapping_sub(first);
        let took = now.as_nanos().saturating_sub(since.as_nanos());
        if turns > 0 {
            self.short.set(took < SHORT_NANOS * u64::from(turns));
        }
        u32::try_from(SLICE.as_nanos() as u64 * u64::from(turns) / took.max(1)).unwrap_or(u32::MAX)
    }

    /// When the turns were last measured.
    pub(crate) fn since(&self) -> Instant {
        self.since.get().1
    }

    /// True if turns are short.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn turns_are_short_if_they_were_short_on_average_while_the_worker_worked() {
        let pace = Pace::new();
        assert!(!pace.is_short(), "nobody knows");
        pace.begin(5, micros(1000));
        pace.measure(15, micros(1100));
        assert!(pace.is_short());
        pace.measure(15, micros(9000));
        assert!(pace.is_short(), "there was no turn");
        pace.measure(17, micros(9300));
        assert!(!pace.is_short());
        pace.begin(17, micros(20_000));
        pace.measure(18, micros(20_010));
        assert!(pace.is_short(), "it slept in between");
    }
}
