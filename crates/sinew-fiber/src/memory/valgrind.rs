//! What valgrind has to be told about stacks, in builds for it (`--cfg valgrind`) and in no others.
//!
//! Memcheck follows the stack pointer: what it passes on its way down is new and undefined, what it leaves
//! on its way up is dead. It takes the switch to another stack for such a move, and so for the birth or
//! death of everything between the two, unless it knows the stacks. And it cannot know that a stack was
//! given back, because the memory stays mapped. So it is told three things:
//!
//! - a stack lies here: once for each slot, when it is used for the first time. Slabs are never unmapped, so
//!   nothing is ever taken back;
//! - a stack is taken: whatever an earlier owner left in it counts for nothing;
//! - a stack is given back: nobody may touch it until it is taken again.
//!
//! All three change what valgrind thinks of the memory, and not the memory. Outside of valgrind they do
//! nothing.

use std::arch::asm;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// `VG_USERREQ__STACK_REGISTER`.
const STACK_REGISTER: usize = 0x1501;

/// The requests of the tool memcheck, which other tools ignore.
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
const MAKE_MEM_NOACCESS: usize = MEMCHECK;
const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;

/// Says that the range is a stack.
pub(super) fn register(stack: Range<usize>) {
    // The request names the last byte, not the one past it.
    // SAFETY: valgrind changes its own records and no memory.
    unsafe { request([STACK_REGISTER, stack.start, stack.end - 1, 0, 0, 0]) };
}

/// Says that the stack has a new owner, who has written nothing to it yet.
pub(super) fn taken(stack: &Range<usize>) {
    // SAFETY: valgrind changes its own records and no memory.
    unsafe { request([MAKE_MEM_UNDEFINED, stack.start, stack.len(), 0, 0, 0]) };
}

/// Says that the stack has no owner.
pub(super) fn given_back(stack: &Range<usize>) {
    // SAFETY: valgrind changes its own records and no memory.
    unsafe { request([MAKE_MEM_NOACCESS, stack.start, stack.len(), 0, 0, 0]) };
}

/// A client request, as valgrind documents it for x86_64: four rotations that together change nothing, and
/// an exchange of a register with itself. No compiler emits these, so valgrind knows them for its own. The
/// answer is zero outside of valgrind.
///
/// # Safety
///
/// The request writes to no memory, or only to what the caller lends it.
unsafe fn request(words: [usize; 6]) -> usize {
    let mut answer = 0;
    // SAFETY: to a processor the instructions change nothing but flags, which are not declared as kept: rdi
    // is rotated by 128 bits in all. Valgrind reads the six words, which live until the end of the block,
    // and answers in rdx; what else it does is the caller's promise.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}
