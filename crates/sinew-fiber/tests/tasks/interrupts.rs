//! Interrupts are counted, and each stops the task once, wherever somebody asked for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use sinew_fiber::{
    Control, Fiber, Hook, Mask, Root, Signal, Status, Value, await_, checkpoint, control, debug, error,
    propagate, protect, run_as_root, signal, yield_,
};
use sinew_sync::statics::{AtomicU32, OnceLock, Ordering};

use crate::drop_support::{Log, OnDrop};

/// Notes the signals that reach the root.
#[derive(Default)]
struct Notes(RefCell<Vec<Signal>>);

impl Hook for Notes {
    fn stop(&self, signal: Signal, _: Value) -> Value {
        self.0.borrow_mut().push(signal);
        Value::UNIT
    }
}

/// A task of its own, without a hook, so that nothing of the test's thread is in the way.
fn in_a_task<T>(body: impl FnOnce() -> T) -> T {
    run_as_root(&mut Root::new("task", Mask::NONE), None, body).unwrap()
}

#[test]
fn three_interrupts_stop_a_fiber_three_times_and_it_can_be_continued() {
    in_a_task(|| {
        let fiber = Fiber::builder().mask(Mask::INTERRUPT).build(|_| {
            checkpoint();
            5u32
        });
        let fiber = fiber.unwrap();
        for _ in 0..3 {
            control().interrupt();
        }
        for _ in 0..3 {
            assert_eq!(fiber.resume("ignored").unwrap(), Signal::Interrupt);
            assert_eq!(fiber.status(), Status::Interrupted);
            fiber.take_value().downcast::<()>().unwrap();
        }
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 5);
    });
}

#[test]
fn an_interrupt_stops_the_task_before_its_next_operation_of_any_kind() {
    fn with_a_paused_fiber(operation: impl FnOnce(&Fiber)) {
        let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| drop(yield_(()))).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        control().interrupt();
        operation(&fiber);
    }
    let operations: [(&str, fn()); 10] = [
        ("resume", || with_a_paused_fiber(|fiber| assert_eq!(fiber.resume(()).unwrap(), Signal::Ok))),
        ("next", || {
            let mut fiber = Fiber::new(|_| drop(yield_(()))).unwrap();
            control().interrupt();
            fiber.next().unwrap().map(drop).unwrap();
        }),
        ("cancel", || with_a_paused_fiber(|fiber| assert_eq!(fiber.cancel("now").unwrap(), Signal::Error))),
        ("propagate", || with_a_paused_fiber(|fiber| drop(propagate(1u32, fiber).unwrap()))),
        ("yield", || {
            control().interrupt();
            yield_(1u32).unwrap();
        }),
        ("signal", || {
            control().interrupt();
            signal(Signal::User5, 1u32).unwrap();
        }),
        ("debug", || {
            control().interrupt();
            debug(1u32).unwrap();
        }),
        ("caught await", || {
            control().interrupt();
            signal(Signal::Await, 1u32).unwrap();
        }),
        ("await_", || {
            control().interrupt();
            await_(1u32).unwrap();
        }),
        ("checkpoint", || {
            control().interrupt();
            checkpoint();
        }),
    ];
    for (name, operation) in operations {
        in_a_task(|| {
            let mask = Mask::ALL | Mask::AWAIT | Mask::INTERRUPT;
            let fiber = Fiber::builder().mask(mask).build(move |_| operation()).unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Interrupt, "{name}");
            let mut signal = fiber.resume(()).unwrap().signal();
            if !signal.is_terminal() {
                assert_ne!(signal, Signal::Interrupt, "{name} was interrupted once");
                signal = fiber.resume(()).unwrap().signal();
            }
            assert_eq!(signal, Signal::Ok, "{name}");
        });
    }
}

