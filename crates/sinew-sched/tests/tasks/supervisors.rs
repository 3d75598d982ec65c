//! What a supervisor is told of its tasks, and what is printed when there is none.

mod returns;
mod told;
mod unseen;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_fiber::{
    Bindings, Fiber, Key, Mask, Panic, Signal, Value, checkpoint, control, debug, error, signal, yield_,
};
use sinew_sched::{
    Events, ManualClock, Runtime, SupervisedError, WaitError, now, scope, sleep, spawn, spawn_future, task,
    timeout, yield_now,
};
use sinew_test_kit::full_test_name;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[test]
fn every_end_is_one_event_with_the_signal_the_task_and_the_payload() {
    for workers in [1, 2, 8] {
        let events = Events::new();
        let queue = events.clone();
        runtime(workers)
            .run(move || {
                let returned = task().name("returned").supervisor(&queue).spawn(|| 5);
                let event = queue.recv().unwrap();
                assert_eq!((event.task, event.signal), (returned.id(), Signal::Ok));
                assert_eq!(event.name.as_deref(), Some("returned"));
                assert!(!event.is_stopped());
                assert_eq!(returned.join().unwrap(), 5, "the result is the joiner's");

                let failed = task().supervisor(&queue).spawn(|| error(7u32));
                let event = queue.recv().unwrap();
                assert_eq!((event.task, event.signal), (failed.id(), Signal::Error));
                assert_eq!(event.value.downcast::<u32>().unwrap(), 7, "the payload is the supervisor's");
                let told = failed.join().map(|(): ()| ()).unwrap_err();
                assert!(told.value.is::<SupervisedError>());
                assert!(told.to_string().contains('7'), "{told}");

                drop(task().supervisor(&queue).spawn(|| panic!("boom")));
                let event = queue.recv().unwrap();
                assert!(event.trace.unwrap().raised_at().contains("supervisors.rs"));
                assert_eq!(event.value.downcast::<Panic>().unwrap().message, "boom");

                drop(task().supervisor(&queue).spawn(|| signal(Signal::User3, "early")));
                let event = queue.recv().unwrap();
                assert_eq!(event.signal, Signal::User3);

                let cancelled = task().supervisor(&queue).spawn(|| sleep(Duration::from_secs(1000)));
                cancelled.cancel();
                let event = queue.recv().unwrap();
                assert_eq!((event.task, event.signal), (cancelled.id(), Signal::Error));
            })
            .unwrap();
        assert!(events.is_empty());
    }
}

#[test]
fn a_wait_for_an_event_ends_at_its_timeout() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    runtime
        .run(|| {
            let events = Events::new();
            let start = now();
            let hour = Duration::from_secs(3600);
            assert!(matches!(events.recv_timeout(hour), Err(WaitError::Timeout)));
            assert!(now() - start >= hour);
            let child = task().supervisor(&events).spawn(|| 5);
            assert_eq!(events.recv_timeout(hour).unwrap().task, child.id());
            assert!(matches!(events.recv_timeout(Duration::ZERO), Err(WaitError::Timeout)));
        })
        .unwrap();
}

#[test]
fn futures_tell_their_supervisor_too() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let failed =
                task().name("future").supervisor(&events).spawn_future(async { panic!("in a future") });
            let event = events.recv().unwrap();
            assert_eq!((event.task, event.signal), (failed.id(), Signal::Error));
            assert_eq!(event.value.downcast::<Panic>().unwrap().message, "in a future");
            assert!(failed.join().map(|(): ()| ()).unwrap_err().value.is::<SupervisedError>());
        })
        .unwrap();
}

