//! What a task is to whoever spawns it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sinew_chan::chan::{self, oneshot};
use sinew_fiber::{
    Fiber, Generator, Reason, Refused, StackSize, current, defer, error, protect, shield, yield_,
};
use sinew_sched::{JoinHandle, ManualClock, Runtime, now, sleep, sleep_until, spawn, yield_now};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Starts a task, and lets it run: with one worker, until it waits.
fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let started = Arc::new(AtomicUsize::new(0));
    let starts = started.clone();
    let task = spawn(move || {
        starts.store(1, Ordering::Release);
        body()
    });
    while started.load(Ordering::Acquire) == 0 {
        yield_now();
    }
    task
}

#[test]
fn a_task_returns_its_result_to_whoever_joins_it() {
    let runtime = runtime(2);
    assert_eq!(runtime.run(|| 42).unwrap(), 42);
    assert_eq!(runtime.spawn(|| String::from("text")).join().unwrap(), "text");
    assert_eq!(runtime.run(|| spawn(|| [7u64; 20]).join().unwrap()).unwrap(), [7; 20]);
}

#[test]
fn a_panic_or_error_of_a_task_is_the_joiner_s_result_and_touches_nobody_else() {
    let runtime = runtime(1);
    let raised = runtime.run(|| spawn(|| -> u32 { panic!("boom") }).join().unwrap_err()).unwrap();
    assert!(raised.to_string().contains("boom"), "{raised}");
    let raised = runtime.run(|| spawn(|| -> u32 { error("no") }).join().unwrap_err()).unwrap();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "no");
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

#[test]
fn a_task_may_block_from_any_depth_and_inside_fibers() {
    fn deep(depth: u32) -> u32 {
        if depth == 0 {
            yield_now();
            return 0;
        }
        deep(depth - 1) + 1
    }
    let runtime = runtime(1);
    let others = Arc::new(AtomicUsize::new(0));
    let seen = others.clone();
    let result = runtime.run(move || {
        let other = spawn(move || {
            for _ in 0..50 {
                seen.fetch_add(1, Ordering::Relaxed);
                yield_now();
            }
        });
        let inside = Generator::new(|out| {
            for n in 0..10u32 {
                sleep(Duration::from_micros(100));
                out.yield_(n + deep(20));
            }
        });
        let sum = protect(|| inside.unwrap().sum::<u32>()).unwrap();
        other.join().unwrap();
        sum
    });
    assert_eq!(result.unwrap(), 45 + 200);
    assert_eq!(others.load(Ordering::Relaxed), 50);
}

