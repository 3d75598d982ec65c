//! Joins under load: every task ends once, every result arrives whole, once, and is dropped once. A program of its own,
//! because a test counts the stacks and slots that the process has in use.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{JoinHandle, Runtime, sleep, spawn, spawn_future, yield_now};
use sinew_test_kit::runtimes as support;
use support::{Counted, SEED, Tally, Watchdog, next, rounds, with_runtimes};

#[test]
fn spawn_and_join_by_64_tasks_at_once_never_hangs() {
    with_runtimes(|runtime| {
        let joined = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..64u64)
            .map(|task| {
                let joined = joined.clone();
                runtime.spawn(move || {
                    for n in 0..rounds(150) as u64 {
                        assert_eq!(spawn(move || task << 32 | n).join().unwrap(), task << 32 | n);
                        joined.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(joined.load(Ordering::Relaxed), 64 * rounds(150));
    });
}

#[test]
fn chains_of_joins_as_deep_as_they_may_be_come_back_one_by_one() {
    fn chain(depth: u64) -> u64 {
        if depth == 0 { 0 } else { spawn(move || chain(depth - 1)).join().unwrap() + 1 }
    }
    with_runtimes(|runtime| {
        for _ in 0..rounds(5) {
            let chains: Vec<_> = (0..4).map(|n| runtime.spawn(move || chain(100 + n))).collect();
            for (n, chain) in chains.into_iter().enumerate() {
                assert_eq!(chain.join().unwrap(), 100 + n as u64);
            }
        }
    });
}

/// Runs a task whose result is a `T`, among others that use the same slots.
fn round_trip<T: Send + PartialEq + std::fmt::Debug + 'static>(
    make: impl Fn(u64) -> T + Copy + Send + 'static,
) {
    for n in 0..50 {
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                spawn(move || {
                    if n % 3 == 0 {
                        yield_now();
                    }
                    make(n)
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.join().unwrap(), make(n));
        }
    }
}

#[test]
fn results_of_all_sizes_and_alignments_arrive_whole() {
    #[derive(PartialEq, Debug)]
    #[repr(align(128))]
    struct Aligned(u64);
    with_runtimes(|runtime| {
        let tasks: Vec<_> = (0..rounds(4))
            .map(|_| {
                runtime.spawn(|| {
                    round_trip(|n| n as u8);
                    round_trip(|n| (n, !n));
                    round_trip(|n| [n; 3]);
                    round_trip(|n| [n; 16]);
                    round_trip(|n| vec![n; 20]);
                    round_trip(|n| Some(Box::new(n)));
                    round_trip(Aligned);
                    round_trip(drop);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

/// A task that ends at some time, in one of several ways; its result is counted, and so is what it captured.
fn ends_somehow(kind: u64, number: u64, captured: &Tally, results: &Tally) -> JoinHandle<Counted> {
    let (capture, results) = (captured.value(number), results.clone());
    match kind % 5 {
        0 => spawn(move || results.value(capture.number())),
        1 => spawn(move || {
            yield_now();
            results.value(capture.number())
        }),
        2 => spawn(move || {
            sleep(Duration::from_micros(number % 100));
            results.value(capture.number())
        }),
        3 => spawn(move || {
            let inner = spawn(move || results.value(capture.number()));
            inner.join().unwrap()
        }),
        _ => spawn_future(async move { results.value(capture.number()) }),
    }
}

#[test]
fn results_that_are_joined_dropped_or_never_asked_for_are_dropped_once() {
    with_runtimes(|runtime| {
        let (captured, results) = (Tally::new(), Tally::new());
        let (joiners, each) = (8, rounds(150));
        let tasks: Vec<_> = (0..joiners)
            .map(|joiner| {
                let (captured, results) = (captured.clone(), results.clone());
                runtime.spawn(move || {
                    let mut seed = SEED + joiner;
                    for n in 0..each as u64 {
                        let task = ends_somehow(next(&mut seed), n, &captured, &results);
                        match next(&mut seed) % 4 {
                            0 => drop(task),
                            1 => {
                                yield_now();
                                task.detach();
                            }
                            _ => assert_eq!(task.join().unwrap().number(), n),
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        // Those that nobody joined may still be on their way.
        support::spin_until(|| results.dropped() == joiners as usize * each);
        captured.assert_even(joiners as usize * each);
        results.assert_even(joiners as usize * each);
    });
}

#[test]
fn a_join_with_a_timeout_that_races_with_the_end_returns_the_result_or_the_handle() {
    with_runtimes(|runtime| {
        let (captured, results) = (Tally::new(), Tally::new());
        let (joiners, each) = (8, rounds(100));
        let tasks: Vec<_> = (0..joiners)
            .map(|joiner| {
                let (captured, results) = (captured.clone(), results.clone());
                runtime.spawn(move || {
                    let mut seed = SEED + joiner;
                    let mut late = 0;
                    for n in 0..each as u64 {
                        let mut task = ends_somehow(next(&mut seed), n, &captured, &results);
                        loop {
                            match task.join_timeout(Duration::from_micros(next(&mut seed) % 60)) {
                                Ok(result) => break assert_eq!(result.unwrap().number(), n),
                                Err(again) => task = again,
                            }
                            late += 1;
                        }
                    }
                    late
                })
            })
            .collect();
        let _: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
        captured.assert_even(joiners as usize * each);
        results.assert_even(joiners as usize * each);
    });
}

#[test]
fn a_joiner_that_is_cancelled_while_its_task_ends_has_the_result_or_leaves_it_to_the_task() {
    with_runtimes(|runtime| {
        let (captured, results) = (Tally::new(), Tally::new());
        let each = rounds(300);
        let (made, kept) = (results.clone(), captured.clone());
        let outcome = runtime.run(move || {
            let mut seed = SEED;
            let (mut had, mut left) = (0, 0);
            for n in 0..each as u64 {
                let task = ends_somehow(next(&mut seed), n, &kept, &made);
                let joiner = spawn(move || task.join().map(|result| assert_eq!(result.number(), n)));
                for _ in 0..next(&mut seed) % 3 {
                    yield_now();
                }
                if n % 2 == 0 {
                    joiner.cancel()
                } else {
                    joiner.kill()
                }
                match joiner.join() {
                    Ok(Ok(())) => had += 1,
                    Ok(Err(_)) => left += 1,
                    Err(raised) => {
                        assert!(raised.is_cancelled(), "{raised:?}");
                        left += 1;
                    }
                }
            }
            had + left
        });
        assert_eq!(outcome.unwrap(), each);
        support::spin_until(|| results.dropped() == each);
        captured.assert_even(each);
        results.assert_even(each);
    });
}

#[test]
fn threads_and_the_tasks_of_another_runtime_join_while_both_are_busy() {
    let other = Runtime::builder().workers(2).build().unwrap();
    let watchdog = Watchdog::new("the other runtime".to_owned());
    watchdog.watch(&other);
    with_runtimes(|runtime| {
        std::thread::scope(|threads| {
            for thread in 0..4u64 {
                let (runtime, other) = (&runtime, &other);
                threads.spawn(move || {
                    for n in 0..rounds(60) as u64 {
                        let here = runtime.spawn(move || {
                            yield_now();
                            n
                        });
                        let there = other.spawn(move || here.join().unwrap() + thread);
                        let back = runtime.spawn(move || there.join().unwrap() + 1);
                        assert_eq!(back.join().unwrap(), n + thread + 1);
                    }
                });
            }
        });
    });
    assert_eq!(other.shutdown(Duration::from_secs(60)).left, 0);
}

#[test]
fn slots_and_stacks_of_tasks_that_have_ended_are_used_again() {
    with_runtimes(|runtime| {
        let highest = runtime.run(|| {
            let mut highest = 0;
            for _ in 0..rounds(3000) {
                let task = spawn(|| {
                    yield_now();
                });
                highest = highest.max(task.id().as_u64() & ((1 << 28) - 1));
                task.join().unwrap();
            }
            highest
        });
        // Each worker has a chunk of 256 slots, and so have the runtimes before: they hand on most of theirs.
        assert!(highest.unwrap() < 64 * 256, "ended tasks keep their slots");
        let stacks = sinew_fiber::usage().in_use;
        assert!(stacks < 2000, "{stacks} stacks for a handful of tasks");
    });
}
