//! `defer`, `edefer` and `with`: what runs when a body is left, in which order, and what becomes of its signal.

use std::cell::{Cell, RefCell};

use sinew_fiber::{
    Fiber, MAX_DEPTH, Mask, Panic, Reason, Refused, Signal, StackSize, Status, Value, control, defer, edefer,
    error, protect, signal, with, yield_,
};

use crate::support::{EVERYTHING, FAILED, Log, RESUMABLE, last_text, taken};

/// The three functions in one shape: run `body`, note "cleanup" in the log.
type Cleaning = fn(&Log, &mut dyn FnMut() -> Value) -> Value;

const DEFER: Cleaning = |log, body| defer(|| log.note("cleanup"), body);
const EDEFER: Cleaning = |log, body| edefer(|| log.note("cleanup"), body);
const WITH: Cleaning = |log, body| with(log, |log| log.note("cleanup"), |_| body());
const ALL: [Cleaning; 3] = [DEFER, EDEFER, WITH];

/// A fiber that catches everything and runs `body` inside `cleaning`.
fn fiber(cleaning: Cleaning, log: &Log, mut body: impl FnMut() -> Value + 'static) -> Fiber {
    let log = log.clone();
    Fiber::builder().mask(EVERYTHING).build(move |_| cleaning(&log, &mut body)).unwrap()
}

#[test]
fn defer_and_with_clean_up_after_a_return_and_give_the_result() {
    for cleaning in [DEFER, WITH] {
        let log = Log::default();
        let result = cleaning(&log, &mut || Value::new(7u32));
        assert_eq!(result.downcast::<u32>().unwrap(), 7);
        assert_eq!(log.entries(), ["cleanup"]);
    }
}

#[test]
fn edefer_does_not_clean_up_after_a_return() {
    let log = Log::default();
    let result = EDEFER(&log, &mut || Value::new(7u32));
    assert_eq!((result.downcast::<u32>().unwrap(), log.entries().len()), (7, 0));
}

