//! Why an actor failed, in words, and code of an actor's that must not take the node with it.

use std::mem;

use sinew_core::{ActorId, ExitReason, Failure};
use sinew_fiber::raw::catch;
use sinew_fiber::{Panic, Raised};

use crate::cell::Head;
use crate::node::Inner;

/// The reason of an actor whose turn ended so.
pub(crate) fn reason(raised: Raised) -> ExitReason {
    let reason = if raised.is_cancelled() {
        ExitReason::Killed
    } else {
        let told = catch(|| ExitReason::from(told(&raised)));
        told.unwrap_or_else(|again| {
            discard_raised(again);
            Failure::new("a value whose text cannot be made").into()
        })
    };
    discard_raised(raised);
    reason
}

fn told(raised: &Raised) -> Failure {
    let (message, location) = match raised.value.downcast_ref::<Panic>() {
        Some(panic) => (panic.message.to_string(), panic.location.clone().unwrap_or_default()),
        None => {
            let at = raised.trace.as_ref().map(|trace| trace.raised_at());
            (format!("{}: {:?}", raised.signal, raised.value), at.unwrap_or_default())
        }
    };
    let chain = raised.trace.as_ref().map(ToString::to_string).unwrap_or_default();
    Failure { message, location, chain }
}

/// Drops what was raised. That may hold a value of the user's, whose destructor raises again; what comes of that is nobody's.
pub(crate) fn discard_raised(raised: Raised) {
    mem::forget(catch(|| drop(raised)).err());
}

/// Runs code of an actor that ends. What escapes it is told, and goes no further.
pub(crate) fn contain(what: &str, head: &Head, code: impl FnOnce()) {
    contain_of(head.node, head.id, what, code);
}

/// Drops a message of an actor's. A destructor that fails hurts nobody else.
#[cold]
pub(crate) fn discard<T>(node: &Inner, actor: ActorId, message: T) {
    contain_of(node, actor, "the destructor of a message", || drop(message));
}

fn contain_of(node: &Inner, actor: ActorId, what: &str, code: impl FnOnce()) {
    let Err(raised) = catch(code) else { return };
    if !raised.is_cancelled() {
        let text = catch(|| format!("{what} of actor {actor} failed: {raised:#}"));
        text.map_or_else(discard_raised, |text| node.complain(&text));
    }
    discard_raised(raised);
}
