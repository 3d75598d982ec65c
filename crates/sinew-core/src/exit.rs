//! Why an actor ended.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why an actor ended. Those who are linked to it, monitor it or supervise it are told.
///
/// A reason is cheap to clone, however long its texts. `{}` shows it in one line; `{:#}` adds the chain of the
/// calls that failed.
///
/// ```
/// use sinew_core::{ExitReason, Failure};
///
/// let reason = ExitReason::from(Failure {
///     message: "division by zero".into(),
///     location: "src/share.rs:7:12".into(),
///     chain: "divide\nshare".into(),
/// });
/// assert!(reason.is_abnormal());
/// assert_eq!(reason.code(), 2);
/// assert_eq!(reason.to_string(), "error: division by zero, at src/share.rs:7:12");
/// assert!(!ExitReason::Shutdown.is_abnormal());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExitReason {
    /// 0: it was done.
    Normal,
    /// 1: it was ended from outside.
    Killed,
    /// 2: it failed: a panic, an error that it returned, a trap of its module.
    Error(Arc<Failure>),
    /// 3: it was asked to end, and did.
    Shutdown,
    /// 4: it took more than it may; the text says of what.
    Limit(Arc<str>),
    /// 5: the connection to its node was lost. It may well be alive.
    NoConnection,
    /// 6: a supervisor, whose children failed too often.
    RestartsExceeded,
    /// 7: there is no such actor: it has ended before, or never was. Erlang/OTP calls this `noproc`.
    NoActor,
}

impl ExitReason {
    /// The number by which the reason travels. 0 and 1 are those that guests know; the others are Sinew's.
    pub const fn code(&self) -> u8 {
        match self {
            ExitReason::Normal => 0,
            ExitReason::Killed => 1,
            ExitReason::Error(_) => 2,
            ExitReason::Shutdown => 3,
            ExitReason::Limit(_) => 4,
            ExitReason::NoConnection => 5,
            ExitReason::RestartsExceeded => 6,
            ExitReason::NoActor => 7,
        }
    }

    /// The reason with this code, its texts empty; none for a code above 7.
    pub fn from_code(code: u8) -> Option<ExitReason> {
        Some(match code {
            0 => ExitReason::Normal,
            1 => ExitReason::Killed,
            2 => Failure::default().into(),
            3 => ExitReason::Shutdown,
            4 => ExitReason::Limit(Arc::default()),
            5 => ExitReason::NoConnection,
            6 => ExitReason::RestartsExceeded,
            7 => ExitReason::NoActor,
            _ => return None,
        })
    }

    /// True for everything but normal and shutdown: what a transient child is restarted after.
    pub const fn is_abnormal(&self) -> bool {
        !matches!(self, ExitReason::Normal | ExitReason::Shutdown)
    }

    /// What kind of reason it is, without its texts: `normal`, `killed`, `error`…
    pub const fn name(&self) -> &'static str {
        match self {
            ExitReason::Normal => "normal",
            ExitReason::Killed => "killed",
            ExitReason::Error(_) => "error",
            ExitReason::Shutdown => "shutdown",
            ExitReason::Limit(_) => "limit exceeded",
            ExitReason::NoConnection => "no connection",
            ExitReason::RestartsExceeded => "restarts exceeded",
            ExitReason::NoActor => "no such actor",
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            ExitReason::Limit(text) if !text.is_empty() => write!(f, ": {text}"),
            ExitReason::Error(failure) => {
                if !failure.message.is_empty() {
                    write!(f, ": {}", failure.message)?;
                }
                if !failure.location.is_empty() {
                    write!(f, ", at {}", failure.location)?;
                }
                if f.alternate() && !failure.chain.is_empty() {
                    write!(f, "\n{}", failure.chain)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What is known of a failure. A text that is not known is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failure {
    /// What went wrong: the message of the panic, of the error or of the trap.
    pub message: String,
    /// Where: `file:line:column`, or what a module has instead.
    pub location: String,
    /// The calls or fibers that led there, one per line, innermost first.
    pub chain: String,
}

impl Failure {
    /// A failure of which only the message is known.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), ..Failure::default() }
    }
}

impl From<Failure> for ExitReason {
    fn from(failure: Failure) -> ExitReason {
        ExitReason::Error(Arc::new(failure))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    fn failure() -> Failure {
        Failure { message: "no".into(), location: "a.rs:1:2".into(), chain: "inner\nouter".into() }
    }

    #[test]
    fn a_code_names_its_reason() {
        for code in 0..=7 {
            assert_eq!(ExitReason::from_code(code).unwrap().code(), code);
        }
        assert!((8..=u8::MAX).all(|code| ExitReason::from_code(code).is_none()));
    }

    #[test]
    fn codes_are_those_that_travel() {
        assert_eq!(ExitReason::Normal.code(), 0);
        assert_eq!(ExitReason::Killed.code(), 1);
        assert_eq!(ExitReason::from(failure()).code(), 2);
        assert_eq!(ExitReason::Shutdown.code(), 3);
        assert_eq!(ExitReason::Limit("memory".into()).code(), 4);
        assert_eq!(ExitReason::NoConnection.code(), 5);
        assert_eq!(ExitReason::RestartsExceeded.code(), 6);
        assert_eq!(ExitReason::NoActor.code(), 7);
    }

    #[test]
    fn only_normal_and_shutdown_are_as_it_should_be() {
        let expected = [false, true, true, false, true, true, true, true];
        for (code, is_abnormal) in (0..).zip(expected) {
            assert_eq!(ExitReason::from_code(code).unwrap().is_abnormal(), is_abnormal, "{code}");
        }
    }

    #[test]
    fn a_reason_is_shown_with_what_is_known() {
        assert_eq!(ExitReason::Normal.to_string(), "normal");
        assert_eq!(ExitReason::NoActor.to_string(), "no such actor");
        assert_eq!(ExitReason::from(Failure::default()).to_string(), "error");
        assert_eq!(ExitReason::from(Failure::new("no")).to_string(), "error: no");
        assert_eq!(ExitReason::from(failure()).to_string(), "error: no, at a.rs:1:2");
        assert_eq!(format!("{:#}", ExitReason::from(failure())), "error: no, at a.rs:1:2\ninner\nouter");
        assert_eq!(
            ExitReason::Limit("64 KiB of memory".into()).to_string(),
            "limit exceeded: 64 KiB of memory"
        );
        assert_eq!(ExitReason::from_code(4).unwrap().to_string(), "limit exceeded");
    }

    #[test]
    fn a_clone_shares_the_texts() {
        let reason = ExitReason::from(failure());
        let clone = reason.clone();
        match (&reason, &clone) {
            (ExitReason::Error(one), ExitReason::Error(other)) => assert!(Arc::ptr_eq(one, other)),
            other => panic!("{other:?}"),
        }
        assert!(size_of::<ExitReason>() <= 3 * size_of::<usize>());
    }
}
