//! Fibers that stopped together: who is stopped, who continues, how values travel, how deep it goes.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{
    Fiber, MAX_DEPTH, Mask, Operation, Reason, Signal, StackSize, Status, Value, error, propagate, signal,
    yield_,
};

use crate::support::{EVERYTHING, FAILED, RESUMABLE, fiber_in, last_text, taken};

fn named(name: &'static str, mask: Mask, body: impl FnOnce(Value) -> Value + 'static) -> Rc<Fiber> {
    Rc::new(Fiber::builder().name(name).mask(mask).build(body).unwrap())
}

/// A fiber that resumes `inner` once and returns the value that it got from it.
fn around(name: &'static str, mask: Mask, inner: &Rc<Fiber>) -> Rc<Fiber> {
    let inner = inner.clone();
    named(name, mask, move |value| {
        let _ = inner.resume(value).unwrap();
        inner.take_value()
    })
}

/// Three fibers, outermost first; only the outermost catches, and catches everything.
fn chain(innermost: impl FnOnce(Value) -> Value + 'static) -> [Rc<Fiber>; 3] {
    let inner = named("inner", Mask::NONE, innermost);
    let middle = around("middle", Mask::NONE, &inner);
    let outer = around("outer", EVERYTHING, &middle);
    [outer, middle, inner]
}

#[test]
fn an_uncaught_pause_stops_every_fiber_up_to_the_one_that_catches_it_with_its_status_and_value() {
    for status in RESUMABLE {
        let fibers = chain(move |_| signal(status.signal().unwrap(), "payload").unwrap());
        assert_eq!(fibers[0].resume(()).unwrap(), status.signal().unwrap());
        for fiber in &fibers {
            assert_eq!((fiber.status(), last_text(fiber)), (status, Some("payload")));
        }
    }
}

#[test]
fn a_fiber_further_up_than_the_catcher_is_not_stopped() {
    let inner = named("inner", Mask::NONE, |_| yield_("payload").unwrap());
    let catcher = around("catcher", Mask::YIELD, &inner);
    let stopped = catcher.clone();
    let above = named("above", EVERYTHING, move |_| {
        assert_eq!(stopped.resume(()).unwrap(), Signal::Yield);
        Value::new("went on")
    });
    assert_eq!(above.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&above), "went on");
    assert_eq!((catcher.status(), inner.status()), (Status::Pending, Status::Pending));
}

#[test]
fn resuming_the_outermost_gives_the_value_to_the_innermost_and_its_result_goes_up_level_by_level() {
    for status in RESUMABLE {
        let log = Rc::new(Cell::new(Vec::new()));
        let note = |name: &'static str| {
            let log = log.clone();
            move || {
                let mut entries = log.take();
                entries.push(name);
                log.set(entries);
            }
        };
        let (inner_on, middle_on, outer_on) = (note("inner"), note("middle"), note("outer"));
        let inner = named("inner", Mask::NONE, move |_| {
            let got = signal(status.signal().unwrap(), ()).unwrap().downcast::<u32>().unwrap();
            inner_on();
            Value::new(got + 1)
        });
        let middle = named("middle", Mask::NONE, move |_| {
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            middle_on();
            Value::new(taken::<u32>(&inner) * 10)
        });
        let outer = named("outer", EVERYTHING, move |_| {
            assert_eq!(middle.resume(()).unwrap(), Signal::Ok);
            outer_on();
            Value::new(taken::<u32>(&middle) + 5)
        });
        assert_eq!(outer.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!(outer.resume(1u32).unwrap(), Signal::Ok);
        assert_eq!(taken::<u32>(&outer), 25);
        assert_eq!(log.take(), ["inner", "middle", "outer"]);
    }
}

