//! Shutdown against everything else: when it returns, nothing runs, nothing is lost, and all was dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{
    Events, Runtime, block_on, scope, sleep, sleep_async, spawn, spawn_future, task, yield_now,
};

use crate::support::{Later, SEED, Tally, Watchdog, next, rounds, spin_until};

const GRACE: Duration = Duration::from_secs(60);

/// Runs `test` with many runtimes of each size, one after the other. It ends them itself.
fn with_fresh_runtimes(usual: usize, test: impl Fn(Runtime, u64)) {
    for nets in [true, false] {
        for workers in [1, 2, 8] {
            let mut seed = SEED;
            for _ in 0..rounds(usual) {
                let runtime = Runtime::builder().workers(workers).safety_nets(nets).build().unwrap();
                let watchdog = Watchdog::new(format!("{workers} workers, safety nets: {nets}"));
                watchdog.watch(&runtime);
                test(runtime, next(&mut seed));
            }
        }
    }
}

/// Lets the runtime get somewhere: nowhere, or well into its work.
fn let_it_run(random: u64) {
    match random % 3 {
        0 => (),
        1 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(random % 400)),
    }
}

/// Spawns, joins, cancels, sleeps and opens scopes until it is cancelled.
fn everything(mut seed: u64, captured: &Tally) {
    loop {
        let value = captured.value(seed);
        match next(&mut seed) % 7 {
            0 => drop(spawn(move || value.number())),
            1 => drop(spawn(move || {
                sleep(Duration::from_secs(3600));
                value.number()
            })),
            2 => drop(spawn(move || value.number()).join()),
            3 => {
                let task = spawn(move || {
                    yield_now();
                    value.number()
                });
                task.cancel();
                drop(task.join());
            }
            4 => {
                let outcome = scope(|scope| {
                    let value = &value;
                    for _ in 0..3 {
                        drop(scope.spawn(move || {
                            yield_now();
                            value.number()
                        }));
                    }
                });
                drop(outcome);
            }
            5 => drop(spawn_future(async move {
                sleep_async(Duration::from_micros(50)).await;
                value.number()
            })),
            _ => drop(task().name("waits").spawn(move || {
                let later = Later::default();
                drop(block_on(later.get()));
                value.number()
            })),
        }
        yield_now();
    }
}

#[test]
fn shutdown_against_spawns_joins_cancels_scopes_and_futures_leaves_nothing() {
    with_fresh_runtimes(15, |runtime, random| {
        let captured = Tally::new();
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let captured = captured.clone();
                runtime.spawn(move || everything(random + n, &captured))
            })
            .collect();
        let_it_run(random);
        let report = runtime.shutdown(GRACE);
        assert_eq!(report.left, 0, "{report:?}");
        // Nobody is left who could let go of anything later.
        captured.assert_even(captured.made());
        for task in tasks {
            assert!(task.join().unwrap_err().is_cancelled());
        }
    });
}

#[test]
fn shutdown_against_threads_that_join_gives_each_its_result_or_says_that_it_was_cancelled() {
    with_fresh_runtimes(15, |runtime, random| {
        let (captured, results) = (Tally::new(), Tally::new());
        let tasks: Vec<_> = (0..24u64)
            .map(|n| {
                let (capture, results) = (captured.value(n), results.clone());
                runtime.spawn(move || {
                    (0..n % 5).for_each(|_| yield_now());
                    results.value(capture.number())
                })
            })
            .collect();
        std::thread::scope(|threads| {
            for (n, task) in tasks.into_iter().enumerate() {
                threads.spawn(move || match task.join() {
                    Ok(result) => assert_eq!(result.number(), n as u64),
                    Err(raised) => assert!(raised.is_cancelled(), "{raised:?}"),
                });
            }
            let_it_run(random);
            assert_eq!(runtime.shutdown(GRACE).left, 0);
        });
        captured.assert_even(24);
        results.assert_even(results.made());
    });
}

#[test]
fn a_task_that_shuts_its_own_runtime_down_is_cancelled_with_all_others() {
    with_fresh_runtimes(10, |runtime, random| {
        let captured = Tally::new();
        let ended = Arc::new(AtomicBool::new(false));
        let runtime = Arc::new(std::sync::Mutex::new(Some(runtime)));
        let (own, seen) = (runtime.clone(), ended.clone());
        let guard = runtime.lock().unwrap();
        let started = guard.as_ref().unwrap();
        let others: Vec<_> = (0..4)
            .map(|n| {
                let captured = captured.clone();
                started.spawn(move || everything(random + n, &captured))
            })
            .collect();
        let ends = started.spawn(move || {
            let runtime = own.lock().unwrap().take().unwrap();
            let report = if random % 2 == 0 {
                runtime.shutdown(GRACE).left
            } else {
                drop(runtime);
                1
            };
            assert!(report >= 1, "itself");
            seen.store(true, Ordering::Release);
            yield_now();
        });
        drop(guard);
        assert!(ends.join().unwrap_err().is_cancelled());
        assert!(ended.load(Ordering::Acquire));
        for other in others {
            assert!(other.join().unwrap_err().is_cancelled());
        }
        // Those that nobody joins end too, in their own time.
        spin_until(|| captured.made() == captured.dropped());
    });
}

