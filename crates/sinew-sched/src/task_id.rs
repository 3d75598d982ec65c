//! The ids of tasks: the number of a slot and a generation. `slots.rs` has what they mean.

use std::fmt;

/// Bits of a slot's number.
pub(crate) const INDEX_BITS: u32 = 28;

/// The number of a task: unique among all that this process ever had, until one slot has been used 2^32 times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    pub(crate) fn new(index: u32, generation: u32) -> TaskId {
        TaskId(u64::from(generation) << INDEX_BITS | u64::from(index))
    }

    /// The id as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    pub(crate) fn from_u64(id: u64) -> TaskId {
        TaskId(id)
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }

    /// Another task of the same slot.
    pub(crate) fn with_generation(self, generation: u32) -> TaskId {
        TaskId::new(self.index() as u32, generation)
    }

    /// The number of the slot.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0 as usize & ((1 << INDEX_BITS) - 1)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}
