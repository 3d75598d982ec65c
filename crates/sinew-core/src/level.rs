//! How important a line of the log is.

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

/// How important a line of the log is; more important ones compare greater.
///
/// ```
/// use sinew_core::Level;
///
/// assert!(Level::Warn > Level::Info);
/// assert_eq!(Level::Warn.to_string(), "WARN");
/// assert_eq!("warn".parse(), Ok(Level::Warn));
/// assert_eq!(Level::try_from(2), Ok(Level::Warn));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Level {
    /// 0: for whoever looks for a fault.
    Debug = 0,
    /// 1: what happens in the ordinary course. The default: what is below it is not shown.
    #[default]
    Info = 1,
    /// 2: something that somebody should look at.
    Warn = 2,
    /// 3: something failed.
    Error = 3,
}

impl Level {
    /// Every level, in the order of their numbers.
    pub const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// The number of the level, 0 to 3.
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name of the level: `DEBUG`, `INFO`, `WARN` or `ERROR`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is neither the name nor the number of a level.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no log level {0:?}: levels are debug, info, warn and error, numbered 0 to 3")]
pub struct UnknownLevel(pub Box<str>);

impl TryFrom<i32> for Level {
    type Error = UnknownLevel;

    fn try_from(number: i32) -> Result<Level, UnknownLevel> {
        let level = usize::try_from(number).ok().and_then(|index| Level::ALL.get(index));
        level.copied().ok_or_else(|| UnknownLevel(alloc::format!("{number}").into()))
    }
}

/// Reads the name, in capitals or not.
impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Level, UnknownLevel> {
        let level = Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name));
        level.ok_or_else(|| UnknownLevel(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_level_is_its_number_and_its_name() {
        for (number, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(level.number()), number);
            assert_eq!(Level::try_from(number as i32), Ok(level));
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(level.name().to_lowercase().parse(), Ok(level));
        }
        assert_eq!(Level::ALL.map(Level::name), ["DEBUG", "INFO", "WARN", "ERROR"]);
        assert_eq!(format!("[{:<5}]", Level::Info), "[INFO ]");
    }

    #[test]
    fn greater_levels_are_more_important() {
        assert!(Level::ALL.is_sorted());
        assert_eq!(Level::default(), Level::Info);
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for number in [-1, 4, i32::MIN, i32::MAX] {
            let error = Level::try_from(number).unwrap_err();
            assert!(error.to_string().contains(&number.to_string()), "{error}");
        }
        for name in ["", "trace", "warning", " info", "1"] {
            let error = name.parse::<Level>().unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
