//! A body that will not end is given up, and everything else goes on.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use sinew_fiber::{
    Fiber, Mask, Signal, Stack, StackSize, Status, await_, protect, quarantined, usage, yield_,
};

use crate::drop_support::{Log, OnDrop};
use crate::stack_support::pass_in_child;

/// A fiber that is paused and, when dropped, catches `Cancelled` and yields again, `times` times; and the
/// number of `Cancelled`s that it caught.
fn swallows(name: &'static str, times: usize, log: &Log) -> (Fiber, Rc<Cell<usize>>) {
    let caught = Rc::new(Cell::new(0));
    let (count, guard) = (caught.clone(), log.guard("destructor"));
    let fiber = Fiber::builder().name(name).stack(StackSize::KiB64).build(move |_| {
        let _guard = guard;
        for _ in 0..=times {
            assert!(protect(|| yield_(()).map(drop)).unwrap_err().is_cancelled());
            count.set(count.get() + 1);
        }
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    (fiber, caught)
}

fn names() -> Vec<String> {
    quarantined().fibers.into_iter().map(|link| link.name.unwrap_or_default().into_owned()).collect()
}

#[test]
fn a_body_that_swallows_cancelled_gets_it_again_until_it_ends() {
    for times in [1, 3, 8] {
        let log = Log::new();
        let (fiber, caught) = swallows("stubborn", times, &log);
        fiber.end().unwrap();
        assert_eq!(caught.get(), 1 + times);
        assert_eq!(log.take(), ["destructor"]);
    }
    assert!(!names().iter().any(|name| name == "stubborn"));
}

#[test]
fn a_body_that_swallows_cancelled_once_more_is_given_up() {
    let log = Log::new();
    let (fiber, caught) = swallows("nine times", 9, &log);
    let view = fiber.view();
    let raised = fiber.end().unwrap_err();
    assert_eq!(raised.signal, Signal::Yield, "what it was doing when it was given up");
    assert_eq!(caught.get(), 1 + 8);
    assert_eq!(log.take(), [""; 0], "nothing on its stack is touched again");
    assert_eq!(view.status(), Status::Pending);
    assert!(names().iter().any(|name| name == "nine times"));
}

#[test]
fn the_process_goes_on_and_never_reuses_the_stacks_of_a_quarantined_chain() {
    pass_in_child(
        module_path!(),
        "the_process_goes_on_and_never_reuses_the_stacks_of_a_quarantined_chain",
        || {
            let addresses = Rc::new(RefCell::new(Vec::new()));
            let note = |addresses: &RefCell<Vec<usize>>| {
                let local = 0u8;
                addresses.borrow_mut().push(std::ptr::from_ref(&local).addr());
            };
            let of_outer = addresses.clone();
            let outer = Fiber::builder().name("outer").stack(StackSize::KiB64).build(move |_| {
                note(&of_outer);
                let of_inner = of_outer.clone();
                let inner = Fiber::builder().mask(Mask::NONE).stack(StackSize::KiB64).build(move |_| {
                    note(&of_inner);
                    loop {
                        let caught = protect(|| yield_(()).map(drop));
                        assert!(caught.unwrap_err().is_cancelled());
                    }
                });
                inner.unwrap().resume(()).map(drop).unwrap();
            });
            let outer = outer.unwrap();
            assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
            let in_use = usage().in_use;
            drop(outer);
            assert_eq!(quarantined().count, 1);
            assert_eq!(names(), ["outer"]);
            assert_eq!(quarantined().fibers[0].created.file(), file!());
            assert_eq!(
                usage().in_use,
                in_use,
                "its stacks count as used, that of its last `protect` as well"
            );

            let stacks: Vec<Stack> = (0..5_000).map(|_| Stack::take(StackSize::KiB64).unwrap()).collect();
            assert_eq!(stacks.iter().map(Stack::limit).collect::<HashSet<_>>().len(), stacks.len());
            for address in addresses.borrow().iter() {
                let holds =
                    |stack: &Stack| (stack.limit().addr().get()..stack.top().addr().get()).contains(address);
                assert!(!stacks.iter().any(holds));
            }
            assert_eq!(addresses.borrow().len(), 2);
            drop(stacks);

            let log = Log::new();
            for round in 1..=300 {
                swallows("more", 9, &log).0.end().unwrap_err();
                assert_eq!(quarantined().count, 1 + round);
            }
            assert_eq!(quarantined().fibers.len(), 256, "the first are remembered by name");
            assert_eq!(Fiber::new(|_| 1u32).unwrap().resume(()).unwrap(), Signal::Ok);
        },
    );
}

#[test]
fn a_body_that_swallows_cancelled_and_waits_is_not_waited_for() {
    let waits = Rc::new(Cell::new(0));
    let count = waits.clone();
    let fiber = Fiber::builder().build(move |_| {
        let _ = protect(|| yield_(()).map(drop));
        for _ in 0..3 {
            assert!(protect(|| await_(()).map(drop)).unwrap_err().is_cancelled());
            count.set(count.get() + 1);
        }
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
    assert_eq!(waits.get(), 3);
}

#[test]
fn a_body_that_will_not_end_is_given_up_also_while_its_owner_unwinds() {
    let log = Log::new();
    let raised = protect(|| -> () {
        let (fiber, caught) = swallows("during an unwind", 100, &log);
        let _check = OnDrop(move || assert_eq!(caught.get(), 1 + 8));
        let _fiber = fiber;
        panic!("the owner");
    });
    raised.unwrap_err();
    assert!(names().iter().any(|name| name == "during an unwind"));
    assert!(!std::thread::panicking());
}

#[test]
fn a_body_that_goes_on_for_ever_while_its_owner_unwinds_does_not_hang_the_drop() {
    let fiber = Fiber::builder().name("unmoved").build(|_| {
        loop {
            // Swallows what ends it behind our back, and ignores every refusal.
            let _ = std::panic::catch_unwind(|| yield_(()).map(drop));
        }
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _dropped_by_the_unwind = fiber;
        std::panic::resume_unwind(Box::new("the owner"));
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"the owner"));
    assert!(quarantined().fibers.iter().any(|link| link.name.as_deref() == Some("unmoved")));
}
