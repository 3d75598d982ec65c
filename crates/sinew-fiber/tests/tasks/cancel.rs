//! Continuing a fiber with an error instead of a value.

use std::rc::Rc;

use sinew_fiber::{
    Cancelled, Fiber, Mask, Reason, Signal, Status, current, defer, propagate, protect, shield, signal, try_,
    yield_,
};

use crate::support::{EVERYTHING, Log, RESUMABLE, fiber_in, last_text, taken};

#[test]
fn cancelling_a_new_fiber_ends_it_as_error_and_its_body_never_runs() {
    let log = Log::default();
    let (body, dropped) = (log.clone(), log.on_drop("body dropped"));
    let fiber = Fiber::builder().mask(Mask::ERROR).build(move |_| {
        let _dropped = dropped;
        body.note("ran");
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.cancel("never mind").unwrap(), Signal::Error);
    assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Error, "never mind"));
    assert_eq!(log.entries(), ["body dropped"]);
}

#[test]
fn the_trace_of_a_fiber_that_was_cancelled_before_it_ran_names_the_cancel() {
    let raised = protect(|| {
        let fiber = Fiber::builder().name("unrun").build(|_| ()).unwrap();
        let _ = fiber.cancel("never mind");
    });
    let cancelled_at = line!() - 2;
    let trace = raised.unwrap_err().trace.unwrap();
    assert!(trace.raised_at().contains(&format!("cancel.rs:{cancelled_at}:")), "{trace}");
    assert_eq!(trace.links()[0].name.as_deref(), Some("unrun"));
    assert_eq!(trace.links().len(), 3, "unrun, protect, the root:\n{trace}");
}

#[test]
fn cancelling_a_stopped_fiber_raises_the_error_where_it_stopped_so_its_destructors_run() {
    for status in RESUMABLE {
        let log = Log::default();
        let guard = log.on_drop("destructor");
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            let _guard = guard;
            signal(status.signal().unwrap(), ()).unwrap();
            unreachable!("cancelled above")
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!(fiber.cancel("stop").unwrap(), Signal::Error);
        assert_eq!((fiber.status(), last_text(&fiber)), (Status::Error, Some("stop")));
        assert_eq!(log.entries(), ["destructor"]);
    }
}

#[test]
fn the_trace_of_a_cancelled_fiber_names_the_place_where_it_had_stopped() {
    let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| yield_(()).unwrap()).unwrap();
    let stopped_at = line!() - 1;
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel(()).unwrap(), Signal::Error);
    let trace = fiber.take_raised().trace.unwrap();
    assert!(trace.raised_at().contains(&format!("cancel.rs:{stopped_at}:")), "{trace}");
}

#[test]
fn cancelling_the_outermost_of_a_chain_raises_in_the_innermost_and_cleans_up_from_there() {
    let log = Log::default();
    let (inner_log, outer_log) = (log.clone(), log.clone());
    let inner = Fiber::builder().name("inner").mask(Mask::NONE).build(move |_| {
        let _guard = inner_log.on_drop("inner destructor");
        defer(|| inner_log.note("inner cleanup"), || yield_(()).unwrap())
    });
    let outer = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(move |_| {
        let _guard = outer_log.on_drop("outer destructor");
        defer(
            || outer_log.note("outer cleanup"),
            || {
                let inner = inner.unwrap();
                let _ = inner.resume(()).unwrap();
            },
        );
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    assert_eq!(outer.cancel("stop").unwrap(), Signal::Error);
    assert_eq!(taken::<&str>(&outer), "stop");
    assert_eq!(log.entries(), ["inner cleanup", "inner destructor", "outer cleanup", "outer destructor"]);
}

#[test]
fn a_fiber_in_the_middle_of_the_chain_may_catch_the_cancel_of_the_innermost() {
    let outer = Fiber::new(|_| {
        let inner = Fiber::builder().mask(Mask::ERROR).build(|_| yield_(()).unwrap()).unwrap();
        assert_eq!(inner.resume(()).unwrap(), Signal::Error);
        taken::<&str>(&inner)
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    assert_eq!(outer.cancel("stop").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&outer), "stop");
}

#[test]
fn a_body_may_catch_the_cancel_and_return() {
    let fiber = Fiber::new(|_| try_(|| yield_(()).unwrap(), |raised| raised.value)).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel("swallowed").unwrap(), Signal::Ok);
    assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Dead, "swallowed"));
}

#[test]
fn a_body_may_catch_the_cancel_and_go_on_and_be_cancelled_again() {
    let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| {
        let _ = protect(|| yield_("first"));
        yield_("second").unwrap()
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel("swallowed").unwrap(), Signal::Yield);
    assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Pending, "second"));
    assert_eq!(fiber.cancel("not swallowed").unwrap(), Signal::Error);
    assert_eq!(taken::<&str>(&fiber), "not swallowed");
}

#[test]
fn a_cancel_that_the_mask_does_not_catch_ends_the_canceller_as_well() {
    let fiber = Rc::new(Fiber::new(|_| yield_(()).unwrap()).unwrap());
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let cancelled = fiber.clone();
    let canceller = Fiber::builder().mask(Mask::ERROR).build(move |_| {
        let _ = cancelled.cancel("both");
        unreachable!("the canceller has ended")
    });
    let canceller = canceller.unwrap();
    assert_eq!(canceller.resume(()).unwrap(), Signal::Error);
    assert_eq!((canceller.status(), fiber.status()), (Status::Error, Status::Error));
    assert_eq!(taken::<&str>(&canceller), "both");
}

#[test]
fn a_cancel_of_a_new_fiber_that_its_mask_does_not_catch_ends_the_canceller_as_well() {
    let raised = protect(|| {
        let _ = Fiber::new(|_| ()).unwrap().cancel("both");
    });
    assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "both");
}

#[test]
fn a_cleanup_may_pause_and_the_cancel_goes_on_after_it() {
    let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| {
        defer(
            || {
                yield_("cleaning up").unwrap();
            },
            || yield_("working").unwrap(),
        )
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel("stop").unwrap(), Signal::Yield);
    assert_eq!(taken::<&str>(&fiber), "cleaning up");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    assert_eq!(taken::<&str>(&fiber), "stop");
}

#[test]
fn a_shielded_fiber_is_not_cancelled_and_goes_on_as_if_nothing_had_been_asked() {
    let fiber = Fiber::new(|_| shield(|| yield_(()).unwrap())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel(()).unwrap_err().reason(), Reason::Shielded);
    assert_eq!(fiber.resume("on").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&fiber), "on");
}

#[test]
fn cancelling_below_a_propagate_raises_in_the_propagated_fiber() {
    let inner = Rc::new(fiber_in(Status::Pending));
    let below = inner.clone();
    let caller = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(move |_| {
        let caught = propagate((), &below).unwrap();
        assert_eq!(below.status(), Status::Error, "its mask catches errors");
        caught
    });
    let caller = caller.unwrap();
    assert_eq!(caller.resume(()).unwrap(), Signal::Yield);
    assert_eq!(caller.cancel("stop").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&caller), "stop");
}

#[test]
fn the_value_of_a_cancel_is_any_value_and_cancelled_is_told_apart() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| yield_(()).unwrap()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.cancel(Cancelled).unwrap(), Signal::Error);
    assert!(fiber.take_raised().is_cancelled());
    assert_eq!(current().status(), Status::Alive, "the canceller goes on");
}
