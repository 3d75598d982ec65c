//! A task is cancelled at two levels that stay, and a shield defers both.

use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::thread;

use sinew_fiber::{
    CancelLevel, Control, Fiber, Generator, Hook, Mask, Raised, Reason, Root, Signal, Status, Value, await_,
    checkpoint, control, debug, defer, error, protect, run_as_root, shield, signal, yield_,
};

use crate::drop_support::Log;

/// Answers every signal with 7 and counts them; may do something meanwhile.
struct Sevens<F: Fn() = fn()> {
    stops: Cell<u32>,
    meanwhile: F,
}

fn sevens() -> Sevens {
    Sevens { stops: Cell::new(0), meanwhile: || () }
}

impl<F: Fn()> Hook for Sevens<F> {
    fn stop(&self, _: Signal, _: Value) -> Value {
        self.stops.set(self.stops.get() + 1);
        (self.meanwhile)();
        Value::new(7u32)
    }
}

type Ask = fn(&Control);

const LEVELS: [(Ask, CancelLevel); 2] =
    [(Control::cancel, CancelLevel::Cancel), (Control::kill, CancelLevel::Kill)];

fn run<T>(hook: &dyn Hook, body: impl FnOnce() -> T) -> Result<T, Raised> {
    run_as_root(&mut Root::new("task", Mask::of(Signal::User5)), Some(hook), body)
}

#[test]
fn at_cancel_a_call_that_can_fail_fails_and_does_not_block() {
    let hook = sevens();
    run(&hook, || {
        assert_eq!(await_(()).unwrap().downcast::<u32>().unwrap(), 7);
        control().cancel();
        for _ in 0..3 {
            let refused = await_(()).unwrap_err();
            assert_eq!(refused.reason(), Reason::Cancelled);
        }
    })
    .unwrap();
    assert_eq!(hook.stops.get(), 1);
}

#[test]
fn at_cancel_calls_that_cannot_fail_unwind() {
    let blocking: [fn(); 3] = [
        checkpoint,
        || drop(debug(()).unwrap()),
        || drop(signal(Signal::User5, ()).unwrap()), // reaches the root, which has it in its mask
    ];
    for block in blocking {
        let hook = sevens();
        run(&hook, block).unwrap();
        let raised = run(&hook, || {
            control().cancel();
            block();
        });
        let raised = raised.unwrap_err();
        assert!(raised.is_cancelled());
        assert_eq!(raised.signal, Signal::Error);
    }
}

#[test]
fn at_kill_every_blocking_call_unwinds() {
    let blocking: [fn(); 4] =
        [|| drop(await_(())), checkpoint, || drop(debug(())), || drop(signal(Signal::User5, ()))];
    for block in blocking {
        let raised = run(&sevens(), || {
            control().kill();
            block();
        });
        assert!(raised.unwrap_err().is_cancelled());
    }
}

#[test]
fn a_level_stays_after_it_was_caught() {
    for (ask, level) in LEVELS {
        let mut root = Root::new("task", Mask::NONE);
        let control = root.control();
        assert_eq!(control.level(), None);
        run_as_root(&mut root, None, || {
            ask(&control);
            for _ in 0..20 {
                assert!(protect(checkpoint).unwrap_err().is_cancelled());
            }
        })
        .unwrap();
        assert_eq!(control.level(), Some(level));
        let raised = run_as_root(&mut root, None, checkpoint).unwrap_err();
        assert!(raised.is_cancelled(), "also in the root's next run");
        run_as_root(&mut Root::new("other", Mask::NONE), None, checkpoint).unwrap();
    }
}

#[test]
fn a_level_rises_and_never_falls() {
    let root = Root::new("task", Mask::NONE);
    let control = root.control();
    control.cancel();
    assert_eq!(control.level(), Some(CancelLevel::Cancel));
    control.kill();
    control.cancel();
    assert_eq!(control.level(), Some(CancelLevel::Kill));
}

#[test]
fn a_busy_task_is_cancelled_from_another_thread() {
    for (ask, _) in LEVELS {
        let log = Log::new();
        let (sender, receiver) = mpsc::channel::<Control>();
        let other = thread::spawn(move || ask(&receiver.recv().unwrap()));
        let mut root = Root::new("busy", Mask::NONE);
        let raised = run_as_root(&mut root, None, || {
            sender.send(control()).unwrap();
            let guard = log.guard("destructor");
            let inner = Fiber::builder().mask(Mask::NONE).build(move |_| {
                let _guard = guard;
                loop {
                    checkpoint();
                }
            });
            inner.unwrap().resume(()).map(drop).unwrap();
        });
        assert!(raised.unwrap_err().is_cancelled());
        assert_eq!(log.take(), ["destructor"]);
        assert_eq!(root.status(), Status::Error);
        other.join().unwrap();
    }
}

#[test]
fn a_task_that_is_cancelled_while_it_waits_is_told_when_it_goes_on() {
    for (ask, level) in LEVELS {
        let (sender, receiver) = mpsc::channel::<Control>();
        let (done, asked) = mpsc::channel();
        let other = thread::spawn(move || {
            ask(&receiver.recv().unwrap());
            done.send(()).unwrap();
        });
        let hook = Sevens {
            stops: Cell::new(0),
            meanwhile: move || {
                sender.send(control()).unwrap();
                asked.recv().unwrap();
            },
        };
        let outcome = run(&hook, || await_(()).unwrap_err().reason());
        match level {
            CancelLevel::Cancel => assert_eq!(outcome.unwrap(), Reason::Cancelled),
            CancelLevel::Kill => assert!(outcome.unwrap_err().is_cancelled()),
        }
        other.join().unwrap();
    }
}

