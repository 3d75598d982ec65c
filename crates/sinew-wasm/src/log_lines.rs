//! How many lines a guest may log.

use std::time::Duration;

use sinew_core::Instant;

/// The lines of the current second.
#[derive(Debug, Default)]
pub(crate) struct LogLines {
    second: Option<Instant>,
    lines: u32,
    lost: u32,
}

impl LogLines {
    /// Admits one more line, with the number of lines that were dropped before it; `None` if it is one
    /// too many.
    pub(crate) fn admit(&mut self, limit: u32) -> Option<u32> {
        self.admit_at(limit, sinew_sched::now())
    }

    fn admit_at(&mut self, limit: u32, now: Instant) -> Option<u32> {
        if self.second.is_none_or(|second| now >= second + Duration::from_secs(1)) {
            (self.second, self.lines) = (Some(now), 0);
        }
        if self.lines >= limit {
            self.lost = self.lost.saturating_add(1);
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_of_a_second_are_counted_and_told_with_the_next() {
        let mut lines = LogLines::default();
        let start = Instant::from_nanos(7);
        assert_eq!((lines.admit_at(2, start), lines.admit_at(2, start)), (Some(0), Some(0)));
        assert_eq!((lines.admit_at(2, start), lines.admit_at(2, start)), (None, None));
        assert_eq!(lines.admit_at(2, start + Duration::from_secs(1)), Some(2));
        assert_eq!(lines.admit_at(2, start + Duration::from_secs(1)), Some(0));
    }
}
