//! Messages between nodes, as bytes: a header of 28 bytes, then the payload.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | source |
//! | 8 | 8 | destination |
//! | 16 | 4 | kind |
//! | 20 | 4 | size of the payload |
//! | 24 | 4 | reserved: 0 |
//! | 28 | … | payload |
//!
//! The header is in the order of bytes that the transport chooses: the machine's own between processes of one machine,
//! big-endian between machines. The payload is never reordered.
//!
//! A header says how much memory its payload takes, and comes from somebody else. So whoever reads one says how much
//! it may be, and a header that asks for more is refused before anything is allocated.
//!
//! ```
//! use sinew_core::wire::{self, ByteOrder, Header};
//! use sinew_core::{ActorId, Kind};
//!
//! let (source, dest) = (ActorId::from_u64(1), ActorId::from_u64(2));
//! let header = Header { source, dest, kind: Kind(7), payload_size: 5 };
//! let mut bytes = header.encode(ByteOrder::Big).to_vec();
//! bytes.extend(b"hello");
//!
//! let (frame, rest) = wire::split(&bytes, ByteOrder::Big, 1024)?.expect("all of it is there");
//! assert_eq!((frame.header, frame.payload, rest), (header, &b"hello"[..], &b""[..]));
//!
//! // A part of a message is no error: read more.
//! assert_eq!(wire::split(&bytes[..30], ByteOrder::Big, 1024)?, None);
//! // One that is too large is.
//! assert!(wire::split(&bytes, ByteOrder::Big, 4).is_err());
//! # Ok::<(), wire::WireError>(())
//! ```

use crate::{ActorId, Kind};

/// The size of a header.
pub const HEADER_SIZE: usize = 28;

/// In which order the bytes of a number are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// The lowest first.
    Little,
    /// The highest first: the order of the network.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    fn put<const N: usize>(self, field: &mut [u8], mut little: [u8; N]) {
        if self == ByteOrder::Big {
            little.reverse();
        }
        field.copy_from_slice(&little);
    }

    /// The bytes of the field, the lowest first.
    fn get<const N: usize>(self, field: &[u8]) -> [u8; N] {
        let mut little = [0; N];
        little.copy_from_slice(field);
        if self == ByteOrder::Big {
            little.reverse();
        }
        little
    }
}

/// What precedes the payload of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Who sent it.
    pub source: ActorId,
    /// Whom it is for.
    pub dest: ActorId,
    /// What kind of message it is.
    pub kind: Kind,
    /// How many bytes of payload follow.
    pub payload_size: u32,
}

impl Header {
    /// The bytes of the header.
    pub fn encode(&self, order: ByteOrder) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        order.put(&mut bytes[0..8], self.source.as_u64().to_le_bytes());
        order.put(&mut bytes[8..16], self.dest.as_u64().to_le_bytes());
        order.put(&mut bytes[16..20], self.kind.0.to_le_bytes());
        order.put(&mut bytes[20..24], self.payload_size.to_le_bytes());
        bytes
    }

    /// The header that the bytes are, of a message whose payload may have up to `max_payload` bytes.
    pub fn decode(
        bytes: &[u8; HEADER_SIZE],
        order: ByteOrder,
        max_payload: u32,
    ) -> Result<Header, WireError> {
        let reserved = u32::from_le_bytes(order.get(&bytes[24..28]));
        if reserved != 0 {
            return Err(WireError::Reserved(reserved));
        }
        let header = Header {
            source: ActorId::from_u64(u64::from_le_bytes(order.get(&bytes[0..8]))),
            dest: ActorId::from_u64(u64::from_le_bytes(order.get(&bytes[8..16]))),
            kind: Kind(u32::from_le_bytes(order.get(&bytes[16..20]))),
            payload_size: u32::from_le_bytes(order.get(&bytes[20..24])),
        };
        match header.payload_size > max_payload {
            true => Err(WireError::TooLarge { size: header.payload_size, max: max_payload }),
            false => Ok(header),
        }
    }
}

/// Why bytes are no message. Where the next one starts is not known then: close the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// The payload is larger than the reader allows.
    #[error("a message has a payload of {size} bytes, and {max} are allowed: send less, or allow more")]
    TooLarge {
        /// How large it is.
        size: u32,
        /// How large it may be.
        max: u32,
    },
    /// The reserved field is in use: these bytes are no header, or one of a later version.
    #[error(
        "a message's header has {0:#x} where 0 belongs: does the peer speak this protocol, in this byte order?"
    )]
    Reserved(u32),
}

/// A message within the bytes that it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'b> {
    /// What precedes the payload.
    pub header: Header,
    /// The payload.
    pub payload: &'b [u8],
}