#[test]
fn a_task_stopped_on_yield_or_user5_to_7_is_continued_by_its_supervisor() {
    for workers in [1, 2, 8] {
        runtime(workers)
            .run(|| {
                let events = Events::new();
                let counting = task().supervisor(&events).spawn(|| {
                    let mut sum = 0;
                    for n in 0..3u32 {
                        sum += yield_(n).unwrap().downcast::<u32>().unwrap();
                    }
                    for user in [Signal::User5, Signal::User6, Signal::User7] {
                        sum += signal(user, ()).unwrap().downcast::<u32>().unwrap();
                    }
                    sum
                });
                for n in 0..3 {
                    let mut event = events.recv().unwrap();
                    assert_eq!((event.signal, event.is_stopped()), (Signal::Yield, true));
                    assert_eq!(event.take_value().downcast::<u32>().unwrap(), n);
                    assert!(event.resume(10 * n));
                }
                for user in [Signal::User5, Signal::User6, Signal::User7] {
                    let event = events.recv().unwrap();
                    assert_eq!(event.signal, user);
                    assert!(event.resume(1u32));
                }
                assert_eq!(events.recv().unwrap().signal, Signal::Ok);
                assert_eq!(counting.join().unwrap(), 33);
            })
            .unwrap();
    }
}

#[test]
fn a_signal_from_a_nested_fiber_stops_the_task_and_the_fiber_goes_on() {
    runtime(1)
        .run(|| {
            let events = Events::new();
            let nested = task().supervisor(&events).spawn(|| {
                let fiber = Fiber::builder()
                    .mask(Mask::ERROR)
                    .build(|_| yield_("deep").unwrap().downcast::<u32>().unwrap() + 1)
                    .unwrap();
                assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
                fiber.take_value().downcast::<u32>().unwrap()
            });
            assert!(events.recv().unwrap().resume(41u32));
            assert_eq!(nested.join().unwrap(), 42);
        })
        .unwrap();
}

#[test]
fn without_a_supervisor_a_yield_at_the_root_is_refused() {
    let runtime = runtime(1);
    let refused = || yield_(()).unwrap_err().reason();
    assert_eq!(runtime.run(refused).unwrap(), sinew_fiber::Reason::Uncaught);
    assert_eq!(runtime.task().name("alone").spawn(refused).join().unwrap(), sinew_fiber::Reason::Uncaught);
}

#[test]
fn a_stopped_task_whose_event_is_dropped_is_cancelled() {
    for workers in [1, 2, 8] {
        runtime(workers)
            .run(|| {
                let events = Events::new();
                let stopped = task().supervisor(&events).spawn(|| drop(yield_(1u32)));
                drop(events.recv().unwrap());
                let end = events.recv().unwrap();
                assert_eq!(end.signal, Signal::Error);
                assert!(end.value.is::<sinew_fiber::Cancelled>());
                assert!(stopped.join().is_err());
            })
            .unwrap();
    }
}

#[test]
fn a_stopped_task_can_be_cancelled_and_its_event_is_stale_then() {
    for workers in [1, 2, 8] {
        runtime(workers)
            .run(|| {
                let events = Events::new();
                let stopped = task().supervisor(&events).spawn(|| drop(yield_(1u32)));
                let event = events.recv().unwrap();
                stopped.cancel();
                assert!(stopped.join().is_err());
                let other = spawn(|| {
                    yield_now();
                    3
                });
                assert!(!event.resume(5u32), "it has ended");
                assert_eq!(other.join().unwrap(), 3);
            })
            .unwrap();
    }
}

#[test]
fn a_spawned_fiber_runs_on_its_worker_and_its_signals_are_the_task_s() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let fiber = Fiber::builder()
                .mask(Mask::YIELD | Mask::ERROR)
                .build(|value: Value| {
                    let next = yield_(value.downcast::<u32>().unwrap() + 1).unwrap();
                    sleep(Duration::from_millis(1));
                    next.downcast::<u32>().unwrap() + 1
                })
                .unwrap();
            let handle = task().supervisor(&events).spawn_fiber(fiber, 1u32);
            let mut event = events.recv().unwrap();
            assert_eq!(event.signal, Signal::Yield);
            assert_eq!(event.take_value().downcast::<u32>().unwrap(), 2);
            assert!(event.resume(10u32));
            assert_eq!(handle.join().unwrap().downcast::<u32>().unwrap(), 11);

            let fails = Fiber::builder().mask(Mask::ERROR).build(|_| error("in a fiber")).unwrap();
            let failed = task().spawn_fiber(fails, ()).join().unwrap_err();
            assert_eq!(failed.value.downcast::<&str>().unwrap(), "in a fiber");
            assert!(failed.trace.is_some());
        })
        .unwrap();
}

