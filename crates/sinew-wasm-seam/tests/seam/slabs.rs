//! wasmtime's stacks and linear memories, from the slabs of sinew-fiber.
//!
//! Both are owned by whoever wasmtime gives them to, and go back when that drops them. What is out is counted, so
//! that tests see that nothing else was used and that everything came back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sinew_fiber::{Memory, Stack, StackSize};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType, StackCreator, StackMemory};

/// How many there have been, and how many have been given back.
#[derive(Debug, Default)]
pub(crate) struct Count {
    taken: AtomicUsize,
    returned: AtomicUsize,
}

impl Count {
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    pub(crate) fn out(&self) -> usize {
        self.taken() - self.returned.load(Ordering::Acquire)
    }

    fn take(self: &Arc<Count>) -> Taken {
        self.taken.fetch_add(1, Ordering::AcqRel);
        Taken(self.clone())
    }
}

/// One of a [`Count`].
struct Taken(Arc<Count>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.returned.fetch_add(1, Ordering::AcqRel);
    }
}

/// Stacks for guests.
#[derive(Default)]
pub(crate) struct Stacks(pub(crate) Arc<Count>);

/// The slot goes back before it is counted as returned: fields are dropped in this order.
struct GuestStack {
    stack: Stack,
    _taken: Taken,
}

// SAFETY: each stack is a slot of its own, page aligned, at least as large as was asked for, with a guard below.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        if zeroed {
            wasmtime::bail!("stacks are used again as they are: leave `Config::async_stack_zeroing` off");
        }
        let stack = Stack::take(StackSize::Custom(size))?;
        assert!(stack.size() >= size, "a guest's depth is checked against {size}");
        Ok(Box::new(GuestStack { stack, _taken: self.0.take() }))
    }
}

// SAFETY: the range is the slot that `stack` owns, whole pages; the guard lies below it.
unsafe impl StackMemory for GuestStack {
    fn top(&self) -> *mut u8 {
        self.stack.top().as_ptr()
    }

    fn range(&self) -> Range<usize> {
        self.stack.limit().addr().get()..self.stack.top().addr().get()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let (limit, guard) = (self.stack.limit().as_ptr(), self.stack.guard());
        limit.with_addr(guard.start)..limit.with_addr(guard.end)
    }
}

/// Linear memories for guests, each with room to grow to `capacity` bytes if it has no guard.
pub(crate) struct Memories {
    pub(crate) capacity: usize,
    pub(crate) count: Arc<Count>,
}

struct GuestMemory {
    memory: Memory,
    size: usize,
    capacity: usize,
    _taken: Taken,
}

// SAFETY: each memory is a slot of its own, zeroed when taken. Code of guests that relies on unmapped pages gets them:
// below a reservation there would have to be some, so reservations are refused; behind the memory there are, since a
// guarded slot is exactly as large as its memory and does not grow.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if let Some(bytes) = reserved.filter(|bytes| *bytes > 0) {
            return Err(format!(
                "a reservation of {bytes} bytes would be accessible to its end: set `Config::memory_reservation(0)`"
            ));
        }
        let capacity = if guard > 0 { minimum } else { self.capacity };
        if minimum > capacity {
            return Err(format!("a memory of {minimum} bytes does not fit into a slot of {capacity}"));
        }
        let memory = Memory::take(capacity.max(1), guard).map_err(|error| error.to_string())?;
        Ok(Box::new(GuestMemory { memory, size: minimum, capacity, _taken: self.count.take() }))
    }
}

// SAFETY: the first `size` bytes of the slot are the memory, and the slot has at least `capacity`; it never moves.
unsafe impl LinearMemory for GuestMemory {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.capacity
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        if size > self.capacity {
            wasmtime::bail!("a memory of {size} bytes does not fit into a slot of {}", self.capacity);
        }
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.memory.start().as_ptr()
    }
}
