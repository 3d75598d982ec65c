//! Dropping a fiber ends it: nothing of its body is left when the drop returns.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{
    Cancelled, Fiber, Generator, Mask, Raised, Reason, Root, Signal, Stack, StackSize, Status, Value,
    checkpoint, control, defer, error, ffi_scope, protect, run_as_root, shield, signal, usage, yield_,
};

use crate::drop_support::{Log, OnDrop};
use crate::stack_support::pass_in_child;

/// A fiber that is paused inside its body, with a guard on its stack.
fn paused(log: &Log, guard: &'static str) -> Fiber {
    let guard = log.guard(guard);
    let fiber = Fiber::new(move |_| {
        let _guard = guard;
        yield_(()).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber
}

#[test]
fn a_new_fiber_that_is_dropped_drops_its_body_unrun() {
    let log = Log::new();
    let (guard, inside) = (log.guard("captured"), log.clone());
    let fiber = Fiber::new(move |_| {
        let _guard = guard;
        inside.note("ran");
    })
    .unwrap();
    let view = fiber.view();
    drop(fiber);
    assert_eq!(log.take(), ["captured"]);
    assert_eq!(view.status(), Status::Error);
}

#[test]
fn a_suspended_fiber_that_is_dropped_runs_its_destructors_and_defers_innermost_first() {
    let log = Log::new();
    let inside = log.clone();
    let fiber = Fiber::new(move |_| {
        let _first = inside.guard("first local");
        defer(
            || inside.note("defer"),
            || {
                let _second = inside.guard("second local");
                let raised = protect(|| yield_(()).map(drop)).unwrap_err();
                assert!(raised.is_cancelled());
                assert_eq!(raised.signal, Signal::Error);
                inside.note("cancelled");
                error(Cancelled)
            },
        )
    })
    .unwrap();
    let view = fiber.view();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(log.take(), [""; 0]);
    drop(fiber);
    assert_eq!(log.take(), ["cancelled", "second local", "defer", "first local"]);
    assert_eq!(view.status(), Status::Error, "it has ended");
    assert!(!view.can_resume());
}

#[test]
fn a_chain_that_is_dropped_ends_from_the_innermost_fiber_outwards() {
    fn nest(levels: usize, log: &Log) -> Fiber {
        let log = log.clone();
        let mask = if levels == 0 { Mask::YIELD } else { Mask::NONE };
        let body = move |_| {
            let _guard = OnDrop(|| log.note(format!("level {levels}")));
            match levels {
                3 => drop(yield_(()).unwrap()),
                _ => drop(nest(levels + 1, &log).resume(()).unwrap()),
            }
        };
        Fiber::builder().mask(mask).build(body).unwrap()
    }
    let log = Log::new();
    let fiber = nest(0, &log);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let lineage = fiber.lineage();
    assert_eq!(lineage.len(), 4);
    drop(fiber);
    assert_eq!(log.take(), ["level 3", "level 2", "level 1", "level 0"]);
    for fiber in lineage {
        assert_eq!(fiber.status(), Status::Error);
    }
}

#[test]
fn a_fiber_that_stopped_with_any_resumable_signal_ends_when_it_is_dropped() {
    for raised in Signal::ALL.into_iter().filter(|signal| !signal.is_terminal()) {
        let log = Log::new();
        let inside = log.clone();
        let fiber = Fiber::builder().mask(Mask::of(raised)).build(move |_| {
            let _guard = inside.guard("destructor");
            signal(raised, 1u32).unwrap();
            inside.note("went on");
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), raised);
        drop(fiber);
        assert_eq!(log.take(), ["destructor"], "{raised}");
    }
}

#[test]
fn a_fiber_that_was_interrupted_ends_where_it_was_when_it_is_dropped() {
    let log = Log::new();
    let inside = log.clone();
    let fiber = Fiber::builder().mask(Mask::INTERRUPT).build(move |_| {
        let _guard = inside.guard("destructor");
        control().interrupt();
        checkpoint();
        inside.note("went on");
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Interrupt);
    drop(fiber);
    assert_eq!(log.take(), ["destructor"]);
}

#[test]
fn what_the_last_signal_carried_is_dropped_with_the_fiber() {
    struct Noisy(std::sync::mpsc::Sender<()>);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (sender, dropped) = std::sync::mpsc::channel();
    let fiber = Fiber::new(move |_| drop(yield_(Value::new(Noisy(sender))))).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert!(dropped.try_recv().is_err());
    drop(fiber);
    dropped.try_recv().unwrap();
}

#[test]
fn the_stack_of_a_dropped_fiber_is_reused() {
    let address = Rc::new(Cell::new(0));
    let out = address.clone();
    let fiber = Fiber::builder().stack(StackSize::KiB128).build(move |_| {
        out.set(std::ptr::from_ref(&out).addr());
        yield_(()).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    let stack = Stack::take(StackSize::KiB128).unwrap();
    assert!((stack.limit().addr().get()..stack.top().addr().get()).contains(&address.get()));
}

#[test]
fn ten_thousand_suspended_fibers_are_dropped_and_leave_no_stack_in_use() {
    pass_in_child(
        module_path!(),
        "ten_thousand_suspended_fibers_are_dropped_and_leave_no_stack_in_use",
        || {
            const COUNT: usize = 10_000;
            let log = Log::new();
            let before = usage().in_use;
            let fibers: Vec<Fiber> = (0..COUNT).map(|_| paused(&log, "destructor")).collect();
            assert_eq!(usage().in_use, before + COUNT);
            drop(fibers);
            assert_eq!(log.take().len(), COUNT);
            assert_eq!(usage().in_use, before);
        },
    );
}

#[test]
fn signals_that_are_caught_inside_a_dropped_fiber_work_as_always() {
    let log = Log::new();
    let inside = log.clone();
    let fiber = Fiber::new(move |_| {
        let numbers = || Generator::new(|out| (1..=4u32).for_each(|n| out.yield_(n))).unwrap();
        let of_destructor = inside.clone();
        let _guard = OnDrop(move || of_destructor.note(format!("destructor {}", numbers().sum::<u32>())));
        defer(
            || {
                let caught = protect(|| error(numbers().product::<u32>())).unwrap_err();
                inside.note(format!("defer {:?}", caught.value));
            },
            || {
                let raised = protect(|| yield_(()).map(drop)).unwrap_err();
                inside.note(format!("caught {:?} {:?}", raised.value, numbers().collect::<Vec<_>>()));
                error("another")
            },
        )
    })
    .unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let raised = fiber.end().unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "another");
    assert_eq!(log.take(), ["caught Cancelled [1, 2, 3, 4]", "defer 24", "destructor 10"]);
}

#[test]
fn a_destructor_may_drop_other_suspended_fibers() {
    let log = Log::new();
    let others: Vec<Fiber> = ["a", "b", "c"].map(|name| paused(&log, name)).into_iter().collect();
    let inside = log.clone();
    let fiber = Fiber::new(move |_| {
        let _others = others;
        let _more = paused(&inside, "made inside");
        let _guard = inside.guard("own");
        yield_(()).unwrap();
    })
    .unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_eq!(log.take(), ["own", "made inside", "a", "b", "c"]);
}

#[test]
fn a_fiber_is_ended_by_the_unwind_of_its_owner() {
    let log = Log::new();
    let panicked = protect(|| -> () {
        let inside = log.clone();
        let fiber = Fiber::new(move |_| {
            let of_destructor = inside.clone();
            let _guard = OnDrop(move || {
                let numbers = Generator::new(|out| (0..3u32).for_each(|n| out.yield_(n))).unwrap();
                of_destructor.note(format!("destructor {:?}", numbers.collect::<Vec<_>>()));
            });
            defer(
                || {
                    let numbers = Generator::new(|out| (5..8u32).for_each(|n| out.yield_(n))).unwrap();
                    inside.note(format!("defer {:?}", numbers.collect::<Vec<_>>()));
                },
                || drop(yield_(()).unwrap()),
            );
        })
        .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        panic!("the owner");
    });
    assert!(panicked.unwrap_err().to_string().contains("the owner"));
    assert_eq!(log.take(), ["defer [5, 6, 7]", "destructor [0, 1, 2]"]);
    assert!(!std::thread::panicking());
}

#[test]
fn a_fiber_is_ended_by_a_panic_of_its_thread() {
    let thread = std::thread::spawn(|| {
        let (sender, ended) = std::sync::mpsc::channel();
        let _check = OnDrop(move || assert_eq!(ended.try_recv(), Ok("ended")));
        let fiber = Fiber::new(move |_| {
            let _guard = OnDrop(|| sender.send("ended").unwrap());
            yield_(()).unwrap();
        })
        .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        std::panic::resume_unwind(Box::new("of the thread"));
    });
    assert_eq!(thread.join().unwrap_err().downcast_ref(), Some(&"of the thread"));
}

#[test]
fn end_says_how_it_went() {
    fn end(body: impl FnOnce() + 'static) -> Result<(), Raised> {
        let fiber = Fiber::builder().mask(Mask::ALL).build(move |_| body()).unwrap();
        let _ = fiber.resume(()).unwrap();
        fiber.end()
    }
    Fiber::new(|_| ()).unwrap().end().unwrap();
    end(|| ()).unwrap();
    end(|| drop(yield_(()).unwrap())).unwrap();
    end(|| drop(protect(|| yield_(()).map(drop)).unwrap_err())).unwrap();

    let failed_before = end(|| error("before")).unwrap_err();
    assert_eq!(failed_before.value.downcast::<&str>().unwrap(), "before");
    let panicked = end(|| {
        let _ = protect(|| yield_(()).map(drop));
        panic!("instead");
    });
    assert!(panicked.unwrap_err().to_string().contains("instead"));
    let in_cleanup = end(|| defer(|| error("cleanup"), || drop(yield_(()).unwrap()))).unwrap_err();
    assert_eq!(in_cleanup.value.downcast::<&str>().unwrap(), "cleanup");
    let other_signal = end(|| {
        let _ = protect(|| yield_(()).map(drop));
        signal(Signal::User2, 7u32).map(drop).unwrap();
    });
    let other_signal = other_signal.unwrap_err();
    assert_eq!(other_signal.signal, Signal::User2);
    assert_eq!(other_signal.value.downcast::<u32>().unwrap(), 7);
}

#[test]
fn in_a_shield_of_the_dropped_fiber_signals_fail_and_after_it_they_unwind() {
    let log = Log::new();
    let inside = log.clone();
    let fiber = Fiber::new(move |_| {
        let _guard = inside.guard("destructor");
        shield(|| {
            for round in 0..20 {
                let refused = yield_(round).unwrap_err();
                assert_eq!(refused.reason(), Reason::Ending);
            }
            protect(|| assert_eq!(yield_(()).unwrap_err().reason(), Reason::Ending)).unwrap();
            inside.note("shielded");
        });
        let _ = yield_(());
        inside.note("not reached");
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
    assert_eq!(log.take(), ["shielded", "destructor"]);
}

#[test]
fn a_shield_or_ffi_scope_of_the_owner_does_not_keep_a_fiber_from_ending() {
    let body = |log: &Log| {
        let log = log.clone();
        let fiber = Fiber::new(move |_| {
            let _guard = log.guard("destructor");
            // Ignores refusals, so it would go on for ever if its yields were refused.
            for _ in 0..100 {
                let _ = yield_(());
            }
            log.note("went on");
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        fiber
    };
    let log = Log::new();
    let fiber = body(&log);
    shield(|| drop(fiber));
    assert_eq!(log.take(), ["destructor"], "dropped in a shield");
    let fiber = body(&log);
    defer(|| drop(fiber), || ());
    assert_eq!(log.take(), ["destructor"], "dropped in a cleanup");
    let fiber = body(&log);
    ffi_scope(|| drop(fiber)).unwrap();
    assert_eq!(log.take(), ["destructor"], "dropped in an ffi_scope");
}

#[test]
fn a_fiber_outlives_the_root_that_ran_it_and_is_ended_under_another() {
    let log = Log::new();
    let mut root = Root::new("first", Mask::NONE);
    let fiber = run_as_root(&mut root, None, || paused(&log, "destructor")).unwrap();
    drop(root);
    let mut other = Root::new("second", Mask::NONE);
    run_as_root(&mut other, None, || drop(fiber)).unwrap();
    assert_eq!(log.take(), ["destructor"]);
}
