//! Timers and deadlines under load: nobody is woken early or cut short by another's alarm, and nobody waits for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sinew_sched::{
    Elapsed, ManualClock, Runtime, Sleep, now, scope, sleep, sleep_async, spawn, spawn_future, timeout,
    yield_now,
};

use crate::support::{SEED, Tally, next, rounds, spin_until, with_idle_lookers, with_runtime, with_runtimes};

#[test]
fn deadlines_that_race_with_the_end_of_their_body_have_one_outcome_and_leave_the_task_whole() {
    with_runtimes(|runtime| {
        let captured = Tally::new();
        let tasks: Vec<_> = (0..8u64)
            .map(|task| {
                let captured = captured.clone();
                runtime.spawn(move || {
                    let mut seed = SEED + task;
                    let (mut done, mut late) = (0, 0);
                    for n in 0..rounds(60) as u64 {
                        let (limit, takes) = (next(&mut seed) % 60, next(&mut seed) % 60);
                        let capture = captured.value(n);
                        let outcome = timeout(Duration::from_micros(limit), || {
                            match takes % 3 {
                                0 => sleep(Duration::from_micros(takes)),
                                1 => (0..takes / 8).for_each(|_| yield_now()),
                                _ => spawn(move || sleep(Duration::from_micros(takes))).join().unwrap(),
                            }
                            capture.number()
                        });
                        match outcome {
                            Ok(number) => done += u64::from(number == n),
                            Err(Elapsed) => late += 1,
                        }
                        // Nothing of the deadline is left.
                        let start = now();
                        sleep(Duration::from_micros(10));
                        assert!(now() - start >= Duration::from_micros(10));
                    }
                    done + late
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.join().unwrap(), rounds(60) as u64);
        }
        captured.assert_even(8 * rounds(60));
    });
}

#[test]
fn nested_deadlines_with_scopes_end_everything_inside_and_nothing_outside() {
    with_runtimes(|runtime| {
        let tasks: Vec<_> = (0..4u64)
            .map(|task| {
                runtime.spawn(move || {
                    let mut seed = SEED + task;
                    for _ in 0..rounds(25) {
                        let (outer, inner) = (next(&mut seed) % 150, next(&mut seed) % 150);
                        let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        /// Counts the end of a child, however it comes.
                        struct Ends<'a>(&'a AtomicUsize);
                        impl Drop for Ends<'_> {
                            fn drop(&mut self) {
                                self.0.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                        let outcome = timeout(Duration::from_micros(outer), || {
                            timeout(Duration::from_micros(inner), || {
                                let ended_scope = scope(|scope| {
                                    for _ in 0..3 {
                                        drop(scope.spawn(|| {
                                            started.fetch_add(1, Ordering::SeqCst);
                                            let _ends = Ends(&ended);
                                            sleep(Duration::from_secs(3600));
                                        }));
                                    }
                                });
                                drop(ended_scope);
                                sleep(Duration::from_secs(3600)); // the deadline that ended the scope has us too
                            })
                        });
                        assert!(matches!(outcome, Err(Elapsed) | Ok(Err(Elapsed))));
                        assert_eq!(started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
                        sleep(Duration::from_micros(5));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn thousands_of_sleepers_wake_once_each_and_none_early() {
    with_runtimes(|runtime| {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        runtime
            .run(move || {
                let mut seed = SEED;
                let tasks: Vec<_> = (0..rounds(600) as u64)
                    .map(|n| {
                        let (micros, woken) = (next(&mut seed) % 3000, count.clone());
                        let length = Duration::from_micros(micros);
                        if n % 2 == 0 {
                            spawn(move || {
                                let start = now();
                                sleep(length);
                                woken.fetch_add(1, Ordering::Relaxed);
                                now() - start >= length
                            })
                        } else {
                            spawn_future(async move {
                                let start = now();
                                sleep_async(length).await;
                                woken.fetch_add(1, Ordering::Relaxed);
                                now() - start >= length
                            })
                        }
                    })
                    .collect();
                tasks.into_iter().for_each(|task| assert!(task.join().unwrap(), "woken early"));
            })
            .unwrap();
        assert_eq!(woken.load(Ordering::Relaxed), rounds(600));
    });
}

#[test]
fn sleeps_that_are_dropped_or_moved_to_another_worker_are_forgotten_or_still_ring() {
    with_runtimes(|runtime| {
        let tasks: Vec<_> = (0..rounds(100) as u64)
            .map(|n| {
                runtime.spawn_future(async move {
                    let mut kept = Box::pin(sleep_async(Duration::from_micros(200 + n)));
                    for _ in 0..3 {
                        // Both are polled; the first that is ready has the other one kept, or dropped.
                        let mut short = Box::pin(sleep_async(Duration::from_micros(n % 50)));
                        std::future::poll_fn(|context| {
                            let long = kept.as_mut().poll(context).is_ready();
                            if short.as_mut().poll(context).is_ready() || long {
                                Poll::Ready(())
                            } else {
                                Poll::Pending
                            }
                        })
                        .await;
                    }
                    if n % 2 == 0 {
                        kept.await;
                    }
                    n
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), n as u64);
        }
    });
}

/// An alarm among the timers of the worker that calls, as a future sets it that was polled there; counts when it rings.
fn alarm_here(after: Duration, rings: &Arc<AtomicUsize>) -> Pin<Box<Sleep>> {
    struct Rings(Arc<AtomicUsize>);
    impl Wake for Rings {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let waker = Waker::from(Arc::new(Rings(rings.clone())));
    let mut sleep = Box::pin(sleep_async(after));
    if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        waker.wake(); // its time has passed already
    }
    sleep
}

#[test]
fn timers_and_unstarted_tasks_of_workers_that_spin_are_served_by_the_last_that_does_not() {
    with_idle_lookers(&[2, 8], |runtime, workers| {
        for _ in 0..rounds(5) {
            let (go, spinning) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let served = Arc::new(AtomicUsize::new(0));
            let spinners: Vec<_> = (1..workers)
                .map(|n| {
                    let (go, spins, served) = (go.clone(), spinning.clone(), served.clone());
                    let spinner = runtime.spawn(move || {
                        // What lies behind a body that never gives its worker up: timers of futures, and new tasks.
                        let _sleep = alarm_here(Duration::from_micros(300), &served);
                        let count = served.clone();
                        let first = spawn(move || {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                        let second = spawn(move || {
                            served.fetch_add(1, Ordering::Relaxed);
                        });
                        spins.fetch_add(1, Ordering::Relaxed);
                        spin_until(|| go.load(Ordering::Relaxed));
                        first.join().unwrap();
                        second.join().unwrap();
                    });
                    // One by one: two that have blocked on one worker could not both spin.
                    spin_until(|| spinning.load(Ordering::Relaxed) == n);
                    spinner
                })
                .collect();
            assert_eq!(runtime.spawn(|| 7).join().unwrap(), 7);
            spin_until(|| served.load(Ordering::Relaxed) == 3 * (workers - 1));
            go.store(true, Ordering::Relaxed);
            spinners.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

#[test]
fn timers_of_a_worker_that_spins_ring_although_the_others_always_have_something_to_do() {
    with_idle_lookers(&[2, 8], |runtime, workers| {
        let over = Arc::new(AtomicBool::new(false));
        let (rang, spinning) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (ring, spins, ends) = (rang.clone(), spinning.clone(), over.clone());
        let spinner = runtime.spawn(move || {
            let _sleep = alarm_here(Duration::from_millis(2), &ring);
            spins.store(true, Ordering::Relaxed);
            spin_until(|| ends.load(Ordering::Relaxed));
        });
        spin_until(|| spinning.load(Ordering::Relaxed));
        let busy: Vec<_> = (0..4 * workers)
            .map(|_| {
                let over = over.clone();
                runtime.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        yield_now();
                    }
                })
            })
            .collect();
        spin_until(|| rang.load(Ordering::Relaxed) == 1);
        over.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        busy.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn tasks_that_a_timer_wakes_are_not_starved_by_bulk_work() {
    with_runtimes(|runtime| {
        let over = Arc::new(AtomicBool::new(false));
        /// A chain of tasks that never ends by itself, of which there are always many in the queues.
        fn bulk(over: Arc<AtomicBool>) {
            if !over.load(Ordering::Relaxed) {
                yield_now();
                drop(spawn(move || bulk(over)));
            }
        }
        for _ in 0..64 {
            let over = over.clone();
            drop(runtime.spawn(move || bulk(over)));
        }
        let sleepers: Vec<_> = (0..8)
            .map(|n| {
                runtime.spawn(move || {
                    (0..rounds(10)).for_each(|_| sleep(Duration::from_micros(50 * n)));
                    n
                })
            })
            .collect();
        let ticks = runtime.spawn_future(async {
            for _ in 0..rounds(10) {
                sleep_async(Duration::from_micros(100)).await;
            }
        });
        for (n, sleeper) in sleepers.into_iter().enumerate() {
            assert_eq!(sleeper.join().unwrap(), n as u64);
        }
        ticks.join().unwrap();
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_manual_clock_moves_on_whenever_everybody_sleeps_and_wakes_all_in_order() {
    for nets in [true, false] {
        for workers in [1, 2, 8] {
            for round in 0..rounds(2) as u64 {
                let clock = ManualClock::new();
                let builder = Runtime::builder().workers(workers).safety_nets(nets).manual_clock(&clock);
                with_runtime(builder, |runtime| {
                    let took = runtime.run(move || {
                        let start = now();
                        let tasks: Vec<_> = (0..40u64)
                            .map(|n| {
                                spawn(move || {
                                    for step in 0..5 {
                                        let (before, length) = (now(), 3600 * (1 + (n * step + round) % 7));
                                        sleep(Duration::from_secs(length));
                                        assert!(now() - before >= Duration::from_secs(length));
                                    }
                                })
                            })
                            .collect();
                        tasks.into_iter().for_each(|task| task.join().unwrap());
                        now() - start
                    });
                    assert!(took.unwrap() >= Duration::from_secs(5 * 3600));
                });
            }
        }
    }
}

#[test]
fn workers_that_only_look_for_work_let_each_other_sleep_however_many_they_are() {
    let clock = ManualClock::new();
    with_runtime(Runtime::builder().workers(64).manual_clock(&clock), |runtime| {
        // The clock moves on when all of them sleep at the same time.
        let slept = runtime.run(|| {
            let start = now();
            sleep(Duration::from_secs(3600));
            now() - start
        });
        assert!(slept.unwrap() >= Duration::from_secs(3600));
    });
}

#[test]
fn new_tasks_of_a_kind_that_is_spread_run_although_their_spawner_spins() {
    /// Blocks first and computes afterwards: the kind of task that is handed out to the workers in turns.
    fn kind(waits: Duration, computes: Duration, ran: &AtomicUsize) {
        sleep(waits);
        let start = now();
        spin_until(|| now() - start >= computes);
        ran.fetch_add(1, Ordering::Relaxed);
    }
    fn start(runs: &Arc<AtomicUsize>, waits: Duration, computes: Duration) -> sinew_sched::JoinHandle<()> {
        let ran = runs.clone();
        spawn(move || kind(waits, computes, &ran))
    }
    with_idle_lookers(&[2, 8], |runtime, _| {
        for _ in 0..rounds(3) {
            let ran = Arc::new(AtomicUsize::new(0));
            runtime
                .run(move || {
                    let (wait, compute) = (Duration::from_micros(200), Duration::from_micros(300));
                    // Until the kind is known, or nearly.
                    let learned: Vec<_> = (0..64).map(|_| start(&ran, wait, compute)).collect();
                    learned.into_iter().for_each(|task| task.join().unwrap());
                    let before = ran.load(Ordering::Relaxed);
                    let tasks: Vec<_> =
                        (0..16).map(|_| start(&ran, Duration::ZERO, Duration::ZERO)).collect();
                    // Nobody else runs on this worker until all of them have run.
                    spin_until(|| ran.load(Ordering::Relaxed) == before + 16);
                    tasks.into_iter().for_each(|task| task.join().unwrap());
                })
                .unwrap();
        }
    });
}

/// An idle worker rings the alarm of one that is stuck, which wakes a task of its own: it runs the task, and does not
/// sleep. Nobody else would tell it.
#[test]
fn a_worker_that_rings_for_another_runs_what_it_wakes_of_its_own() {
    let clock = ManualClock::new();
    let builder = Runtime::builder().workers(2).manual_clock(&clock).safety_nets(false);
    with_runtime(builder, |runtime| {
        let release = Arc::new(AtomicBool::new(false));
        let released = release.clone();
        let stuck = runtime.spawn(move || {
            timeout(Duration::from_secs(1), || {
                let _ = scope(|scope| {
                    // The other worker has to start it, and keeps it.
                    drop(scope.task().name("child").spawn(|| sleep(Duration::from_secs(3600))));
                    spin_until(|| released.load(Ordering::Acquire));
                });
            })
        });
        let says = |parts: &[&str]| {
            let text = runtime.dump().to_string();
            parts.iter().all(|part| text.contains(part))
        };
        spin_until(|| says(&["\"child\": parked"]));
        spin_until(|| says(&[": asleep", "has not changed tasks since an idle worker looked"]));
        clock.advance(Duration::from_secs(2)); // the deadline has passed, and who sleeps looks once
        let slept = loop {
            let text = runtime.dump().to_string();
            if !text.contains("\"child\"") {
                break None;
            }
            if text.contains(": asleep") && !text.contains("\"child\": parked") {
                break Some(text);
            }
            std::thread::yield_now();
        };
        release.store(true, Ordering::Release);
        if slept.is_some() {
            clock.advance(Duration::from_secs(1)); // so that it ends
        }
        let _ = stuck.join().unwrap();
        assert_eq!(slept, None, "its worker sleeps while it is ready");
    });
}
