//! Ends by error, user signal and panic: what has happened when the resumer sees them, and that nobody else does.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use sinew_fiber::{
    Fiber, Mask, Panic, Raised, Reason, Signal, Status, Value, defer, error, propagate, protect, signal,
    yield_,
};

use crate::stack_support::{pass_in_child, run_in_child};
use crate::support::{EVERYTHING, FAILED, Log, taken};

fn panic_of(raised: Raised) -> Panic {
    assert_eq!(raised.signal, Signal::Error);
    raised.value.downcast().unwrap()
}

#[test]
fn all_destructors_on_the_stack_have_run_when_the_resumer_sees_the_end() {
    let ends: [fn() -> Value; 7] = [
        || error(()),
        || signal(Signal::User0, ()).unwrap(),
        || signal(Signal::User1, ()).unwrap(),
        || signal(Signal::User2, ()).unwrap(),
        || signal(Signal::User3, ()).unwrap(),
        || signal(Signal::User4, ()).unwrap(),
        || panic!("boom"),
    ];
    for end in ends {
        let log = Log::default();
        let inner = log.clone();
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            let _outer = inner.on_drop("outer frame");
            let deeper = || {
                let _inner = inner.on_drop("inner frame");
                end()
            };
            deeper()
        });
        let fiber = fiber.unwrap();
        let _ = fiber.resume(()).unwrap();
        log.note("resumer");
        assert_eq!(log.entries(), ["inner frame", "outer frame", "resumer"]);
    }
}

#[test]
fn destructors_of_a_resumer_that_does_not_catch_run_after_those_of_the_fiber_that_raised() {
    let log = Log::default();
    let (outer_log, inner_log) = (log.clone(), log.clone());
    let outer = Fiber::builder().mask(Mask::ERROR).build(move |_| {
        let _guard = outer_log.on_drop("resumer's destructor");
        let inner = Fiber::new(move |_| {
            let _guard = inner_log.on_drop("destructor");
            error("boom")
        });
        let _ = inner.unwrap().resume(());
    });
    assert_eq!(outer.unwrap().resume(()).unwrap(), Signal::Error);
    assert_eq!(log.entries(), ["destructor", "resumer's destructor"]);
}

#[test]
fn a_destructor_that_runs_during_an_unwind_may_use_fibers() {
    struct UsesFibers(Log);
    impl Drop for UsesFibers {
        fn drop(&mut self) {
            let fiber = Fiber::new(|_| yield_("item").unwrap()).unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            self.0.note(taken(&fiber));
            assert!(protect(|| error("caught")).is_err());
            self.0.note("caught");
        }
    }
    let log = Log::default();
    let guard = UsesFibers(log.clone());
    let raised = protect(move || {
        let _guard = guard;
        error("boom")
    });
    assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "boom");
    assert_eq!(log.entries(), ["item", "caught"]);
}

/// Yields when dropped, from inside a fiber of its own, and notes why that was refused.
struct YieldsInDrop(Rc<Cell<Option<Reason>>>);

impl Drop for YieldsInDrop {
    fn drop(&mut self) {
        let refused = protect(|| yield_(()).err()).unwrap();
        self.0.set(refused.map(|refused| refused.reason()));
    }
}

#[test]
fn a_pause_does_not_pass_through_a_fiber_that_is_unwinding() {
    let seen = Rc::new(Cell::new(None));
    let guard = YieldsInDrop(seen.clone());
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
        let _guard = guard;
        error("boom")
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Error);
    assert_eq!(seen.get(), Some(Reason::Unwinding));
}

/// No panic hook sees such an unwind, and the thread has caught a panic of its own before.
#[test]
fn a_fiber_that_unwinds_with_a_payload_of_its_own_is_not_suspended_either() {
    protect(|| ()).unwrap();
    assert!(catch_unwind(|| panic!("caught outside all fibers")).is_err());
    let seen = Rc::new(Cell::new(None));
    let guard = YieldsInDrop(seen.clone());
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
        let _guard = guard;
        resume_unwind(Box::new("payload"))
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Error);
    assert_eq!(seen.get(), Some(Reason::Unwinding));
}

