//! Messages that are addressed by id: bytes or a typed value, with a kind and a source.

use std::any::Any;
use std::fmt;

use sinew_core::payload::SystemPayload;
use sinew_core::{ActorId, Kind};

/// Bytes that lie in the message itself.
const INLINE: usize = 22;

/// A message: who sent it, to whom, of which kind, and what it carries.
///
/// ```
/// use sinew_core::{ActorId, Kind};
/// use sinew_kernel::{Message, Payload};
///
/// let message = Message::new(ActorId::NOBODY, Kind(7), Payload::copy(b"hello"));
/// assert_eq!(message.payload.bytes(), b"hello");
/// ```
#[derive(Debug)]
pub struct Message {
    /// Who sent it; [`ActorId::NOBODY`] from outside of actors.
    pub source: ActorId,
    /// Whom it is for.
    pub dest: ActorId,
    /// What it is; those from [`Kind::SYSTEM_START`] up are the system's.
    pub kind: Kind,
    /// What it carries.
    pub payload: Payload,
}

impl Message {
    /// A message from nobody.
    pub fn new(dest: ActorId, kind: Kind, payload: Payload) -> Message {
        Message { source: ActorId::NOBODY, dest, kind, payload }
    }
}

/// A payload of the system's as it travels.
pub(crate) fn encoded<P: SystemPayload>(payload: &P) -> (Kind, Vec<u8>) {
    (P::KIND, payload.encode())
}

/// What a message carries: bytes, or a value that is moved to an actor of the same node. Nothing is ever shared.
#[derive(Default)]
pub struct Payload(Inner);

enum Inner {
    Inline(u8, [u8; INLINE]),
    Bytes(Box<[u8]>),
    Value(Box<dyn Any + Send>),
}

impl Default for Inner {
    fn default() -> Inner {
        Inner::Inline(0, [0; INLINE])
    }
}

impl Payload {
    /// Nothing.
    pub fn empty() -> Payload {
        Payload::default()
    }

    /// A copy of `bytes`. Up to 22 of them need no allocation.
    pub fn copy(bytes: &[u8]) -> Payload {
        if bytes.len() > INLINE {
            return Payload(Inner::Bytes(bytes.into()));
        }
        let mut inline = [0; INLINE];
        inline[..bytes.len()].copy_from_slice(bytes);
        Payload(Inner::Inline(bytes.len() as u8, inline))
    }

    /// A value, for an actor of the same node whose messages are of this type, or who asks for it
    /// ([`downcast`](Payload::downcast)).
    pub fn value<T: Send + 'static>(value: T) -> Payload {
        Payload(Inner::Value(Box::new(value)))
    }

    /// The bytes; none if it is a value.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Inner::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Inner::Bytes(bytes) => bytes,
            Inner::Value(_) => &[],
        }
    }

    /// The value, if it is one of this type.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        match &self.0 {
            Inner::Value(value) => value.downcast_ref(),
            _ => None,
        }
    }

    /// The value, if it is one of this type.
    ///
    /// # Errors
    ///
    /// The payload as it was.
    pub fn downcast<T: 'static>(self) -> Result<T, Payload> {
        match self.0 {
            Inner::Value(value) => match value.downcast::<T>() {
                Ok(value) => Ok(*value),
                Err(value) => Err(Payload(Inner::Value(value))),
            },
            other => Err(Payload(other)),
        }
    }

    /// Bytes that it takes outside of the message.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Inner::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl From<Vec<u8>> for Payload {
    /// Moves the bytes in; few of them are copied.
    fn from(bytes: Vec<u8>) -> Payload {
        if bytes.len() <= INLINE { Payload::copy(&bytes) } else { Payload(Inner::Bytes(bytes.into())) }
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Payload {
        Payload::copy(bytes)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Value(_) => f.write_str("a value"),
            _ => write!(f, "{} bytes", self.bytes().len()),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_out_as_they_went_in() {
        for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 100_000] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            assert_eq!(Payload::copy(&bytes).bytes(), bytes);
            assert_eq!(Payload::from(bytes.clone()).bytes(), bytes);
        }
    }

    #[test]
    fn long_bytes_are_moved_and_not_copied() {
        let mut bytes = vec![7; 1000];
        bytes.shrink_to_fit();
        let at = bytes.as_ptr();
        assert_eq!(Payload::from(bytes).bytes().as_ptr(), at);
    }

    #[test]
    fn a_value_comes_out_as_its_type_only() {
        let payload = Payload::value(7u32).downcast::<u64>().unwrap_err();
        assert_eq!(payload.downcast_ref::<u32>(), Some(&7));
        assert_eq!(payload.downcast::<u32>().unwrap(), 7);
    }

    #[test]
    fn a_message_is_small() {
        assert!(size_of::<Message>() <= 48, "{}", size_of::<Message>());
    }
}
