//! Safe code that does what it should not: destructors, wakers, hooks and handles in the wrong place. Nothing of it may
//! break the scheduler or leave what was borrowed. A program of its own, because a test uses the addresses of the process up
//! and replaces its panic hook.
#![cfg(not(any(loom, shuttle)))]

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sinew_fiber::{
    Control, Fiber, Hook, Mask, Root, Signal, Stack, StackSize, Value, control, error, protect, run_as_root,
    shield, yield_,
};
use sinew_sched::{
    CurrentThread, Elapsed, Events, ManualClock, Runtime, Sleep, block_on, scope, sleep, sleep_async, spawn,
    spawn_future, timeout, yield_now,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

fn ends_well(runtime: Runtime) {
    let tasks: Vec<_> = (0..100u32)
        .map(|n| {
            runtime.spawn(move || {
                yield_now();
                n
            })
        })
        .collect();
    assert_eq!(tasks.into_iter().map(|task| task.join().unwrap()).sum::<u32>(), 4950);
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

/// Polls a sleep by hand, with a waker of the test's.
fn poll(sleep: Pin<&mut Sleep>, waker: &Waker) -> Poll<()> {
    sleep.poll(&mut Context::from_waker(waker))
}

/// Waits until `flag` is set, as code that computes does.
fn spin_until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn a_waker_that_panics_or_blocks_disturbs_nobody() {
    struct Bad {
        called: AtomicBool,
        panics: bool,
    }
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            self.called.store(true, Ordering::SeqCst);
            if self.panics {
                panic!("in a waker");
            }
            yield_now();
            sleep(Duration::from_millis(1));
        }
    }
    for workers in [1, 2] {
        for panics in [false, true] {
            // Its time passes only while everybody waits.
            let clock = ManualClock::new();
            let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
            let waits = move || {
                yield_now();
                let bad = Arc::new(Bad { called: AtomicBool::new(false), panics });
                let mut bad_sleep = Box::pin(sleep_async(Duration::from_secs(1)));
                assert!(poll(bad_sleep.as_mut(), &Waker::from(bad.clone())).is_pending());
                sleep(Duration::from_secs(2));
                assert!(bad.called.load(Ordering::SeqCst));
            };
            let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(waits)).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            ends_well(runtime);
        }
    }
}

#[test]
fn a_waker_whose_destructor_uses_the_timers_is_dropped_outside_their_lock() {
    struct Holds(Mutex<Option<Pin<Box<Sleep>>>>);
    impl Wake for Holds {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let runtime = runtime(1);
    runtime
        .run(|| {
            let mut inner = Box::pin(sleep_async(Duration::from_secs(1000)));
            assert!(poll(inner.as_mut(), Waker::noop()).is_pending());
            let waker = Waker::from(Arc::new(Holds(Mutex::new(Some(inner)))));
            let mut outer = Box::pin(sleep_async(Duration::from_secs(1000)));
            assert!(poll(outer.as_mut(), &waker).is_pending());
            drop(waker);
            assert!(poll(outer.as_mut(), Waker::noop()).is_pending(), "the last one was replaced");
        })
        .unwrap();
    ends_well(runtime);
}

#[test]
fn a_sleep_that_is_polled_elsewhere_is_woken_there() {
    fn polled_once(duration: Duration) -> (Pin<Box<Sleep>>, bool) {
        let mut sleep = Box::pin(sleep_async(duration));
        let once = std::future::poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context)));
        let waits = block_on(once).unwrap().is_pending();
        (sleep, waits)
    }
    // A machine that is so busy that the time has passed by now has shown nothing.
    let (sleep, _) = polled_once(Duration::from_millis(20));
    std::thread::spawn(move || block_on(sleep).unwrap()).join().unwrap();

    let clock = ManualClock::new();
    let one_worker = || Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let first = one_worker();
    let (sleep, waits) = first.run(|| polled_once(Duration::from_secs(3600))).unwrap();
    assert!(waits);
    drop(first);
    let second = one_worker();
    second.run(move || block_on(sleep).unwrap()).unwrap();
    assert!(clock.now().as_nanos() >= 3_600_000_000_000);
    ends_well(second);
}

