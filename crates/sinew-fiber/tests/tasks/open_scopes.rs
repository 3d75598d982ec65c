//! Only await crosses an open scope.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sinew_fiber::raw::open_scope;
use sinew_fiber::{
    Fiber, Generator, Mask, Reason, Root, Signal, await_, checkpoint, control, debug, protect, run_as_root,
    signal, yield_,
};

use crate::support::{CountingHook, EVERYTHING, Log, taken};

const OTHERS: [Signal; 6] =
    [Signal::Yield, Signal::Debug, Signal::User5, Signal::User6, Signal::User7, Signal::Interrupt];

#[test]
fn a_signal_that_somebody_outside_would_catch_is_refused_and_await_is_not() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| {
        open_scope(|| {
            for raised in OTHERS {
                assert_eq!(signal(raised, ()).unwrap_err().reason(), Reason::OpenScope);
            }
            let inner = Fiber::builder().mask(Mask::NONE).build(|_| {
                for raised in OTHERS {
                    assert_eq!(signal(raised, ()).unwrap_err().reason(), Reason::OpenScope);
                }
                await_("inside").unwrap()
            });
            let inner = inner.unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            assert_eq!(taken::<u32>(&inner), 5);
            await_("outside").unwrap();
        });
        yield_(()).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
    assert_eq!(taken::<&str>(&fiber), "inside");
    assert_eq!(fiber.resume(5u32).unwrap(), Signal::Await);
    assert_eq!(taken::<&str>(&fiber), "outside");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield, "after the scope");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn a_refusal_says_what_to_do() {
    let fiber = Fiber::new(|_| open_scope(|| yield_(()).unwrap_err().to_string())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    let text = taken::<String>(&fiber);
    assert!(text.contains("open scope") && text.contains("after the scope has ended"), "{text}");
}

#[test]
fn what_only_reaches_the_hook_of_the_root_does() {
    let hook = CountingHook::default();
    run_as_root(&mut Root::new("task", Mask::ALL), Some(&hook), || {
        open_scope(|| OTHERS.map(|raised| signal(raised, ()).map(drop).unwrap()));
        open_scope(|| await_(()).map(drop)).unwrap();
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 7);
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        assert_eq!(open_scope(|| yield_(()).unwrap_err().reason()), Reason::Uncaught);
    })
    .unwrap();
    open_scope(|| debug(()).map(drop)).unwrap();
}

#[test]
fn what_is_caught_inside_works() {
    open_scope(|| {
        let numbers = Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
        assert_eq!(protect(|| numbers.sum::<u32>()).unwrap(), 10);
    });
}

#[test]
fn an_interrupt_that_somebody_outside_catches_stays_counted_until_after_the_scope() {
    let fiber = Fiber::builder().mask(Mask::INTERRUPT).build(|_| {
        open_scope(|| {
            control().interrupt();
            checkpoint();
        });
        checkpoint();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Interrupt);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn a_fiber_that_is_dropped_inside_is_cancelled_again_whatever_it_raises() {
    let log = Log::default();
    let body_log = log.clone();
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
        let _ended = body_log.on_drop("ended");
        open_scope(|| {
            let dropped = catch_unwind(AssertUnwindSafe(|| await_(()).map(drop)));
            assert!(dropped.is_err());
            let again = catch_unwind(AssertUnwindSafe(|| yield_(()).map(drop)));
            assert!(again.is_err());
            body_log.note("cancelled twice");
        });
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
    drop(fiber);
    assert_eq!(log.entries(), ["cancelled twice", "ended"]);
}

#[test]
fn a_scope_that_unwound_is_closed() {
    let fiber = Fiber::new(|_| {
        let unwound = catch_unwind(AssertUnwindSafe(|| open_scope(|| panic!("boom"))));
        assert!(unwound.is_err());
        yield_(()).unwrap();
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Yield);
}