#[test]
fn a_breakpoint_or_interrupt_that_a_spawned_fiber_s_mask_catches_stops_it_for_its_supervisor() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let fiber = Fiber::builder()
                .mask(Mask::DEBUG | Mask::INTERRUPT | Mask::ERROR)
                .build(|_| {
                    let answer = debug("here").unwrap().downcast::<u32>().unwrap();
                    control().interrupt();
                    checkpoint();
                    answer + 1
                })
                .unwrap();
            let handle = task().supervisor(&events).spawn_fiber(fiber, ());
            let mut event = events.recv().unwrap();
            assert_eq!((event.signal, event.is_stopped()), (Signal::Debug, true));
            assert_eq!(event.take_value().downcast::<&str>().unwrap(), "here");
            assert!(event.resume(41u32));
            let event = events.recv().unwrap();
            assert_eq!((event.signal, event.is_stopped()), (Signal::Interrupt, true));
            assert!(event.resume(()));
            assert_eq!(events.recv().unwrap().signal, Signal::Ok);
            assert_eq!(handle.join().unwrap().downcast::<u32>().unwrap(), 42);

            // A breakpoint that no mask catches goes on at once, with a supervisor as without.
            let plain = task().supervisor(&events).spawn(|| debug("nobody stops here").unwrap().is::<()>());
            assert_eq!(events.recv().unwrap().signal, Signal::Ok);
            assert!(plain.join().unwrap());
            let fiber = Fiber::new(|_| debug("nor here").unwrap().is::<()>()).unwrap();
            let handle = task().supervisor(&events).spawn_fiber(fiber, ());
            assert_eq!(events.recv().unwrap().signal, Signal::Ok);
            assert!(handle.join().unwrap().downcast::<bool>().unwrap());
        })
        .unwrap();
}

#[test]
fn a_task_that_is_stopped_at_a_breakpoint_can_be_cancelled() {
    runtime(1)
        .run(|| {
            let events = Events::new();
            let fiber = Fiber::builder().mask(Mask::DEBUG).build(|_| debug(()).unwrap()).unwrap();
            let stopped = task().supervisor(&events).spawn_fiber(fiber, ());
            let event = events.recv().unwrap();
            assert_eq!(event.signal, Signal::Debug);
            stopped.cancel();
            assert!(stopped.join().unwrap_err().is_cancelled());
            assert!(!event.resume(()), "it has ended");
        })
        .unwrap();
}

#[test]
fn bindings_are_none_shared_or_layered() {
    static COLOUR: Key<&'static str> = Key::new("colour");
    runtime(2)
        .run(|| {
            COLOUR.set("red");
            assert_eq!(spawn(|| COLOUR.get()).join().unwrap(), None);
            let shared = task().bindings(Bindings::Shared).spawn(|| {
                assert_eq!(*COLOUR.get().unwrap(), "red");
                COLOUR.set("green");
            });
            shared.join().unwrap();
            assert_eq!(*COLOUR.get().unwrap(), "green");
            let layered = task().bindings(Bindings::Layered).spawn(|| {
                assert_eq!(*COLOUR.get().unwrap(), "green");
                COLOUR.set("blue");
                yield_now();
                assert_eq!(*COLOUR.get().unwrap(), "blue");
            });
            layered.join().unwrap();
            assert_eq!(*COLOUR.get().unwrap(), "green");
        })
        .unwrap();
}

