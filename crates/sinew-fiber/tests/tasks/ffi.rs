//! Inside an `ffi_scope`, with frames of C on the stack, nothing suspends the fiber and nothing unwinds it.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

use sinew_fiber::{
    Fiber, Generator, Hook, Mask, Raised, Reason, Refused, Root, Signal, Status, Value, await_, checkpoint,
    control, debug, error, ffi_scope, propagate, protect, run_as_root, signal, yield_,
};

type Callback<'a> = *mut (dyn FnMut(i32, i32) -> i32 + 'a);

thread_local! {
    static CALLBACK: Cell<Option<Callback<'static>>> = const { Cell::new(None) };
}

/// Sorts with the C library, which calls `compare` through two frames of its own.
fn sort(numbers: &mut [i32], mut compare: impl FnMut(i32, i32) -> i32) {
    extern "C" fn through(left: *const libc::c_void, right: *const libc::c_void) -> i32 {
        let callback = CALLBACK.get().expect("qsort calls back only while it runs");
        // SAFETY: qsort passes pointers to two elements, and the callback is alive while it runs.
        unsafe { (*callback)(*left.cast::<i32>(), *right.cast::<i32>()) }
    }
    let callback: Callback<'_> = &mut compare;
    // SAFETY: only the lifetime changes; it is taken back below, before `compare` ends.
    let callback = unsafe { std::mem::transmute::<Callback<'_>, Callback<'static>>(callback) };
    let outer = CALLBACK.replace(Some(callback));
    // SAFETY: base, count and size describe the slice, and the function compares elements of its type.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<i32>(), Some(through)) };
    CALLBACK.set(outer);
}

/// Runs `body` in an `ffi_scope` that is called from C, and returns what that returned.
fn through_c<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    let mut body = Some(body);
    let mut result = None;
    sort(&mut [2, 1], |_, _| {
        if let Some(body) = body.take() {
            result = Some(ffi_scope(body));
        }
        0
    });
    result.expect("two elements are compared")
}

/// Runs `body` in a fiber that catches everything; it must return without having stopped.
fn in_a_fiber(body: impl FnOnce() + 'static) {
    let all = Mask::ALL | Mask::AWAIT | Mask::INTERRUPT;
    let fiber = Fiber::builder().mask(all).build(move |_| body()).unwrap();
    let signal = fiber.resume(()).unwrap();
    assert_eq!(signal, Signal::Ok, "{:?}", fiber.take_value());
}

#[test]
fn every_signal_that_would_stop_the_fiber_is_refused_and_the_fiber_goes_on() {
    in_a_fiber(|| {
        let stops: [fn() -> Result<Value, Refused>; 6] = [
            || yield_(1u32),
            || await_(1u32),
            || debug(1u32),
            || signal(Signal::User5, 1u32),
            || signal(Signal::User7, 1u32),
            || signal(Signal::Interrupt, 1u32),
        ];
        for stop in stops {
            let refused = through_c(|| {
                let refused = stop().unwrap_err();
                assert_eq!(sinew_fiber::current().status(), Status::Alive);
                refused
            });
            assert_eq!(refused.unwrap().reason(), Reason::FfiScope);
        }
    });
}

#[test]
fn whatever_unwinds_is_returned_and_c_sorts_on() {
    in_a_fiber(|| {
        let mut failure = None;
        let mut numbers = [5, 3, 9, 1];
        sort(&mut numbers, |left, right| {
            let compared = ffi_scope(|| match (left, right) {
                (9, _) | (_, 9) if failure.is_none() => error("nine"),
                _ => left.cmp(&right),
            });
            compared.unwrap_or_else(|raised| {
                failure = Some(raised);
                left.cmp(&right)
            }) as i32
        });
        assert_eq!(numbers, [1, 3, 5, 9]);
        assert_eq!(failure.unwrap().value.downcast::<&str>().unwrap(), "nine");

        let raised = through_c(|| signal(Signal::User3, 8u32).map(drop)).unwrap_err();
        assert_eq!((raised.signal, raised.value.downcast::<u32>().unwrap()), (Signal::User3, 8));
        let panicked = through_c(|| -> () { panic!("in the callback") }).unwrap_err();
        assert_eq!(panicked.signal, Signal::Error);
        assert!(panicked.to_string().contains("in the callback"), "{panicked}");
        assert!(panicked.trace.is_some());
        assert_eq!(through_c(|| 5).unwrap(), 5);
        assert!(!std::thread::panicking());
    });
}

#[test]
fn the_end_of_a_child_that_its_mask_does_not_catch_is_returned() {
    in_a_fiber(|| {
        let raised = through_c(|| {
            let child = Fiber::new(|_| error("child")).unwrap();
            child.resume(()).map(drop).unwrap();
        });
        assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "child");
        let raised = through_c(|| {
            let child = Fiber::builder().mask(Mask::ERROR).build(|_| error("child")).unwrap();
            assert_eq!(child.resume(()).unwrap(), Signal::Error);
            propagate("again", &child).map(drop).unwrap();
        });
        assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "again");
    });
}

