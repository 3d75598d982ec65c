//! Fields at fixed offsets: how payloads of a fixed size are written and read.

use alloc::vec;
use alloc::vec::Vec;

use super::{DecodeError, Fault, SystemPayload};
use crate::ActorId;

/// Writes `SIZE` bytes, which are 0 where no field is.
pub(super) struct Writer<const SIZE: usize>(Vec<u8>);

impl<const SIZE: usize> Writer<SIZE> {
    pub(super) fn new() -> Writer<SIZE> {
        Writer(vec![0; SIZE])
    }

    pub(super) fn bytes(mut self, at: usize, bytes: &[u8]) -> Writer<SIZE> {
        self.0[at..][..bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(super) fn u32(self, at: usize, number: u32) -> Writer<SIZE> {
        self.bytes(at, &number.to_le_bytes())
    }

    pub(super) fn i32(self, at: usize, number: i32) -> Writer<SIZE> {
        self.bytes(at, &number.to_le_bytes())
    }

    pub(super) fn u64(self, at: usize, number: u64) -> Writer<SIZE> {
        self.bytes(at, &number.to_le_bytes())
    }

    pub(super) fn actor(self, at: usize, actor: ActorId) -> Writer<SIZE> {
        self.u64(at, actor.as_u64())
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads `SIZE` bytes. That there are as many is checked once, so numbers are read without further checks.
pub(super) struct Reader<'b, const SIZE: usize>(&'b [u8; SIZE]);

impl<'b, const SIZE: usize> Reader<'b, SIZE> {
    /// The fields of a payload of type `P`.
    pub(super) fn new<P: SystemPayload>(bytes: &'b [u8]) -> Result<Reader<'b, SIZE>, DecodeError> {
        let fault = Fault::Size { expected: SIZE, got: bytes.len() };
        bytes.try_into().map(Reader).map_err(|_| fault.of::<P>())
    }

    pub(super) fn bytes(&self, at: usize, size: usize) -> &'b [u8] {
        &self.0[at..][..size]
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(at, N));
        array
    }

    pub(super) fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(super) fn actor(&self, at: usize) -> ActorId {
        ActorId::from_u64(self.u64(at))
    }

    /// The bytes before the NUL in the `size` bytes of the text `field`.
    pub(super) fn terminated(&self, field: &'static str, at: usize, size: usize) -> Result<&'b [u8], Fault> {
        let bytes = self.bytes(at, size);
        let end = bytes.iter().position(|byte| *byte == 0).ok_or(Fault::Unterminated(field))?;
        Ok(&bytes[..end])
    }

    /// The text `field`, which ends with a NUL within its `size` bytes.
    pub(super) fn text(&self, field: &'static str, at: usize, size: usize) -> Result<&'b str, Fault> {
        utf8(field, self.terminated(field, at, size)?)
    }
}

/// The bytes of `field` as a text.
pub(super) fn utf8<'b>(field: &'static str, bytes: &'b [u8]) -> Result<&'b str, Fault> {
    str::from_utf8(bytes).map_err(|_| Fault::NotUtf8(field))
}

impl Fault {
    /// The error of a payload of type `P` with this fault.
    pub(super) fn of<P: SystemPayload>(self) -> DecodeError {
        DecodeError { kind: P::KIND, fault: self }
    }
}
