//! Time as a number: nanoseconds on some clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since the start of the clock that told it.
///
/// Unlike std's it can be made from a number, so a test's clock can tell any time it likes. Arithmetic never
/// overflows: beyond the last instant, some 584 years after the first, it stays there.
///
/// ```
/// use core::time::Duration;
/// use sinew_core::Instant;
///
/// let start = Instant::from_nanos(1_000);
/// let later = start + Duration::from_micros(2);
/// assert_eq!(later - start, Duration::from_micros(2));
/// assert_eq!(start - later, Duration::ZERO);
/// assert_eq!(start + Duration::MAX, Instant::FAR_FUTURE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The last instant: for whoever waits without end.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant that is so many nanoseconds after the clock's start.
    pub const fn from_nanos(nanoseconds: u64) -> Instant {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanoseconds))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// How long after `earlier` this is; zero if it is not.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stays_within_its_bounds() {
        let start = Instant::from_nanos(5);
        assert_eq!(start + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(start - Instant::FAR_FUTURE, Duration::ZERO);
        assert_eq!(Instant::FAR_FUTURE - start, Duration::from_nanos(u64::MAX - 5));
        let mut moved = start;
        moved += Duration::from_nanos(2);
        assert_eq!(moved.as_nanos(), 7);
        assert!(moved > start);
    }
}
