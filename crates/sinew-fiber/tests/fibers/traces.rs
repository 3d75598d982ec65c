//! Where a signal came from, as whoever catches it reads it.

use std::hint::black_box;

use sinew_fiber::{
    Fiber, FiberRef, Mask, Signal, Status, Trace, capture_backtraces, debug, error, protect, root, signal,
    yield_,
};

use crate::stack_support::pass_in_child;
use crate::support::{EVERYTHING, FAILED, taken};

/// Where a fiber was made, as a trace tells it.
fn created(view: &FiberRef) -> String {
    format!("  in fiber {}, created at {}", view.link(), view.link().created)
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.links().iter().map(|link| link.name.as_deref().unwrap_or("")).collect()
}

#[test]
fn a_trace_names_the_place_of_the_raise_and_the_fibers_around_it_innermost_first() {
    let line = line!();
    let outer = Fiber::builder().name("outer").mask(Mask::ERROR).build(|_| {
        let inner = Fiber::builder().name("inner").mask(Mask::NONE).build(|_| {
            error("boom");
        });
        let _ = inner.unwrap().resume(());
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Error);
    let trace = outer.take_raised().trace.unwrap();
    let file = file!();
    assert!(trace.raised_at().starts_with(&format!("{file}:{}:", line + 3)), "{}", trace.raised_at());
    assert_eq!(names(&trace)[..2], ["inner", "outer"]);
    let places: Vec<_> =
        trace.links().iter().map(|link| (link.created.file(), link.created.line())).collect();
    assert_eq!(places[..2], [(file, line + 2), (file, line + 1)]);
    assert_eq!((trace.links().len(), trace.links()[2].id), (3, root().id()), "and the root");

    let text = trace.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0], format!("  raised at {}", trace.raised_at()));
    assert!(lines[1].starts_with("  in fiber inner#") && lines[1].contains(&format!("{file}:{}:", line + 2)));
    assert_eq!(lines[2], created(&outer.view()));
}

#[test]
fn every_signal_that_ends_a_fiber_has_a_trace() {
    for status in FAILED {
        let fiber = Fiber::builder().mask(EVERYTHING);
        let fiber = fiber.build(move |_| signal(status.signal().unwrap(), ()).unwrap()).unwrap();
        let line = line!() - 1;
        assert_eq!(fiber.resume(()).unwrap(), status.signal().unwrap());
        let trace = fiber.take_raised().trace.unwrap();
        assert!(trace.raised_at().starts_with(&format!("{}:{line}:", file!())), "{trace}");
    }
}

#[test]
fn the_trace_of_a_panic_names_the_place_of_the_panic() {
    let raised = protect(|| panic!("boom")).unwrap_err();
    let line = line!() - 1;
    let trace = raised.trace.unwrap();
    assert!(trace.raised_at().starts_with(&format!("{}:{line}:", file!())), "{trace}");
    assert_eq!(trace.links().len(), 2, "protect and the root");
}

#[test]
fn library_functions_are_named_by_the_place_where_they_were_called() {
    let raised = protect(|| error("boom")).unwrap_err();
    let line = line!() - 1;
    let link = raised.trace.unwrap().links()[0].clone();
    assert_eq!((link.created.file(), link.created.line()), (file!(), line));
}

#[test]
fn the_long_form_of_a_raised_signal_shows_value_and_trace() {
    let raised = protect(|| error("boom")).unwrap_err();
    assert_eq!(raised.to_string(), "error: \"boom\"");
    let long = format!("{raised:#}");
    assert!(long.starts_with("error: \"boom\"\n  raised at "), "{long}");
}

#[test]
fn a_return_has_no_trace() {
    let fiber = Fiber::new(|_| 1u32).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert!(fiber.take_raised().trace.is_none());
}

#[inline(never)]
fn the_function_that_raises() {
    error(black_box("boom"))
}

#[inline(never)]
fn the_function_that_panics() {
    panic!("{}", black_box("boom"))
}

#[inline(never)]
fn the_function_that_stops() {
    debug(black_box("here")).unwrap();
}

/// In a process of its own, since the setting is for the whole process.
#[test]
fn a_trace_has_the_native_backtrace_of_the_raise_when_that_is_switched_on_and_only_then() {
    pass_in_child(
        module_path!(),
        "a_trace_has_the_native_backtrace_of_the_raise_when_that_is_switched_on_and_only_then",
        || {
            let backtrace = |body: fn()| {
                let trace = protect(body).unwrap_err().trace.unwrap();
                trace.backtrace().map(ToString::to_string)
            };
            assert_eq!(backtrace(the_function_that_raises), None);
            assert_eq!(backtrace(the_function_that_panics), None);
            capture_backtraces(true);
            let raised = backtrace(the_function_that_raises).unwrap();
            assert!(raised.contains("the_function_that_raises"), "{raised}");
            let panicked = backtrace(the_function_that_panics).unwrap();
            assert!(panicked.contains("the_function_that_panics"), "{panicked}");
            capture_backtraces(false);
            assert_eq!(backtrace(the_function_that_raises), None);
        },
    );
}

#[test]
fn whoever_catches_a_breakpoint_finds_its_trace() {
    let outer = Fiber::builder().name("outer").mask(Mask::DEBUG).build(|_| {
        let inner = Fiber::builder().name("inner").mask(Mask::NONE).build(|_| debug("here").unwrap());
        let _ = inner.unwrap().resume(()).unwrap();
    });
    let line = line!() - 3;
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Debug);
    let stopped = outer.take_raised();
    assert_eq!((stopped.signal, stopped.value.downcast::<&str>().unwrap()), (Signal::Debug, "here"));
    let trace = stopped.trace.unwrap();
    assert!(trace.raised_at().starts_with(&format!("{}:{line}:", file!())), "{trace}");
    assert_eq!(names(&trace)[..2], ["inner", "outer"]);
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert!(outer.take_raised().trace.is_none(), "it was the trace of that stop");
}

#[test]
fn the_trace_of_a_breakpoint_is_gone_when_the_fiber_has_gone_on() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| {
        signal(Signal::Debug, ()).unwrap();
        yield_(()).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Debug);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert!(fiber.take_raised().trace.is_none());
    assert_eq!((fiber.resume(()).unwrap().signal(), fiber.status()), (Signal::Ok, Status::Dead));
    taken::<()>(&fiber);
}

#[test]
fn a_breakpoint_has_the_native_backtrace_when_that_is_switched_on() {
    pass_in_child(module_path!(), "a_breakpoint_has_the_native_backtrace_when_that_is_switched_on", || {
        capture_backtraces(true);
        let fiber = Fiber::builder().mask(Mask::DEBUG).build(|_| the_function_that_stops()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Debug);
        let trace = fiber.take_raised().trace.unwrap();
        let backtrace = trace.backtrace().unwrap().to_string();
        assert!(backtrace.contains("the_function_that_stops"), "{backtrace}");
    });
}
