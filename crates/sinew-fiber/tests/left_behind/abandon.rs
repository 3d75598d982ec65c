//! Code that must never return, because others borrow from its stack, leaves the fiber that is being dropped for ever.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::raw::{abandon, catch};
use sinew_fiber::{Fiber, Mask, Signal, await_, error, protect, quarantined, yield_};

use crate::support::Log;
use crate::{ONE_AT_A_TIME, support};

#[test]
fn whoever_drops_the_fiber_goes_on_and_what_lies_on_its_stack_stays() {
    let _alone = ONE_AT_A_TIME.lock();
    let before = quarantined().count;
    let (log, lent) = (Log::default(), Rc::new(Cell::new(std::ptr::null::<[u64; 64]>())));
    let (body_log, to) = (log.clone(), lent.clone());
    let fiber = Fiber::builder().name("lender").build(move |_| {
        let _unwound = body_log.on_drop("its stack was unwound");
        let numbers = [7u64; 64];
        to.set(&raw const numbers);
        assert!(catch(|| drop(yield_(()))).is_err());
        body_log.note("leaves");
        abandon();
        body_log.note("came back");
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_eq!(log.entries(), ["leaves"]);
    assert_eq!(quarantined().count, before + 1);
    assert!(quarantined().fibers.iter().any(|link| link.name.as_deref() == Some("lender")));
    // Other fibers run, on other stacks.
    for _ in 0..10 {
        let fiber = Fiber::new(|_| std::hint::black_box([1u8; 4096]).len() as u32).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    }
    // SAFETY: the stack of a quarantined fiber stays as it is.
    assert_eq!(unsafe { *lent.get() }, [7u64; 64]);
    assert!(!std::thread::panicking());
}

#[test]
fn from_a_fiber_below_the_dropped_one_the_whole_chain_is_left() {
    let _alone = ONE_AT_A_TIME.lock();
    let before = quarantined().count;
    let log = Log::default();
    let body_log = log.clone();
    let outer = Fiber::builder().mask(Mask::AWAIT).build(move |_| {
        let _outer = body_log.on_drop("outer");
        let inner = Fiber::builder().mask(Mask::NONE).build(move |_| {
            let _inner = body_log.on_drop("inner");
            assert!(protect(|| drop(await_(()))).is_err());
            abandon()
        });
        let _ = inner.unwrap().resume(());
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Await);
    let view = outer.lineage().swap_remove(1);
    assert!(outer.end().is_err(), "it has not ended as it should");
    assert!(log.entries().is_empty());
    assert_eq!(quarantined().count, before + 1);
    assert!(view.can_resume(), "it never ended");
    let fiber = Fiber::new(|_| ()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn without_a_fiber_that_is_being_dropped_it_returns_false() {
    assert!(!abandon());
    let fiber = Fiber::new(|_| abandon()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert!(!support::taken::<bool>(&fiber));
}

#[test]
fn in_the_middle_of_an_unwind_it_returns_false() {
    struct Leaves(Rc<Cell<Option<bool>>>);
    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.set(Some(abandon()));
        }
    }
    let _alone = ONE_AT_A_TIME.lock();
    let before = quarantined().count;
    let left = Rc::new(Cell::new(None));
    let leaves = Leaves(left.clone());
    let fiber = Fiber::new(move |_| {
        let _leaves = leaves;
        drop(yield_(()));
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_eq!((left.get(), quarantined().count), (Some(false), before));
}

#[test]
fn a_fiber_that_a_destructor_drops_is_left_while_its_dropper_unwinds_on() {
    let _alone = ONE_AT_A_TIME.lock();
    let before = quarantined().count;
    let fiber = Fiber::new(|_| {
        assert!(catch(|| drop(yield_(()))).is_err());
        abandon()
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let raised = protect(|| {
        let _dropped_by_the_unwind = fiber;
        error("boom")
    });
    assert_eq!(raised.unwrap_err().value.downcast::<&str>().unwrap(), "boom");
    assert_eq!(quarantined().count, before + 1);
    assert!(!std::thread::panicking());
}
