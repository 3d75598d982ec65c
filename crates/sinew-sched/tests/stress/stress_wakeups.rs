//! Wake-ups under load: none is lost, none counts twice, and none that is late hits somebody else.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use sinew_sched::{Runtime, block_on, now, scope, sleep, spawn, spawn_future, task, timeout, yield_now};

use crate::support::{
    Later, Over, SEED, Tally, Watchdog, next, rounds, spin_until, with_runtime, with_runtimes,
};

#[test]
fn tasks_for_a_runtime_that_has_just_started_all_run() {
    let tally = Tally::new();
    for nets in [true, false] {
        for workers in [1, 2, 8] {
            for _ in 0..rounds(20) {
                with_runtime(Runtime::builder().workers(workers).safety_nets(nets), |runtime| {
                    std::thread::scope(|threads| {
                        for _ in 0..2 {
                            threads.spawn(|| {
                                let tasks: Vec<_> = (0..4)
                                    .map(|n| {
                                        let value = tally.value(n);
                                        if n % 2 == 0 {
                                            runtime.spawn(move || value.number())
                                        } else {
                                            runtime.spawn_future(async move { value.number() })
                                        }
                                    })
                                    .collect();
                                for (n, task) in tasks.into_iter().enumerate() {
                                    assert_eq!(task.join().unwrap(), n as u64);
                                }
                            });
                        }
                    });
                });
            }
        }
    }
    tally.assert_even(6 * 8 * rounds(20));
}

#[test]
fn tasks_that_threads_spawn_on_a_sleeping_runtime_all_run() {
    with_runtimes(|runtime| {
        std::thread::scope(|threads| {
            for thread in 0..3u64 {
                threads.spawn(move || {
                    let mut seed = SEED + thread;
                    for n in 0..rounds(60) as u64 {
                        // Sometimes long enough for all workers to lie down, mostly while they are about to.
                        std::thread::sleep(Duration::from_micros(next(&mut seed) % 200));
                        let pinned = next(&mut seed).is_multiple_of(2);
                        let task = runtime.task();
                        let task = if pinned { task.pinned() } else { task };
                        assert_eq!(task.spawn(move || n).join().unwrap(), n);
                    }
                });
            }
        });
    });
}

#[test]
fn tasks_that_a_task_spawns_after_everybody_slept_all_run() {
    with_runtimes(|runtime| {
        let ran = Arc::new(AtomicUsize::new(0));
        for n in 0..rounds(15) {
            let ran = ran.clone();
            runtime
                .run(move || {
                    sleep(Duration::from_micros(500));
                    let (plain, count) = (n % 5, ran.clone());
                    let tasks: Vec<_> = (0..plain + 1)
                        .map(|_| {
                            let ran = count.clone();
                            spawn(move || {
                                sleep(Duration::from_micros(300));
                                ran.fetch_add(1, Ordering::Relaxed);
                            })
                        })
                        .collect();
                    tasks.into_iter().for_each(|task| task.join().unwrap());
                })
                .unwrap();
        }
        let expected: usize = (0..rounds(15)).map(|n| n % 5 + 1).sum();
        assert_eq!(ran.load(Ordering::Relaxed), expected);
    });
}

#[test]
fn a_token_goes_round_a_ring_of_tasks_and_threads_without_getting_lost() {
    const RING: usize = 6;
    let laps = rounds(40);
    /// Waits for the token `laps` times, and hands it on.
    fn member(places: &[Mutex<Option<Arc<Later>>>], at: usize, laps: usize) -> u64 {
        let mut sum = 0;
        for _ in 0..laps {
            let here = places[at].lock().unwrap().clone().unwrap();
            let token = block_on(here.get()).unwrap();
            sum += token;
            // A new place for the next lap, before the token goes on.
            *places[at].lock().unwrap() = Some(Arc::default());
            let next = places[(at + 1) % RING].lock().unwrap().clone().unwrap();
            next.set(token + 1);
        }
        sum
    }
    with_runtimes(|runtime| {
        let places: Arc<Vec<Mutex<Option<Arc<Later>>>>> =
            Arc::new((0..RING).map(|_| Mutex::new(Some(Arc::default()))).collect());
        let tasks: Vec<_> = (1..RING)
            .map(|at| {
                let places = places.clone();
                runtime.spawn(move || member(&places, at, laps))
            })
            .collect();
        let first = places[0].lock().unwrap().clone().unwrap();
        first.set(0);
        let mut sum = member(&places, 0, laps); // this thread is one of them
        sum += tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>();
        let last = (RING * laps) as u64;
        assert_eq!(sum, last * (last - 1) / 2);
    });
}

/// Who waits, and what for.
type Waiting = Mutex<Vec<(Arc<Later>, u64)>>;