#[test]
fn an_interrupt_reaches_a_hook_before_the_await_that_it_met() {
    let hook = Notes::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        control().interrupt();
        await_(()).unwrap();
        await_(()).unwrap();
    })
    .unwrap();
    assert_eq!(*hook.0.borrow(), [Signal::Interrupt, Signal::Await, Signal::Await]);
}

#[test]
fn an_interrupt_is_caught_at_any_level_of_the_chain() {
    fn chain(depth: usize, catcher: usize, level: usize) -> Fiber {
        let mask = if level == catcher { Mask::INTERRUPT } else { Mask::NONE };
        let body = move |_| match depth {
            0 => checkpoint(),
            depth => {
                let inner = chain(depth - 1, catcher, level + 1);
                let mut stops = 0;
                while inner.resume(()).unwrap() != Signal::Ok {
                    stops += 1;
                }
                assert_eq!(stops, if level + 1 == catcher { 2 } else { 0 });
            }
        };
        Fiber::builder().mask(mask).build(body).unwrap()
    }
    const DEPTH: usize = 5;
    for catcher in 0..=DEPTH {
        in_a_task(|| {
            let outer = chain(DEPTH, catcher, 0);
            control().interrupt();
            control().interrupt();
            if catcher == 0 {
                for _ in 0..2 {
                    assert_eq!(outer.resume(()).unwrap(), Signal::Interrupt);
                    assert!(outer.lineage().iter().all(|fiber| fiber.status() == Status::Interrupted));
                }
            }
            assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
        });
    }
}

#[test]
fn the_hook_of_the_root_gets_each_interrupt_that_no_fiber_catches() {
    for depth in [0, 1, 10] {
        let hook = Notes::default();
        run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
            fn descend(depth: usize) {
                if depth == 0 {
                    (0..3).for_each(|_| control().interrupt());
                    checkpoint();
                    return checkpoint();
                }
                let fiber = Fiber::builder().mask(Mask::ALL).build(move |_| descend(depth - 1)).unwrap();
                assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
            }
            descend(depth);
        })
        .unwrap();
        assert_eq!(*hook.0.borrow(), [Signal::Interrupt; 3]);
    }
}

#[test]
fn without_anybody_an_interrupt_stays_counted_until_somebody_asks() {
    let mut root = Root::new("task", Mask::NONE);
    root.control().interrupt();
    run_as_root(&mut root, None, || {
        for _ in 0..3 {
            checkpoint();
            debug(()).unwrap();
            let plain = Fiber::builder().mask(Mask::ALL).build(|_| drop(yield_(()).unwrap())).unwrap();
            assert_eq!(plain.resume(()).unwrap(), Signal::Yield);
            assert_eq!(plain.resume(()).unwrap(), Signal::Ok);
        }
        control().interrupt();
        let asks = Fiber::builder().mask(Mask::INTERRUPT).build(|_| checkpoint()).unwrap();
        assert_eq!(asks.resume(()).unwrap(), Signal::Interrupt);
        assert_eq!(asks.resume(()).unwrap(), Signal::Interrupt);
        assert_eq!(asks.resume(()).unwrap(), Signal::Ok);
        control().interrupt();
    })
    .unwrap();
    let hook = Notes::default();
    run_as_root(&mut root, Some(&hook), checkpoint).unwrap();
    assert_eq!(*hook.0.borrow(), [Signal::Interrupt], "also from one run of the root to the next");
}

#[test]
fn during_an_unwind_and_while_it_is_dropped_a_fiber_is_not_interrupted_and_the_count_stays() {
    let hook = Notes::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        let log = Log::new();
        let raised = protect(|| -> () {
            let _guard = OnDrop(|| {
                control().interrupt();
                checkpoint();
                assert!(yield_(()).is_err());
                log.note("unwound");
            });
            error("out");
        });
        raised.unwrap_err();
        assert_eq!(*hook.0.borrow(), []);
        checkpoint();
        assert_eq!(hook.0.take(), [Signal::Interrupt]);

        let inside = log.clone();
        let fiber = Fiber::builder().mask(Mask::YIELD | Mask::INTERRUPT).build(move |_| {
            let _ = protect(|| yield_(()).map(drop));
            control().interrupt();
            checkpoint();
            inside.note("dropped");
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        drop(fiber);
        assert_eq!(log.take(), ["unwound", "dropped"]);
        assert_eq!(*hook.0.borrow(), []);
        checkpoint();
        assert_eq!(*hook.0.borrow(), [Signal::Interrupt]);
    })
    .unwrap();
}

