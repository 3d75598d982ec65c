//! How a channel ends, and why something was not sent or received.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use sinew_fiber::{Cancelled, Reason, Refused};
use sinew_sync::Mutex;

/// Why a channel was ended, in the words of whoever ended it.
#[derive(Clone)]
pub struct CloseError(Arc<dyn Error + Send + Sync>);

impl CloseError {
    pub(super) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> CloseError {
        CloseError(error.into().into())
    }

    /// The error itself, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for CloseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Why nothing was received.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// The channel was closed, or its last sender is gone, and everything in it was received.
    #[error("the channel is closed and empty: nothing more will come")]
    Closed,
    /// The sender closed it with an error, and everything in it was received.
    #[error("the sender closed the channel: {0}")]
    Failed(#[source] CloseError),
    /// The channel was cancelled, and everything in it was received.
    #[error("the channel was cancelled")]
    Cancelled,
    /// Nothing came before the timeout. What comes later can still be received.
    #[error("nothing came before the timeout")]
    Timeout,
    /// The receiver cannot wait here, or not any more. What comes later can still be received.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Something that was not sent, and why.
#[derive(thiserror::Error)]
#[error("{why}")]
pub struct SendError<T> {
    /// What was to be sent.
    pub item: T,
    /// Why it was not.
    #[source]
    pub why: Unsent,
}

impl<T> SendError<T> {
    pub(super) fn new(item: T, why: impl Into<Unsent>) -> SendError<T> {
        SendError { item, why: why.into() }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("why", &self.why).finish_non_exhaustive()
    }
}

/// Why something was not sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// There is no room, or no receiver waits at a channel that holds nothing, and the call does not wait.
    #[error("the channel is full: receive from it, or use `send`, which waits")]
    Full,
    /// There was no room before the timeout.
    #[error("the channel was full until the timeout")]
    Timeout,
    /// It weighs more than the channel can ever hold.
    #[error(
        "it weighs {weight}, more than the channel holds, {capacity}: split it, or make the channel larger"
    )]
    TooHeavy {
        /// What it weighs.
        weight: usize,
        /// What the channel holds.
        capacity: usize,
    },
    /// The channel was closed, or its last receiver is gone.
    #[error("the channel is closed: nobody would receive it")]
    Closed,
    /// Nobody receives what is [`broadcast`](super::broadcast) at the moment. Who subscribes later does not see it.
    #[error("nobody receives at the moment: subscribe first, or send it again later")]
    NoReceiver,
    /// The receiver wants no more, and says why.
    #[error("the receiver rejects what is sent: {0}")]
    Rejected(#[source] CloseError),
    /// The channel was cancelled.
    #[error("the channel was cancelled")]
    Cancelled,
    /// The sender cannot wait here, or not any more.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What an iterator does where a receive is refused, since it has no errors.
#[cold]
#[track_caller]
pub(super) fn unwind(refused: Refused) -> ! {
    match refused.reason() {
        Reason::Cancelled => sinew_fiber::error(Cancelled),
        _ => sinew_fiber::error(refused),
    }
}

/// How a channel was ended.
#[derive(Clone)]
pub(super) enum End {
    Closed,
    Failed(CloseError),
    Rejected(CloseError),
    Cancelled,
}

impl From<End> for RecvError {
    fn from(end: End) -> RecvError {
        match end {
            End::Closed | End::Rejected(_) => RecvError::Closed,
            End::Failed(error) => RecvError::Failed(error),
            End::Cancelled => RecvError::Cancelled,
        }
    }
}

impl From<End> for Unsent {
    fn from(end: End) -> Unsent {
        match end {
            End::Closed | End::Failed(_) => Unsent::Closed,
            End::Rejected(error) => Unsent::Rejected(error),
            End::Cancelled => Unsent::Cancelled,
        }
    }
}

/// How a channel was ended, once it was. The first to end it says how.
pub(super) struct Ending(Mutex<Option<End>>);

impl Ending {
    pub(super) fn new() -> Ending {
        Ending(Mutex::new(None))
    }

    /// False if it was ended before.
    pub(super) fn set(&self, end: End) -> bool {
        let mut ending = self.0.lock();
        let first = ending.is_none();
        let unused = if first { ending.replace(end) } else { Some(end) };
        drop(ending);
        drop(unused); // an error's destructor is the user's code
        first
    }

    /// Only for a channel that is closed.
    #[cold]
    pub(super) fn get(&self) -> End {
        self.0.lock().clone().expect("a channel that is closed says how")
    }
}
