//! What valgrind thinks of a stack, asked of valgrind itself. Outside of it these tests fail: a build for
//! valgrind that runs without it proves nothing.

use super::super::{Stack, StackSize};
use super::*;

/// `VG_USERREQ__GET_VBITS`: for each byte, which of its bits are undefined.
const GET_VBITS: usize = MEMCHECK + 8;

#[derive(Debug, PartialEq, Eq)]
enum Byte {
    Defined,
    Undefined,
    OutOfBounds,
}

fn byte(address: usize) -> Byte {
    let mut undefined = 0u8;
    let into = (&raw mut undefined).expose_provenance();
    // SAFETY: valgrind writes one byte, to a live variable.
    match unsafe { request([GET_VBITS, address, into, 1, 0, 0]) } {
        0 => panic!("this is not valgrind's memcheck"),
        3 => Byte::OutOfBounds,
        _ if undefined == 0 => Byte::Defined,
        _ => Byte::Undefined,
    }
}

#[test]
fn a_stack_is_undefined_when_it_is_taken_and_out_of_bounds_when_it_was_given_back() {
    for size in [StackSize::KiB16, StackSize::Custom(48 << 10)] {
        for _ in 0..2 {
            let stack = Stack::take(size).unwrap();
            let (low, high) = (stack.limit(), stack.limit().addr().get() + stack.size() - 1);
            assert_eq!((byte(low.addr().get()), byte(high)), (Byte::Undefined, Byte::Undefined));
            // SAFETY: the first byte of a stack that this test owns.
            unsafe { low.write_volatile(1) };
            assert_eq!(byte(low.addr().get()), Byte::Defined);
            drop(stack);
            assert_eq!((byte(low.addr().get()), byte(high)), (Byte::OutOfBounds, Byte::OutOfBounds));
        }
    }
}
