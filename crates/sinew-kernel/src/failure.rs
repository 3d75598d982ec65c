//! Why an actor failed, in words.

use std::mem;

use sinew_core::{ExitReason, Failure, Signal};
use sinew_fiber::raw::catch;
use sinew_fiber::{Panic, Raised};

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
            let message = match raised.signal {
                Signal::Ok => {
                    format!("raised `ok` with {:?}: an actor returns a `Flow` instead", raised.value)
                }
                signal => format!("{signal}: {:?}", raised.value),
            };
            (message, at.unwrap_or_default())
        }
    };
    let chain = raised.trace.as_ref().map(ToString::to_string).unwrap_or_default();
    Failure { message, location, chain }
}

/// Drops what was raised. That may hold a value of the user's, whose destructor raises again; what comes of that is nobody's.
pub(crate) fn discard_raised(raised: Raised) {
    mem::forget(catch(|| drop(raised)).err());
}