#[test]
fn a_pinned_future_is_polled_on_one_worker() {
    let runtime = runtime(4);
    let moved = runtime
        .run(|| {
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    task().pinned().spawn_future(async {
                        let first = std::thread::current().id();
                        let mut moved = false;
                        for _ in 0..10 {
                            sinew_sched::sleep_async(Duration::from_micros(50)).await;
                            moved |= std::thread::current().id() != first;
                        }
                        moved
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).filter(|moved| *moved).count()
        })
        .unwrap();
    assert_eq!(moved, 0);
    let cancelled = runtime.task().pinned().spawn_future(std::future::pending::<()>());
    cancelled.cancel();
    assert!(cancelled.join().unwrap_err().is_cancelled());
}

#[test]
fn names_are_in_traces() {
    let failed = runtime(2).task().name("parser").spawn(|| error("no")).join().map(|(): ()| ()).unwrap_err();
    assert!(format!("{failed:#}").contains("parser#"), "{failed:#}");
}

#[test]
fn stacks_of_other_sizes_are_used_and_impossible_ones_are_errors() {
    use sinew_fiber::StackSize;
    fn deep(n: u32) -> u32 {
        let mut page = [0u8; 4096];
        std::hint::black_box(&mut page);
        if n == 0 { u32::from(page[0]) } else { deep(n - 1) + 1 + u32::from(page[7]) }
    }
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let depth = runtime.task().stack(StackSize::Custom(16 << 20)).spawn(|| {
            yield_now();
            deep(2000)
        });
        assert_eq!(depth.join().unwrap(), 2000);
        let small = runtime.task().stack(StackSize::KiB32).spawn(|| {
            yield_now();
            spawn(|| deep(20)).join().unwrap() // a child runs on a stack of the runtime's size
        });
        assert_eq!(small.join().unwrap(), 20);
        let impossible = runtime.task().stack(StackSize::Custom(1)).spawn(|| 1).join().unwrap_err();
        assert!(impossible.value.is::<sinew_fiber::StackError>());
        assert_eq!(runtime.run(|| spawn(|| 2).join().unwrap()).unwrap(), 2);
    }
}

#[test]
fn thousands_of_supervised_tasks_are_told_exactly_once_each() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let told = Events::new();
        let events = told.clone();
        let ended = runtime
            .run(move || {
                for n in 0..3000u32 {
                    let builder = task().supervisor(&events);
                    match n % 3 {
                        0 => drop(builder.spawn(move || n)),
                        1 => drop(builder.spawn(move || error(n))),
                        _ => drop(builder.spawn(move || {
                            yield_now();
                            drop(yield_(n));
                        })),
                    }
                }
                let (mut ends, mut stops) = (0, 0);
                while ends < 3000 {
                    let event = events.recv().unwrap();
                    if event.is_stopped() {
                        stops += 1;
                        assert!(event.resume(()));
                    } else {
                        ends += 1;
                    }
                }
                (ends, stops)
            })
            .unwrap();
        assert_eq!(ended, (3000, 1000));
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        assert!(told.is_empty(), "one was told twice");
    }
}

