//! Failures of actors, which are warnings until there are many: a node all of whose actors fail has more to do than to say so.

use sinew_core::{Instant, Level};
use sinew_sync::atomic::{AtomicU64, Ordering};

/// How many within a second are warnings.
const FEW: u64 = 10;

/// How many bits of the word count; the others are the second.
const COUNT: u32 = 16;

#[derive(Default)]
pub(super) struct Failures(AtomicU64);

impl Failures {
    /// One more. At which level it is logged, and what has to be said with it.
    pub(super) fn count(&self, now: Instant) -> (Level, &'static str) {
        let second = (now.as_nanos() / 1_000_000_000) << COUNT;
        let next = |word: u64| match word >> COUNT << COUNT == second {
            true => (word + 1).min(second | ((1 << COUNT) - 1)),
            false => second,
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(next(word)));
        match next(before.unwrap_or_else(|word| word)) & ((1 << COUNT) - 1) {
            count if count < FEW - 1 => (Level::Warn, ""),
            count if count == FEW - 1 => (Level::Warn, "; more within this second are logged at DEBUG"),
            _ => (Level::Debug, ""),
        }
    }
}