#[test]
fn ready_tasks_of_one_worker_take_turns() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let runtime = runtime(1);
    let log = order.clone();
    runtime
        .run(move || {
            let tasks: Vec<_> = (0..3)
                .map(|name| {
                    let log = log.clone();
                    spawn(move || {
                        for _ in 0..20 {
                            log.lock().unwrap().push(name);
                            yield_now();
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        })
        .unwrap();
    let order = order.lock().unwrap();
    // From when all three have started until the first ends, each runs once in every three turns.
    let turn = |name, nth| order.iter().enumerate().filter(|(_, n)| **n == name).nth(nth).unwrap().0;
    let all_started = (0..3).map(|name| turn(name, 0)).max().unwrap();
    let first_ended = (0..3).map(|name| turn(name, 19)).min().unwrap();
    let together = &order[all_started..first_ended];
    assert!(together.len() > 9, "{order:?}");
    for window in together.windows(3) {
        let mut names = window.to_vec();
        names.sort_unstable();
        assert_eq!(names, [0, 1, 2], "{order:?}");
    }
}

#[test]
fn a_task_that_spawns_itself_again_and_again_does_not_starve_an_older_one() {
    const MANY: u32 = 5_000;
    /// How many of the chain had not run when the old task did.
    fn again(done: Arc<AtomicUsize>, left: u32) -> u32 {
        if done.load(Ordering::Relaxed) == 1 || left == 0 {
            return left;
        }
        spawn(move || again(done, left - 1)).join().unwrap()
    }
    let runtime = runtime(1);
    let left = runtime
        .run(|| {
            let done = Arc::new(AtomicUsize::new(0));
            let flag = done.clone();
            let old = spawn(move || flag.store(1, Ordering::Relaxed));
            let left = again(done, MANY);
            old.join().unwrap();
            left
        })
        .unwrap();
    assert!(left > MANY - 1000, "the old task ran after {} newer ones", MANY - left);
}

#[test]
fn a_task_that_yields_inside_a_fiber_comes_back_to_that_fiber() {
    let runtime = runtime(1);
    runtime
        .run(|| {
            let done = Arc::new(AtomicUsize::new(0));
            let flag = done.clone();
            let other = spawn(move || {
                while flag.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
            });
            let fiber = Fiber::new(|_| {
                for n in 0..100u32 {
                    let me = current();
                    yield_now();
                    assert_eq!(current(), me);
                    yield_(n).unwrap();
                }
            });
            let sum: u32 = fiber.unwrap().map(|item| item.unwrap().downcast::<u32>().unwrap()).sum();
            done.store(1, Ordering::Relaxed);
            other.join().unwrap();
            assert_eq!(sum, 4950);
        })
        .unwrap();
}

#[test]
fn a_detached_task_goes_on_alone_and_its_result_is_dropped() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let runtime = runtime(2);
    for _ in 0..100 {
        let counted = Counted(dropped.clone());
        drop(runtime.spawn(move || counted));
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_never_early() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let order = runtime.run(|| {
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let start = now();
        let tasks: Vec<_> = [30u64, 10, 20]
            .into_iter()
            .map(|seconds| {
                let log = log.clone();
                spawn(move || {
                    let deadline = start + Duration::from_secs(seconds);
                    sleep_until(deadline);
                    assert!(now() >= deadline);
                    log.lock().unwrap().push(seconds);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        Arc::try_unwrap(log).unwrap().into_inner().unwrap()
    });
    assert_eq!(order.unwrap(), [10, 20, 30]);
}

#[test]
fn a_cancelled_task_unwinds_out_of_its_sleep_and_cleans_up() {
    let runtime = runtime(1);
    runtime
        .run(|| {
            let cleaned = Arc::new(AtomicUsize::new(0));
            let seen = cleaned.clone();
            let sleeper = start(move || {
                defer(
                    || {
                        seen.fetch_add(1, Ordering::Relaxed);
                    },
                    || sleep(Duration::from_secs(3600)),
                );
            });
            sleeper.cancel();
            assert!(sleeper.join().unwrap_err().is_cancelled());
            assert_eq!(cleaned.load(Ordering::Relaxed), 1);
        })
        .unwrap();
}

#[test]
fn a_task_that_joins_itself_has_an_error_at_once() {
    let error = Runtime::new().run(|| {
        let (own, mut handle) = oneshot::channel::<JoinHandle<()>>();
        let (tell, mut told) = oneshot::channel();
        let joins = spawn(move || {
            let raised = handle.recv().unwrap().join().unwrap_err();
            tell.send(raised.to_string()).unwrap();
        });
        own.send(joins).unwrap();
        told.recv().unwrap()
    });
    assert!(error.unwrap().contains("a task cannot wait for its own end"));
}

#[test]
fn a_join_that_is_cancelled_fails_and_the_joined_task_goes_on() {
    let runtime = runtime(2);
    runtime
        .run(|| {
            let gate = Arc::new(AtomicUsize::new(0));
            let opened = gate.clone();
            let (to_test, from_inner) = std::sync::mpsc::channel();
            let joiner = start(move || {
                let inner = spawn(move || {
                    while opened.load(Ordering::Acquire) == 0 {
                        sleep(Duration::from_micros(200));
                    }
                    to_test.send("went on").unwrap();
                });
                inner.join().unwrap_err().value.downcast::<Refused>().unwrap().reason()
            });
            joiner.cancel();
            assert_eq!(joiner.join().unwrap(), Reason::Cancelled);
            gate.store(1, Ordering::Release);
            while from_inner.try_recv().is_err() {
                sleep(Duration::from_micros(200));
            }
        })
        .unwrap();
}

#[test]
fn a_killed_task_ends_and_a_shield_defers_that() {
    let runtime = runtime(1);
    runtime
        .run(|| {
            let steps = Arc::new(AtomicUsize::new(0));
            let seen = steps.clone();
            let task = start(move || {
                shield(|| {
                    for _ in 0..3 {
                        sleep(Duration::from_millis(1));
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                });
                sleep(Duration::from_millis(1));
                seen.fetch_add(100, Ordering::Relaxed);
            });
            task.kill();
            assert!(task.join().unwrap_err().is_cancelled());
            assert_eq!(steps.load(Ordering::Relaxed), 3);
        })
        .unwrap();
}

#[test]
fn a_body_that_has_blocked_stays_on_its_thread() {
    thread_local! {
        static SEEN: RefCell<u32> = const { RefCell::new(0) };
    }
    let runtime = runtime(4);
    runtime
        .run(|| {
            let tasks: Vec<_> = (0..64)
                .map(|_| {
                    spawn(|| {
                        let thread = std::thread::current().id();
                        for _ in 0..50 {
                            yield_now();
                            SEEN.with_borrow_mut(|seen| *seen += 1);
                            assert_eq!(std::thread::current().id(), thread);
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        })
        .unwrap();
}

#[test]
fn shutdown_cancels_what_waits_and_says_that_nothing_is_left() {
    let runtime = runtime(2);
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let ended = ended.clone();
        drop(runtime.spawn(move || {
            let outcome = protect(|| sleep(Duration::from_secs(3600)));
            assert!(outcome.unwrap_err().is_cancelled());
            ended.fetch_add(1, Ordering::Relaxed);
        }));
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(30)).left, 0);
    assert_eq!(ended.load(Ordering::Relaxed), 100);
}

#[test]
fn shutdown_reports_a_task_that_cannot_be_stopped() {
    let runtime = runtime(2);
    let stop = Arc::new(AtomicUsize::new(0));
    let flag = stop.clone();
    let started = Arc::new(AtomicUsize::new(0));
    let seen = started.clone();
    let busy = runtime.spawn(move || {
        seen.store(1, Ordering::Release);
        while flag.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
    });
    while started.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.shutdown(Duration::from_millis(20)).left, 1);
    stop.store(1, Ordering::Release);
    busy.join().unwrap();
}

#[test]
fn two_runtimes_join_each_other_s_tasks() {
    let one = runtime(2);
    let two = runtime(2);
    let handles: Vec<_> = (0..100u64).map(|n| two.spawn(move || n)).collect();
    let sum = one.run(move || handles.into_iter().map(|task| task.join().unwrap()).sum::<u64>());
    assert_eq!(sum.unwrap(), 4950);
}

#[test]
fn a_runtime_with_stacks_that_cannot_be_had_is_an_error() {
    let error = Runtime::builder().stack(StackSize::Custom(1)).build().unwrap_err();
    assert!(error.to_string().contains("not between"), "{error}");
}

#[test]
fn workers_of_a_larger_runtime_wake_those_of_a_smaller_one_and_go_on_computing() {
    let (small, large) = (runtime(2), runtime(8));
    let wakers: Vec<_> = (0..8)
        .map(|_| {
            let (sender, receiver) = chan::bounded::<Instant>(1);
            let woken = small.spawn(move || receiver.iter().count());
            let waker = large.spawn(move || {
                for _ in 0..100 {
                    sender.send(Instant::now()).unwrap();
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(400) {}
                    sleep(Duration::from_micros(200)); // all workers of the other go to sleep
                }
            });
            (waker, woken)
        })
        .collect();
    for (waker, woken) in wakers {
        waker.join().unwrap();
        assert_eq!(woken.join().unwrap(), 100);
    }
}
