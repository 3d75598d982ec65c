//! I/O errors of calls that were cancelled, as the code that made the call and the one that resumed
//! it see them.

use std::io;

use sinew_fiber::{
    Cancelled, Fiber, IoErrorExt, Mask, Reason, Root, Signal, await_, control, run_as_root, yield_,
};

/// A call as a scheduler makes it: waits, and returns what was refused as an I/O error.
fn call() -> io::Result<()> {
    await_(()).map(drop).map_err(io::Error::other)
}

#[test]
fn a_wait_that_is_refused_in_a_cancelled_task_is_a_cancelled_io_error() {
    let mut root = Root::new("task", Mask::NONE);
    run_as_root(&mut root, None, || {
        control().cancel();
        assert!(call().unwrap_err().is_cancelled());
    })
    .unwrap();
}

#[test]
fn a_wait_that_is_refused_for_another_reason_is_a_failed_io_error() {
    let refused = sinew_fiber::raw::polling(|| await_(()).unwrap_err());
    assert_eq!(refused.reason(), Reason::InsidePoll);
    assert!(!io::Error::other(refused).is_cancelled());
}

/// A scheduler reports failures of its tasks, and no cancellations.
#[test]
fn a_body_that_hands_a_cancelled_io_error_on_is_cancelled_and_has_not_failed() {
    let ended_with = |error: fn() -> io::Error| {
        let fiber = Fiber::builder().mask(Mask::ERROR).build(move |_| Err::<(), _>(error())).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        fiber.take_raised()
    };
    assert!(ended_with(|| io::Error::other(Cancelled)).is_cancelled());
    assert!(!ended_with(|| io::Error::other("disk on fire")).is_cancelled());

    let fiber = Fiber::new(|_| sinew_fiber::shield(|| yield_(()).map(drop).map_err(io::Error::other)));
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
}
