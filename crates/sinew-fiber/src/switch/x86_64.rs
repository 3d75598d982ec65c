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
//! In the middle of a switch the stack is not what the compiler's unwind information says. So every switch notes where its
//! instructions are, in a section of its own, for whoever interrupts a thread and wants to know whether its stack can be
//! walked ([`is_switching`]).
//!
//! The first frame is [`first_frame`]: it has no caller, and says so in its unwind information
//! (`.cfi_undefined rip`), so that backtraces and the search for a handler end there instead of reading
//! past the stack.

use core::arch::{asm, naked_asm};
use core::ptr;

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
            "3:",
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
            "4:",
            ".pushsection sinew_switches, \"aR\", @progbits",
            ".long 3b - .",
            ".long 4b - .",
            ".popsection",
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
/// the compiler of the function that switched takes all others for lost. Before and after the call it is as usual, so that a
/// thread that is interrupted here can be walked.
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
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "mov rbx, rdi",
        ".cfi_remember_state",
        ".cfi_def_cfa rbx, 24",
        ".cfi_offset rip, -24",
        ".cfi_offset rbx, -16",
        ".cfi_offset rbp, -8",
        "mov rdi, rdx",
        "call rsi",
        ".cfi_restore_state", // a walk looks for the information of the call before this
        "pop rbx",
        ".cfi_def_cfa_offset 8",
        ".cfi_restore rbx",
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
            "3:",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "4:",
            ".pushsection sinew_switches, \"aR\", @progbits",
            ".long 3b - .",
            ".long 4b - .",
            ".popsection",
            in("rsi") to,
            options(noreturn),
        );
    }
}

unsafe extern "C" {
    /// The notes of all switches, two offsets each; the linker says where they begin and end.
    #[link_name = "__start_sinew_switches"]
    static NOTES: [i32; 2];
    #[link_name = "__stop_sinew_switches"]
    static NOTES_END: [i32; 2];
}

/// True if the instruction at `address` is in the middle of a switch, so that the stack of a thread that was interrupted
/// there cannot be walked. A signal handler may ask.
///
/// It knows the switches of the program, or shared library, that it is in itself.
pub fn is_switching(address: usize) -> bool {
    // SAFETY: it emits no instruction, only a note of nothing, without which a program that never switches has no notes.
    unsafe {
        asm!(
            ".pushsection sinew_switches, \"aR\", @progbits",
            ".long 0",
            ".long 0",
            ".popsection",
            options(nomem, nostack, preserves_flags),
        );
    }
    let (mut note, end) = (&raw const NOTES, &raw const NOTES_END);
    while note < end {
        let start = note.cast::<i32>();
        // SAFETY: the section consists of whole notes, which the linker puts side by side, and is never written.
        let [first, last] = unsafe { ptr::read(note) };
        let from = start.addr().wrapping_add_signed(first as isize);
        let to = start.addr().wrapping_add_signed(4 + last as isize);
        if first != 0 && (from..to).contains(&address) {
            return true;
        }
        note = note.wrapping_add(1);
    }
    false
}