#[test]
fn what_a_continued_innermost_raises_goes_up_level_by_level_as_before() {
    let inner = named("inner", Mask::ERROR, |_| {
        yield_(1u32).unwrap();
        error("late")
    });
    let middle = named("middle", Mask::NONE, move |_| {
        assert_eq!(inner.resume(()).unwrap(), Signal::Error, "the mask of the inner one catches it here");
        inner.take_value()
    });
    let outer = around("outer", Mask::YIELD, &middle);
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&outer), "late");
}

#[test]
fn a_chain_pauses_and_continues_any_number_of_times() {
    let [outer, middle, inner] = chain(|_| {
        for n in 0..100u32 {
            assert_eq!(yield_(n).unwrap().downcast::<u32>().unwrap(), n);
        }
        Value::new("done")
    });
    let _ = outer.resume(()).unwrap();
    for n in 0..100u32 {
        assert_eq!((outer.status(), middle.status()), (Status::Pending, Status::Pending));
        assert_eq!(taken::<u32>(&outer), n);
        let _ = outer.resume(n).unwrap();
    }
    assert_eq!(taken::<&str>(&outer), "done");
    assert_eq!((middle.status(), inner.status()), (Status::Dead, Status::Dead));
}

#[test]
fn an_uncaught_end_ends_every_resumer_up_to_the_catcher_with_the_same_signal_value_and_trace() {
    for status in FAILED {
        let fibers = chain(move |_| signal(status.signal().unwrap(), "payload").unwrap());
        let line = line!() - 1;
        assert_eq!(fibers[0].resume(()).unwrap(), status.signal().unwrap());
        for fiber in &fibers {
            assert_eq!(fiber.status(), status);
        }
        let raised = fibers[0].take_raised();
        assert_eq!(raised.value.downcast::<&str>().unwrap(), "payload");
        let trace = raised.trace.unwrap();
        assert!(trace.raised_at().starts_with(&format!("{}:{line}:", file!())), "{trace}");
        assert_eq!(trace.links()[0].name.as_deref(), Some("inner"));
    }
}

#[test]
fn the_lineage_of_a_stopped_fiber_leads_to_the_one_that_raised_the_signal() {
    let [outer, middle, inner] = chain(|_| yield_(()).unwrap());
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    assert_eq!(outer.lineage(), [outer.view(), middle.view(), inner.view()]);
    assert_eq!(middle.lineage(), [middle.view(), inner.view()]);
    assert_eq!(inner.lineage(), [inner.view()]);
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert_eq!(outer.lineage(), [outer.view()], "nobody is below it any more");
}

#[test]
fn a_fiber_that_is_stopped_below_another_is_refused_from_elsewhere_and_continues_with_its_chain() {
    let [outer, middle, inner] = chain(|_| yield_("payload").unwrap());
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    for below in [&middle, &inner] {
        let refusals =
            [below.resume(()).unwrap_err(), below.cancel(()).unwrap_err(), propagate((), below).unwrap_err()];
        for refused in refusals {
            assert_eq!((refused.reason(), refused.status()), (Reason::Linked, Status::Pending));
        }
        let from_a_fiber = named("stranger", Mask::NONE, {
            let below = below.clone();
            move |_| Value::new(below.resume(()).unwrap_err().reason())
        });
        assert_eq!(from_a_fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(taken::<Reason>(&from_a_fiber), Reason::Linked);
        assert_eq!(last_text(below), Some("payload"));
    }
    assert_eq!(outer.resume("result").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&outer), "result");
}

