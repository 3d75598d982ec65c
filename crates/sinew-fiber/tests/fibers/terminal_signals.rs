//! How a fiber ends when its stack is unwound.

use std::panic::{catch_unwind, resume_unwind};

use sinew_fiber::{Fiber, Mask, Raised, Signal, Status, Value, error, protect, yield_};

fn forged(signal: Signal) -> ! {
    resume_unwind(Box::new(Raised { signal, value: Value::new("forged"), trace: None }))
}

#[test]
fn a_fiber_that_unwound_has_ended_whatever_the_payload_says() {
    for signal in Signal::ALL {
        let fiber = Fiber::builder()
            .mask(Mask::ALL)
            .build(move |_| {
                yield_(()).unwrap();
                forged(signal)
            })
            .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        let ended = fiber.resume(()).unwrap();
        assert_eq!(ended, if signal.is_terminal() { signal } else { Signal::Error });
        assert_eq!(fiber.take_value().downcast::<&str>().unwrap(), "forged");
        assert!(fiber.resume(()).is_err());
    }
}

#[test]
fn a_raised_that_was_caught_and_changed_ends_the_fiber_all_the_same() {
    let raised: Result<(), _> = protect(|| {
        let mut payload = catch_unwind(|| error("first")).unwrap_err().downcast::<Raised>().unwrap();
        payload.signal = Signal::Await;
        resume_unwind(payload)
    });
    assert_eq!(raised.unwrap_err().signal, Signal::Error);

    let fiber = Fiber::builder().mask(Mask::ALL).build(|_| forged(Signal::Yield)).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    assert_eq!(fiber.status(), Status::Error);
}