#[test]
fn an_error_or_user_signal_cleans_up_and_goes_on_its_way() {
    for (cleaning, status) in ALL.into_iter().flat_map(|cleaning| FAILED.map(|status| (cleaning, status))) {
        let log = Log::default();
        let raises = fiber(cleaning, &log, move || signal(status.signal().unwrap(), "boom").unwrap());
        assert_eq!(raises.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!((log.entries(), taken::<&str>(&raises)), (vec!["cleanup"], "boom"));
    }
}

#[test]
fn a_panic_cleans_up_and_goes_on_its_way() {
    for cleaning in ALL {
        let log = Log::default();
        let panics = fiber(cleaning, &log, || panic!("boom"));
        assert_eq!(panics.resume(()).unwrap(), Signal::Error);
        assert_eq!((log.entries(), taken::<Panic>(&panics).message), (vec!["cleanup"], "boom".to_owned()));
    }
}

#[test]
fn a_cancel_cleans_up_and_goes_on_its_way() {
    for cleaning in ALL {
        let log = Log::default();
        let paused = fiber(cleaning, &log, || yield_(()).unwrap());
        assert_eq!(paused.resume(()).unwrap(), Signal::Yield);
        assert_eq!(paused.cancel("stop").unwrap(), Signal::Error);
        assert_eq!((log.entries(), taken::<&str>(&paused)), (vec!["cleanup"], "stop"));
    }
}

#[test]
fn a_drop_in_the_middle_runs_destructors_and_cleanups_exactly_once_innermost_first() {
    for cleaning in ALL {
        let log = Log::default();
        let inner = log.clone();
        let paused = fiber(cleaning, &log, move || {
            let _guard = inner.on_drop("destructor");
            defer(|| inner.note("inner cleanup"), || yield_(()).unwrap())
        });
        assert_eq!(paused.resume(()).unwrap(), Signal::Yield);
        assert!(log.entries().is_empty());
        drop(paused);
        assert_eq!(log.entries(), ["inner cleanup", "destructor", "cleanup"]);
    }
}

#[test]
fn a_pause_of_any_kind_does_not_clean_up() {
    for (cleaning, status) in ALL.into_iter().flat_map(|cleaning| RESUMABLE.map(|status| (cleaning, status)))
    {
        let log = Log::default();
        let pauses = fiber(cleaning, &log, move || signal(status.signal().unwrap(), "paused").unwrap());
        assert_eq!(pauses.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!((last_text(&pauses), log.entries().len()), (Some("paused"), 0));
        assert_eq!(pauses.resume("result").unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&pauses), "result");
    }
}

#[test]
fn an_error_in_the_cleanup_takes_the_place_of_the_first() {
    let second =
        |raised: Result<(), sinew_fiber::Raised>| raised.unwrap_err().value.downcast::<&str>().unwrap();
    let cleanup = || error("second");
    assert_eq!(second(protect(|| defer(cleanup, || error("first")))), "second");
    assert_eq!(second(protect(|| edefer(cleanup, || error("first")))), "second");
    assert_eq!(second(protect(|| with((), |()| error("second"), |()| error("first")))), "second");
    assert_eq!(second(protect(|| defer(cleanup, || ()))), "second", "also that of a return");
}

#[test]
fn a_panic_in_the_cleanup_takes_the_place_of_the_first() {
    let raised = protect(|| defer(|| panic!("second"), || panic!("first"))).unwrap_err();
    assert_eq!(raised.value.downcast::<Panic>().unwrap().message, "second");
}

#[test]
fn a_user_signal_in_the_cleanup_takes_the_place_of_an_error() {
    let fiber = fiber(DEFER, &Log::default(), || {
        defer(
            || {
                signal(Signal::User3, "second").unwrap();
            },
            || error("first"),
        )
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::User3);
    assert_eq!(taken::<&str>(&fiber), "second");
}

#[test]
fn the_cleanup_runs_outside_the_unwind_so_it_may_pause() {
    let outside = protect(|| {
        let unwinding = Cell::new(true);
        let result = protect(|| defer(|| unwinding.set(std::thread::panicking()), || error("boom")));
        assert!(result.is_err());
        !unwinding.get()
    });
    assert!(outside.unwrap());

    let pauses: [fn() -> Value; 3] = [
        || defer(|| drop(yield_("cleaning up").unwrap()), || error("boom")),
        || edefer(|| drop(yield_("cleaning up").unwrap()), || error("boom")),
        || with((), |()| drop(yield_("cleaning up").unwrap()), |()| error("boom")),
    ];
    for pause in pauses {
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| pause()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(taken::<&str>(&fiber), "cleaning up");
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        assert_eq!(taken::<&str>(&fiber), "boom");
    }
}

#[test]
fn the_cleanup_runs_inside_a_shield_so_it_is_not_cancelled() {
    let pauses: [fn() -> Value; 3] = [
        || defer(|| drop(yield_(()).unwrap()), || error("boom")),
        || edefer(|| drop(yield_(()).unwrap()), || error("boom")),
        || with((), |()| drop(yield_(()).unwrap()), |()| error("boom")),
    ];
    for pause in pauses {
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| pause()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(fiber.cancel(()).unwrap_err().reason(), Reason::Shielded);
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        assert_eq!(taken::<&str>(&fiber), "boom");
    }
}

#[test]
fn nested_cleanups_run_innermost_first() {
    let order = RefCell::new(Vec::new());
    let result = protect(|| {
        defer(
            || order.borrow_mut().push(1),
            || {
                with(
                    (),
                    |()| order.borrow_mut().push(2),
                    |()| edefer(|| order.borrow_mut().push(3), || -> u32 { error("boom") }),
                )
            },
        )
    });
    assert!(result.is_err());
    assert_eq!(order.into_inner(), [3, 2, 1]);
}

#[test]
fn with_lends_the_resource_and_closes_it_as_the_body_left_it() {
    let closed = Cell::new(None);
    let text = String::from("borrowed");
    let length = with(
        Vec::new(),
        |pushed| closed.set(Some(pushed)),
        |resource| {
            resource.push(text.as_str());
            resource.len()
        },
    );
    assert_eq!((length, closed.take()), (1, Some(vec!["borrowed"])));
}

#[test]
fn a_body_borrows_and_changes_what_is_around_it() {
    let mut numbers = vec![1];
    let cleaned = Cell::new(0);
    let sum: i32 = defer(
        || cleaned.set(cleaned.get() + 1),
        || {
            numbers.push(2);
            numbers.iter().sum()
        },
    );
    edefer(|| cleaned.set(cleaned.get() + 1), || numbers.push(3));
    assert_eq!((sum, cleaned.get(), numbers), (3, 1, vec![1, 2, 3]));
}

/// Whoever got hold of something and then calls `defer` has no other chance to let go of it.
#[test]
fn the_cleanup_runs_even_if_the_chain_is_too_deep_for_the_body() {
    fn at_depth(depth: u16, then: fn(&Log), log: Log) {
        let fiber = Fiber::builder().stack(StackSize::KiB64).mask(Mask::NONE);
        let fiber =
            fiber.build(move |_| if depth == 1 { then(&log) } else { at_depth(depth - 1, then, log) });
        assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Ok);
    }
    let too_deep: [fn(&Log); 3] = [
        |log| defer(|| log.note("cleanup"), || log.note("body")),
        |log| edefer(|| log.note("cleanup"), || log.note("body")),
        |log| with((), |()| log.note("cleanup"), |()| log.note("body")),
    ];
    for then in too_deep {
        let log = Log::default();
        let inner = log.clone();
        let raised = protect(move || at_depth(MAX_DEPTH - 1, then, inner)).unwrap_err();
        assert_eq!(log.entries(), ["cleanup"]);
        let refused = raised.value.downcast::<Refused>().unwrap();
        assert_eq!((refused.reason(), refused.status()), (Reason::TooDeep, Status::New));
    }
}

#[test]
fn a_cancel_at_an_interrupt_on_the_way_into_the_body_cleans_up_too() {
    for cleaning in ALL {
        let log = Log::default();
        let inner = log.clone();
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            control().interrupt();
            cleaning(&inner, &mut || unreachable!("cancelled before"))
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Interrupt);
        assert_eq!(fiber.cancel("stop").unwrap(), Signal::Error);
        assert_eq!((log.entries(), taken::<&str>(&fiber)), (vec!["cleanup"], "stop"));
    }
}