#[test]
fn failures_that_a_scope_does_not_want_may_block_and_panic_when_they_are_dropped() {
    struct Yields;
    impl Drop for Yields {
        fn drop(&mut self) {
            (0..3).for_each(|_| yield_now());
        }
    }
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in a destructor");
            }
        }
    }
    for workers in [1, 2] {
        let runtime = runtime(workers);
        runtime
            .run(|| {
                for n in 0..40 {
                    let outcome = scope(|scope| {
                        scope.keep_going();
                        for _ in 0..4 {
                            scope.spawn(move || {
                                if n % 2 == 0 {
                                    error(Value::new(Yields));
                                }
                                error(Value::new(Panics));
                            });
                        }
                    });
                    std::mem::forget(outcome);
                }
            })
            .unwrap();
        ends_well(runtime);
    }
}

#[test]
fn a_closer_that_starts_a_child_is_waited_for() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        runtime
            .run(|| {
                let number = AtomicUsize::new(7);
                let ended = AtomicUsize::new(0);
                scope(|scope| {
                    let (number, ended) = (&number, &ended);
                    scope.on_exit(move || {
                        scope.spawn(move || {
                            (0..50).for_each(|_| yield_now());
                            scope.on_exit(move || {
                                scope.spawn(move || {
                                    yield_now();
                                    ended.fetch_add(number.load(Ordering::SeqCst), Ordering::SeqCst);
                                });
                            });
                            ended.fetch_add(number.load(Ordering::SeqCst), Ordering::SeqCst);
                        });
                    });
                })
                .unwrap();
                assert_eq!(ended.load(Ordering::SeqCst), 14);
            })
            .unwrap();
        ends_well(runtime);
    }
}

#[test]
fn a_scope_under_a_root_whose_hook_panics_leaves_no_child_behind() {
    struct Panics;
    impl Hook for Panics {
        fn stop(&self, _: Signal, _: Value) -> Value {
            panic!("in a hook");
        }
    }
    let runtime = runtime(2);
    let left = runtime.run(|| {
        let mut root = Root::new("inner", Mask::NONE);
        run_as_root(&mut root, Some(&Panics), || {
            let users = AtomicUsize::new(0);
            let _ = protect(|| {
                scope(|scope| {
                    scope.spawn(|| {
                        users.fetch_add(1, Ordering::SeqCst);
                        (0..20).for_each(|_| yield_now());
                        users.fetch_sub(1, Ordering::SeqCst);
                    });
                })
            });
            users.load(Ordering::SeqCst)
        })
    });
    assert_eq!(left.unwrap().unwrap(), 0);
    ends_well(runtime);
}

#[test]
fn a_scope_that_finds_no_stack_to_wait_on_waits_all_the_same() {
    let size = StackSize::Custom(StackSize::MOST);
    let runtime = Runtime::builder().workers(2).stack(size).build().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let tries = Arc::new(AtomicUsize::new(0));
    let (stacks, failed, seen) = (taken.clone(), tries.clone(), tries.clone());
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        if panic.to_string().contains("needs a stack") && failed.fetch_add(1, Ordering::SeqCst) == 2 {
            taken.lock().unwrap().clear(); // the next try finds one
        }
    }));
    let task = runtime.spawn(move || {
        let (started, number) = (AtomicBool::new(false), AtomicUsize::new(7));
        let _ = protect(|| {
            scope(|scope| {
                scope.spawn(|| {
                    started.store(true, Ordering::SeqCst);
                    while seen.load(Ordering::SeqCst) < 3 {
                        std::thread::yield_now();
                    }
                    assert_eq!(number.load(Ordering::SeqCst), 7);
                });
                spin_until(&started);
                while let Ok(stack) = Stack::take(size) {
                    stacks.lock().unwrap().push(stack);
                }
            })
        });
        number.store(0, Ordering::SeqCst);
    });
    task.join().unwrap();
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[test]
fn what_a_supervised_task_raises_may_panic_when_it_is_shown_or_dropped() {
    #[derive(Debug)]
    struct BadText;
    impl fmt::Display for BadText {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in a text");
        }
    }
    impl std::error::Error for BadText {}
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in a destructor");
            }
        }
    }
    let runtime = runtime(1);
    let events = Events::new();
    let shown = runtime.task().supervisor(&events).spawn(|| error(Value::error(BadText)));
    assert!(shown.join().map(|(): ()| ()).is_err());
    // What it raises is for nobody: else it would be dropped, and panic, where the events are.
    let gone = Arc::new(AtomicBool::new(false));
    let (events, is_gone) = (Events::new(), gone.clone());
    let dropped = runtime.task().supervisor(&events).spawn(move || {
        spin_until(&is_gone);
        error(Value::new(Panics))
    });
    drop(events);
    gone.store(true, Ordering::Release);
    assert!(dropped.join().map(|(): ()| ()).is_err());
    ends_well(runtime);
}

