//! What the body of a fiber returns, and how that ends the fiber.

use sinew_fiber::{
    Error, Fiber, Mask, Raised, Reason, Refused, Signal, Status, Value, error, propagate, protect, shield,
    signal, yield_,
};

use crate::support::{EVERYTHING, Log, taken};

fn parsed(text: &'static str) -> Fiber {
    Fiber::builder().mask(EVERYTHING).build(move |_| text.parse::<u32>()).unwrap()
}

/// A fiber whose body returns `error`, after it has ended.
fn ended_with<E: std::error::Error + Send + 'static>(error: E) -> Fiber {
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| Err::<(), E>(error)).unwrap();
    assert!(fiber.resume(()).unwrap().signal().is_terminal());
    fiber
}

#[test]
fn the_value_of_an_ok_is_what_the_fiber_returns() {
    let fiber = parsed("42");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert_eq!((fiber.status(), taken::<u32>(&fiber)), (Status::Dead, 42));
}

#[test]
fn an_err_ends_the_fiber_with_an_error_whose_value_shows_its_text() {
    let fiber = parsed("x");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    assert_eq!(fiber.status(), Status::Error);
    let raised = fiber.take_raised();
    assert_eq!(raised.to_string(), "error: invalid digit found in string");
    assert!(raised.value.downcast::<std::num::ParseIntError>().is_ok());
}

#[test]
fn an_err_that_the_mask_does_not_catch_is_the_resumer_s_as_well() {
    let raised = protect(|| {
        let fiber = Fiber::new(|_| "x".parse::<u32>()).unwrap();
        let _ = fiber.resume(());
        unreachable!("the resumer has ended")
    });
    let Err::<(), _>(raised) = raised else { panic!("it returned") };
    assert!(raised.value.is::<std::num::ParseIntError>(), "{raised}");

    let mut fiber = Fiber::new(|_| "x".parse::<u32>()).unwrap();
    assert!(fiber.next().unwrap().unwrap_err().value.is::<std::num::ParseIntError>());
    assert!(fiber.next().is_none());
}

#[test]
fn a_body_ends_at_a_question_mark_and_its_destructors_have_run() {
    let log = Log::default();
    let noting = log.clone();
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |first| {
        let _local = noting.on_drop("dropped");
        yield_(first.downcast::<u32>()? + 1)?.downcast::<u32>()?;
        noting.note("went on");
        Ok::<_, Error>(())
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(1u32).unwrap(), Signal::Yield);
    assert_eq!(taken::<u32>(&fiber), 2);
    assert_eq!(fiber.resume("two").unwrap(), Signal::Error);
    assert_eq!(log.entries(), ["dropped"]);
}

#[test]
fn the_trace_of_an_err_names_the_place_where_the_fiber_was_created() {
    let fiber = parsed("x");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    let trace = fiber.take_raised().trace.unwrap();
    assert_eq!(trace.raised_at(), fiber.view().link().created.to_string());
    assert_eq!(trace.links()[0].id, fiber.view().id());
}

/// Were it wrapped, `is_cancelled` would not see the refusal of a wait in a cancelled task.
#[test]
fn an_error_of_this_crate_arrives_as_the_error_inside_it() {
    let refused = || propagate((), &parsed("1")).unwrap_err();
    for fiber in [ended_with(refused()), ended_with(Error::from(refused()))] {
        assert_eq!(taken::<Refused>(&fiber).reason(), Reason::Status);
    }
    let wrong = Value::new("text").downcast::<u32>().unwrap_err();
    let inside = taken::<sinew_fiber::DowncastError>(&ended_with(Error::from(wrong)));
    assert_eq!(inside.value.downcast::<&str>().unwrap(), "text");
}

#[test]
fn a_raised_is_raised_again_with_its_signal_value_and_trace() {
    let caught = || {
        let fiber = Fiber::builder().mask(EVERYTHING).build(|_| signal(Signal::User2, "inner")).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::User2);
        fiber.take_raised()
    };
    for wrapped in [false, true] {
        let raised = caught();
        let place = raised.trace.as_ref().unwrap().raised_at();
        let fiber = if wrapped { ended_with(Error::from(raised)) } else { ended_with(raised) };
        let raised = fiber.take_raised();
        assert_eq!((raised.signal, raised.trace.unwrap().raised_at()), (Signal::User2, place));
        assert_eq!(raised.value.downcast::<&str>().unwrap(), "inner");
    }
}

/// With a resumable status it would be continued on a stack that is gone.
#[test]
fn a_fiber_whose_body_returned_a_raised_has_ended_whatever_that_says() {
    for signal in Signal::ALL {
        let fiber = ended_with(Raised { signal, value: Value::new("forged"), trace: None });
        let expected = if signal.is_terminal() { signal } else { Signal::Error };
        assert_eq!((fiber.status(), taken::<&str>(&fiber)), (expected.into(), "forged"));
        assert!(fiber.resume(()).is_err());
    }
}

#[test]
fn a_dropped_body_that_hands_the_refusal_on_has_ended_as_it_should() {
    let log = Log::default();
    let noting = log.clone();
    let fiber = Fiber::new(move |_| {
        let _local = noting.on_drop("dropped");
        shield(|| yield_(()))
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
    assert_eq!(log.entries(), ["dropped"]);
}

#[test]
fn raising_and_returning_an_error_are_the_same_to_whoever_catches_it() {
    let failure = || std::io::Error::other("disk on fire");
    let returns = ended_with(failure());
    let raises = Fiber::builder().mask(Mask::ERROR).build(move |_| error(Value::error(failure()))).unwrap();
    assert_eq!(raises.resume(()).unwrap(), Signal::Error);
    for fiber in [returns, raises] {
        assert_eq!(fiber.status(), Status::Error);
        let raised = fiber.take_raised();
        assert_eq!(raised.to_string(), "error: disk on fire");
        assert!(raised.value.is::<std::io::Error>() && raised.trace.is_some());
    }
}
