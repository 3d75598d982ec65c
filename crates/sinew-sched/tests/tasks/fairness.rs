//! A task that never waits shares its worker all the same: whatever is ready there begins, and timers ring, although every
//! call of the task could be done at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sinew_chan::chan::{RecvError, bounded, broadcast, oneshot, ordered, rendezvous, weighted};
use sinew_chan::select;
use sinew_chan::sync::{Mutex, RwLock, Semaphore, WaitGroup};
use sinew_sched::{Builder, Runtime, Sysmon, block_on, now, sleep, spawn, spawn_future, task, yield_now};

use crate::support::with_runtime;

/// One worker, and nothing that looks after it.
fn alone() -> Builder {
    Runtime::builder().workers(1).sysmon(Sysmon::off()).safety_nets(false)
}

/// A call that could wait, and does not.
type Call = Box<dyn FnMut() + Send>;

fn calls() -> Vec<(&'static str, Call)> {
    let (sender, receiver) = bounded(8);
    let (zero_sender, zero_receiver) = bounded::<u8>(1);
    let (heavy_sender, heavy_receiver) = weighted(100, |_: &u8| 1);
    let (told, tells) = broadcast::channel(8, broadcast::Slow::Block);
    let (results, mut finished) = ordered::channel(8);
    let (mutex, lock, semaphore, group) =
        (Mutex::new(0_u64), RwLock::new(0_u64), Semaphore::new(1), WaitGroup::new());
    let (selected, selects) = bounded(8);
    vec![
        (
            "send and recv",
            Box::new(move || {
                sender.send(1_u8).unwrap();
                receiver.recv().unwrap();
            }),
        ),
        (
            "recv_timeout of zero",
            Box::new(move || {
                let _open = &zero_sender;
                assert!(matches!(zero_receiver.recv_timeout(Duration::ZERO), Err(RecvError::Timeout)));
            }),
        ),
        (
            "weighted",
            Box::new(move || {
                heavy_sender.send(1).unwrap();
                heavy_receiver.recv().unwrap();
            }),
        ),
        (
            "oneshot",
            Box::new(|| {
                let (sender, mut receiver) = oneshot::channel();
                sender.send(1).unwrap();
                receiver.recv().unwrap();
            }),
        ),
        (
            "broadcast",
            Box::new(move || {
                told.send(1).unwrap();
                tells.recv().unwrap();
            }),
        ),
        (
            "ordered",
            Box::new(move || {
                results.spawn(|| 1).unwrap();
                finished.recv().unwrap().unwrap();
            }),
        ),
        ("mutex", Box::new(move || *mutex.lock().unwrap() += 1)),
        ("read", Box::new(move || assert_eq!(*lock.read().unwrap(), 0))),
        ("semaphore", Box::new(move || drop(semaphore.acquire(1).unwrap()))),
        ("wait group", Box::new(move || group.wait().unwrap())),
        (
            "select",
            Box::new(move || {
                selected.send(1).unwrap();
                select! { item = sinew_chan::select::recv(&selects) => item.unwrap() }.unwrap();
            }),
        ),
        ("sleep of zero", Box::new(|| sleep(Duration::ZERO))),
        ("yield_now", Box::new(yield_now)),
    ]
}

/// Calls until the flag is set.
fn call_until(flag: &AtomicBool, call: &mut Call, name: &str) {
    let start = now();
    let mut count = 0_u64;
    while !flag.load(Ordering::Relaxed) {
        call();
        count += 1;
        assert!(now() - start < Duration::from_secs(20), "{name}: nobody else has run for {count} calls");
    }
}

#[test]
fn a_task_that_was_just_spawned_begins_beside_calls_that_need_not_wait() {
    for (name, mut call) in calls() {
        with_runtime(alone(), |runtime| {
            let run = move || {
                let flag = Arc::new(AtomicBool::new(false));
                let child = spawn({
                    let flag = flag.clone();
                    move || flag.store(true, Ordering::Relaxed)
                });
                call_until(&flag, &mut call, name);
                child.join().unwrap();
            };
            runtime.run(run).unwrap();
        });
    }
}

#[test]
fn a_sleep_ends_beside_calls_that_need_not_wait() {
    for (name, mut call) in calls() {
        with_runtime(alone(), |runtime| {
            let run = move || {
                let flag = Arc::new(AtomicBool::new(false));
                let sleeper = spawn({
                    let flag = flag.clone();
                    move || {
                        sleep(Duration::from_millis(1));
                        flag.store(true, Ordering::Relaxed);
                    }
                });
                call_until(&flag, &mut call, name);
                sleeper.join().unwrap();
            };
            runtime.run(run).unwrap();
        });
    }
}

