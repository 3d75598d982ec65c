//! Why an actor failed, in words, and code of an actor's that must not take the node with it.

use sinew_core::{ExitReason, Failure};
use sinew_fiber::raw::catch;
use sinew_fiber::{Panic, Raised};

use crate::cell::Head;

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
    if let Err(raised) = catch(code)
        && !raised.is_cancelled()
    {
        head.node.complain(&format!("{what} of actor {} failed: {raised:#}", head.id));
    }
}