#[test]
fn tasks_that_are_spawned_by_threads_during_and_after_the_shutdown_end_too() {
    with_fresh_runtimes(15, |runtime, random| {
        let (captured, ended) = (Tally::new(), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for thread in 0..3u64 {
                let builders: Vec<_> = (0..20).map(|_| runtime.task()).collect();
                let (captured, ended) = (captured.clone(), &ended);
                threads.spawn(move || {
                    for (n, builder) in builders.into_iter().enumerate() {
                        let value = captured.value(n as u64);
                        let number = n as u64 + thread;
                        if n % 2 == 0 {
                            let task = builder.name("late").spawn(move || {
                                yield_now();
                                value.number() + thread
                            });
                            match task.join() {
                                Ok(sum) => assert_eq!(sum, number),
                                Err(raised) => assert!(raised.is_cancelled(), "{raised:?}"),
                            }
                        } else {
                            drop(builder.spawn_future(async move { value.number() }));
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let_it_run(random);
            assert_eq!(runtime.shutdown(GRACE).left, 0);
        });
        assert_eq!(ended.load(Ordering::Relaxed), 60);
        spin_until(|| captured.dropped() == 60);
        captured.assert_even(60);
    });
}

#[test]
fn a_builder_that_outlives_its_runtime_starts_tasks_that_are_over_at_once() {
    let _watchdog = Watchdog::new("a runtime that has ended".to_owned());
    let (captured, events) = (Tally::new(), Events::new());
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let builders: Vec<_> = (0..4).map(|_| runtime.task()).collect();
        let current = Runtime::builder().build_current_thread().unwrap();
        let of_thread = current.task();
        drop(runtime);
        drop(current);
        for (n, builder) in builders.into_iter().chain([of_thread]).enumerate() {
            let value = captured.value(n as u64);
            let outcome = match n % 3 {
                0 => builder.spawn(move || value.number()).join(),
                1 => builder.name("late").supervisor(&events).pinned().spawn(move || value.number()).join(),
                _ => builder.spawn_future(async move { value.number() }).join(),
            };
            // Whoever joins a task with a supervisor gets the text of what the supervisor got.
            assert!(outcome.unwrap_err().to_string().contains("ancelled"));
        }
    }
    captured.assert_even(15);
    for _ in 0..6 {
        assert!(events.try_recv().is_some(), "a supervisor is told");
    }
}

#[test]
fn runtimes_that_wait_for_each_other_s_tasks_end_in_any_order() {
    with_fresh_runtimes(8, |first, random| {
        let second = Runtime::builder().workers(2).build().unwrap();
        let sleeper = second.spawn(|| sleep(Duration::from_secs(3600)));
        let waits = first.spawn(move || sleeper.join().unwrap_err().is_cancelled());
        let back = second.spawn(move || waits.join());
        let_it_run(random);
        let (one, other) = if random.is_multiple_of(2) { (first, second) } else { (second, first) };
        assert_eq!(one.shutdown(GRACE).left, 0);
        assert_eq!(other.shutdown(GRACE).left, 0);
        drop(back);
    });
}

#[test]
fn a_runtime_of_one_thread_ends_while_threads_spawn_and_wake() {
    let _watchdog = Watchdog::new("a runtime of one thread".to_owned());
    for n in 0..rounds(20) as u64 {
        let captured = Tally::new();
        let runtime = Runtime::builder().build_current_thread().unwrap();
        let laters: Vec<Arc<Later>> = (0..8).map(|_| Arc::default()).collect();
        for later in &laters {
            let (later, value) = (later.clone(), captured.value(n));
            drop(runtime.spawn(move || block_on(later.get()).map(|_| value.number())));
        }
        let builders: Vec<_> = (0..8).map(|_| runtime.task()).collect();
        std::thread::scope(|threads| {
            threads.spawn(|| laters.iter().for_each(|later| later.set(n)));
            threads.spawn(|| {
                for builder in builders {
                    let value = captured.value(n);
                    drop(builder.spawn(move || value.number()));
                }
            });
            if n % 2 == 0 {
                runtime.run_until_idle();
            }
            assert_eq!(runtime.shutdown(GRACE).left, 0);
        });
        captured.assert_even(16);
    }
}
