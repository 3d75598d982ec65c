//! What resume and cancel do in each status, and what becomes of values. (Propagate, cancel and iteration have
//! files of their own for all that goes beyond the table.)

use std::rc::Rc;
use std::sync::Arc;

use sinew_fiber::{
    Fiber, FiberRef, Mask, Operation, Reason, Refused, Signal, Status, Value, current, propagate, yield_,
};

use crate::support::{EVERYTHING, RESUMABLE, ended, fiber_in, last_text, taken};

type Refuses = fn(&Fiber) -> Refused;

/// Runs `operation` on a fiber from inside that very fiber, and from a fiber that it resumed.
fn on_a_running_fiber(operation: Refuses) -> [Refused; 2] {
    let fiber = Rc::<Fiber>::new_cyclic(|me| {
        let me = me.clone();
        let body = move |_| {
            let from_itself = operation(&me.upgrade().unwrap());
            let inner = Fiber::new(move |_| Value::new(operation(&me.upgrade().unwrap()))).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            Value::new([from_itself, taken::<Refused>(&inner)])
        };
        Fiber::new(body).unwrap()
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    taken(&fiber)
}

#[test]
fn resume_starts_a_new_fiber_with_the_value_as_its_argument() {
    let fiber = fiber_in(Status::New);
    assert_eq!(fiber.resume("argument").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&fiber), "argument");
}

#[test]
fn resume_continues_a_stopped_fiber_with_the_value_as_the_result_of_its_signal() {
    for status in RESUMABLE {
        let fiber = fiber_in(status);
        assert_eq!(fiber.resume("result").unwrap(), Signal::Ok);
        assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Dead, "result"));
    }
}

#[test]
fn resume_of_an_ended_fiber_is_refused() {
    for status in ended() {
        let refused = fiber_in(status).resume(()).unwrap_err();
        assert_eq!((refused.operation(), refused.status()), (Operation::Resume, status));
        assert_eq!(refused.reason(), Reason::Status);
    }
}

#[test]
fn resume_cancel_and_propagate_of_a_running_fiber_are_refused() {
    let operations: [(Operation, Refuses); 3] = [
        (Operation::Resume, |fiber| fiber.resume(()).unwrap_err()),
        (Operation::Cancel, |fiber| fiber.cancel(()).unwrap_err()),
        (Operation::Propagate, |fiber| propagate((), fiber).unwrap_err()),
    ];
    for (operation, run) in operations {
        for refused in on_a_running_fiber(run) {
            assert_eq!(
                (refused.operation(), refused.status(), refused.reason()),
                (operation, Status::Alive, Reason::Status)
            );
        }
    }
}

#[test]
fn cancel_ends_a_new_fiber_and_raises_inside_a_stopped_one_and_is_refused_by_an_ended_one() {
    for status in RESUMABLE.into_iter().chain([Status::New]) {
        let fiber = fiber_in(status);
        assert_eq!(fiber.cancel("cancelled").unwrap(), Signal::Error);
        assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Error, "cancelled"));
    }
    for status in ended() {
        assert_eq!(fiber_in(status).cancel(()).unwrap_err().status(), status);
    }
}

#[test]
fn propagate_stops_ends_or_returns_from_the_caller_as_the_status_says() {
    for status in ended().chain(RESUMABLE) {
        let fiber = fiber_in(status);
        let caller = Fiber::builder().mask(EVERYTHING).build(move |_| propagate("again", &fiber).unwrap());
        let caller = caller.unwrap();
        assert_eq!(caller.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!((caller.status(), last_text(&caller)), (status, Some("again")));
    }
}

#[test]
fn a_caught_signal_s_value_stays_until_it_is_taken() {
    let fiber = fiber_in(Status::Pending);
    assert_eq!(last_text(&fiber), Some("stopped"));
    assert_eq!(last_text(&fiber), Some("stopped"), "looking leaves it there");
    assert_eq!(taken::<&str>(&fiber), "stopped");
    assert!(fiber.last_value(|value| value.is_none()));
    assert!(fiber.take_value().is::<()>(), "nothing is left");
}

#[test]
fn a_value_that_nobody_took_is_dropped_when_the_fiber_is_resumed() {
    let value = Arc::new("first");
    let held = Arc::downgrade(&value);
    let fiber = Fiber::new(move |_| {
        yield_(Value::new(value)).unwrap();
        yield_("second").unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(held.strong_count(), 1);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!((held.strong_count(), last_text(&fiber)), (0, Some("second")));
}

#[test]
fn the_value_is_kept_after_the_end() {
    for status in ended() {
        let fiber = fiber_in(status);
        let _ = fiber.resume(()).unwrap_err();
        assert_eq!(taken::<&str>(&fiber), "stopped");
    }
}

#[test]
fn a_new_or_running_fiber_has_no_value() {
    assert!(fiber_in(Status::New).last_value(|value| value.is_none()));
    let fiber = Rc::<Fiber>::new_cyclic(|me| {
        let me = me.clone();
        Fiber::new(move |_| me.upgrade().unwrap().last_value(|value| value.is_none())).unwrap()
    });
    assert_eq!(fiber.resume("argument").unwrap(), Signal::Ok);
    assert!(taken::<bool>(&fiber));
}

#[test]
fn any_value_passes_unchanged_and_a_wrong_type_is_told_with_both_names() {
    let fiber = Fiber::new(|value| yield_(value).unwrap()).unwrap();
    let large = Value::new([7u64; 100]);
    assert_eq!(fiber.resume(large).unwrap(), Signal::Yield);
    let wrong = fiber.take_value().downcast::<u8>().unwrap_err();
    assert_eq!(wrong.to_string(), "expected a value of type u8, got [u64; 100]");
    assert_eq!(wrong.value.downcast::<[u64; 100]>().unwrap(), [7; 100]);
}

#[test]
fn current_is_the_fiber_that_runs_and_its_resumer_again_afterwards() {
    let before = current();
    let fiber = Fiber::builder().name("running").mask(Mask::YIELD).build(|_| {
        yield_(current().id()).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(taken::<u64>(&fiber), fiber.view().id());
    assert_eq!(current(), before);
}

#[test]
fn a_view_outlives_its_fiber_and_shows_how_it_ended() {
    let fiber = fiber_in(Status::Pending);
    let view: FiberRef = fiber.view();
    assert_eq!((view.status(), view.can_resume()), (Status::Pending, true));
    drop(fiber);
    assert_eq!((view.status(), view.can_resume()), (Status::Error, false));
    assert_eq!(view.name().as_deref(), Some("pending"));
}
