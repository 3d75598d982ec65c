//! What is told of an actor that ended: to its parent, to those linked to it, to those who monitor it.
//!
//! [`Exit`] and [`Down`] are Sinew's own, and have one layout. It starts like that of [`ChildExit`], with sizes of
//! texts where that one has padding:
//!
//! `actor u64 @0`, `reason u8 @8`, `message_size u16 @10`, `location_size u16 @12`, `chain_size u16 @14`, then from @16 on the
//! bytes of message, location and chain, one after the other. The text of a limit is a message. A text of more
//! than 65535 bytes is shortened to as many, at a whole character.

use alloc::string::String;
use alloc::vec::Vec;

use super::fields::{Reader, Writer, utf8};
use super::{DecodeError, Fault, SystemPayload};
use crate::{ActorId, ExitReason, Failure, Kind};

/// A child ended, told to its parent.
///
/// 16 bytes: `child u64 @0`, `reason u8 @8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildExit {
    /// Which child.
    pub child: ActorId,
    /// Why, as a [code](ExitReason::code). A peer may know reasons that we do not.
    pub reason: u8,
}

impl SystemPayload for ChildExit {
    const KIND: Kind = Kind::CHILD_EXIT;

    fn encode(&self) -> Vec<u8> {
        Writer::<16>::new().actor(0, self.child).bytes(8, &[self.reason]).finish()
    }

    fn decode(bytes: &[u8]) -> Result<ChildExit, DecodeError> {
        let fields = Reader::<16>::new::<ChildExit>(bytes)?;
        Ok(ChildExit { child: fields.actor(0), reason: fields.u8(8) })
    }
}

/// A linked actor ended.
///
/// 16 bytes and texts: `actor u64 @0`, `reason u8 @8`, `message_size u16 @10`, `location_size u16 @12`, `chain_size u16 @14`,
/// then the three texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Which actor.
    pub actor: ActorId,
    /// Why.
    pub reason: ExitReason,
}

impl SystemPayload for Exit {
    const KIND: Kind = Kind::EXIT;

    fn encode(&self) -> Vec<u8> {
        encode(self.actor, &self.reason)
    }

    fn decode(bytes: &[u8]) -> Result<Exit, DecodeError> {
        decode::<Exit>(bytes).map(|(actor, reason)| Exit { actor, reason })
    }
}

/// A monitored actor ended.
///
/// The layout is that of [`Exit`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Down {
    /// Which actor.
    pub actor: ActorId,
    /// Why.
    pub reason: ExitReason,
}

impl SystemPayload for Down {
    const KIND: Kind = Kind::DOWN;

    fn encode(&self) -> Vec<u8> {
        encode(self.actor, &self.reason)
    }

    fn decode(bytes: &[u8]) -> Result<Down, DecodeError> {
        decode::<Down>(bytes).map(|(actor, reason)| Down { actor, reason })
    }
}

/// The bytes before the texts.
const HEAD: usize = 16;

fn encode(actor: ActorId, reason: &ExitReason) -> Vec<u8> {
    let texts = match reason {
        ExitReason::Error(failure) => [&*failure.message, &failure.location, &failure.chain],
        ExitReason::Limit(text) => [text, "", ""],
        _ => [""; 3],
    };
    let texts = texts.map(|text| &text[..text.floor_char_boundary(u16::MAX.into())]);
    let mut head = Writer::<HEAD>::new().actor(0, actor).bytes(8, &[reason.code()]);
    for (at, text) in [10, 12, 14].into_iter().zip(texts) {
        head = head.bytes(at, &(text.len() as u16).to_le_bytes());
    }
    let mut bytes = head.finish();
    bytes.extend(texts.concat().into_bytes());
    bytes
}

fn decode<P: SystemPayload>(bytes: &[u8]) -> Result<(ActorId, ExitReason), DecodeError> {
    let Some((head, texts)) = bytes.split_at_checked(HEAD) else {
        return Err(Fault::Size { expected: HEAD, got: bytes.len() }.of::<P>());
    };
    let fields = Reader::<HEAD>::new::<P>(head)?;
    let [message, location, chain] =
        split([10, 12, 14].map(|at| fields.u16(at).into()), texts).map_err(Fault::of::<P>)?;
    let reason = match ExitReason::from_code(fields.u8(8)) {
        Some(ExitReason::Error(_)) => Failure { message, location, chain }.into(),
        Some(ExitReason::Limit(_)) => ExitReason::Limit(message.into()),
        Some(reason) => reason,
        None => return Err(Fault::Number { field: "reason", got: fields.u8(8).into() }.of::<P>()),
    };
    Ok((fields.actor(0), reason))
}

/// The three texts of these sizes that `bytes` are.
fn split(sizes: [usize; 3], bytes: &[u8]) -> Result<[String; 3], Fault> {
    let expected = sizes.iter().sum::<usize>();
    if bytes.len() != expected {
        return Err(Fault::Size { expected: HEAD + expected, got: HEAD + bytes.len() });
    }
    let (message, rest) = bytes.split_at(sizes[0]);
    let (location, chain) = rest.split_at(sizes[1]);
    Ok([utf8("message", message)?.into(), utf8("location", location)?.into(), utf8("chain", chain)?.into()])
}
