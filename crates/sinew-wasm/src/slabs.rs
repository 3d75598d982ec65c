//! Stacks and linear memories of guests, from the slabs of sinew-fiber.
//!
//! One mapping holds many of them, so hundreds of thousands of guests fit under the system's limit of
//! mappings. Both belong to the store that wasmtime gives them to, and go back when it is dropped.
//!
//! A memory starts in a small slot and moves to a larger one when it grows past it: dense slots share
//! the pages of the page tables. The code of guests compares every address with the size of their
//! memory, because a slot can be accessed to its end: the engine must not reserve more than that
//! (`memory_reservation(0)`), and has to expect that a memory moves.

use std::ops::Range;

use sinew_fiber::{Memory, Stack, StackSize};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType, StackCreator, StackMemory};

/// The smallest slot of a memory; each next one is four times as large.
const SMALLEST_SLOT: usize = 256 << 10;
const SLOT_FACTOR: usize = 4;

/// The largest memory that wasm32 can have.
const LARGEST: usize = 4 << 30;

/// Makes the stacks of guests.
pub(crate) struct Stacks;

struct GuestStack(Stack);

// SAFETY: each stack is a slot of its own, page aligned, at least as large as was asked for, with a
// guard below it.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        if zeroed {
            wasmtime::bail!("stacks are reused as they are: `async_stack_zeroing` must be off");
        }
        let stack = Stack::take(StackSize::Custom(size))?;
        assert!(stack.size() >= size, "the depth of a guest is checked against {size}");
        Ok(Box::new(GuestStack(stack)))
    }
}

// SAFETY: the range is the slot that the stack owns, whole pages; the guard lies below it.
unsafe impl StackMemory for GuestStack {
    fn top(&self) -> *mut u8 {
        self.0.top().as_ptr()
    }

    fn range(&self) -> Range<usize> {
        self.0.limit().addr().get()..self.0.top().addr().get()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let (limit, guard) = (self.0.limit().as_ptr(), self.0.guard());
        limit.with_addr(guard.start)..limit.with_addr(guard.end)
    }
}

/// Makes the linear memories of guests.
pub(crate) struct Memories;

struct GuestMemory {
    slot: Memory,
    size: usize,
}

/// The size of the slot for a memory of `bytes`.
fn slot_size(bytes: usize) -> Option<usize> {
    let mut size = SMALLEST_SLOT;
    while size < bytes {
        size *= SLOT_FACTOR;
    }
    (bytes <= LARGEST).then_some(size.min(LARGEST))
}

fn take(bytes: usize) -> Result<Memory, String> {
    let slot = slot_size(bytes).ok_or_else(|| format!("no memory has {bytes} bytes"))?;
    Memory::take(slot, 0).map_err(|error| error.to_string())
}

// SAFETY: each memory is a slot of its own, zeroed when it is taken. Reservations and guards, behind
// which the code of guests expects pages that fault, are refused.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if reserved.is_some_and(|bytes| bytes > 0) || guard > 0 {
            return Err("memories of guests have no reservation and no guard".to_owned());
        }
        Ok(Box::new(GuestMemory { slot: take(minimum)?, size: minimum }))
    }
}

// SAFETY: the first `size` bytes of the slot are the memory, and belong to nobody else. It moves in
// `grow_to` only, after which the engine asks for the address again.
unsafe impl LinearMemory for GuestMemory {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.slot.size()
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        if size > self.slot.size() {
            let larger = take(size).map_err(wasmtime::Error::msg)?;
            // SAFETY: both slots have at least the old size, and are different ones; nobody else
            // uses the memory while the engine has it grow.
            unsafe { larger.start().copy_from_nonoverlapping(self.slot.start(), self.size) };
            self.slot = larger;
        }
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.slot.start().as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_small_for_small_memories_and_never_larger_than_wasm32_can_use() {
        assert_eq!(slot_size(0), Some(SMALLEST_SLOT));
        assert_eq!(slot_size(SMALLEST_SLOT), Some(SMALLEST_SLOT));
        assert_eq!(slot_size(SMALLEST_SLOT + 1), Some(SMALLEST_SLOT * SLOT_FACTOR));
        assert_eq!(slot_size(LARGEST), Some(LARGEST));
        assert_eq!(slot_size(LARGEST + 1), None);
    }
}