#[test]
fn a_chain_that_a_destructor_continues_during_an_unwind_may_pause_inside() {
    let inner = Fiber::builder().mask(Mask::NONE).build(|_| {
        assert!(catch_unwind(|| panic!("caught by the body")).is_err());
        yield_("first").unwrap();
        yield_("second").unwrap()
    });
    let middle = Fiber::new(move |_| inner.unwrap().resume(()).unwrap() == Signal::Ok).unwrap();
    let outer = Fiber::builder().mask(Mask::USER).build(move |_| {
        assert_eq!(middle.resume(()).unwrap(), Signal::Yield);
        signal(Signal::User5, ()).unwrap();
        assert_eq!(middle.resume(()).unwrap(), Signal::Yield, "in the destructor");
        middle.take_value()
    });
    struct Continues(Fiber, Log);
    impl Drop for Continues {
        fn drop(&mut self) {
            assert_eq!(self.0.resume(()).unwrap(), Signal::Ok);
            self.1.note(taken(&self.0));
        }
    }
    let log = Log::default();
    let guard = Continues(outer.unwrap(), log.clone());
    assert_eq!(guard.0.resume(()).unwrap(), Signal::User5);
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        resume_unwind(Box::new("payload"))
    }));
    assert!(unwound.is_err());
    assert_eq!(log.entries(), ["second"]);
}

/// Everything that unwinds a fiber, one after the other.
fn raise_in_every_way() {
    for status in FAILED {
        let fiber = Fiber::builder().mask(EVERYTHING);
        let fiber = fiber.build(move |_| signal(status.signal().unwrap(), ()).unwrap()).unwrap();
        assert_eq!(Status::from(fiber.resume(()).unwrap().signal()), status);
    }
    assert!(protect(|| defer(|| (), || error("re-raised"))).is_err());
    let paused = || {
        let fiber = Fiber::builder().mask(EVERYTHING).build(|_| yield_(()).unwrap()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        fiber
    };
    drop(paused());
    let cancelled = paused();
    assert_eq!(cancelled.cancel("stop").unwrap(), Signal::Error);
    assert!(protect(|| drop(propagate((), &cancelled))).is_err());
}

fn panic_in_every_way() {
    assert!(protect(|| panic!("a panic")).is_err());
    assert!(protect(|| panic_any(1u32)).is_err());
    let outer = Fiber::builder().mask(Mask::ERROR).build(|_| {
        let inner = Fiber::new(|_| -> u32 { panic!("a panic that passes a resumer") }).unwrap();
        let _ = inner.resume(());
    });
    assert_eq!(outer.unwrap().resume(()).unwrap(), Signal::Error);
}

#[test]
fn raising_a_signal_and_panicking_in_a_fiber_print_nothing() {
    let output =
        run_in_child(module_path!(), "raising_a_signal_and_panicking_in_a_fiber_print_nothing", || {
            raise_in_every_way();
            panic_in_every_way();
        });
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!stdout.contains("a panic") && !stdout.contains("re-raised"), "{stdout}");
}

static HOOK_CALLS: AtomicU32 = AtomicU32::new(0);

fn count_hook_calls() {
    panic::set_hook(Box::new(|_| {
        HOOK_CALLS.fetch_add(1, Ordering::Relaxed);
    }));
}

#[test]
fn raising_a_signal_calls_no_panic_hook_also_not_one_that_was_set_later() {
    pass_in_child(
        module_path!(),
        "raising_a_signal_calls_no_panic_hook_also_not_one_that_was_set_later",
        || {
            count_hook_calls();
            raise_in_every_way();
            count_hook_calls();
            raise_in_every_way();
            assert_eq!(HOOK_CALLS.load(Ordering::Relaxed), 0);
        },
    );
}

