//! The rules of a supervisor: which children are restarted, how often, and after how long.
//!
//! When a child ends, a supervisor asks, in this order:
//!
//! 1. [`Restart::should_restart`]: does this end call for a restart at all?
//! 2. [`RestartHistory::record`]: or were there too many lately, so that it gives up?
//! 3. [`Strategy::affected`]: which other children are stopped and restarted with it?
//! 4. [`RestartDelay::next`]: how long does it wait before?
//!
//! ```
//! use core::time::Duration;
//! use sinew_core::{ExitReason, Instant, Intensity, Restart, RestartHistory, Strategy};
//!
//! let mut history = RestartHistory::new(Intensity { max_restarts: 1, window: Duration::from_secs(5) });
//! let now = Instant::from_nanos(0);
//!
//! assert!(Restart::Transient.should_restart(&ExitReason::Killed));
//! assert!(history.record(now));
//! assert_eq!(Strategy::RestForOne.affected(1, 4), 1..4);
//!
//! // The next one comes too soon.
//! assert!(!history.record(now + Duration::from_secs(1)));
//! ```

pub(crate) mod backoff;
pub(crate) mod intensity;

use core::fmt;
use core::ops::Range;

use crate::ExitReason;

/// When a child is restarted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Restart {
    /// 0: whenever it ends.
    #[default]
    Permanent = 0,
    /// 1: when it ends [abnormally](ExitReason::is_abnormal).
    Transient = 1,
    /// 2: never.
    Temporary = 2,
}

impl Restart {
    /// True if a child that ended for `reason` is restarted.
    pub const fn should_restart(self, reason: &ExitReason) -> bool {
        match self {
            Restart::Permanent => true,
            Restart::Transient => reason.is_abnormal(),
            Restart::Temporary => false,
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Restart::Permanent => "permanent",
            Restart::Transient => "transient",
            Restart::Temporary => "temporary",
        })
    }
}

/// Who is restarted with a child.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Strategy {
    /// 0: nobody else.
    #[default]
    OneForOne = 0,
    /// 1: all children.
    OneForAll = 1,
    /// 2: the children that were started after it.
    RestForOne = 2,
    /// 3: nobody else. For children that come and go and are many: they have no order, so when their supervisor ends all of them
    /// are stopped at once.
    Dynamic = 3,
}

impl Strategy {
    /// The children that are stopped, from the last to the first, and restarted, from the first to the last, when
    /// the child `index` of `count` is restarted. It is among them. Without such a child, nobody is.
    pub const fn affected(self, index: usize, count: usize) -> Range<usize> {
        if index >= count {
            return count..count;
        }
        match self {
            Strategy::OneForOne | Strategy::Dynamic => index..index + 1,
            Strategy::OneForAll => 0..count,
            Strategy::RestForOne => index..count,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Strategy::OneForOne => "one_for_one",
            Strategy::OneForAll => "one_for_all",
            Strategy::RestForOne => "rest_for_one",
            Strategy::Dynamic => "dynamic",
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_child_is_restarted_as_its_kind_says() {
        for code in 0..=7 {
            let reason = ExitReason::from_code(code).unwrap();
            assert!(Restart::Permanent.should_restart(&reason));
            assert!(!Restart::Temporary.should_restart(&reason));
        }
        let transient: Vec<u8> = (0..=7)
            .filter(|code| Restart::Transient.should_restart(&ExitReason::from_code(*code).unwrap()))
            .collect();
        assert_eq!(transient, [1, 2, 4, 5, 6, 7]);
    }

    const STRATEGIES: [Strategy; 4] =
        [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Dynamic];

    #[test]
    fn strategies_take_the_one_or_all_or_the_rest() {
        for count in 0..8 {
            for index in 0..count {
                assert_eq!(Strategy::OneForOne.affected(index, count), index..index + 1);
                assert_eq!(Strategy::OneForAll.affected(index, count), 0..count);
                assert_eq!(Strategy::RestForOne.affected(index, count), index..count);
                assert_eq!(Strategy::Dynamic.affected(index, count), index..index + 1);
            }
        }
    }

    #[test]
    fn a_child_that_is_not_there_affects_nobody() {
        for strategy in STRATEGIES {
            for (index, count) in [(0, 0), (3, 3), (usize::MAX, 3), (usize::MAX, usize::MAX)] {
                assert!(strategy.affected(index, count).is_empty());
            }
        }
    }

    #[test]
    fn numbers_and_names_are_those_that_everybody_knows() {
        assert_eq!(
            [Restart::Permanent, Restart::Transient, Restart::Temporary].map(|it| it as u8),
            [0, 1, 2]
        );
        assert_eq!(STRATEGIES.map(|it| it as u8), [0, 1, 2, 3]);
        assert_eq!(Restart::default().to_string(), "permanent");
        assert_eq!(Strategy::default().to_string(), "one_for_one");
    }
}
