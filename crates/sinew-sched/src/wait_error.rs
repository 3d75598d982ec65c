//! Why a wait with a timeout ended without a result.

use sinew_fiber::Refused;

/// Why a wait with a timeout ended without a result: the error of a `…_timeout` call whose counterpart without a timeout can
/// only be [`Refused`].
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It did not happen before the timeout. The caller no longer waits, and can call again.
    #[error("it did not happen before the timeout")]
    Timeout,
    /// The caller cannot wait here, or not any more.
    #[error(transparent)]
    Refused(#[from] Refused),
}
