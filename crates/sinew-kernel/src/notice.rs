//! What a service has to tell an actor: made when the actor comes to it, and not again before it is
//! handled.
//!
//! A timer that expires and a descriptor that is ready put a *notice* into the lane of their actor,
//! not a message. When the actor comes to it, the service says what there is to tell by then, or
//! nothing if it was cancelled meanwhile. And the service is told when that has been handled. So an
//! actor that is slow gets one message that says how much it missed, and its lane does not fill.
//!
//! The service is told so when the actor has come to its next message, or has none
//! ([`Cell::settle`](crate::cell::Cell::settle)): what comes by the lane goes first, so one that
//! tells something again at once would keep the messages waiting.

use std::fmt;

use crate::message::Message;
use crate::services::{Handled, Owner};

/// Has a message of the system for an actor.
pub(crate) trait Notice: Handled {
    /// The message; none if there is nothing to tell any more. Called by the actor's task, which
    /// then [handles](Handled) it.
    fn message(&self, owner: &dyn Owner) -> Option<Message>;
}

/// Has a message of its own type for an actor.
pub(crate) trait TypedNotice<M>: Handled {
    /// The message; none if there is nothing to tell any more. Called by the actor's task, which
    /// then [handles](Handled) it: it may run any code of the actor's.
    fn message(&self, owner: &dyn Owner) -> Option<M>;
}

impl fmt::Debug for dyn Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}
