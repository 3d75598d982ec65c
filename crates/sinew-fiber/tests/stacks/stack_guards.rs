//! Whoever runs off a stack or a memory dies at once, and does not write to a neighbour.

use std::os::unix::process::ExitStatusExt;
use std::ptr;

use sinew_fiber::{GuardKind, Memory, Stack, StackSize, usage};

use crate::stack_support::run_in_child;

fn touch(address: usize) {
    // SAFETY: the process is meant to die of this; it holds nothing that anybody needs.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

/// Runs `body` in a child, which has to reach its end of preparations and then die of SIGSEGV.
fn assert_faults(test: &str, body: fn()) {
    let output = run_in_child(module_path!(), test, body);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}: {stderr}", output.status);
    assert!(stderr.contains("about to touch the guard"), "{stderr}");
}

fn touch_guard(address: usize) {
    eprintln!("about to touch the guard");
    touch(address);
}

#[test]
fn the_byte_below_a_small_stack_faults() {
    assert_faults("the_byte_below_a_small_stack_faults", || {
        touch_guard(Stack::take(StackSize::KiB16).unwrap().guard().end - 1);
    });
}

#[test]
fn a_frame_that_skips_sixty_kibibytes_below_a_large_stack_faults() {
    assert_faults("a_frame_that_skips_sixty_kibibytes_below_a_large_stack_faults", || {
        let stack = Stack::take(StackSize::KiB256).unwrap();
        touch_guard(stack.limit().addr().get() - (60 << 10));
    });
}

#[test]
fn running_over_the_top_of_a_stack_faults_in_the_guard_of_the_next() {
    assert_faults("running_over_the_top_of_a_stack_faults_in_the_guard_of_the_next", || {
        let (lower, upper) = (Stack::take(StackSize::KiB64).unwrap(), Stack::take(StackSize::KiB64).unwrap());
        assert_eq!(lower.top().addr().get(), upper.guard().start);
        touch_guard(lower.top().addr().get());
    });
}

#[test]
fn a_guard_survives_that_its_stack_was_decommitted_and_taken_again() {
    assert_faults("a_guard_survives_that_its_stack_was_decommitted_and_taken_again", || {
        let stack = Stack::take(StackSize::KiB16).unwrap();
        let guard = stack.guard();
        touch(stack.limit().addr().get());
        // SAFETY: nothing runs on the stack.
        unsafe { stack.decommit_below(stack.top().as_ptr()) };
        drop(stack);
        sinew_fiber::trim();
        assert_eq!(Stack::take(StackSize::KiB16).unwrap().guard(), guard);
        touch_guard(guard.start);
    });
}

#[test]
fn the_byte_above_a_memory_with_a_guard_faults() {
    assert_faults("the_byte_above_a_memory_with_a_guard_faults", || {
        let memory = Memory::take(64 << 10, 1).unwrap();
        assert_eq!(memory.guard().start, memory.start().addr().get() + memory.size());
        touch(memory.guard().start - 1);
        touch_guard(memory.guard().start);
    });
}

/// The kernel refuses guard markers on locked memory; stacks are then guarded by `mprotect`.
#[test]
fn locked_memory_gets_guards_of_the_other_kind_and_they_fault_too() {
    assert_faults("locked_memory_gets_guards_of_the_other_kind_and_they_fault_too", || {
        const MCL_ONFAULT: libc::c_int = 4;
        let before = Stack::take(StackSize::KiB64).unwrap();
        let kind_before = usage().guards;
        // SAFETY: locking moves no memory.
        let locked = unsafe { libc::mlockall(libc::MCL_FUTURE | MCL_ONFAULT) };
        assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());

        let stacks: Vec<Stack> = (0..40).map(|_| Stack::take(StackSize::KiB16).unwrap()).collect();
        assert_eq!(usage().guards, GuardKind::Protected, "was {kind_before:?}");
        for stack in &stacks {
            // SAFETY: both ends of a stack that this test owns.
            unsafe {
                stack.limit().write(1);
                stack.top().sub(1).write(1);
            }
            assert_eq!(stack.high_water(), stack.size());
        }
        // SAFETY: nothing runs on the stack.
        unsafe { stacks[0].decommit_below(stacks[0].top().as_ptr()) };
        assert_eq!(stacks[0].high_water(), 0, "locked memory can be given back as well");
        drop(before);
        touch_guard(stacks[1].guard().end - 1);
    });
}
