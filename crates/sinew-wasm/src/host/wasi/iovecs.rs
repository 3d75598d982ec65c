//! Lists of buffers: what is read is scattered over them, what is written is gathered from them.

use sinew_core::Errno;

use super::{Guest, Outcome};
use crate::host::access::{Access, Buffer};

/// The buffers of one call at most, as on Linux.
const MOST_BUFFERS: usize = 1024;

/// The bytes of an entry: an address and a length.
const ENTRY: usize = 8;

/// The buffers of a read or write, which are in the guest's memory.
pub(super) struct Iovecs {
    buffers: Vec<Buffer>,
    /// The bytes that the call may copy.
    len: usize,
}

impl Iovecs {
    /// Reads a list, and checks each of its buffers.
    ///
    /// `EINVAL` for more than 1,024 buffers, `EFAULT` if the list or a buffer is not in the guest's memory.
    pub(super) fn check(caller: &mut Guest<'_>, list: i32, count: i32) -> Outcome<Iovecs> {
        let count = count.cast_unsigned() as usize;
        if count > MOST_BUFFERS {
            return Err(Errno::EINVAL);
        }
        let list = caller.range(list, count * ENTRY)?;
        let entries: Vec<(i32, u32)> = caller
            .contents(list)
            .chunks_exact(ENTRY)
            .map(|entry| {
                let word = |at: usize| [entry[at], entry[at + 1], entry[at + 2], entry[at + 3]];
                (i32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)))
            })
            .collect();
        let (mut buffers, mut sum) = (Vec::with_capacity(count), 0_usize);
        for (start, len) in entries {
            let buffer = caller.range(start, len as usize)?;
            sum = sum.saturating_add(buffer.len());
            buffers.push(buffer);
        }
        Ok(Iovecs { buffers, len: sum.min(caller.state().profile.options.limits.copy) })
    }

    /// Returns the bytes that the call copies at most: those of all buffers, or as many as one call may copy.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first bytes of the buffers, at most `most`.
    pub(super) fn gather(&self, caller: &mut Guest<'_>, most: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.min(most));
        for buffer in &self.buffers {
            let room = self.len.min(most) - bytes.len();
            let contents = caller.contents(*buffer);
            bytes.extend_from_slice(&contents[..contents.len().min(room)]);
        }
        bytes
    }

    /// Fills the buffers in their order.
    pub(super) fn scatter(&self, caller: &mut Guest<'_>, mut bytes: &[u8]) {
        for buffer in &self.buffers {
            let (now, later) = bytes.split_at(bytes.len().min(buffer.len()));
            caller.fill(*buffer, now);
            bytes = later;
        }
    }
}