#[test]
fn a_supervisor_that_goes_lets_its_stopped_tasks_end() {
    for (shielded, late) in [(false, false), (true, false), (false, true), (true, true)] {
        let runtime = runtime(1);
        let events = Events::new();
        let gone = Arc::new(AtomicBool::new(!late));
        let is_gone = gone.clone();
        let stopped = runtime.task().supervisor(&events).spawn(move || {
            spin_until(&is_gone);
            if shielded { shield(|| drop(yield_(1u32))) } else { drop(yield_(1u32)) }
        });
        if !late {
            while events.is_empty() {
                std::thread::yield_now();
            }
        }
        drop(events);
        gone.store(true, Ordering::SeqCst);
        assert_eq!(stopped.join().is_err(), !shielded, "in a shield it goes on");
        ends_well(runtime);
    }
}

#[test]
fn a_builder_that_outlives_its_runtime_starts_cancelled_tasks() {
    let runtime = runtime(1);
    let (builder, future) = (runtime.task().name("late"), runtime.task());
    drop(runtime);
    assert!(builder.spawn(|| 1).join().unwrap_err().is_cancelled());
    assert!(future.spawn_future(async { 1 }).join().unwrap_err().is_cancelled());
    let current = Runtime::builder().build_current_thread().unwrap();
    let builder = current.task();
    drop(current);
    assert!(builder.spawn(|| 1).join().unwrap_err().is_cancelled());
}

#[test]
fn spawns_that_race_with_a_shutdown_are_run_or_cancelled() {
    for _ in 0..100 {
        let runtime = runtime(2);
        let builders: Vec<_> = (0..8).map(|_| runtime.task()).collect();
        let spawner = std::thread::spawn(move || {
            builders.into_iter().all(|builder| match builder.spawn(|| 1).join() {
                Ok(result) => result == 1,
                Err(raised) => raised.is_cancelled(),
            })
        });
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        assert!(spawner.join().unwrap());
    }
}

#[test]
fn a_root_of_one_s_own_inside_a_task_waits_like_a_thread() {
    let runtime = runtime(2);
    let waited = runtime.run(|| {
        let mut root = Root::new("inner", Mask::NONE);
        run_as_root(&mut root, None, || {
            sleep(Duration::from_millis(2));
            spawn(|| 5).join().unwrap()
        })
    });
    assert_eq!(waited.unwrap().unwrap(), 5);
    ends_well(runtime);
}

#[test]
fn a_deadline_inside_a_suspended_fiber_does_not_reach_the_code_outside() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    runtime
        .run(|| {
            let fiber = Fiber::builder()
                .mask(Mask::YIELD | Mask::AWAIT)
                .build(|_| {
                    timeout(Duration::from_secs(1), || sleep(Duration::from_secs(1000))) == Err(Elapsed)
                })
                .unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
            sleep(Duration::from_secs(5)); // would unwind
            yield_now();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
            assert!(fiber.take_value().downcast::<bool>().unwrap(), "inside it is told");
        })
        .unwrap();
    ends_well(runtime);
}

#[test]
fn a_control_that_a_destructor_took_reaches_no_later_task() {
    static TAKEN: Mutex<Option<Control>> = Mutex::new(None);
    struct Takes;
    impl Drop for Takes {
        fn drop(&mut self) {
            *TAKEN.lock().unwrap() = Some(control());
        }
    }
    let runtime = runtime(1);
    let innocent = runtime.run(|| {
        drop(spawn(|| Takes));
        while TAKEN.lock().unwrap().is_none() {
            yield_now();
        }
        let tasks: Vec<_> = (0..300)
            .map(|n| {
                spawn(move || {
                    yield_now();
                    n
                })
            })
            .collect();
        TAKEN.lock().unwrap().as_ref().unwrap().kill();
        tasks.into_iter().map(|task| task.join().unwrap()).sum::<u32>()
    });
    assert_eq!(innocent.unwrap(), 44_850);
    ends_well(runtime);
}

