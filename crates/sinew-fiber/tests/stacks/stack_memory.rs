//! Linear memories come from the same slabs as stacks, and no owner sees what an earlier one wrote.

use sinew_fiber::{Memory, StackError};

fn bytes(memory: &mut Memory) -> &mut [u8] {
    // SAFETY: the memory owns its bytes, which are initialised (to zero by the system), and the reference
    // lives no longer than the borrow.
    unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.size()) }
}

#[test]
fn a_memory_is_zero_again_when_it_is_taken_again() {
    for guard in [0, 64 << 10] {
        let mut memory = Memory::take(192 << 10, guard).unwrap();
        let start = memory.start();
        bytes(&mut memory).fill(0xff);
        drop(memory);
        let mut again = Memory::take(192 << 10, guard).unwrap();
        assert_eq!(again.start(), start, "the newest first");
        assert!(bytes(&mut again).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn memories_of_one_size_do_not_overlap() {
    let mut memories: Vec<Memory> = (0..50).map(|_| Memory::take(128 << 10, 0).unwrap()).collect();
    for (index, memory) in memories.iter_mut().enumerate() {
        bytes(memory).fill(index as u8);
    }
    for (index, memory) in memories.iter_mut().enumerate() {
        assert!(bytes(memory).iter().all(|byte| *byte == index as u8));
    }
}

#[test]
fn a_memory_has_the_size_and_the_guard_that_were_asked_for() {
    let memory = Memory::take(100_000, 10_000).unwrap();
    assert_eq!(memory.size(), 100_000usize.next_multiple_of(4096));
    assert!(memory.guard().len() >= 10_000);
    assert_eq!(memory.guard().start, memory.start().addr().get() + memory.size());
    assert!(Memory::take(100_000, 0).unwrap().guard().is_empty());
}

#[test]
fn memories_without_size_or_beyond_the_largest_are_errors() {
    for (size, guard) in [(0, 0), (Memory::MOST + 1, 0), (4096, usize::MAX)] {
        let error = Memory::take(size, guard).unwrap_err();
        assert!(matches!(error, StackError::InvalidSize { most: Memory::MOST, .. }), "{error:?}");
    }
}
