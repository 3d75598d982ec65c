//! A stack that is being unwound is never suspended; what a destructor resumes may stop for it.
#![cfg(not(any(loom, shuttle)))]

mod drop_support;
mod stack_support;

use std::os::unix::process::ExitStatusExt;

use drop_support::OnDrop;
use sinew_fiber::{Fiber, Mask, error};
use stack_support::run_in_child;

#[test]
fn a_panic_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so() {
    const TEST: &str = "a_panic_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so";
    let output = run_in_child(TEST, || {
        let fiber = Fiber::builder().name("unlucky").mask(Mask::ALL).build(|_| {
            let _guard = OnDrop(|| panic!("the second one"));
            panic!("the first one");
        });
        let _ = fiber.unwrap().resume(());
        unreachable!("the process has aborted");
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("the second one"), "{stderr}");
    assert!(stderr.contains("panic in a destructor during cleanup"), "{stderr}");
    assert!(stderr.contains("unlucky#"), "{stderr}");
    assert!(!stderr.contains("the process has aborted"), "{stderr}");
}

#[test]
fn a_signal_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so() {
    const TEST: &str = "a_signal_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so";
    let output = run_in_child(TEST, || {
        let fiber = Fiber::builder().mask(Mask::ALL).build(|_| {
            let _guard = OnDrop(|| error("from a destructor"));
            error("first");
        });
        let _ = fiber.unwrap().resume(());
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("panic in a destructor during cleanup"), "{stderr}");
}
