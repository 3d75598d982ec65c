//! A stack that is being unwound is never suspended; what a destructor resumes may stop for it.

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::panic::{catch_unwind, resume_unwind};

use sinew_fiber::raw::{catch, re_raise};
use sinew_fiber::{
    Fiber, Generator, Hook, Mask, Reason, Refused, Root, Signal, Status, Value, await_, current, error,
    ffi_scope, propagate, protect, run_as_root, signal, yield_,
};

use crate::drop_support::{Log, OnDrop};
use crate::stack_support::run_in_child;

/// Counts how often it is reached.
#[derive(Default)]
struct Count(Cell<u32>);

impl Hook for Count {
    fn stop(&self, _: Signal, _: Value) -> Value {
        self.0.set(self.0.get() + 1);
        Value::UNIT
    }
}

/// How a body may begin to unwind.
const UNWINDS: [fn(); 3] = [|| error("raised"), || panic!("raised"), || resume_unwind(Box::new("raised"))];

/// Runs a fiber whose destructor tries to `stop` while it unwinds, and checks that it is refused and that
/// nothing came of it.
fn assert_refused_in_a_destructor(stop: fn() -> Result<Value, Refused>) {
    for unwind in UNWINDS {
        let log = Log::new();
        let inside = log.clone();
        let all = Mask::ALL | Mask::AWAIT | Mask::INTERRUPT;
        let fiber = Fiber::builder().name("unwound").mask(all).build(move |_| {
            let _outer = inside.guard("outer");
            let of_destructor = inside.clone();
            let _inner = OnDrop(move || {
                let refused = stop().unwrap_err();
                assert_eq!((refused.reason(), refused.status()), (Reason::Unwinding, Status::Alive));
                assert!(refused.fiber().starts_with("unwound"));
                assert_eq!(current().status(), Status::Alive);
                of_destructor.note("refused");
            });
            unwind();
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error, "it did not stop on the way");
        assert_eq!(log.take(), ["refused", "outer"]);
        assert_eq!(fiber.status(), Status::Error);
        assert!(!std::thread::panicking());
    }
}

const STOPS: [fn() -> Result<Value, Refused>; 4] =
    [|| yield_(1u32), || await_(1u32), || signal(Signal::User5, 1u32), || signal(Signal::Await, 1u32)];

#[test]
fn a_destructor_that_yields_or_awaits_during_an_unwind_is_refused() {
    STOPS.into_iter().for_each(assert_refused_in_a_destructor);
}

#[test]
fn it_is_refused_also_on_a_thread_that_has_caught_a_panic_before() {
    std::thread::spawn(|| {
        assert!(yield_(()).is_err(), "the thread has a root of its own from here on");
        catch_unwind(|| panic!("caught")).unwrap_err();
        STOPS.into_iter().for_each(assert_refused_in_a_destructor);
    })
    .join()
    .unwrap();
}

#[test]
fn the_hook_of_the_root_is_not_asked_during_an_unwind() {
    for unwind in UNWINDS {
        let hook = Count::default();
        let raised = run_as_root(&mut Root::new("task", Mask::YIELD), Some(&hook), || {
            let _guard = OnDrop(|| {
                for stop in [|| yield_(()), || await_(())] as [fn() -> _; 2] {
                    assert_eq!(stop().map(drop).unwrap_err().reason(), Reason::Unwinding);
                }
            });
            unwind();
        });
        raised.unwrap_err();
        assert_eq!(hook.0.get(), 0);
    }
}

#[test]
fn a_destructor_reads_a_generator() {
    for unwind in UNWINDS {
        let log = Log::new();
        let inside = log.clone();
        let raised = protect(|| {
            let _guard = OnDrop(|| {
                let numbers = Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
                inside.note(format!("{:?}", numbers.collect::<Vec<_>>()));
            });
            unwind();
        });
        raised.unwrap_err();
        assert_eq!(log.take(), ["[1, 2, 3, 4]"]);
    }
}

#[test]
fn a_fiber_that_was_paused_before_the_unwind_goes_on_in_a_destructor() {
    for unwind in UNWINDS {
        let log = Log::new();
        let inside = log.clone();
        let fiber = Fiber::builder().mask(Mask::YIELD | Mask::of(Signal::User5) | Mask::AWAIT).build(|_| {
            // A panic that it has caught by itself is over.
            catch_unwind(|| resume_unwind(Box::new(1))).unwrap_err();
            catch_unwind(|| panic!("caught")).unwrap_err();
            yield_(()).unwrap();
            yield_(()).unwrap();
            signal(Signal::User5, ()).unwrap();
            await_(()).unwrap();
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        let raised = protect(|| {
            let _guard = OnDrop(|| {
                while fiber.can_resume() {
                    inside.note(fiber.resume(()).unwrap().signal().to_string());
                }
            });
            unwind();
        });
        raised.unwrap_err();
        assert_eq!(log.take(), ["yield", "user5", "await", "ok"]);
    }
}

#[test]
fn a_signal_that_would_stop_an_unwinding_fiber_from_below_is_refused() {
    for unwind in UNWINDS {
        let log = Log::new();
        let inside = log.clone();
        let fiber = Fiber::builder().mask(Mask::ALL | Mask::AWAIT).build(move |_| {
            let _guard = OnDrop(move || {
                let of_child = inside.clone();
                let child = Fiber::builder().mask(Mask::NONE).build(move |_| {
                    for stop in STOPS {
                        of_child.note(format!("{:?}", stop().unwrap_err().reason()));
                    }
                });
                assert_eq!(child.unwrap().resume(()).unwrap(), Signal::Ok);
                let paused = Fiber::new(|_| drop(yield_(()).unwrap())).unwrap();
                assert_eq!(paused.resume(()).unwrap(), Signal::Yield);
                inside.note(format!("{:?}", propagate((), &paused).unwrap_err().reason()));
            });
            unwind();
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error, "it did not stop on the way");
        assert_eq!(log.take(), ["Unwinding"; STOPS.len() + 1]);
    }
}

#[test]
fn an_unwind_that_a_destructor_has_caught_leaves_the_one_around_it_refusing() {
    /// Catches unwinds of its own, in a destructor of one that goes on.
    fn catches_and_stops() {
        ffi_scope(|| -> () { error("inner") }).unwrap_err();
        catch_unwind(|| resume_unwind(Box::new(1))).unwrap_err();
        protect(|| -> () { panic!("inner") }).unwrap_err();
        assert!(std::thread::panicking());
        assert_eq!(yield_(()).unwrap_err().reason(), Reason::Unwinding);
    }
    let ended = Cell::new(false);
    let raised = protect(|| -> () {
        let _guard = OnDrop(|| {
            catches_and_stops();
            let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| {
                let _guard = OnDrop(catches_and_stops);
                error("in the destructor")
            });
            assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Error);
            ended.set(true);
        });
        error("outer");
    });
    assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "outer");
    assert!(ended.get());
}

#[test]
fn a_panic_in_a_fiber_that_a_destructor_resumes_is_caught_there() {
    let log = Log::new();
    let raised = protect(|| -> () {
        let _outer = log.guard("outer");
        let _guard = OnDrop(|| {
            let fiber = Fiber::builder().mask(Mask::ERROR).build(|_| {
                let _guard = OnDrop(|| {
                    let raised = protect(|| -> () { panic!("innermost") }).unwrap_err();
                    assert!(raised.to_string().contains("innermost"));
                });
                panic!("inner")
            });
            let fiber = fiber.unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
            log.note(fiber.take_raised().to_string().split(": ").last().unwrap());
        });
        panic!("outer panic");
    });
    let raised = raised.unwrap_err();
    assert!(raised.to_string().contains("outer panic"), "{raised}");
    assert_eq!(log.take(), ["inner", "outer"]);
    assert!(!std::thread::panicking());
}

#[test]
fn after_the_end_of_a_fiber_the_thread_is_not_unwinding_and_the_next_may_stop() {
    for unwind in UNWINDS {
        let fiber = Fiber::builder().mask(Mask::ERROR).build(move |_| unwind()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        assert!(!std::thread::panicking());
        let next = Fiber::new(|_| {
            assert!(!std::thread::panicking());
            yield_(()).unwrap();
        });
        assert_eq!(next.unwrap().resume(()).unwrap(), Signal::Yield);
    }
}

#[test]
fn a_panic_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so() {
    const TEST: &str = "a_panic_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so";
    let output = run_in_child(module_path!(), TEST, || {
        let fiber = Fiber::builder().name("unlucky").mask(Mask::ALL).build(|_| {
            let _guard = OnDrop(|| panic!("the second one"));
            panic!("the first one");
        });
        let _ = fiber.unwrap().resume(());
        unreachable!("the process has aborted");
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("the second one"), "{stderr}");
    assert!(stderr.contains("panic in a destructor during cleanup"), "{stderr}");
    assert!(stderr.contains("unlucky#"), "{stderr}");
    assert!(!stderr.contains("the process has aborted"), "{stderr}");
}

#[test]
fn a_signal_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so() {
    const TEST: &str = "a_signal_that_leaves_a_destructor_during_an_unwind_aborts_and_says_so";
    let output = run_in_child(module_path!(), TEST, || {
        let fiber = Fiber::builder().mask(Mask::ALL).build(|_| {
            let _guard = OnDrop(|| error("from a destructor"));
            error("first");
        });
        let _ = fiber.unwrap().resume(());
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("panic in a destructor during cleanup"), "{stderr}");
}

#[test]
fn what_was_caught_in_a_fiber_is_raised_again_with_its_trace() {
    let fiber = Fiber::builder().mask(Mask::ERROR).build(|_| {
        let raised = catch(|| -> () { panic!("boom") }).unwrap_err();
        assert!(!std::thread::panicking());
        yield_(()).unwrap_err();
        re_raise(raised)
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
    let raised = fiber.take_raised();
    assert!(raised.to_string().contains("boom") && raised.trace.is_some(), "{raised}");
}

#[test]
fn a_panic_that_was_caught_on_a_thread_s_own_root_is_raised_again_as_it_was() {
    let thread = std::thread::spawn(|| match catch(|| std::panic::resume_unwind(Box::new(5u32))) {
        Ok(()) => (),
        Err(raised) => re_raise(raised),
    });
    assert_eq!(*thread.join().unwrap_err().downcast::<u32>().unwrap(), 5);
}