#[test]
fn a_current_thread_that_is_dropped_by_an_unwind_runs_nothing_and_goes() {
    /// Has the runtime run while the thread unwinds.
    struct Runs<'a>(&'a CurrentThread);
    impl Drop for Runs<'_> {
        fn drop(&mut self) {
            drop(self.0.spawn(|| ()));
            assert!(!self.0.step());
            assert_eq!(self.0.run_until_idle(), 0);
            assert!(self.0.run(|| ()).is_err());
        }
    }
    for with_scope in [false, true] {
        let outcome = std::panic::catch_unwind(|| {
            let long = Duration::from_secs(3600);
            let runtime = Runtime::builder().grace(long).build_current_thread().unwrap();
            let _runs = Runs(&runtime);
            let task = runtime.spawn(move || {
                if with_scope {
                    let _ = scope(|scope| drop(scope.spawn(|| sleep(long))));
                } else {
                    sleep(long);
                }
            });
            runtime.run_until_idle();
            drop(task);
            panic!("unwinds");
        });
        assert!(outcome.is_err());
    }
}

#[test]
fn tasks_of_a_worker_that_an_alarm_of_another_woke_are_run() {
    let runtime = runtime(2);
    let (mut limit, mut rounds) = (Duration::from_millis(2), 0);
    while rounds < 20 {
        let is_in_time = runtime.run(move || {
            let is_in_time = Cell::new(false);
            let outcome = timeout(limit, || {
                scope(|scope| {
                    let started = AtomicBool::new(false);
                    let ended = AtomicBool::new(false);
                    struct End<'a>(&'a AtomicBool);
                    impl Drop for End<'_> {
                        fn drop(&mut self) {
                            self.0.store(true, Ordering::SeqCst);
                        }
                    }
                    let (started, ended) = (&*Box::leak(Box::new(started)), &*Box::leak(Box::new(ended)));
                    scope.spawn(move || {
                        let _end = End(ended);
                        started.store(true, Ordering::SeqCst);
                        sleep(Duration::from_secs(3600));
                    });
                    spin_until(started); // the other worker has it
                    is_in_time.set(!ended.load(Ordering::SeqCst));
                    spin_until(ended); // computes, past the deadline, until the child was cancelled by it
                })
            });
            assert!(matches!(outcome, Err(Elapsed) | Ok(Err(_))), "it was not cancelled");
            is_in_time.get()
        });
        match is_in_time.unwrap() {
            true => rounds += 1,
            false => limit = 2 * limit.min(Duration::from_secs(1)), // the machine is busy
        }
    }
    ends_well(runtime);
}

#[test]
fn a_timer_rings_although_its_worker_got_up_alone_and_is_stuck() {
    for _ in 0..5 {
        let runtime = runtime(2);
        runtime
            .run(|| {
                let here = std::thread::current().id();
                let mut pause = Duration::from_millis(4);
                loop {
                    let (polled, rang) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
                    let (first, ring) = (polled.clone(), rang.clone());
                    let future = spawn_future(async move {
                        *first.lock().unwrap() = Some(std::thread::current().id());
                        sleep_async(2 * pause).await;
                        ring.store(true, Ordering::SeqCst);
                    });
                    while polled.lock().unwrap().is_none() {
                        yield_now();
                    }
                    let alarm_is_here = *polled.lock().unwrap() == Some(here);
                    sleep(pause); // everybody goes to bed, and only this worker gets up
                    let is_in_time = !rang.load(Ordering::SeqCst);
                    spin_until(&rang);
                    future.join().unwrap();
                    if alarm_is_here && is_in_time {
                        break;
                    }
                    pause = 2 * pause.min(Duration::from_secs(1)); // the machine is busy
                }
            })
            .unwrap();
        ends_well(runtime);
    }
}
