//! Lines for the log.

use alloc::string::String;
use alloc::vec::Vec;

use super::fields::{Reader, Writer};
use super::{DecodeError, Fault, SystemPayload};
use crate::{ActorId, Kind, Level};

/// A line for the log.
///
/// 272 bytes: `level i32 @0`, `source u64 @8`, `text [256] @16`.
///
/// A log is for people, so a text never makes its line unreadable: encoding shortens it to
/// [`Log::MAX_TEXT`] bytes, at a whole character, and writes a space for a NUL; decoding replaces what is not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// How important it is.
    pub level: Level,
    /// Who says it.
    pub source: ActorId,
    /// What it says.
    pub text: String,
}

impl Log {
    /// How many bytes of the text travel.
    pub const MAX_TEXT: usize = 255;
}

impl SystemPayload for Log {
    const KIND: Kind = Kind::LOG;

    fn encode(&self) -> Vec<u8> {
        let text = self.text.replace('\0', " ");
        let end = text.floor_char_boundary(Log::MAX_TEXT);
        let fields = Writer::<272>::new().i32(0, self.level.number().into()).actor(8, self.source);
        fields.bytes(16, &text.as_bytes()[..end]).finish()
    }

    fn decode(bytes: &[u8]) -> Result<Log, DecodeError> {
        let fields = Reader::<272>::new::<Log>(bytes)?;
        let number = fields.i32(0);
        let level = Level::try_from(number)
            .map_err(|_| Fault::Number { field: "level", got: number.into() }.of::<Log>())?;
        let text = fields.terminated("text", 16, 256).map_err(Fault::of::<Log>)?;
        let mut text = String::from_utf8_lossy(text).into_owned();
        // The mark that replaces a byte is longer than it.
        text.truncate(text.floor_char_boundary(Log::MAX_TEXT));
        Ok(Log { level, source: fields.actor(8), text })
    }
}
