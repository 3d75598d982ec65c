//! Asking whether a wait would be refused, and waiting for a time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use sinew_fiber::raw::{await_for, is_shielded, may_await, open_scope, polling};
use sinew_fiber::{
    Fiber, Mask, Operation, Reason, Root, Signal, await_, control, ffi_scope, quarantined, run_as_root,
    shield, yield_,
};

use crate::support::CountingHook;

fn why_not() -> Option<Reason> {
    let asked = may_await().err().inspect(|refused| {
        assert_eq!(refused.operation(), Operation::Signal(Signal::Await));
    });
    asked.map(|refused| refused.reason())
}

#[test]
fn it_says_what_an_await_would_be_told() {
    assert_eq!(why_not(), None);
    assert_eq!(ffi_scope(why_not).unwrap(), Some(Reason::FfiScope));
    assert_eq!(polling(why_not), Some(Reason::InsidePoll));
    assert_eq!(open_scope(why_not), None);
    let fiber = Fiber::builder().mask(Mask::AWAIT).build(|_| {
        assert_eq!(why_not(), None);
        polling(|| {
            let inner = Fiber::builder().mask(Mask::AWAIT).build(|_| assert_eq!(why_not(), None)).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            let inner = Fiber::new(|_| assert_eq!(why_not(), Some(Reason::InsidePoll))).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
        });
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Ok);
}

#[test]
fn in_a_destructor_of_an_unwind_it_says_so() {
    struct Asks(Rc<Cell<Option<Reason>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.set(why_not());
        }
    }
    let told = Rc::new(Cell::new(None));
    let asks = Asks(told.clone());
    let fiber = Fiber::builder().mask(Mask::ERROR).build(move |_| {
        let _asks = asks;
        sinew_fiber::error("boom")
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Error);
    assert_eq!(told.get(), Some(Reason::Unwinding));
}

#[test]
fn in_a_fiber_that_is_dropped_it_says_so_and_counts_nothing() {
    let told = Rc::new(Cell::new((None, None)));
    let to = told.clone();
    let fiber = Fiber::new(move |_| {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(yield_(())))).is_err());
        for _ in 0..2000 {
            to.set((why_not(), shield(why_not)));
        }
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_eq!(told.get(), (Some(Reason::Ending), None));
    assert_eq!(quarantined().count, 0);
}

#[test]
fn it_looks_neither_at_cancellation_nor_at_interrupts() {
    let hook = CountingHook::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        control().interrupt();
        control().kill();
        assert_eq!(why_not(), None);
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 0);
}

#[test]
fn a_wait_for_a_time_ends_by_itself_on_a_thread_of_its_own() {
    let start = Instant::now();
    await_for(Some(Duration::from_millis(20))).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
    let fiber = Fiber::new(|_| await_for(Some(Duration::from_millis(1))).unwrap()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn a_wait_for_a_time_ends_early_when_the_thread_is_unparked_or_cancelled() {
    let waiter = std::thread::spawn(|| await_for(Some(Duration::from_secs(600))));
    waiter.thread().unpark();
    waiter.join().unwrap().unwrap();
    let (sender, handle) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        sender.send(control()).unwrap();
        loop {
            if let Err(refused) = await_for(Some(Duration::from_secs(600))) {
                return refused.reason();
            }
        }
    });
    handle.recv().unwrap().cancel();
    assert_eq!(waiter.join().unwrap(), Reason::Cancelled);
}

#[test]
fn where_there_is_a_hook_it_does_the_waiting() {
    let hook = CountingHook::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        await_for(Some(Duration::from_secs(600))).unwrap();
        await_for(None).unwrap();
        assert_eq!(polling(|| await_for(None).unwrap_err().reason()), Reason::InsidePoll);
        assert!(await_(()).is_ok());
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 3);
}

#[test]
fn whether_a_shield_is_open_is_known_below_it_and_no_longer() {
    assert!(!is_shielded());
    shield(|| {
        shield(|| ());
        assert!(is_shielded());
        let fiber = Fiber::new(|_| assert!(is_shielded())).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    });
    assert!(!is_shielded());
}