#[test]
fn a_pinned_body_that_a_thread_wakes_goes_on_beside_calls_that_need_not_wait() {
    for (name, mut call) in calls() {
        with_runtime(alone(), |runtime| {
            let (sender, receiver) = rendezvous::<()>();
            let (flag, parked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let waits = {
                let (flag, parked) = (flag.clone(), parked.clone());
                runtime.task().pinned().spawn(move || {
                    parked.store(true, Ordering::Relaxed);
                    receiver.recv().unwrap();
                    flag.store(true, Ordering::Relaxed);
                })
            };
            let calls = runtime.spawn({
                let parked = parked.clone();
                move || {
                    while !parked.load(Ordering::Relaxed) {
                        yield_now();
                    }
                    call_until(&flag, &mut call, name);
                }
            });
            sender.send(()).unwrap(); // by a thread that is no worker
            calls.join().unwrap();
            waits.join().unwrap();
        });
    }
}

#[test]
fn a_loop_that_computes_between_its_calls_yields_at_each_of_them() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let (sender, receiver) = bounded(100_000);
            (0..100_000).for_each(|item| sender.send(item).unwrap());
            let others = Arc::new(AtomicBool::new(false));
            let ticks = spawn({
                let others = others.clone();
                move || {
                    let mut ticks = 0_u64;
                    while !others.load(Ordering::Relaxed) {
                        ticks += 1;
                        yield_now();
                    }
                    ticks
                }
            });
            for _ in 0..500 {
                receiver.recv().unwrap();
                let start = std::time::Instant::now();
                while start.elapsed() < Duration::from_millis(1) {}
            }
            others.store(true, Ordering::Relaxed);
            ticks.join().unwrap()
        };
        let ticks = runtime.run(run).unwrap();
        assert!(ticks >= 300, "the neighbour had {ticks} turns beside 500 slow calls");
    });
}

#[test]
fn a_future_whose_calls_are_all_ready_lets_others_run() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let (flag, began) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let busy = spawn_future({
                let (flag, began) = (flag.clone(), began.clone());
                async move {
                    began.store(true, Ordering::Relaxed);
                    let (sender, receiver) = bounded(8);
                    let start = now();
                    while !flag.load(Ordering::Relaxed) {
                        sender.send_async(1).await.unwrap();
                        receiver.recv_async().await.unwrap();
                        assert!(now() - start < Duration::from_secs(20), "nobody else has run");
                    }
                }
            });
            while !began.load(Ordering::Relaxed) {
                yield_now();
            }
            flag.store(true, Ordering::Relaxed); // it has to come here again for that
            busy.join().unwrap();
        };
        runtime.run(run).unwrap();
    });
}

#[test]
fn a_future_whose_calls_are_all_ready_goes_on_however_long_the_turns_of_others_are() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let (sender, receiver) = bounded(1000);
            (0..1000).for_each(|item| sender.try_send(item).unwrap());
            drop(sender);
            let reads = spawn_future(async move { while receiver.recv_async().await.is_ok() {} });
            let mut turns = 0;
            while !reads.is_finished() {
                let start = now();
                while now() - start < Duration::from_micros(300) {}
                yield_now();
                turns += 1;
                assert!(turns < 10_000, "the future does not go on");
            }
        };
        runtime.run(run).unwrap();
    });
}

#[test]
fn a_body_that_awaits_futures_which_are_ready_lets_others_run() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let (flag, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let other = spawn({
                let (flag, waits) = (flag.clone(), waits.clone());
                move || {
                    waits.store(true, Ordering::Relaxed);
                    yield_now(); // it goes on here and nowhere else
                    flag.store(true, Ordering::Relaxed);
                }
            });
            while !waits.load(Ordering::Relaxed) {
                yield_now();
            }
            let (sender, receiver) = bounded(8);
            let busy = async {
                let start = now();
                while !flag.load(Ordering::Relaxed) {
                    sender.send_async(1).await.unwrap();
                    receiver.recv_async().await.unwrap();
                    assert!(now() - start < Duration::from_secs(20), "nobody else has run");
                }
            };
            block_on(busy).unwrap();
            other.join().unwrap();
        };
        runtime.run(run).unwrap();
    });
}

#[test]
fn a_yield_lets_a_task_begin_that_was_just_spawned_or_woken() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let (sender, receiver) = bounded(1);
            let woken = Arc::new(AtomicBool::new(false));
            let waits = spawn_future({
                let woken = woken.clone();
                async move {
                    while receiver.recv_async().await.is_ok() {
                        woken.store(true, Ordering::Relaxed);
                    }
                }
            });
            yield_now();
            for round in 0..100 {
                let began = Arc::new(AtomicBool::new(false));
                let child = spawn({
                    let began = began.clone();
                    move || began.store(true, Ordering::Relaxed)
                });
                yield_now();
                assert!(began.load(Ordering::Relaxed), "round {round}: the child was passed over");
                child.join().unwrap();
                woken.store(false, Ordering::Relaxed);
                sender.try_send(()).unwrap();
                yield_now();
                assert!(woken.load(Ordering::Relaxed), "round {round}: the future was passed over");
            }
            drop(sender);
            waits.join().unwrap();
        };
        runtime.run(run).unwrap();
    });
}

#[test]
fn tasks_that_yield_are_not_passed_over_by_those_that_spawn() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let spawns = task().pinned().spawn(|| {
                for _ in 0..10_000 {
                    spawn(|| ()).detach();
                    yield_now();
                }
            });
            let mut turns = 0;
            while !spawns.is_finished() {
                turns += 1;
                yield_now();
            }
            spawns.join().unwrap();
            turns
        };
        let turns = runtime.run(run).unwrap();
        assert!(turns >= 5_000, "{turns} turns beside 10,000 of a task that spawns");
    });
}

#[test]
fn try_calls_do_not_switch_tasks() {
    with_runtime(alone(), |runtime| {
        let run = || {
            let began = Arc::new(AtomicBool::new(false));
            let child = spawn({
                let began = began.clone();
                move || began.store(true, Ordering::Relaxed)
            });
            let ((sender, receiver), mutex) = (bounded(1), Mutex::new(()));
            for _ in 0..1_000 {
                sender.try_send(1).unwrap();
                receiver.try_recv().unwrap().unwrap();
                drop(mutex.try_lock().unwrap());
            }
            assert!(!began.load(Ordering::Relaxed), "a call that never waits gave way");
            child.join().unwrap();
        };
        runtime.run(run).unwrap();
    });
}
