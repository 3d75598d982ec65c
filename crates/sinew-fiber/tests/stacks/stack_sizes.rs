//! A stack has the size that was asked for, all of it usable, and nonsense is refused.

use sinew_fiber::{Stack, StackError, StackSize};

const STANDARD: [(StackSize, usize); 6] = [
    (StackSize::KiB16, 16 << 10),
    (StackSize::KiB32, 32 << 10),
    (StackSize::KiB64, 64 << 10),
    (StackSize::KiB128, 128 << 10),
    (StackSize::KiB256, 256 << 10),
    (StackSize::MiB1, 1 << 20),
];

fn page() -> usize {
    // SAFETY: sysconf reads no memory of ours.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn fill(stack: &Stack, byte: u8) {
    // SAFETY: the stack owns all bytes from its limit to its top, and nothing runs on it.
    unsafe {
        let bytes = std::slice::from_raw_parts_mut(stack.limit().as_ptr(), stack.size());
        bytes.fill(byte);
        assert!(bytes.iter().all(|found| *found == byte));
    }
}

#[test]
fn standard_sizes_hold_what_they_promise_to_the_last_byte() {
    for (size, bytes) in STANDARD {
        let stack = Stack::take(size).unwrap();
        assert_eq!(size.bytes(), bytes.next_multiple_of(page()));
        assert_eq!(stack.size(), size.bytes());
        assert_eq!(stack.top().addr().get() - stack.limit().addr().get(), stack.size());
        assert_eq!(stack.top().addr().get() % page(), 0);
        fill(&stack, 0xa5);
    }
}

#[test]
fn the_guard_lies_directly_below_and_is_wide_for_large_stacks() {
    for (size, bytes) in STANDARD {
        let stack = Stack::take(size).unwrap();
        assert_eq!(stack.guard().end, stack.limit().addr().get());
        let least = if bytes < 256 << 10 { page() } else { 64 << 10 };
        assert!(stack.guard().len() >= least, "{size:?}: {}", stack.guard().len());
        let stride = stack.size() + stack.guard().len();
        assert_eq!(stride / page() % 2, 1, "{size:?}: stacks an even number of pages apart");
    }
}

#[test]
fn filling_a_stack_leaves_its_neighbours_alone() {
    let stacks: Vec<Stack> = (0..20).map(|_| Stack::take(StackSize::KiB16).unwrap()).collect();
    for (index, stack) in stacks.iter().enumerate() {
        fill(stack, index as u8);
    }
    for (index, stack) in stacks.iter().enumerate() {
        for place in [0, stack.size() / 2, stack.size() - 1] {
            // SAFETY: within the stack, which this test owns.
            assert_eq!(unsafe { stack.limit().add(place).read() }, index as u8);
        }
    }
}

#[test]
fn custom_sizes_are_rounded_up_to_whole_pages() {
    for bytes in [StackSize::LEAST, StackSize::LEAST + 1, 100_000, 3 << 20, StackSize::MOST] {
        let stack = Stack::take(StackSize::Custom(bytes)).unwrap();
        assert_eq!(stack.size(), bytes.next_multiple_of(page()));
        assert_eq!(stack.size(), StackSize::Custom(bytes).bytes());
        // SAFETY: both ends of a stack that this test owns.
        unsafe {
            stack.limit().write(1);
            stack.top().sub(1).write(2);
        }
    }
}

#[test]
fn a_custom_size_equal_to_a_standard_one_shares_its_stacks() {
    let stack = Stack::take(StackSize::Custom(128 << 10)).unwrap();
    let limit = stack.limit();
    drop(stack);
    assert_eq!(Stack::take(StackSize::KiB128).unwrap().limit(), limit);
}

#[test]
fn sizes_out_of_range_are_errors_that_name_the_range() {
    for bytes in [0, 1, StackSize::MOST + 1, usize::MAX] {
        let error = Stack::take(StackSize::Custom(bytes)).unwrap_err();
        assert!(matches!(error, StackError::InvalidSize { least: 16384, most: 1073741824, .. }), "{error:?}");
        assert!(error.to_string().contains("between 16384 and 1073741824"), "{error}");
    }
    assert_eq!(StackSize::default(), StackSize::KiB256);
}
