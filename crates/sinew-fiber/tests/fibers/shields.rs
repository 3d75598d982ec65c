//! What a shield defers, and what it does not.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{Fiber, Mask, Reason, Signal, protect, quarantined, shield, yield_};

#[test]
fn a_fiber_that_is_dropped_inside_a_shield_is_cancelled_where_it_stopped() {
    let went_on = Rc::new(Cell::new(false));
    let seen = went_on.clone();
    let fiber = Fiber::new(move |_| {
        let _refused = yield_(());
        seen.set(true);
    })
    .unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    shield(|| fiber.end()).unwrap();
    assert!(!went_on.get());
}

#[test]
fn a_fiber_with_a_shield_around_the_one_that_stopped_is_not_cancelled() {
    let fiber = Fiber::new(|_| {
        shield(|| {
            let inner = Fiber::builder().mask(Mask::NONE).build(|_| yield_(()).unwrap()).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
        });
    })
    .unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel("stop").unwrap_err().reason(), Reason::Shielded);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn refusals_in_a_shield_do_not_count_as_going_on() {
    let cancelled = Rc::new(Cell::new(false));
    let seen = cancelled.clone();
    let fiber = Fiber::new(move |_| {
        shield(|| {
            yield_(()).unwrap_err();
            for _ in 0..20 {
                assert_eq!(yield_(()).unwrap_err().reason(), Reason::Ending);
            }
        });
        let outcome = protect(|| yield_(()).map(drop));
        seen.set(outcome.is_err_and(|raised| raised.is_cancelled()));
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
    assert!(cancelled.get(), "after the shield the body is cancelled again, not given up");
}

#[test]
fn a_body_that_never_leaves_its_shield_is_given_up_after_a_thousand_refusals() {
    let refused = Rc::new(Cell::new(0));
    let count = refused.clone();
    let fiber = Fiber::builder().name("stubborn").build(move |_| {
        shield(|| {
            loop {
                count.set(count.get() + u32::from(yield_(()).is_err()));
            }
        })
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_eq!(refused.get(), 1 + 1000, "its pending yield, and then each that it tries");
    let given_up = quarantined();
    assert!(given_up.fibers.iter().any(|link| link.name.as_deref() == Some("stubborn")), "{given_up:?}");
}

#[test]
fn a_fiber_that_was_resumed_inside_a_shield_can_be_cancelled_outside_it() {
    let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| yield_(()).unwrap()).unwrap();
    assert_eq!(shield(|| fiber.resume(())).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel("stop").unwrap(), Signal::Error);
}
