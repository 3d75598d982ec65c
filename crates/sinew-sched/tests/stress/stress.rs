//! Many tasks that do everything at once, with one worker, with as many as cores, and with more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{JoinHandle, Runtime, sleep, spawn, yield_now};

use crate::support::{SEED, Watchdog, next, rounds, with_runtimes};

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
    with_runtimes(|runtime| {
        for _ in 0..rounds(1) {
            assert_eq!(runtime.run(|| tree(5)).unwrap(), 7776);
        }
    });
}

#[test]
fn tasks_that_sleep_yield_join_and_are_cancelled_at_random_all_end() {
    with_runtimes(|runtime| {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let outcome = runtime.run(move || {
            let mut seed = SEED;
            for _ in 0..rounds(20) {
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
                        _ => {
                            task.join().expect("nobody has cancelled it");
                            continue;
                        }
                    }
                    // It may have ended before.
                    let _ = task.join();
                }
            }
        });
        outcome.unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), 50 * rounds(20));
    });
}

#[test]
fn threads_from_outside_spawn_and_join_while_the_runtime_is_busy() {
    with_runtimes(|runtime| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..rounds(100) as u64 {
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
    let watchdog = Watchdog::new("two workers".to_owned());
    for _ in 0..rounds(50) {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        watchdog.watch(&runtime);
        assert_eq!(runtime.run(|| spawn(|| 1).join().unwrap()).unwrap(), 1);
    }
}