#[test]
fn the_cancellation_of_the_task_is_returned() {
    let mut root = Root::new("task", Mask::NONE);
    run_as_root(&mut root, None, || {
        control().kill();
        assert!(through_c(checkpoint).unwrap_err().is_cancelled());
        assert_eq!(through_c(|| 3).unwrap(), 3);
    })
    .unwrap();
}

#[test]
fn a_generator_is_read_inside_and_so_is_any_signal_that_does_not_cross() {
    in_a_fiber(|| {
        let sum = through_c(|| {
            let numbers = Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
            protect(|| numbers.sum::<u32>()).unwrap()
        });
        assert_eq!(sum.unwrap(), 10);
        through_c(|| {
            let mask = Mask::AWAIT | Mask::DEBUG;
            let child = Fiber::builder().mask(mask).build(|_| {
                await_(()).unwrap();
                debug(()).unwrap();
            });
            let child = child.unwrap();
            assert_eq!(child.resume(()).unwrap(), Signal::Await);
            assert_eq!(child.resume(()).unwrap(), Signal::Debug);
            assert_eq!(child.resume(()).unwrap(), Signal::Ok);
        })
        .unwrap();
    });
}

#[test]
fn a_signal_of_a_child_that_would_cross_the_scope_is_refused_in_the_child() {
    in_a_fiber(|| {
        let outcome = through_c(|| {
            let child = Fiber::builder().mask(Mask::NONE).build(|_| {
                let grandchild = Fiber::builder().mask(Mask::NONE).build(|_| {
                    assert_eq!(await_(()).unwrap_err().reason(), Reason::FfiScope);
                    assert_eq!(yield_(()).unwrap_err().reason(), Reason::FfiScope);
                    4u32
                });
                let grandchild = grandchild.unwrap();
                assert_eq!(grandchild.resume(()).unwrap(), Signal::Ok);
                grandchild.take_value()
            });
            let child = child.unwrap();
            assert_eq!(child.resume(()).unwrap(), Signal::Ok);
            child.take_value().downcast::<u32>().unwrap()
        });
        assert_eq!(outcome.unwrap(), 4);
    });
}

#[test]
fn a_scope_that_ends_leaves_the_scope_around_it_open() {
    let fiber = Fiber::new(|_| {
        through_c(|| {
            assert_eq!(through_c(|| yield_(()).unwrap_err().reason()).unwrap(), Reason::FfiScope);
            through_c(|| -> () { error("inner") }).unwrap_err();
            assert_eq!(yield_(()).unwrap_err().reason(), Reason::FfiScope);
        })
        .unwrap();
        yield_(2u32).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield, "after the last scope the fiber may stop");
    assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 2);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn an_interrupt_stays_counted_inside_and_stops_the_task_after_it() {
    struct Count(RefCell<Vec<Signal>>);
    impl Hook for Count {
        fn stop(&self, signal: Signal, _: Value) -> Value {
            self.0.borrow_mut().push(signal);
            Value::UNIT
        }
    }
    let hook = Count(RefCell::default());
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        through_c(|| {
            control().interrupt();
            checkpoint();
            let numbers = Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
            assert_eq!(numbers.count(), 4);
            checkpoint();
            assert!(hook.0.borrow().is_empty());
        })
        .unwrap();
        checkpoint();
        assert_eq!(*hook.0.borrow(), [Signal::Interrupt]);
        checkpoint();
    })
    .unwrap();
    assert_eq!(*hook.0.borrow(), [Signal::Interrupt]);
}

#[test]
fn an_interrupt_that_a_fiber_inside_the_scope_catches_is_taken_there() {
    in_a_fiber(|| {
        through_c(|| {
            let child = Fiber::builder().mask(Mask::INTERRUPT).build(|_| checkpoint()).unwrap();
            control().interrupt();
            assert_eq!(child.resume(()).unwrap(), Signal::Interrupt);
            assert_eq!(child.resume(()).unwrap(), Signal::Ok);
        })
        .unwrap();
    });
}

#[test]
fn a_scope_on_a_thread_without_fibers_returns_panics_too() {
    std::thread::spawn(|| {
        let mut order = Vec::new();
        sort(&mut [1, 2], |left, right| {
            let panicked = ffi_scope(|| -> Ordering { std::panic::resume_unwind(Box::new("quiet")) });
            order.push(panicked.unwrap_err().to_string());
            left.cmp(&right) as i32
        });
        assert_eq!(order, ["error: panicked: quiet"]);
        assert_eq!(ffi_scope(|| yield_(()).unwrap_err().reason()).unwrap(), Reason::FfiScope);
    })
    .join()
    .unwrap();
}

#[test]
fn on_a_thread_s_own_root_an_error_inside_a_scope_is_returned_with_its_value() {
    let raised = ffi_scope(|| error("no good")).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "no good");
}
