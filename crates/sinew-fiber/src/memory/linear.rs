//! Linear memories: the same slots as stacks, with the guard above and empty when taken.
//!
//! A pool of such a shape holds zeroed slots only: a new one is zero because the system's pages are, and a
//! drop clears the slot while it is still its own, before the pool has it. The passing of slots is the
//! pool's, and its model `pool_take_give_trim` covers it.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use super::error::StackError;
use super::registry::{self, Store};
use super::slab::{Shape, Slot};

/// A range of zeroed memory with a guard above it, from the same slabs as stacks.
///
/// It serves the linear memories of WASM instances: many, of few sizes, each zero at first. Nothing of it is
/// backed until it is touched. Dropping it gives its pages back to the system at once, and so the next owner
/// finds zeros. Each pair of size and guard has slabs of its own, which are never unmapped: use a few pairs.
///
/// ```
/// let memory = sinew_fiber::Memory::take(256 << 10, 0)?;
/// assert_eq!(memory.size(), 256 << 10);
/// // SAFETY: the first byte is within the memory, which nobody else has.
/// unsafe { assert_eq!(memory.start().read(), 0) };
/// # Ok::<(), sinew_fiber::StackError>(())
/// ```
#[must_use = "a memory that is not used goes straight back"]
pub struct Memory {
    slot: ManuallyDrop<Slot>,
    store: &'static Store,
}

impl Memory {
    /// The largest memory, and the largest guard, in bytes.
    pub const MOST: usize = 64 << 30;

    /// Takes a memory of `size` bytes and a guard of at least `guard` bytes above it, both rounded up to
    /// whole pages. Without a guard (zero) the memory above belongs to somebody else, and whoever indexes
    /// this one has to check its bounds; with one, every page of it takes an entry in the page tables.
    ///
    /// # Errors
    ///
    /// [`StackError::InvalidSize`] for a size of zero, or a size or guard above [`Memory::MOST`];
    /// [`StackError::OutOfMemory`] and [`StackError::MapLimit`] when the system grants no more.
    pub fn take(size: usize, guard: usize) -> Result<Memory, StackError> {
        for (bytes, least) in [(size, 1), (guard, 0)] {
            if !(least..=Memory::MOST).contains(&bytes) {
                return Err(StackError::InvalidSize { bytes, least, most: Memory::MOST });
            }
        }
        let store = registry::of_shape(Shape::memory(size, guard));
        Ok(Memory { slot: ManuallyDrop::new(store.pool.take()?), store })
    }

    /// The first byte; page aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.slot.start()
    }

    /// Bytes: what was asked for, rounded up to whole pages.
    pub fn size(&self) -> usize {
        self.store.shape().usable()
    }

    /// Addresses of the guard: whoever touches them dies of SIGSEGV. Empty when there is none.
    pub fn guard(&self) -> Range<usize> {
        self.store.shape().guard_of(&self.slot)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: drop runs once, and nothing reads the slot after it.
        let slot = unsafe { ManuallyDrop::take(&mut self.slot) };
        self.store.pool.backing().clear(&slot);
        self.store.pool.give_cold(slot);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memory").field("start", &self.start()).field("size", &self.size()).finish()
    }
}
