//! The fourteen signals: one axis for everything that makes control leave a fiber.

use core::fmt;

/// Why control left a fiber: a normal return, an error, a yield and a breakpoint are the same event with
/// another number.
///
/// A signal is *terminal* if the fiber can never run again after it ([`Signal::is_terminal`]).
///
/// ```
/// use sinew_core::Signal;
///
/// assert_eq!(Signal::Yield.number(), 3);
/// assert_eq!(Signal::try_from(3), Ok(Signal::Yield));
/// assert!(Signal::User4.is_terminal());
/// assert!(!Signal::User5.is_terminal());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[must_use = "the signal says whether the fiber returned, failed or only paused"]
pub enum Signal {
    /// 0: the body returned.
    Ok = 0,
    /// 1: an error was raised, or the body panicked.
    Error = 1,
    /// 2: a breakpoint.
    Debug = 2,
    /// 3: a cooperative pause, with a value for the resumer.
    Yield = 3,
    /// 4: `user0`, terminal.
    User0 = 4,
    /// 5: `user1`, terminal.
    User1 = 5,
    /// 6: `user2`, terminal.
    User2 = 6,
    /// 7: `user3`, terminal.
    User3 = 7,
    /// 8: `user4`, terminal.
    User4 = 8,
    /// 9: `user5`, resumable.
    User5 = 9,
    /// 10: `user6`, resumable.
    User6 = 10,
    /// 11: `user7`, resumable.
    User7 = 11,
    /// 12: stopped from outside; also user signal 8.
    Interrupt = 12,
    /// 13: waiting for an event; also user signal 9.
    Await = 13,
}

impl Signal {
    /// Every signal, in the order of their numbers.
    pub const ALL: [Signal; 14] = [
        Signal::Ok,
        Signal::Error,
        Signal::Debug,
        Signal::Yield,
        Signal::User0,
        Signal::User1,
        Signal::User2,
        Signal::User3,
        Signal::User4,
        Signal::User5,
        Signal::User6,
        Signal::User7,
        Signal::Interrupt,
        Signal::Await,
    ];

    /// The number of the signal, 0 to 13.
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The user signal `n`: 0 to 7, then 8 = interrupt and 9 = await.
    pub const fn user(n: u8) -> Option<Signal> {
        if n <= 9 { Some(Signal::ALL[n as usize + 4]) } else { None }
    }

    /// True for the signals after which the fiber cannot run again: ok, error and user0 to user4.
    #[inline]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Signal::Ok
                | Signal::Error
                | Signal::User0
                | Signal::User1
                | Signal::User2
                | Signal::User3
                | Signal::User4
        )
    }

    /// The name of the signal: `ok`, `error`, `debug`, `yield`, `user0`…, `interrupt`, `await`.
    pub const fn name(self) -> &'static str {
        match self {
            Signal::Ok => "ok",
            Signal::Error => "error",
            Signal::Debug => "debug",
            Signal::Yield => "yield",
            Signal::User0 => "user0",
            Signal::User1 => "user1",
            Signal::User2 => "user2",
            Signal::User3 => "user3",
            Signal::User4 => "user4",
            Signal::User5 => "user5",
            Signal::User6 => "user6",
            Signal::User7 => "user7",
            Signal::Interrupt => "interrupt",
            Signal::Await => "await",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A number above 13 is no signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no signal {0}: signals are numbered 0 (ok) to 13 (await)")]
pub struct UnknownSignal(pub u8);

impl TryFrom<u8> for Signal {
    type Error = UnknownSignal;

    #[inline]
    fn try_from(number: u8) -> Result<Signal, UnknownSignal> {
        Signal::ALL.get(number as usize).copied().ok_or(UnknownSignal(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_its_number() {
        for (number, signal) in Signal::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(signal.number()), number);
            assert_eq!(Signal::try_from(number as u8), Ok(signal));
        }
        assert_eq!(Signal::try_from(14), Err(UnknownSignal(14)));
    }

    #[test]
    fn ok_error_and_user0_to_user4_are_terminal_and_nothing_else() {
        let terminal: alloc::vec::Vec<u8> =
            Signal::ALL.into_iter().filter(|s| s.is_terminal()).map(Signal::number).collect();
        assert_eq!(terminal, [0, 1, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn user_8_is_interrupt_and_user_9_is_await() {
        assert_eq!(Signal::user(0), Some(Signal::User0));
        assert_eq!(Signal::user(8), Some(Signal::Interrupt));
        assert_eq!(Signal::user(9), Some(Signal::Await));
        assert_eq!(Signal::user(10), None);
    }
}