/// The message at the start of `bytes`, and the bytes after it; none if not all of it is there yet.
///
/// A header is judged as soon as it is there, before its payload is. In a datagram, nothing comes later: there, a
/// message that is not all there is malformed, and so are bytes after it.
pub fn split(
    bytes: &[u8],
    order: ByteOrder,
    max_payload: u32,
) -> Result<Option<(Frame<'_>, &[u8])>, WireError> {
    let Some((header, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let header = Header::decode(header, order, max_payload)?;
    // A size that is more than an address can be is more than there are bytes.
    let size = usize::try_from(header.payload_size).unwrap_or(usize::MAX);
    Ok(rest.split_at_checked(size).map(|(payload, rest)| (Frame { header, payload }, rest)))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::{Just, any, prop_oneof};

    use super::*;
    use crate::tests::for_all;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    fn header(source: u64, dest: u64, kind: u32, payload_size: u32) -> Header {
        let (source, dest) = (ActorId::from_u64(source), ActorId::from_u64(dest));
        Header { source, dest, kind: Kind(kind), payload_size }
    }

    #[test]
    fn fields_are_where_they_belong_in_either_order() {
        let header = header(0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324, 0x3132_3334);
        let big = [
            0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
            0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0, 0, 0, 0,
        ];
        assert_eq!(header.encode(ByteOrder::Big), big);
        let mut little = big;
        little[0..8].reverse();
        little[8..16].reverse();
        little[16..20].reverse();
        little[20..24].reverse();
        assert_eq!(header.encode(ByteOrder::Little), little);
        let native = u32::from_ne_bytes(header.encode(ByteOrder::NATIVE)[16..20].try_into().unwrap());
        assert_eq!(native, 0x2122_2324);
    }

    #[test]
    fn any_header_comes_back_as_it_was() {
        for_all(any::<(u64, u64, u32, u32)>(), |(source, dest, kind, size)| {
            let header = header(source, dest, kind, size);
            for order in ORDERS {
                assert_eq!(Header::decode(&header.encode(order), order, u32::MAX), Ok(header));
            }
        });
    }

    #[test]
    fn a_payload_may_be_as_large_as_allowed_and_no_larger() {
        for order in ORDERS {
            for (size, max, is_refused) in [(0, 0, false), (1, 0, true), (9, 9, false), (u32::MAX, 9, true)] {
                let result = Header::decode(&header(1, 2, 3, size).encode(order), order, max);
                assert_eq!(result.err(), is_refused.then_some(WireError::TooLarge { size, max }));
            }
        }
        let error = WireError::TooLarge { size: 10, max: 9 }.to_string();
        assert!(error.contains("10 bytes") && error.contains("9 are allowed"), "{error}");
    }

    #[test]
    fn a_reserved_field_in_use_is_refused() {
        for byte in 24..HEADER_SIZE {
            for order in ORDERS {
                let mut bytes = header(1, 2, 3, 4).encode(order);
                bytes[byte] = 1;
                assert!(matches!(Header::decode(&bytes, order, 4), Err(WireError::Reserved(_))));
            }
        }
    }

    #[test]
    fn a_stream_is_split_where_messages_end_however_it_arrives() {
        let messages = vec((any::<(u64, u64, u32)>(), vec(any::<u8>(), 0..20)), 0..6);
        let streams = (messages, any::<bool>(), 1..50usize);
        for_all(streams, |(messages, is_big, step)| {
            let order = ORDERS[usize::from(is_big)];
            let mut stream: Vec<u8> = Vec::new();
            for ((source, dest, kind), payload) in &messages {
                stream.extend(header(*source, *dest, *kind, payload.len() as u32).encode(order));
                stream.extend(payload);
            }
            let mut arrived: Vec<u8> = Vec::new();
            let mut seen = Vec::new();
            for chunk in stream.chunks(step) {
                arrived.extend(chunk);
                while let Some((frame, rest)) = split(&arrived, order, 20).unwrap() {
                    let (header, payload) = (frame.header, frame.payload.to_vec());
                    seen.push(((header.source.as_u64(), header.dest.as_u64(), header.kind.0), payload));
                    arrived = rest.to_vec();
                }
            }
            assert_eq!((seen, arrived.len()), (messages, 0));
        });
    }

    #[test]
    fn hostile_bytes_are_refused_or_split_within_their_bounds() {
        let bytes = prop_oneof![3 => Just(0), 1 => 0..9u8, 1 => any::<u8>()];
        let limits = prop_oneof![0..64u32, Just(u32::MAX)];
        for_all((vec(bytes, 0..80), any::<bool>(), limits), |(bytes, is_big, max)| {
            if let Ok(Some((frame, rest))) = split(&bytes, ORDERS[usize::from(is_big)], max) {
                assert!(frame.header.payload_size <= max);
                assert_eq!(frame.payload.len(), frame.header.payload_size as usize);
                assert_eq!(HEADER_SIZE + frame.payload.len() + rest.len(), bytes.len());
            }
        });
    }

    #[test]
    fn a_bad_header_is_refused_before_its_payload_arrives() {
        let bytes = header(1, 2, 3, u32::MAX).encode(ByteOrder::Big);
        assert_eq!(split(&bytes[..27], ByteOrder::Big, 9), Ok(None));
        let error = WireError::TooLarge { size: u32::MAX, max: 9 };
        assert_eq!(split(&bytes, ByteOrder::Big, 9), Err(error));
        assert_eq!(split(&bytes, ByteOrder::Big, u32::MAX), Ok(None));
    }
}
