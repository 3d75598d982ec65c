//! Why an actor failed, in words, and code of an actor's that must not take the node with it.

use sinew_core::{ActorId, ExitReason, Failure};
use sinew_fiber::raw::catch;
use sinew_fiber::{Panic, Raised};

use crate::cell::Head;
use crate::node::Inner;

/// The reason of an actor whose turn ended so.
pub(crate) fn reason(raised: Raised) -> ExitReason {
    if raised.is_cancelled() {
        return ExitReason::Killed;
    }
    let (message, location) = match raised.value.downcast_ref::<Panic>() {
        Some(panic) => (panic.message.to_string(), panic.location.clone().unwrap_or_default()),
        None => {
            let at = raised.trace.as_ref().map(|trace| trace.raised_at());
            (format!("{}: {:?}", raised.signal, raised.value), at.unwrap_or_default())
        }
    };
    let chain = raised.trace.as_ref().map(ToString::to_string).unwrap_or_default();
    Failure { message, location, chain }.into()
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
    if let Err(raised) = catch(code)
        && !raised.is_cancelled()
    {
        node.complain(&format!("{what} of actor {actor} failed: {raised:#}"));
    }
}
