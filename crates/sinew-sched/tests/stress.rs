//! Many tasks that do everything at once, with one worker, with as many as cores, and with more.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{JoinHandle, Runtime, sleep, spawn, yield_now};

fn with_workers(test: impl Fn(&Runtime)) {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        test(&runtime);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

/// Random enough, and the same in every run.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn trees_of_tasks_lose_nobody() {
    fn tree(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let children: Vec<JoinHandle<u64>> = (0..6).map(|_| spawn(move || tree(depth - 1))).collect();
        yield_now();
        children.into_iter().map(|child| child.join().unwrap()).sum()
    }
    with_workers(|runtime| {
        for _ in 0..3 {
            assert_eq!(runtime.run(|| tree(5)).unwrap(), 7776);
        }
    });
}

#[test]
fn spawn_and_join_by_many_tasks_at_once_never_hangs() {
    with_workers(|runtime| {
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                runtime.spawn(|| {
                    for n in 0..300u64 {
                        assert_eq!(spawn(move || n).join().unwrap(), n);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn tasks_that_sleep_yield_join_and_are_cancelled_at_random_all_end() {
    with_workers(|runtime| {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let outcome = runtime.run(move || {
            let mut seed = 88_172_645_463_325_252;
            let mut cancelled = 0;
            for _ in 0..40 {
                let tasks: Vec<_> = (0..50)
                    .map(|_| {
                        let (kind, count) = (next(&mut seed) % 4, count.clone());
                        spawn(move || {
                            /// Counts the end, however it comes.
                            struct End(Arc<AtomicUsize>);
                            impl Drop for End {
                                fn drop(&mut self) {
                                    self.0.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            let _end = End(count);
                            match kind {
                                0 => sleep(Duration::from_micros(300)),
                                1 => (0..20).for_each(|_| yield_now()),
                                2 => spawn(|| sleep(Duration::from_micros(50))).join().unwrap(),
                                _ => (),
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    match next(&mut seed) % 4 {
                        0 => task.cancel(),
                        1 => task.kill(),
                        _ => (),
                    }
                    cancelled += usize::from(task.join().is_err());
                }
            }
            cancelled
        });
        assert!(outcome.unwrap() < 2000);
        assert_eq!(ended.load(Ordering::Relaxed), 2000);
    });
}

#[test]
fn threads_from_outside_spawn_and_join_while_the_runtime_is_busy() {
    with_workers(|runtime| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..200u64 {
                        let task = runtime.spawn(move || {
                            yield_now();
                            n
                        });
                        assert_eq!(task.join().unwrap(), n);
                    }
                });
            }
        });
    });
}

#[test]
fn runtimes_come_and_go() {
    for _ in 0..50 {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        assert_eq!(runtime.run(|| spawn(|| 1).join().unwrap()).unwrap(), 1);
    }
}
