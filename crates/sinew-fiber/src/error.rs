//! `Error`: everything that an operation of this crate can fail with.

use std::fmt;

use sinew_core::MaskError;

use crate::memory::StackError;
use crate::raised::Raised;
use crate::refused::Refused;
use crate::value::DowncastError;

/// Everything that an operation of this crate can fail with, for code that mixes several.
///
/// It is `Send` and not `Sync`, because the value inside may be neither shared nor copied: box it as
/// `Box<dyn Error + Send>`, or turn it into text.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no stack to run on.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A mask had an unknown letter.
    #[error(transparent)]
    Mask(#[from] MaskError),
    /// A value was of another type.
    #[error(transparent)]
    Downcast(#[from] DowncastError),
    /// A body ended with an error, a panic or a terminal signal.
    #[error(transparent)]
    Raised(#[from] Raised),
}

/// The message of what is inside: it is what `unwrap` and `main` print.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Raised(raised) => fmt::Debug::fmt(raised, f),
            other => fmt::Display::fmt(other, f),
        }
    }
}