#[test]
fn what_a_supervisor_is_told_may_panic_when_it_is_shown_or_dropped() {
    /// Panics when it is shown, and when it is dropped by somebody who does not unwind already.
    struct Touchy(Arc<AtomicUsize>);
    impl std::fmt::Debug for Touchy {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("shown");
        }
    }
    impl std::fmt::Display for Touchy {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("shown");
        }
    }
    impl std::error::Error for Touchy {}
    impl Drop for Touchy {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(std::thread::panicking(), "dropped");
        }
    }
    for workers in [1, 2, 8] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = dropped.clone();
        let runtime = runtime(workers);
        runtime
            .run(move || {
                // Its event is taken, and kept from being dropped here.
                let events = Events::new();
                let touchy = Touchy(count.clone());
                let failed = task().supervisor(&events).spawn(move || error(Value::error(touchy)));
                let event = events.recv().unwrap();
                assert!(event.value.is::<Touchy>());
                std::mem::forget(event.value);
                assert!(failed.join().unwrap_err().value.is::<SupervisedError>());
                let touchy = Touchy(count.clone());
                let future = async move { error(Value::error(touchy)) };
                let failed = task().supervisor(&events).spawn_future(future);
                std::mem::forget(events.recv().unwrap().value);
                assert!(failed.join().unwrap_err().value.is::<SupervisedError>());

                // The queue goes with the last task that has it.
                let gone = Arc::new(AtomicUsize::new(0));
                let (seen, touchy) = (gone.clone(), Touchy(count.clone()));
                let last = task().supervisor(&events).spawn(move || {
                    while seen.load(Ordering::Acquire) == 0 {
                        yield_now();
                    }
                    error(Value::error(touchy))
                });
                drop(events);
                gone.store(1, Ordering::Release);
                assert!(last.join().unwrap_err().value.is::<SupervisedError>());
                while count.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
            })
            .unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn many_receivers_share_a_queue_and_a_cancelled_one_takes_no_event_with_it() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let events = Events::new();
        let received = Arc::new(AtomicUsize::new(0));
        let receivers: Vec<_> = (0..8)
            .map(|_| {
                let (events, received) = (events.clone(), received.clone());
                runtime.spawn(move || {
                    while events.recv().is_ok() {
                        received.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for (n, receiver) in receivers.iter().enumerate() {
            for _ in 0..50 {
                drop(runtime.task().supervisor(&events).spawn(|| ()));
            }
            if n % 2 == 0 {
                receiver.cancel();
            }
        }
        while received.load(Ordering::SeqCst) < 400 {
            std::thread::yield_now();
        }
        receivers.iter().for_each(|receiver| receiver.cancel());
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        assert_eq!(received.load(Ordering::SeqCst), 400);
    }
}

#[test]
fn a_receiver_that_is_ended_when_its_event_has_come_takes_it_or_leaves_it_to_another() {
    for kill in [false, true] {
        runtime(1)
            .run(move || {
                let (events, received) = (Events::new(), Arc::new(AtomicUsize::new(0)));
                let receiver = || {
                    let (events, received) = (events.clone(), received.clone());
                    let waiting = Arc::new(AtomicUsize::new(0));
                    let waits = waiting.clone();
                    let receiver = spawn(move || {
                        waits.store(1, Ordering::Relaxed);
                        if events.recv().is_ok() {
                            received.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                    while waiting.load(Ordering::Relaxed) == 0 {
                        yield_now();
                    }
                    receiver
                };
                let (first, second) = (receiver(), receiver());
                // Ends the first, which cannot run before this task has ended, and told it.
                let tells = task().supervisor(&events).spawn(move || {
                    if kill {
                        first.kill()
                    } else {
                        first.cancel()
                    }
                    first
                });
                let first = tells.join().unwrap();
                assert_eq!(first.join().is_err(), kill);
                while received.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
                second.cancel();
                second.join().unwrap();
                assert_eq!(received.load(Ordering::Relaxed), 1);
            })
            .unwrap();
    }
}

/// The task of the child process: what it prints is the test.
#[test]
#[ignore = "run by a_failure_that_nobody_joins_is_printed"]
fn fails_without_anybody_to_tell() {
    // Its time passes when everybody waits.
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    runtime
        .run(|| {
            drop(task().name("lonely").spawn(|| error("cry in the desert")));
            let kept = spawn(|| error("dropped later"));
            while !kept.is_finished() {
                yield_now();
            }
            drop::<sinew_sched::JoinHandle<()>>(kept);
            let joined = spawn(|| error("this one is joined")).join().map(|(): ()| ());
            assert!(joined.is_err());
            let cancelled = spawn(|| sleep(Duration::from_secs(1000)));
            cancelled.cancel();
            drop(cancelled);
            let events = Events::new();
            drop(task().supervisor(&events).spawn(|| error("told to a supervisor")));
            events.recv().unwrap();
            drop(spawn_future(async { panic!("a lonely future") }));
            let elapsed = timeout(Duration::from_millis(5), || {
                scope(|scope| {
                    scope.keep_going();
                    scope.spawn(|| error("in a scope that was left"));
                    sleep(Duration::from_secs(1000));
                })
            });
            assert!(elapsed.is_err());
            for _ in 0..10 {
                yield_now();
            }
        })
        .unwrap();
}

#[test]
fn a_failure_that_nobody_joins_is_printed_with_its_trace() {
    let test = full_test_name(module_path!(), "fails_without_anybody_to_tell");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &test])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    for expected in [
        "cry in the desert",
        "lonely#",
        "raised at",
        "supervisors.rs",
        "dropped later",
        "a lonely future",
        "in a scope that was left",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
    for unwanted in ["this one is joined", "Cancelled", "told to a supervisor"] {
        assert!(!text.contains(unwanted), "{unwanted:?} is in:\n{text}");
    }
}
