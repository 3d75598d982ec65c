//! Channels and selects among code that does what it should not, or at the wrong moment.

use sinew_fiber::{Fiber, Mask, Signal, control};
use sinew_sched::{Runtime, chan, spawn};

/// A fiber is interrupted when it is about to wait; whoever handles that does what it waits for, and waits for something itself.
#[test]
fn a_wait_that_is_interrupted_looks_again_before_it_waits() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let task = runtime.spawn(|| {
        let (sender, receiver) = chan::bounded(1);
        let waits = Fiber::builder().mask(Mask::INTERRUPT).build(move |_| {
            control().interrupt();
            receiver.recv().unwrap()
        });
        let waits = waits.unwrap();
        assert_eq!(waits.resume(()).unwrap(), Signal::Interrupt);
        sender.send(7).unwrap();
        spawn(|| ()).join().unwrap();
        assert_eq!(waits.resume(()).unwrap(), Signal::Ok);
        waits.take_value().downcast::<i32>().unwrap()
    });
    runtime.run_until_idle();
    assert!(task.is_finished(), "it was told, and waits");
    assert_eq!(task.join().unwrap(), 7);
}
