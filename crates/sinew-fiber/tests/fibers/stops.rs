//! What a resumer gets from a fiber that stopped, and what a fiber gets from its resumer: signals
//! with typed values.

use std::sync::Arc;

use sinew_fiber::{Error, Fiber, Mask, Reason, Signal, Status, Value, error, protect, yield_, yield_as};

use crate::support::{EVERYTHING, last_text, taken};

/// A fiber that adds up what it is resumed with, and returns the sum once that is 10.
fn adder() -> Fiber {
    let options = Fiber::builder().name("adder").mask(EVERYTHING);
    let fiber = options.build(|first| {
        let mut sum = first.downcast::<u64>()?;
        while sum < 10 {
            sum += yield_as::<u64>(sum)?;
        }
        Ok::<_, Error>((sum, "done"))
    });
    fiber.unwrap()
}

#[test]
fn a_resume_returns_the_signal_and_the_value_whatever_the_signal() {
    let fiber = adder();
    assert_eq!(fiber.resume(1u64).unwrap().get::<u64>().unwrap(), 1);
    let stop = fiber.resume(4u64).unwrap();
    assert!(stop == Signal::Yield && stop != Signal::Ok);
    assert_eq!((stop.signal(), stop.get::<u64>().unwrap()), (Signal::Yield, 5));
    let stop = fiber.resume(5u64).unwrap();
    assert_eq!(stop, Signal::Ok);
    assert_eq!(stop.get::<(u64, &str)>().unwrap(), (10, "done"));
    assert_eq!(fiber.status(), Status::Dead);
}

#[test]
fn a_cancel_returns_the_signal_and_the_value_as_well() {
    let fiber = Fiber::new(|_| {
        let cancelled = protect(|| yield_("working")).is_err();
        yield_(cancelled).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap().get::<&str>().unwrap(), "working");
    let stop = fiber.cancel("stop").unwrap();
    assert_eq!((stop.signal(), stop.get::<bool>().unwrap()), (Signal::Yield, true));
}

#[test]
fn a_value_that_is_not_got_stays_in_the_fiber_until_the_next_resume() {
    let value = Arc::new("first");
    let held = Arc::downgrade(&value);
    let fiber = Fiber::new(move |_| {
        yield_(Value::new(value)).unwrap();
        yield_("second").unwrap();
    });
    let fiber = fiber.unwrap();
    let stop = fiber.resume(()).unwrap();
    assert_eq!(stop, Signal::Yield);
    assert_eq!(held.strong_count(), 1, "comparing and dropping a stop leave it there");
    let stop = fiber.resume(()).unwrap();
    assert_eq!((held.strong_count(), last_text(&fiber)), (0, Some("second")));
    assert_eq!(stop.get::<&str>().unwrap(), "second");
    assert_eq!(last_text(&fiber), None, "it was taken");
}

#[test]
fn a_wrong_type_from_a_fiber_names_both_types_and_shows_the_value() {
    let fails = || Fiber::builder().mask(EVERYTHING).build(|_| error("no input")).unwrap();
    let wrong = fails().resume(()).unwrap().get::<u64>().unwrap_err();
    assert_eq!(wrong.to_string(), "expected a value of type u64, got &str: \"no input\"");
    assert_eq!(wrong.value.downcast::<&str>().unwrap(), "no input", "nothing is lost");

    let panics = Fiber::builder().mask(Mask::ERROR).build(|_| -> u64 { panic!("no luck") }).unwrap();
    let wrong = panics.resume(()).unwrap().get::<u64>().unwrap_err().to_string();
    assert!(wrong.starts_with("expected a value of type u64, got sinew_fiber::unwind::Panic: panicked at "));
    assert!(wrong.ends_with("no luck"), "{wrong}");

    let returns_nothing = Fiber::new(|_| ()).unwrap();
    let wrong = returns_nothing.resume(()).unwrap().get::<u64>().unwrap_err();
    assert_eq!(wrong.to_string(), "expected a value of type u64, got ()");
}

/// It is what a failed `assert_eq!` prints.
#[test]
fn a_stop_is_shown_with_its_signal_and_value() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| error("no input")).unwrap();
    let stop = fiber.resume(()).unwrap();
    assert_eq!(format!("{stop:?}"), "Error(\"no input\")");
    assert_eq!(taken::<&str>(&fiber), "no input", "showing leaves the value there");
    assert_eq!(format!("{stop:?}"), "Error");
}

#[test]
fn a_typed_yield_returns_what_the_fiber_is_resumed_with() {
    let fiber = adder();
    for (given, sum) in [(1u64, 1u64), (2, 3), (3, 6)] {
        assert_eq!(fiber.resume(given).unwrap().get::<u64>().unwrap(), sum);
    }
}

#[test]
fn a_typed_yield_that_is_answered_with_another_type_fails_with_both_names() {
    let fiber = adder();
    assert_eq!(fiber.resume(1u64).unwrap(), Signal::Yield);
    assert_eq!(fiber.resume(2u32).unwrap(), Signal::Error);
    let text = fiber.take_raised().to_string();
    assert_eq!(text, "error: expected a value of type u64, got u32: 2");
}

#[test]
fn a_typed_yield_that_nobody_catches_is_refused_as_any_other() {
    let fiber = Fiber::builder().mask(Mask::NONE).build(|_| match yield_as::<u32>(1u32) {
        Err(Error::Refused(refused)) => Value::new(refused.reason()),
        _ => Value::UNIT,
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap().get::<Reason>().unwrap(), Reason::Uncaught);
}
