//! `Raised`: a signal together with its value and its trace.

use std::fmt;
use std::io;

use sinew_core::Signal;

use crate::control::Cancelled;
use crate::io_error::IoErrorExt;
use crate::refused::Refused;
use crate::trace::Trace;
use crate::value::Value;

/// A signal that was raised: which one, with what, and where.
///
/// This is what [`protect`](crate::protect) returns, what an iteration yields for an error that nobody
/// caught, and the payload with which a stack is unwound.
pub struct Raised {
    /// The signal.
    pub signal: Signal,
    /// What was raised with it.
    pub value: Value,
    /// Where it was raised.
    pub trace: Option<Box<Trace>>,
}

impl Raised {
    /// Returns `true` if this is the error with which a cancelled or dropped body is ended, or the
    /// refusal of a call because its task is cancelled or its fiber is being dropped, also as an
    /// [`io::Error`].
    pub fn is_cancelled(&self) -> bool {
        self.value.is::<Cancelled>()
            || self.value.downcast_ref().is_some_and(Refused::is_cancelled)
            || self.value.downcast_ref().is_some_and(io::Error::is_cancelled)
    }

    /// Replaces a resumable signal by an error: the fiber has ended. The fields of a [`Raised`] are
    /// public, so users can put any signal there; with a resumable status the fiber would be continued
    /// on a stack that is gone.
    pub(crate) fn only_terminal(self) -> Raised {
        let signal = if self.signal.is_terminal() { self.signal } else { Signal::Error };
        Raised { signal, ..self }
    }
}

impl std::error::Error for Raised {}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.signal, self.value)?;
        match &self.trace {
            Some(trace) if f.alternate() => write!(f, "\n{trace}"),
            _ => Ok(()),
        }
    }
}

/// The message with its trace: it is what `unwrap` and `main` print.
impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}
