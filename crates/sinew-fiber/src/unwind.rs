//! What is kept of a panic while it unwinds a stack: its site, and the value that it becomes.
//!
//! The panic hook notes the site in the record of the fiber that panicked ([`crate::faults`]). The
//! first frame of the stack makes a [`Panic`] of the payload and the site ([`crate::terminal`]).

use std::any::Any;
use std::fmt;

use crate::trace::Trace;

/// The value of the error signal that a panic becomes.
pub struct Panic {
    /// What the panic said.
    pub message: String,
    /// Where it was, as `file:line:column`; none if another panic hook replaced ours.
    pub location: Option<String>,
    /// The payload, as `std::panic::catch_unwind` gives it.
    pub payload: Box<dyn Any + Send>,
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "panicked at {location}: {}", self.message),
            None => write!(f, "panicked: {}", self.message),
        }
    }
}

/// What the panic hook noted for the fiber that panicked.
pub(crate) struct PanicSite {
    pub(crate) message: String,
    pub(crate) trace: Box<Trace>,
}

/// Returns what a panic with this payload said.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        String::from("a payload that is no text")
    }
}
