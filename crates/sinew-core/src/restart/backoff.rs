//! How long to wait before a restart.

use core::time::Duration;

/// How long a supervisor waits before it restarts a child, longer each time.
///
/// By default it does not wait. Whoever sets `initial` gets twice as long each time, up to half a minute, and starts over
/// once the child has lived for a minute:
///
/// ```
/// use core::time::Duration;
/// use sinew_core::{Backoff, RestartDelay};
///
/// let second = Duration::from_secs(1);
/// let mut delay = RestartDelay::new(Backoff { initial: second, ..Backoff::default() });
/// assert_eq!(delay.next(Duration::ZERO), second);
/// assert_eq!(delay.next(Duration::ZERO), 2 * second);
/// assert_eq!(delay.next(Duration::ZERO), 4 * second);
/// assert_eq!(delay.next(60 * second), second);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    /// Before the first restart; zero does not wait, ever.
    pub initial: Duration,
    /// How many times as long each next one is. With 1, or 0, all are the same.
    pub factor: u32,
    /// No wait is longer.
    pub max: Duration,
    /// A child that has lived this long counts as well: the next wait is the first again.
    pub reset: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            initial: Duration::ZERO,
            factor: 2,
            max: Duration::from_secs(30),
            reset: Duration::from_secs(60),
        }
    }
}

/// How long the next restart of one child has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestartDelay {
    backoff: Backoff,
    next: Duration,
}

impl RestartDelay {
    /// For a child that has not been restarted yet.
    pub fn new(backoff: Backoff) -> RestartDelay {
        RestartDelay { backoff, next: backoff.initial.min(backoff.max) }
    }

    /// How long to wait before the restart of the child, which has `lived` this long.
    pub fn next(&mut self, lived: Duration) -> Duration {
        if lived >= self.backoff.reset {
            *self = RestartDelay::new(self.backoff);
        }
        let delay = self.next;
        self.next = delay.saturating_mul(self.backoff.factor.max(1)).min(self.backoff.max);
        delay
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_oneof};

    use super::*;
    use crate::tests::for_all;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    const SOON: Duration = Duration::ZERO;

    #[test]
    fn by_default_nobody_waits() {
        let mut delay = RestartDelay::new(Backoff::default());
        assert!((0..100).all(|_| delay.next(SOON).is_zero()));
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        let mut delay = RestartDelay::new(Backoff { initial: ms(10), factor: 3, max: ms(100), reset: ms(1) });
        assert_eq!([(); 5].map(|()| delay.next(SOON)), [10, 30, 90, 100, 100].map(ms));
    }

    #[test]
    fn a_child_that_lived_long_enough_starts_over() {
        let mut delay =
            RestartDelay::new(Backoff { initial: ms(10), factor: 2, max: ms(100), reset: ms(50) });
        assert_eq!(
            [0, 49, 49, 50, 0, 9999].map(|lived| delay.next(ms(lived))),
            [10, 20, 40, 10, 20, 10].map(ms)
        );
    }

    #[test]
    fn without_a_factor_all_waits_are_the_same() {
        for factor in [0, 1] {
            let mut delay = RestartDelay::new(Backoff { initial: ms(10), factor, ..Backoff::default() });
            assert_eq!([(); 3].map(|()| delay.next(SOON)), [ms(10); 3]);
        }
    }

    #[test]
    fn no_wait_is_longer_than_the_longest_nor_shorter_than_the_last_unless_it_starts_over() {
        let durations = || prop_oneof![any::<Duration>(), (0..1_000u64).prop_map(ms), Just(Duration::MAX)];
        let backoffs = (durations(), any::<u32>(), durations(), durations());
        for_all((backoffs, vec(durations(), 0..80)), |((initial, factor, max, reset), lives)| {
            let mut delay = RestartDelay::new(Backoff { initial, factor, max, reset });
            let mut last = initial.min(max);
            for lived in lives {
                let next = delay.next(lived);
                assert!(next <= max);
                match lived >= reset {
                    true => assert_eq!(next, initial.min(max)),
                    false => assert!(next >= last),
                }
                last = next;
            }
        });
    }
}