#[test]
fn block_on_in_many_tasks_and_threads_is_woken_by_threads_every_time() {
    with_runtimes(|runtime| {
        let queue: Arc<Waiting> = Arc::default();
        let (over, each) = (AtomicBool::new(false), rounds(60) as u64);
        let wait_often = move |queue: &Waiting| {
            for n in 0..each {
                let later = Arc::new(Later::default());
                queue.lock().unwrap().push((later.clone(), n));
                assert_eq!(block_on(later.get()).unwrap(), n);
            }
            each
        };
        std::thread::scope(|threads| {
            let _over = Over(&over);
            for _ in 0..2 {
                threads.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let taken = queue.lock().unwrap().pop();
                        match taken {
                            Some((later, n)) => later.set(n),
                            None => std::thread::yield_now(),
                        }
                    }
                });
            }
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let queue = queue.clone();
                    runtime.spawn(move || wait_often(&queue))
                })
                .collect();
            let futures: Vec<_> = (0..8)
                .map(|_| {
                    let queue = queue.clone();
                    runtime.spawn_future(async move {
                        for n in 0..each {
                            let later = Arc::new(Later::default());
                            queue.lock().unwrap().push((later.clone(), n));
                            assert_eq!(later.get().await, n);
                        }
                        each
                    })
                })
                .collect();
            let here = threads.spawn(|| wait_often(&queue));
            let woken: u64 = tasks.into_iter().chain(futures).map(|task| task.join().unwrap()).sum();
            assert_eq!(woken + here.join().unwrap(), 17 * each);
        });
    });
}

#[test]
fn a_wake_up_of_a_blocked_thread_survives_what_the_poll_does_with_the_thread() {
    let _watchdog = Watchdog::new("a thread".to_owned());
    for _ in 0..rounds(50) {
        let later = Arc::new(Later::default());
        let setter = later.clone();
        let mut setter = Some(std::thread::spawn(move || setter.set(7)));
        let mut get = Box::pin(async move { later.get().await });
        let got = block_on(poll_fn(|context| {
            let polled = get.as_mut().poll(context);
            if let Some(setter) = setter.take() {
                setter.join().unwrap();
                std::thread::park_timeout(Duration::ZERO); // other code of this thread may use up what unparks it
            }
            polled
        }));
        assert_eq!(got.unwrap(), 7);
    }
}

/// The waker of the running task.
fn own_waker() -> Waker {
    block_on(poll_fn(|context| Poll::Ready(context.waker().clone()))).unwrap()
}

