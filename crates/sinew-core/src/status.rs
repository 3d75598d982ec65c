//! The sixteen statuses of a fiber: the number of its last signal, or new, or alive.

use core::fmt;

use crate::Signal;

/// What a fiber is doing: it never ran, it is running, or it stopped with a [`Signal`].
///
/// ```
/// use sinew_core::{Signal, Status};
///
/// assert_eq!(Status::from(Signal::Yield), Status::Pending);
/// assert_eq!(Status::Pending.signal(), Some(Signal::Yield));
/// assert!(Status::Pending.can_resume());
/// assert!(!Status::Dead.can_resume());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// 0: the body returned. Terminal.
    Dead = 0,
    /// 1: ended with an error. Terminal.
    Error = 1,
    /// 2: stopped at a breakpoint.
    Debug = 2,
    /// 3: yielded.
    Pending = 3,
    /// 4: ended with `user0`. Terminal.
    User0 = 4,
    /// 5: ended with `user1`. Terminal.
    User1 = 5,
    /// 6: ended with `user2`. Terminal.
    User2 = 6,
    /// 7: ended with `user3`. Terminal.
    User3 = 7,
    /// 8: ended with `user4`. Terminal.
    User4 = 8,
    /// 9: stopped with `user5`.
    User5 = 9,
    /// 10: stopped with `user6`.
    User6 = 10,
    /// 11: stopped with `user7`.
    User7 = 11,
    /// 12: stopped from outside.
    Interrupted = 12,
    /// 13: waits for an event.
    Suspended = 13,
    /// 14: never ran.
    New = 14,
    /// 15: is running, or has resumed the fiber that is.
    Alive = 15,
}

impl Status {
    /// Every status, in the order of their numbers.
    pub const ALL: [Status; 16] = [
        Status::Dead,
        Status::Error,
        Status::Debug,
        Status::Pending,
        Status::User0,
        Status::User1,
        Status::User2,
        Status::User3,
        Status::User4,
        Status::User5,
        Status::User6,
        Status::User7,
        Status::Interrupted,
        Status::Suspended,
        Status::New,
        Status::Alive,
    ];

    /// The number of the status, 0 to 15.
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The signal that the fiber stopped with; none for a new or running one.
    #[inline]
    pub const fn signal(self) -> Option<Signal> {
        // Spelled out, so that the compiler sees that the numbers are the same.
        Some(match self {
            Status::Dead => Signal::Ok,
            Status::Error => Signal::Error,
            Status::Debug => Signal::Debug,
            Status::Pending => Signal::Yield,
            Status::User0 => Signal::User0,
            Status::User1 => Signal::User1,
            Status::User2 => Signal::User2,
            Status::User3 => Signal::User3,
            Status::User4 => Signal::User4,
            Status::User5 => Signal::User5,
            Status::User6 => Signal::User6,
            Status::User7 => Signal::User7,
            Status::Interrupted => Signal::Interrupt,
            Status::Suspended => Signal::Await,
            Status::New | Status::Alive => return None,
        })
    }

    /// True if the fiber can never run again: dead, error and user0 to user4.
    #[inline]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Status::Dead
                | Status::Error
                | Status::User0
                | Status::User1
                | Status::User2
                | Status::User3
                | Status::User4
        )
    }

    /// True unless the fiber has ended. A running fiber counts as resumable, although resuming
    /// it is refused for as long as it runs.
    #[inline]
    pub const fn can_resume(self) -> bool {
        !self.is_terminal()
    }

    /// The name of the status: `dead`, `error`, `pending`, `new`, `alive`…
    pub const fn name(self) -> &'static str {
        match self {
            Status::Dead => "dead",
            Status::Error => "error",
            Status::Debug => "debug",
            Status::Pending => "pending",
            Status::User0 => "user0",
            Status::User1 => "user1",
            Status::User2 => "user2",
            Status::User3 => "user3",
            Status::User4 => "user4",
            Status::User5 => "user5",
            Status::User6 => "user6",
            Status::User7 => "user7",
            Status::Interrupted => "interrupted",
            Status::Suspended => "suspended",
            Status::New => "new",
            Status::Alive => "alive",
        }
    }
}

impl From<Signal> for Status {
    #[inline]
    fn from(signal: Signal) -> Status {
        match signal {
            Signal::Ok => Status::Dead,
            Signal::Error => Status::Error,
            Signal::Debug => Status::Debug,
            Signal::Yield => Status::Pending,
            Signal::User0 => Status::User0,
            Signal::User1 => Status::User1,
            Signal::User2 => Status::User2,
            Signal::User3 => Status::User3,
            Signal::User4 => Status::User4,
            Signal::User5 => Status::User5,
            Signal::User6 => Status::User6,
            Signal::User7 => Status::User7,
            Signal::Interrupt => Status::Interrupted,
            Signal::Await => Status::Suspended,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_the_number_of_the_last_signal() {
        for signal in Signal::ALL {
            let status = Status::from(signal);
            assert_eq!(status.number(), signal.number());
            assert_eq!(status.signal(), Some(signal));
            assert_eq!(status.is_terminal(), signal.is_terminal());
        }
        assert_eq!(Status::New.number(), 14);
        assert_eq!(Status::Alive.number(), 15);
        assert_eq!((Status::New.signal(), Status::Alive.signal()), (None, None));
    }

    #[test]
    fn only_terminal_statuses_cannot_be_resumed() {
        let refused: alloc::vec::Vec<&str> =
            Status::ALL.into_iter().filter(|s| !s.can_resume()).map(Status::name).collect();
        assert_eq!(refused, ["dead", "error", "user0", "user1", "user2", "user3", "user4"]);
    }
}