#[test]
fn a_busy_loop_is_stopped_from_another_thread_as_often_as_it_was_asked() {
    const COUNT: u32 = 1000;
    in_a_task(|| {
        let done = Rc::new(Cell::new(false));
        let inside = done.clone();
        let busy = Fiber::builder().mask(Mask::INTERRUPT).build(move |_| {
            while !inside.get() {
                checkpoint();
            }
        });
        let busy = busy.unwrap();
        let of_task = control();
        let other = thread::spawn(move || (0..COUNT).for_each(|_| of_task.interrupt()));
        for _ in 0..COUNT {
            assert_eq!(busy.resume(()).unwrap(), Signal::Interrupt);
        }
        other.join().unwrap();
        done.set(true);
        assert_eq!(busy.resume(()).unwrap(), Signal::Ok);
    });
}

static OF_HANDLER: OnceLock<Control> = OnceLock::new();
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    OF_HANDLER.get().expect("set before the handler").interrupt();
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_signal_handler_interrupts_the_task_that_it_met() {
    in_a_task(|| {
        OF_HANDLER.set(control()).unwrap();
        // SAFETY: all zeros is a valid sigaction, the handler has the signature of one without SA_SIGINFO,
        // and what it calls is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        }
        let busy = Fiber::builder().mask(Mask::INTERRUPT).build(|_| {
            // SAFETY: raise touches no memory of ours; the handler runs before it returns.
            unsafe { libc::raise(libc::SIGUSR1) };
            loop {
                checkpoint();
            }
        });
        let busy = busy.unwrap();
        assert_eq!(busy.resume(()).unwrap(), Signal::Interrupt, "of the handler on the fiber's own stack");

        // SAFETY: pthread_self has no preconditions.
        let (me, (go, gone)) = (unsafe { libc::pthread_self() }, mpsc::channel());
        let other = thread::spawn(move || {
            for _ in 0..10 {
                let before = HANDLED.load(Ordering::SeqCst);
                // SAFETY: the thread lives, it waits for this one below.
                assert_eq!(unsafe { libc::pthread_kill(me, libc::SIGUSR1) }, 0);
                while HANDLED.load(Ordering::SeqCst) == before {
                    thread::yield_now(); // two signals that are pending at once count as one
                }
            }
            go.send(()).unwrap();
        });
        for _ in 0..10 {
            assert_eq!(busy.resume(()).unwrap(), Signal::Interrupt, "of a handler in the middle of the loop");
        }
        gone.recv().unwrap();
        other.join().unwrap();
        assert_eq!(HANDLED.load(Ordering::SeqCst), 11);
    });
}

#[test]
fn an_interrupted_fiber_can_be_cancelled_instead_of_continued() {
    in_a_task(|| {
        let log = Log::new();
        let inside = log.clone();
        let fiber = Fiber::builder().mask(Mask::INTERRUPT | Mask::ERROR).build(move |_| {
            let _guard = inside.guard("destructor");
            loop {
                checkpoint();
            }
        });
        let fiber = fiber.unwrap();
        control().interrupt();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Interrupt);
        assert_eq!(fiber.cancel("too slow").unwrap(), Signal::Error);
        assert_eq!(fiber.take_value().downcast::<&str>().unwrap(), "too slow");
        assert_eq!(log.take(), ["destructor"]);
    });
}
