//! The first fiber of a process; a program of its own, because there is only one.
#![cfg(not(any(loom, shuttle)))]

use std::panic::catch_unwind;

use sinew_fiber::protect;

struct Cleanup;

impl Drop for Cleanup {
    fn drop(&mut self) {
        assert_eq!(protect(|| 1).unwrap(), 1);
    }
}

#[test]
fn the_first_fiber_may_be_made_by_a_destructor_while_the_thread_unwinds() {
    let unwound = catch_unwind(|| {
        let _cleanup = Cleanup;
        panic!("out of here");
    });
    assert!(unwound.is_err());
    let raised = protect(|| -> () { panic!("noted") }).unwrap_err();
    assert!(raised.trace.unwrap().raised_at().contains("first_fiber.rs"), "the hook is there by now");
}
