//! What the system's messages carry, as bytes.
//!
//! Each [kind](Kind) of system message has a layout that is the same everywhere: fields at fixed offsets, numbers
//! little-endian, texts padded with NULs to a fixed size. They are the layouts that guests know from C, so there are
//! unused bytes between fields: they are written as 0 and not read, and nor is what follows the NUL that ends a text. The
//! documentation of each type shows its layout as `field type @offset`.
//!
//! Bytes come from guests and from other nodes, so [`SystemPayload::decode`] trusts none of them: whatever they
//! are, it returns a value or says what is wrong.
//!
//! ```
//! use sinew_core::payload::{SystemPayload, Timer};
//! use sinew_core::Kind;
//!
//! let timer = Timer { id: 7, expirations: 1 };
//! let bytes = timer.encode();
//! assert_eq!((Timer::KIND, bytes.len()), (Kind::TIMER, 16));
//! assert_eq!(Timer::decode(&bytes), Ok(timer));
//! assert!(Timer::decode(&bytes[1..]).is_err());
//! ```

mod events;
mod exits;
mod fields;
mod log;
mod names;
mod namespace;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::{Kind, NameError};

pub use events::{FdEvent, Timer};
pub use exits::{ChildExit, Down, Exit};
pub use log::Log;
pub use names::{NameRegister, NameUnregister, PathRegister, PathUnregister};
pub use namespace::{
    DataTooLong, NsEvent, NsList, NsLookup, NsMount, NsNotify, NsRegister, NsReply, NsStatus, NsUmount,
};

/// What one kind of system message carries.
pub trait SystemPayload: Sized {
    /// The kind of the messages that carry it.
    const KIND: Kind;

    /// The bytes of this value.
    fn encode(&self) -> Vec<u8>;

    /// The value of these bytes.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// Bytes that are not what their message's kind promises.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the payload of a {kind} message is malformed: {fault}")]
pub struct DecodeError {
    /// The kind of the message.
    pub kind: Kind,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with bytes that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Too many bytes or too few.
    #[error("it has {got} bytes instead of {expected}")]
    Size {
        /// How many it should have.
        expected: usize,
        /// How many it has.
        got: usize,
    },
    /// A text without the NUL that ends it.
    #[error("its {0} does not end with a NUL")]
    Unterminated(&'static str),
    /// A text that is not UTF-8.
    #[error("its {0} is not UTF-8")]
    NotUtf8(&'static str),
    /// A text that is no name or no path.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A number that stands for nothing.
    #[error("its {field} cannot be {got}")]
    Number {
        /// Which field.
        field: &'static str,
        /// The number in it.
        got: i64,
    },
}