#[test]
fn what_would_close_a_cycle_is_refused() {
    // `inner` is stopped below `outer`. Continued, it tries to get above the fibers that it is below of.
    let outer = Rc::<Fiber>::new_cyclic(|me| {
        let me = me.clone();
        let body = move |_| {
            let inner = named("inner", Mask::NONE, move |_| {
                yield_(()).unwrap();
                let outer = me.upgrade().unwrap();
                let reasons = [
                    outer.resume(()).unwrap_err().reason(),
                    outer.cancel(()).unwrap_err().reason(),
                    propagate((), &outer).unwrap_err().reason(),
                ];
                Value::new(reasons)
            });
            let _ = inner.resume(()).unwrap();
            inner.take_value()
        };
        Fiber::builder().mask(EVERYTHING).build(body).unwrap()
    });
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    // The other way round: somebody else takes the outer one below itself; then it is nobody else's.
    let taking = {
        let outer = outer.clone();
        named("taking", EVERYTHING, move |_| propagate((), &outer).unwrap())
    };
    assert_eq!(taking.resume(()).unwrap(), Signal::Yield);
    assert_eq!(propagate((), &outer).unwrap_err().reason(), Reason::Linked);
    assert_eq!(outer.resume(()).unwrap_err().reason(), Reason::Linked);
    assert_eq!(taking.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<[Reason; 3]>(&taking), [Reason::Status; 3], "refused as alive");
}

/// Runs `then` as the body of the fiber that is `depth` deep.
fn at_depth(depth: u16, then: impl FnOnce() -> Value + 'static) -> Value {
    fn descend(depth: u16, then: Box<dyn FnOnce() -> Value>) -> Value {
        let fiber = Fiber::builder().stack(StackSize::KiB64).mask(Mask::NONE);
        let fiber = fiber.build(move |_| if depth == 1 { then() } else { descend(depth - 1, then) });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        fiber.take_value()
    }
    descend(depth, Box::new(then))
}

#[test]
fn a_chain_of_1024_fibers_runs_and_one_more_is_refused() {
    assert_eq!(MAX_DEPTH, 1024);
    let outcome = at_depth(MAX_DEPTH, || {
        let one_more = fiber_in(Status::New);
        let refused = one_more.resume(()).unwrap_err();
        assert_eq!((refused.operation(), refused.reason()), (Operation::Resume, Reason::TooDeep));
        assert_eq!(one_more.status(), Status::New);
        Value::new("ran at the limit")
    });
    assert_eq!(outcome.downcast::<&str>().unwrap(), "ran at the limit");
}

#[test]
fn a_stopped_chain_is_continued_where_all_of_it_fits_and_refused_where_it_does_not() {
    let [outer, ..] = chain(|_| yield_(()).unwrap());
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    let too_deep = outer.clone();
    let reason = at_depth(MAX_DEPTH - 2, move || Value::new(too_deep.resume(()).unwrap_err().reason()));
    assert_eq!(reason.downcast::<Reason>().unwrap(), Reason::TooDeep);
    assert_eq!((outer.status(), outer.lineage().len()), (Status::Pending, 3), "as it was");
    let fits = outer.clone();
    let signal = at_depth(MAX_DEPTH - 3, move || Value::new(fits.resume("result").unwrap().signal()));
    assert_eq!(signal.downcast::<Signal>().unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&outer), "result");
}

#[test]
fn a_chain_that_was_continued_deeper_down_counts_from_there() {
    let inner = named("inner", Mask::NONE, |_| {
        yield_(()).unwrap();
        let one_more = fiber_in(Status::New);
        Value::new(one_more.resume(()).map(|stop| stop.signal()).map_err(|refused| refused.reason()))
    });
    let outer = around("outer", Mask::YIELD, &inner);
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    let deep = outer.clone();
    let signal = at_depth(MAX_DEPTH - 2, move || Value::new(deep.resume(()).unwrap().signal()));
    assert_eq!(signal.downcast::<Signal>().unwrap(), Signal::Ok);
    assert_eq!(taken::<Result<Signal, Reason>>(&outer), Err(Reason::TooDeep));
}

#[test]
fn propagating_a_chain_that_does_not_fit_is_refused() {
    let paused = Rc::new(fiber_in(Status::Pending));
    let below = paused.clone();
    let reason = at_depth(MAX_DEPTH, move || Value::new(propagate((), &below).unwrap_err().reason()));
    assert_eq!(reason.downcast::<Reason>().unwrap(), Reason::TooDeep);
    assert_eq!(paused.resume(()).unwrap(), Signal::Ok);
}
