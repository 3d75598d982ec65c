//! What a task leaves behind, and who has to wait for it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_fiber::{Fiber, Key, Mask, Signal, shield};
use sinew_sched::{JoinHandle, Runtime, sleep, spawn, yield_now};

use crate::support::wait_until_all_sleep;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs what it holds when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

#[test]
fn a_lone_task_is_stolen_from_a_worker_that_computes_although_all_had_slept() {
    for workers in [2, 3, 8] {
        let runtime = runtime(workers);
        for _ in 0..5 {
            wait_until_all_sleep(&runtime);
            runtime
                .run(|| {
                    let done = Arc::new(AtomicUsize::new(0));
                    let flag = done.clone();
                    let task = spawn(move || flag.store(1, Ordering::Release));
                    while done.load(Ordering::Acquire) == 0 {
                        std::thread::yield_now();
                    }
                    task.join().unwrap();
                })
                .unwrap();
        }
    }
}

#[test]
fn a_result_whose_destructor_panics_ends_only_its_task() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let detached = Arc::new(AtomicUsize::new(0));
        let seen = detached.clone();
        drop(runtime.spawn(move || {
            while seen.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            OnDrop(Some(|| panic!("in a destructor")))
        }));
        detached.store(1, Ordering::Release);
        assert_eq!(runtime.run(|| 1).unwrap(), 1);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_result_that_nobody_takes_may_block_in_its_destructor() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        drop(runtime.spawn(move || {
            let inner: JoinHandle<u32> = spawn(|| {
                sleep(Duration::from_millis(1));
                7
            });
            OnDrop(Some(move || {
                yield_now();
                sleep(Duration::from_millis(1));
                assert_eq!(inner.join().unwrap(), 7);
                count.fetch_add(1, Ordering::Relaxed);
            }))
        }));
        while ended.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_task_that_outlasts_the_shutdown_in_a_shield_still_ends() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (over, mut is_over) = oneshot::channel();
        let (starts, started) = std::sync::mpsc::channel();
        let task = runtime.spawn(move || {
            shield(|| {
                starts.send(()).unwrap();
                let add: u32 = is_over.recv().unwrap();
                spawn(move || 5 + add).join()
            })
        });
        started.recv().unwrap();
        assert_eq!(runtime.shutdown(Duration::from_millis(10)).left, 1);
        over.send(2).unwrap();
        assert_eq!(task.join().unwrap().unwrap(), 7);
    }
}

#[test]
fn a_sleep_in_a_fiber_that_outlives_its_worker_is_given_up_safely() {
    thread_local! {
        static KEPT: RefCell<Vec<Fiber>> = const { RefCell::new(Vec::new()) };
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let runtime = runtime(1);
    let count = ended.clone();
    runtime
        .run(move || {
            for _ in 0..3 {
                let end = count.clone();
                let end = OnDrop(Some(move || {
                    end.fetch_add(1, Ordering::Relaxed);
                }));
                let fiber = Fiber::builder().mask(Mask::AWAIT).build(move |_| {
                    let _end = end;
                    sleep(Duration::from_secs(3600));
                });
                let fiber = fiber.unwrap();
                assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
                KEPT.with_borrow_mut(|kept| kept.push(fiber));
            }
        })
        .unwrap();
    drop(runtime);
    assert_eq!(ended.load(Ordering::Relaxed), 3);
}

#[test]
fn tasks_that_each_spawn_one_and_compute_until_all_run_spread_over_the_workers() {
    /// One task for each worker, of which each waits for the last without giving its worker up.
    fn chain(left: usize, done: Arc<AtomicUsize>) {
        let next = (left > 1).then(|| {
            let done = done.clone();
            spawn(move || chain(left - 1, done))
        });
        if next.is_none() {
            done.store(1, Ordering::Release);
        }
        while done.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        next.into_iter().for_each(|next| next.join().unwrap());
    }
    for workers in [2, 3, 8] {
        let runtime = runtime(workers);
        for round in 0..20 {
            if round % 3 > 0 {
                wait_until_all_sleep(&runtime);
            }
            runtime.run(move || chain(workers, Arc::new(AtomicUsize::new(0)))).unwrap();
        }
    }
}

#[test]
fn the_bindings_of_a_task_end_with_it_and_may_panic() {
    static VALUE: Key<Arc<u32>> = Key::new("value");
    static PANICS: Key<OnDrop<fn()>> = Key::new("panics");
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let value = Arc::new(1);
        let bound = value.clone();
        runtime.run(move || VALUE.set(bound)).unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
        runtime.run(|| PANICS.set(OnDrop(Some(|| panic!("in a destructor"))))).unwrap();
        assert!(runtime.run(|| PANICS.get().is_none()).unwrap());
    }
}

#[test]
fn the_longest_sleep_and_the_longest_grace_are_not_too_long() {
    let runtime = runtime(2);
    let started = Arc::new(AtomicUsize::new(0));
    let seen = started.clone();
    let sleeper = runtime.spawn(move || {
        seen.store(1, Ordering::Release);
        sleep(Duration::MAX);
    });
    while started.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.shutdown(Duration::MAX).left, 0);
    assert!(sleeper.join().unwrap_err().is_cancelled());
}

#[test]
fn a_shutdown_reaches_the_tasks_that_are_spawned_meanwhile() {
    let start = || spawn(|| sleep(Duration::from_secs(3600)));
    for workers in [1, 2, 8] {
        for _ in 0..20 {
            let runtime = runtime(workers);
            let (spawning, spawns) = std::sync::mpsc::channel();
            for _ in 0..4 {
                let spawning = spawning.clone();
                drop(runtime.spawn(move || {
                    let mut last = start();
                    spawning.send(()).unwrap();
                    loop {
                        let next = start();
                        yield_now();
                        // So there are never many, but there is always one that was just spawned.
                        std::mem::replace(&mut last, next).cancel();
                    }
                }));
            }
            spawns.iter().take(4).for_each(drop);
            assert_eq!(runtime.shutdown(Duration::MAX).left, 0);
        }
    }
}