#[test]
fn wake_ups_that_nobody_asked_for_change_nothing() {
    with_runtimes(|runtime| {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let _over = Over(&over);
            for _ in 0..2 {
                threads.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        wakers.lock().unwrap().iter().for_each(Waker::wake_by_ref);
                        std::thread::yield_now();
                    }
                });
            }
            let tasks: Vec<_> = (0..6u64)
                .map(|task| {
                    let wakers = wakers.clone();
                    runtime.spawn(move || {
                        wakers.lock().unwrap().push(own_waker());
                        for n in 0..rounds(20) as u64 {
                            let inner = spawn(move || {
                                yield_now();
                                n
                            });
                            assert_eq!(inner.join().unwrap(), n, "a join returned early");
                            let count = AtomicUsize::new(0);
                            scope(|scope| {
                                for _ in 0..3 {
                                    drop(scope.spawn(|| {
                                        yield_now();
                                        count.fetch_add(1, Ordering::Relaxed);
                                    }));
                                }
                            })
                            .unwrap();
                            assert_eq!(count.load(Ordering::Relaxed), 3, "a scope ended early");
                            let start = now();
                            sleep(Duration::from_micros(100));
                            assert!(now() - start >= Duration::from_micros(100), "a sleep ended early");
                            let _late = timeout(Duration::from_micros(100), || {
                                spawn(|| sleep(Duration::from_micros(10))).join().unwrap();
                            });
                            let task = spawn_future(async move { task });
                            match task.join_timeout(Duration::from_millis(1)) {
                                Ok(done) => assert!(done.unwrap() < 6),
                                Err(handle) => assert!(handle.join().unwrap() < 6),
                            }
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn a_task_never_runs_in_two_places_at_once() {
    with_runtimes(|runtime| {
        let over = AtomicBool::new(false);
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        std::thread::scope(|threads| {
            let _over = Over(&over);
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    wakers.lock().unwrap().iter().for_each(Waker::wake_by_ref);
                    std::thread::yield_now();
                }
            });
            let body = |n: usize| {
                let inside = AtomicBool::new(false);
                for round in 0..rounds(100) {
                    assert!(!inside.swap(true, Ordering::SeqCst), "two workers are on one stack");
                    inside.store(false, Ordering::SeqCst);
                    match (n + round) % 3 {
                        0 => yield_now(),
                        1 => sleep(Duration::from_micros(5)),
                        _ => spawn(|| ()).join().unwrap(),
                    }
                }
            };
            let tasks: Vec<_> = (0..6)
                .map(|n| {
                    let wakers = wakers.clone();
                    runtime.spawn(move || {
                        wakers.lock().unwrap().push(own_waker());
                        body(n);
                    })
                })
                .collect();
            let migrating: Vec<_> = (0..6)
                .map(|n| {
                    let wakers = wakers.clone();
                    // SAFETY: the body has nothing on its stack that belongs to a thread.
                    unsafe {
                        runtime.task().spawn_migrating(move || {
                            wakers.lock().unwrap().push(own_waker());
                            body(n);
                        })
                    }
                })
                .collect();
            tasks.into_iter().chain(migrating).for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn a_task_that_changes_threads_keeps_its_scopes_its_deadlines_and_its_name() {
    with_runtimes(|runtime| {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                // SAFETY: the body has nothing on its stack that belongs to a thread.
                unsafe {
                    runtime.task().name(format!("mover {n}")).spawn_migrating(move || {
                        for round in 0..rounds(20) {
                            let sum = AtomicUsize::new(0);
                            scope(|scope| {
                                for child in 0..3 {
                                    let sum = &sum;
                                    drop(scope.spawn(move || {
                                        yield_now();
                                        sum.fetch_add(child, Ordering::Relaxed);
                                    }));
                                    sleep(Duration::from_micros(3));
                                }
                            })
                            .unwrap();
                            assert_eq!(sum.load(Ordering::Relaxed), 3);
                            let cut = timeout(Duration::from_micros(50), || {
                                loop {
                                    sleep(Duration::from_micros(7));
                                }
                            });
                            assert!(cut.is_err());
                            assert_eq!(task().spawn(move || round).join().unwrap(), round);
                        }
                    })
                }
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn wakers_of_tasks_that_have_ended_wake_no_later_task_of_the_slot() {
    with_runtimes(|runtime| {
        let stale: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let over = AtomicBool::new(false);
        for _ in 0..64 {
            let stale = stale.clone();
            let keeps = move || stale.lock().unwrap().push(own_waker());
            runtime.spawn(keeps).join().unwrap();
        }
        std::thread::scope(|threads| {
            let _over = Over(&over);
            for _ in 0..2 {
                threads.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        stale.lock().unwrap().iter().for_each(Waker::wake_by_ref);
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..rounds(10) {
                let laters: Vec<Arc<Later>> = (0..64).map(|_| Arc::default()).collect();
                let futures: Vec<_> = laters
                    .iter()
                    .cloned()
                    .map(|later| {
                        let stale = stale.clone();
                        runtime.spawn_future(async move {
                            let (mut get, mut polls) = (std::pin::pin!(later.get()), 0);
                            poll_fn(|context| {
                                polls += 1;
                                let polled = get.as_mut().poll(context);
                                if polled.is_ready() {
                                    let mut stale = stale.lock().unwrap();
                                    let oldest = polls % stale.len();
                                    stale[oldest] = context.waker().clone();
                                }
                                polled.map(|_| polls)
                            })
                            .await
                        })
                    })
                    .collect();
                laters.iter().for_each(|later| later.set(1));
                for future in futures {
                    // Once when it starts, and once when it is woken.
                    assert!(future.join().unwrap() <= 2, "woken by somebody else's waker");
                }
            }
        });
    });
}

#[test]
fn work_from_outside_is_not_starved_by_tasks_that_yield_for_ever() {
    with_runtimes(|runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..16)
            .map(|_| {
                let over = over.clone();
                runtime.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        yield_now();
                    }
                })
            })
            .collect();
        for n in 0..rounds(20) as u64 {
            assert_eq!(runtime.spawn(move || n).join().unwrap(), n);
            let later = Arc::new(Later::default());
            let waits = runtime.spawn({
                let later = later.clone();
                move || block_on(later.get()).unwrap()
            });
            later.set(n);
            assert_eq!(waits.join().unwrap(), n);
        }
        over.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn a_burst_of_tasks_from_one_task_is_run_to_the_last() {
    with_runtimes(|runtime| {
        let ran = Arc::new(AtomicUsize::new(0));
        for n in 0..rounds(4) {
            let ran = ran.clone();
            runtime
                .run(move || {
                    for _ in 0..1000 {
                        let ran = ran.clone();
                        let body = move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        if n % 2 == 0 { drop(spawn(body)) } else { drop(spawn_future(async move { body() })) }
                    }
                })
                .unwrap();
        }
        spin_until(|| ran.load(Ordering::Relaxed) >= 1000 * rounds(4));
        assert_eq!(ran.load(Ordering::Relaxed), 1000 * rounds(4));
    });
}