#[test]
fn a_panic_outside_all_fibers_goes_to_the_hook_that_was_there_before() {
    pass_in_child(
        module_path!(),
        "a_panic_outside_all_fibers_goes_to_the_hook_that_was_there_before",
        || {
            count_hook_calls();
            panic_in_every_way();
            assert_eq!(HOOK_CALLS.load(Ordering::Relaxed), 0, "panics in fibers are not its business");
            assert!(catch_unwind(|| panic!("outside")).is_err());
            assert_eq!(HOOK_CALLS.load(Ordering::Relaxed), 1);
            let on_another_thread = std::thread::spawn(|| panic!("a thread without fibers")).join();
            assert!(on_another_thread.is_err());
            assert_eq!(HOOK_CALLS.load(Ordering::Relaxed), 2);
            panic_in_every_way();
            assert_eq!(HOOK_CALLS.load(Ordering::Relaxed), 2);
        },
    );
}

#[test]
fn a_panic_is_an_error_with_message_place_and_payload() {
    let panicked = panic_of(protect(|| panic!("plain text")).unwrap_err());
    let line = line!() - 1;
    assert_eq!(panicked.message, "plain text");
    let place = panicked.location.unwrap();
    assert!(place.starts_with(&format!("{}:{line}:", file!())), "{place}");
    assert_eq!(panicked.payload.downcast_ref::<&str>(), Some(&"plain text"));

    let number = 7;
    let panicked = panic_of(protect(|| panic!("number {number}")).unwrap_err());
    assert_eq!(panicked.message, "number 7");
    assert_eq!(panicked.payload.downcast_ref::<String>().unwrap(), "number 7");

    let panicked = panic_of(protect(|| panic_any(42u32)).unwrap_err());
    assert_eq!(panicked.payload.downcast_ref::<u32>(), Some(&42));
    assert!(panicked.location.is_some());
}

#[test]
fn a_panic_of_the_standard_library_names_the_caller_s_place() {
    let nothing = std::hint::black_box(None::<u32>);
    let panicked = panic_of(protect(|| nothing.unwrap()).unwrap_err());
    let line = line!() - 1;
    assert!(panicked.message.contains("`None` value"), "{}", panicked.message);
    assert!(panicked.location.unwrap().starts_with(&format!("{}:{line}:", file!())));
}

#[test]
fn a_panic_that_is_not_caught_ends_the_resumer_with_the_same_panic() {
    let raised = protect(|| {
        let inner = Fiber::new(|_| -> u32 { panic!("boom") }).unwrap();
        let _ = inner.resume(());
    });
    let raised = raised.unwrap_err();
    assert_eq!(raised.trace.as_ref().unwrap().links().len(), 3);
    assert_eq!(panic_of(raised).message, "boom");
}

#[test]
fn a_panic_shows_its_place_and_message_as_text() {
    let raised = protect(|| panic!("boom")).unwrap_err();
    let text = raised.to_string();
    assert!(text.starts_with("error: panicked at "), "{text}");
    assert!(text.contains(file!()) && text.ends_with(": boom"), "{text}");
}

#[test]
fn a_body_that_catches_its_own_panic_goes_on_and_its_next_end_is_its_own() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| {
        assert!(catch_unwind(|| panic!("caught by the body")).is_err());
        yield_("went on").unwrap();
        panic!("the second")
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(taken::<&str>(&fiber), "went on");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    assert_eq!(taken::<Panic>(&fiber).message, "the second");
}

#[test]
fn a_signal_that_a_body_catches_and_continues_by_hand_stays_the_same_signal() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| -> Value {
        let unwound = catch_unwind(AssertUnwindSafe(|| signal(Signal::User2, "payload").unwrap()));
        resume_unwind(unwound.unwrap_err())
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::User2);
    assert_eq!(taken::<&str>(&fiber), "payload");
}
