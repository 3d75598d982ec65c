//! Inside the poll of a future nothing blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sinew_fiber::raw::polling;
use sinew_fiber::{
    Fiber, Generator, Mask, Reason, Refused, Root, Signal, Status, Value, await_, checkpoint, control,
    current, debug, error, protect, run_as_root, signal, yield_,
};

use crate::support::{CountingHook, EVERYTHING};

const STOPS: [fn() -> Result<Value, Refused>; 6] = [
    || yield_(1u32),
    || await_(1u32),
    || debug(1u32),
    || signal(Signal::User5, 1u32),
    || signal(Signal::User7, 1u32),
    || signal(Signal::Interrupt, 1u32),
];

/// Runs `body` in a fiber that catches everything; it must return without having stopped.
fn in_a_fiber(body: impl FnOnce() + 'static) {
    let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| body()).unwrap();
    let signal = fiber.resume(()).unwrap();
    assert_eq!(signal, Signal::Ok, "{:?}", fiber.take_value());
}

#[test]
fn whatever_would_stop_the_fiber_is_refused_and_the_poll_goes_on() {
    in_a_fiber(|| {
        polling(|| {
            for stop in STOPS {
                assert_eq!(stop().unwrap_err().reason(), Reason::InsidePoll);
                assert_eq!(current().status(), Status::Alive);
            }
        });
    });
}

#[test]
fn nothing_reaches_the_hook_of_the_root() {
    let hook = CountingHook::default();
    run_as_root(&mut Root::new("task", Mask::ALL), Some(&hook), || {
        polling(|| STOPS.map(|stop| assert_eq!(stop().unwrap_err().reason(), Reason::InsidePoll)));
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 0);
}

#[test]
fn a_refusal_says_the_way_out() {
    let hook = CountingHook::default();
    let task = || polling(|| await_(()).unwrap_err());
    let refused = run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), task).unwrap();
    let text = "inside the poll of a future nothing may block: await a future instead, or block outside";
    assert!(refused.to_string().ends_with(text), "{refused}");
}

#[test]
fn what_fibers_inside_raise_and_catch_among_themselves_works() {
    in_a_fiber(|| {
        polling(|| {
            let numbers = Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
            assert_eq!(protect(|| numbers.sum::<u32>()).unwrap(), 10);
            let child = Fiber::builder()
                .mask(EVERYTHING)
                .build(|_| STOPS.iter().for_each(|stop| drop(stop().unwrap())));
            let child = child.unwrap();
            let expected = [
                Signal::Yield,
                Signal::Await,
                Signal::Debug,
                Signal::User5,
                Signal::User7,
                Signal::Interrupt,
                Signal::Ok,
            ];
            assert_eq!(expected.map(|_| child.resume(()).unwrap()), expected);
        });
    });
}

#[test]
fn what_a_fiber_inside_does_not_catch_is_refused_where_it_is_raised() {
    in_a_fiber(|| {
        polling(|| {
            let child = Fiber::builder().mask(Mask::NONE).build(|_| {
                protect(|| STOPS.map(|stop| assert_eq!(stop().unwrap_err().reason(), Reason::InsidePoll)))
                    .unwrap();
            });
            assert_eq!(child.unwrap().resume(()).unwrap(), Signal::Ok);
        });
    });
}

#[test]
fn the_fiber_may_stop_after_the_outermost_poll_also_if_that_unwound() {
    let fiber = Fiber::new(|_| {
        polling(|| {
            polling(|| ());
            assert_eq!(yield_(()).unwrap_err().reason(), Reason::InsidePoll);
        });
        yield_(1u32).unwrap();
        let unwound = catch_unwind(AssertUnwindSafe(|| polling(|| -> () { error("boom") })));
        assert!(unwound.is_err());
        yield_(2u32).unwrap();
    });
    let fiber = fiber.unwrap();
    for expected in [1u32, 2] {
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(crate::support::taken::<u32>(&fiber), expected);
    }
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn an_interrupt_stays_counted_until_after_the_poll() {
    let hook = CountingHook::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        polling(|| {
            control().interrupt();
            checkpoint();
            assert!(await_(()).is_err());
            assert_eq!(hook.stops.get(), 0);
        });
        checkpoint();
        assert_eq!(hook.last.take().unwrap().0, Signal::Interrupt);
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 1);
}

#[test]
fn cancellation_unwinds_a_checkpoint_inside_a_poll_and_an_await_is_refused_as_ever() {
    run_as_root(&mut Root::new("task", Mask::NONE), None, || {
        control().kill();
        assert_eq!(polling(|| await_(()).unwrap_err().reason()), Reason::InsidePoll);
        assert!(protect(|| polling(checkpoint)).unwrap_err().is_cancelled());
    })
    .unwrap();
}

#[test]
fn a_breakpoint_that_nobody_wants_goes_on_at_once() {
    polling(|| assert!(debug(()).is_ok()));
}
