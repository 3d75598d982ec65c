//! A body that is dropped inside a shield: its signals are refused, and that is not held against it.
#![cfg(not(any(loom, shuttle)))]

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{Fiber, Reason, Signal, protect, shield, yield_};

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
