//! What timers and descriptors tell.

use alloc::vec::Vec;

use super::fields::{Reader, Writer};
use super::{DecodeError, SystemPayload};
use crate::Kind;

/// A timer expired.
///
/// 16 bytes: `id u32 @0`, `expirations u64 @8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    /// Which timer.
    pub id: u32,
    /// How often since the last time that its actor was told; more than once if the actor was late.
    pub expirations: u64,
}

impl SystemPayload for Timer {
    const KIND: Kind = Kind::TIMER;

    fn encode(&self) -> Vec<u8> {
        Writer::<16>::new().u32(0, self.id).u64(8, self.expirations).finish()
    }

    fn decode(bytes: &[u8]) -> Result<Timer, DecodeError> {
        let fields = Reader::<16>::new::<Timer>(bytes)?;
        Ok(Timer { id: fields.u32(0), expirations: fields.u64(8) })
    }
}

/// A descriptor is ready.
///
/// 8 bytes: `fd i32 @0`, `events u32 @4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FdEvent {
    /// Which descriptor.
    pub fd: i32,
    /// What it is ready for: the bits of `poll`'s `revents`.
    pub events: u32,
}

impl SystemPayload for FdEvent {
    const KIND: Kind = Kind::FD_EVENT;

    fn encode(&self) -> Vec<u8> {
        Writer::<8>::new().i32(0, self.fd).u32(4, self.events).finish()
    }

    fn decode(bytes: &[u8]) -> Result<FdEvent, DecodeError> {
        let fields = Reader::<8>::new::<FdEvent>(bytes)?;
        Ok(FdEvent { fd: fields.i32(0), events: fields.u32(4) })
    }
}