#[test]
fn a_shield_defers_both_levels_and_they_take_effect_after_it() {
    for (ask, level) in LEVELS {
        let hook = sevens();
        let log = Log::new();
        let raised = run(&hook, || {
            shield(|| {
                ask(&control());
                checkpoint();
                assert_eq!(await_(()).unwrap().downcast::<u32>().unwrap(), 7);
                shield(checkpoint);
                checkpoint();
                protect(|| {
                    checkpoint();
                    await_(()).unwrap();
                })
                .unwrap();
                log.note("shielded");
            });
            assert_eq!(control().level(), Some(level));
            match level {
                CancelLevel::Cancel => assert_eq!(await_(()).unwrap_err().reason(), Reason::Cancelled),
                CancelLevel::Kill => assert!(protect(|| await_(()).map(drop)).unwrap_err().is_cancelled()),
            }
            log.note("seen");
            checkpoint();
            log.note("not reached");
        });
        assert!(raised.unwrap_err().is_cancelled());
        assert_eq!(log.take(), ["shielded", "seen"]);
        assert_eq!(hook.stops.get(), 2);
    }
}

#[test]
fn a_shield_ends_with_an_unwind_out_of_it() {
    run(&sevens(), || {
        control().kill();
        protect(|| shield(|| -> () { error("out") })).unwrap_err();
        let _ = protect(|| {
            protect(|| shield(|| -> () { error("out") })).unwrap_err();
            checkpoint();
            unreachable!("the shield is closed");
        });
        assert!(protect(checkpoint).unwrap_err().is_cancelled());
    })
    .unwrap();
}

#[test]
fn cleanup_may_wait_although_its_task_was_killed() {
    let hook = sevens();
    let answer = RefCell::default();
    let raised = run(&hook, || {
        let wait = || *answer.borrow_mut() = Some(await_(()).unwrap().downcast::<u32>().unwrap());
        defer(wait, || {
            control().kill();
            checkpoint();
        });
    });
    assert!(raised.unwrap_err().is_cancelled());
    assert_eq!(answer.take(), Some(7));
}

#[test]
fn yields_that_are_caught_inside_the_task_work_at_both_levels() {
    for (ask, _) in LEVELS {
        run(&sevens(), || {
            ask(&control());
            let numbers = Generator::new(|out| (0..5u32).for_each(|n| out.yield_(n))).unwrap();
            assert_eq!(numbers.sum::<u32>(), 10);
            let inner = |_| drop(signal(Signal::User6, 3u32).unwrap());
            let outer = Fiber::builder().mask(Mask::of(Signal::User6)).build(move |_| {
                let inner = Fiber::builder().mask(Mask::NONE).build(inner).unwrap();
                assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            });
            let outer = outer.unwrap();
            assert_eq!(outer.resume(()).unwrap(), Signal::User6);
            assert_eq!(outer.take_value().downcast::<u32>().unwrap(), 3);
            assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
        })
        .unwrap();
    }
}

#[test]
fn a_task_that_was_killed_does_not_end_the_fibers_of_another() {
    let mut killed = Root::new("killed", Mask::NONE);
    killed.control().kill();
    run_as_root(&mut Root::new("other", Mask::NONE), None, || {
        assert!(run_as_root(&mut killed, None, checkpoint).unwrap_err().is_cancelled());
        checkpoint();
    })
    .unwrap();
}

#[test]
fn a_fiber_in_a_shield_cannot_be_cancelled_and_stays_as_it_was() {
    /// One that yields inside the shield itself, and one that yields in a fiber below it.
    const BODIES: [fn(); 2] =
        [|| drop(yield_(1u32).unwrap()), || protect(|| drop(yield_(1u32).unwrap())).unwrap()];
    for body in BODIES {
        let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(move |_| {
            shield(body);
            yield_(2u32).unwrap();
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        let refused = fiber.cancel("now").unwrap_err();
        assert_eq!(refused.reason(), Reason::Shielded);
        assert_eq!((refused.status(), fiber.status()), (Status::Pending, Status::Pending));
        assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 1);
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 2);
        assert_eq!(fiber.cancel("now").unwrap(), Signal::Error);
        assert_eq!(fiber.take_value().downcast::<&str>().unwrap(), "now");
    }
}

#[test]
fn a_shield_around_the_resumer_does_not_keep_it_from_cancelling_a_fiber() {
    let fiber =
        Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| drop(yield_(()).unwrap())).unwrap();
    shield(|| {
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(fiber.cancel("now").unwrap(), Signal::Error);
    });
}

#[test]
fn a_thread_that_waits_without_a_hook_is_woken_by_either_level() {
    for (ask, level) in LEVELS {
        let (to_main, controls) = mpsc::channel();
        let waiter = thread::spawn(move || {
            to_main.send(control()).unwrap();
            // Nobody unparks it: only the level ends the wait, by an error or by unwinding.
            protect(|| while await_(()).is_ok() {})
        });
        ask(&controls.recv().unwrap());
        assert_eq!(waiter.join().unwrap().is_ok(), level == CancelLevel::Cancel);
    }
}
