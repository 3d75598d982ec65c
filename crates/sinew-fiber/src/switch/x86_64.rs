//! The switch for x86_64 with the System V calling convention.
//!
//! A suspended stack looks so, from its stack pointer upwards:
//!
//! ```text
//! sp + 0   the address to jump to
//! sp + 8   rbx     } only on a stack that ran before: the two registers
//! sp + 16  rbp     } that inline assembly cannot declare as clobbered
//! ```
//!
//! All other registers are declared as clobbered, so the compiler keeps what is live across a switch in
//! the frame of the function that switches, and nothing else is saved. The floating-point control words
//! belong to the thread and are not switched.
//!
//! Shadow stacks (CET) know nothing of other stacks, so a process that has them on cannot switch; Rust does not
//! turn them on. Valgrind takes a switch for a very large frame, unless it is told where stacks lie, as builds with
//! `--cfg valgrind` do (`memory/valgrind.rs`).
//!
//! The first frame is [`first_frame`]: it has no caller, and says so in its unwind information
//! (`.cfi_undefined rip`), so that backtraces and the search for a handler end there instead of reading
//! past the stack.

use core::arch::{asm, naked_asm};

use super::{Entry, StackPointer};

/// Lays out the first frame of a stack that ends at `top`, so that switching to it calls `entry(argument)`.
///
/// # Safety
///
/// `top` must be 16-byte aligned, with at least 64 bytes below it that are writable and belong to the new
/// stack alone.
pub unsafe fn prepare(top: *mut u8, entry: Entry, argument: *mut ()) -> StackPointer {
    // SAFETY: the three words lie within the 64 bytes below `top` that the caller vouches for, and are
    // aligned because `top` is. After its two pops `first_frame` calls with the stack pointer at
    // `top - 16`, which is aligned as the calling convention demands.
    unsafe {
        let sp = top.cast::<usize>().sub(5);
        sp.write(first_frame as *const () as usize);
        sp.add(1).write(argument as usize);
        sp.add(2).write(entry as *const () as usize);
        sp.cast()
    }
}

/// Calls the entry function with its argument; both are on top of the stack.
#[unsafe(naked)]
unsafe extern "C" fn first_frame() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "pop rdi",
        "pop rax",
        "xor ebp, ebp",
        "call rax",
        "ud2",
        ".cfi_endproc",
    )
}

/// Saves where the running stack goes on in `*save` and goes on with `to`. Returns when somebody
/// switches to what was saved.
///
/// # Safety
///
/// `to` must be the saved pointer of a stack that is suspended (or freshly prepared) and is used by
/// nobody else; `save` must be valid for a write and stay so until the other side has read it. The
/// memory of both stacks must outlive their suspension.
#[inline(always)]
pub unsafe fn switch(save: *mut StackPointer, to: StackPointer) {
    // SAFETY: the assembly pushes only below the running stack pointer (the compiler keeps no red zone
    // around assembly that may use the stack) and is popped in the same order after label 2, with the
    // stack pointer as it was. Every register but rbx, rbp and rsp is declared as clobbered; rbx and rbp
    // are saved and restored here. The rest is the caller's promise.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") to => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
}

/// Calls `look(argument)` on the running stack, and lets whoever walks the frames up from there go on in those of the
/// stack that is suspended at `sp`, as if that had made the call.
///
/// The unwind information says so: the caller's frame is where [`switch`] left it, with the two registers that it saved;
/// the compiler of the function that switched takes all others for lost.
///
/// # Safety
///
/// `sp` is the saved pointer of a stack that is suspended in [`switch`] and stays so during the call. `look` only reads
/// what it finds; it must not unwind, since that would go on on the other stack.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_above(
    sp: StackPointer,
    look: extern "C" fn(*mut ()),
    argument: *mut (),
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        "mov rbx, rdi",
        ".cfi_def_cfa rbx, 24",
        ".cfi_offset rip, -24",
        ".cfi_offset rbx, -16",
        ".cfi_offset rbp, -8",
        "mov rdi, rdx",
        "call rsi",
        "pop rbx",
        "ret",
        ".cfi_endproc",
    )
}

/// Goes on with `to` and never comes back to the running stack.
///
/// # Safety
///
/// As for [`switch`]; and nothing on the running stack may be needed again.
#[inline(always)]
pub(crate) unsafe fn leave(to: StackPointer) -> ! {
    // SAFETY: nothing after the jump runs on this stack; the rest is the caller's promise.
    unsafe {
        asm!(
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            in("rsi") to,
            options(noreturn),
        );
    }
}
