//! How often is too often: restarts within a window of time.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::Instant;

/// How many restarts a supervisor makes within how long; one more, and it gives up.
///
/// By default one in five seconds, as in OTP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Intensity {
    /// How many; with 0 the first one is too many.
    pub max_restarts: u32,
    /// Within how long. A restart that lies just so far back still counts.
    pub window: Duration,
}

impl Default for Intensity {
    fn default() -> Intensity {
        Intensity { max_restarts: 1, window: Duration::from_secs(5) }
    }
}

/// The restarts of a supervisor that still count.
///
/// It holds at most `max_restarts` instants, and forgets each of them once, so that restarts cost the same however
/// many are allowed.
#[derive(Clone, Debug)]
pub struct RestartHistory {
    intensity: Intensity,
    /// The restarts within the window, oldest first, as of the last one.
    restarts: VecDeque<Instant>,
}

impl RestartHistory {
    /// A supervisor that has restarted nobody yet.
    pub const fn new(intensity: Intensity) -> RestartHistory {
        RestartHistory { intensity, restarts: VecDeque::new() }
    }

    /// Notes a restart at `now`. False if that would be one too many, and the supervisor has to give up; it is not
    /// noted then.
    ///
    /// Times are told by one clock, so none is before the last. One that is counts for as long as the last does.
    #[must_use = "a supervisor gives up when this is false"]
    pub fn record(&mut self, now: Instant) -> bool {
        while self.restarts.front().is_some_and(|oldest| now - *oldest > self.intensity.window) {
            self.restarts.pop_front();
        }
        if self.restarts.len() as u64 >= u64::from(self.intensity.max_restarts) {
            return false;
        }
        self.restarts.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;

    use super::*;
    use crate::tests::for_all;

    fn history(max_restarts: u32, window: u64) -> RestartHistory {
        RestartHistory::new(Intensity { max_restarts, window: Duration::from_nanos(window) })
    }

    fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanos(nanoseconds)
    }

    #[test]
    fn without_restarts_the_first_is_too_many() {
        assert!(!history(0, 100).record(at(0)));
        assert!(!history(0, 0).record(at(7)));
    }

    #[test]
    fn one_more_than_allowed_within_the_window_is_too_many() {
        let mut history = history(3, 100);
        assert!(history.record(at(0)));
        assert!(history.record(at(50)));
        assert!(history.record(at(100)));
        assert!(!history.clone().record(at(100)));
        assert!(history.record(at(101)), "the first lies too far back to count");
        assert!(!history.record(at(150)), "the second just counts");
    }

    #[test]
    fn a_window_without_end_counts_them_all() {
        let mut history = RestartHistory::new(Intensity { max_restarts: 2, window: Duration::MAX });
        assert!(history.record(at(0)));
        assert!(history.record(at(u64::MAX)));
        assert!(!history.record(at(u64::MAX)));
    }

    #[test]
    fn far_more_restarts_than_a_fixed_table_holds_are_counted() {
        let mut history = history(1000, 10);
        assert!((0..1000).all(|_| history.record(at(5))));
        assert!(!history.record(at(5)));
    }

    #[test]
    fn any_history_does_what_counting_does_and_stays_small() {
        let gaps = vec(0..40u64, 0..60);
        for_all((0..6u32, 0..80u64, gaps), |(max_restarts, window, gaps)| {
            let mut history = history(max_restarts, window);
            let mut noted: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let recent = noted.iter().filter(|then| now - **then <= window).count();
                let allowed = recent < max_restarts as usize;
                assert_eq!(history.record(at(now)), allowed, "at {now} after {noted:?}");
                if allowed {
                    noted.push(now);
                }
                assert!(history.restarts.len() <= max_restarts as usize);
            }
        });
    }

    #[test]
    fn a_clock_that_goes_back_neither_panics_nor_forgets() {
        for_all((1..4u32, vec(0..100u64, 0..40)), |(max_restarts, times)| {
            let mut history = history(max_restarts, 1_000);
            let made = times.iter().filter(|time| history.record(at(**time))).count();
            assert_eq!(made, times.len().min(max_restarts as usize));
        });
    }
}
