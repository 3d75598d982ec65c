//! Where the body of a fiber is kept until it runs, and how it is dropped if it never does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sinew_fiber::{Fiber, StackSize, usage};

#[repr(align(65536))]
struct Aligned(());

#[test]
fn a_body_without_a_size_may_be_aligned_to_more_than_a_stack() {
    // Not run: without optimisation, frames that hold one would need more than any of these stacks.
    let unrun: Vec<Fiber> = (0..64)
        .map(|_| {
            let aligned = Aligned(());
            Fiber::builder().stack(StackSize::KiB16).build(move |_| ({ aligned }).0).unwrap()
        })
        .collect();
    for fiber in unrun {
        fiber.end().unwrap();
    }
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

#[test]
fn a_body_that_panics_when_it_is_dropped_unrun_gives_its_stack_back() {
    let stack = StackSize::Custom(48 << 10); // of no other test
    drop(Fiber::builder().stack(stack).build(|_| ()));
    let before = usage().in_use;
    for _ in 0..300 {
        let captured = Panics;
        let body = move |_| drop(captured);
        let fiber = Fiber::builder().stack(stack).build(body).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(fiber))).is_err());
    }
    assert!(
        usage().in_use < before + 150,
        "more than the other tests of this program may have taken meanwhile"
    );
}
