//! Reading and writing the memory of a guest, within its bounds.
//!
//! A pointer is checked for its whole width before a call has an effect. An out-pointer of zero is
//! skipped.

use sinew_core::Errno;
use wasmtime::Caller;

use crate::state::GuestState;

/// A range that is not in the guest's memory, or is more than one call may copy.
#[derive(Debug)]
pub(crate) struct BadRange;

/// An address in the guest's memory to which a result is written; `None` skips it.
#[derive(Clone, Copy)]
pub(crate) struct Out(Option<usize>);

/// A buffer in the guest's memory.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    start: usize,
    len: usize,
}

/// The guest that calls.
pub(crate) trait Access {
    fn state(&mut self) -> &mut GuestState;

    /// The memory of the guest; empty if it exports none.
    fn memory(&mut self) -> &mut [u8];

    /// Checks a range of the guest's memory.
    fn buffer(&mut self, ptr: i32, len: i32) -> Result<Buffer, BadRange> {
        let len = len.cast_unsigned() as usize;
        if len <= self.state().profile.options.limits.copy { self.range(ptr, len) } else { Err(BadRange) }
    }

    /// Checks a range of which a call copies no more than it may.
    fn range(&mut self, ptr: i32, len: usize) -> Result<Buffer, BadRange> {
        let start = ptr.cast_unsigned() as usize;
        let within = start.checked_add(len).is_some_and(|end| end <= self.memory().len());
        if within { Ok(Buffer { start, len }) } else { Err(BadRange) }
    }

    /// The bytes of a buffer.
    fn contents(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.memory()[buffer.start..buffer.start + buffer.len]
    }

    /// Checks an address to which `width` bytes may be written.
    fn out(&mut self, ptr: i32, width: usize) -> Result<Out, BadRange> {
        if ptr == 0 {
            return Ok(Out(None));
        }
        self.range(ptr, width).map(|Buffer { start, .. }| Out(Some(start)))
    }

    /// The bytes of a range.
    fn bytes(&mut self, ptr: i32, len: i32) -> Result<&[u8], BadRange> {
        let Buffer { start, len } = self.buffer(ptr, len)?;
        Ok(&self.memory()[start..start + len])
    }

    /// The text of a range, cut after `most` bytes. What is not UTF-8 is replaced.
    fn text(&mut self, ptr: i32, len: i32, most: usize) -> Result<String, BadRange> {
        let bytes = self.bytes(ptr, len)?;
        let bytes = &bytes[..bytes.len().min(most)];
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Copies as much as fits. The memory may have grown since the buffer was checked, and never shrinks.
    fn fill(&mut self, buffer: Buffer, bytes: &[u8]) {
        let len = buffer.len.min(bytes.len());
        self.memory()[buffer.start..buffer.start + len].copy_from_slice(&bytes[..len]);
    }

    /// Writes a result.
    fn put(&mut self, out: Out, bytes: &[u8]) {
        if let Out(Some(start)) = out {
            self.memory()[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl From<BadRange> for Errno {
    fn from(_: BadRange) -> Errno {
        Errno::EFAULT
    }
}

impl Buffer {
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The same buffer without its last byte, if it has one.
    pub(crate) fn shorter(self) -> Option<Buffer> {
        Some(Buffer { len: self.len.checked_sub(1)?, ..self })
    }

    /// The address `at` bytes into it.
    pub(crate) fn at(self, at: usize) -> Out {
        debug_assert!(at < self.len);
        Out(Some(self.start + at))
    }
}

impl Access for Caller<'_, GuestState> {
    fn state(&mut self) -> &mut GuestState {
        self.data_mut()
    }

    fn memory(&mut self) -> &mut [u8] {
        match self.data().memory {
            Some(memory) => memory.data_mut(self),
            None => &mut [],
        }
    }
}
