//! Bodies that stay on their thread, and those whose author lets them move.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_fiber::{Fiber, FiberRef, Mask, Signal, root};
use sinew_sched::{Runtime, sleep, spawn, task, yield_now};

#[inline(never)]
fn thread() -> ThreadId {
    std::thread::current().id()
}

/// Starts `body` so that it blocks on one worker, keeps that worker busy, and lets it go on.
fn blocks_on_a_worker_that_is_then_busy(
    runtime: &Runtime,
    migrates: bool,
    body: impl FnOnce() + Send + 'static,
) -> (ThreadId, Option<ThreadId>) {
    let (sender, mut receiver) = oneshot::channel::<()>();
    let (release, spinning) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (released, spins) = (release.clone(), spinning.clone());
    let body = move || {
        let first = thread();
        task()
            .pinned()
            .spawn(move || {
                spins.store(true, Ordering::Release);
                while !released.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            })
            .detach();
        receiver.recv().unwrap();
        let second = thread();
        body();
        (first, second)
    };
    // SAFETY: it has nothing of a thread on its stack when it blocks.
    let handle = if migrates { unsafe { runtime.task().spawn_migrating(body) } } else { runtime.spawn(body) };
    while !spinning.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    sender.send(()).unwrap();
    if migrates {
        let (first, second) = handle.join().unwrap();
        release.store(true, Ordering::Release);
        (first, Some(second))
    } else {
        // The other worker, which runs these, looks for work before and after each.
        (0..100).for_each(|_| runtime.run(yield_now).unwrap());
        assert!(!handle.is_finished(), "its worker is busy");
        release.store(true, Ordering::Release);
        let (first, second) = handle.join().unwrap();
        (first, Some(second))
    }
}

#[test]
fn a_body_that_may_migrate_goes_on_elsewhere_when_its_worker_is_busy() {
    for workers in [2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        for _ in 0..10 {
            let (first, second) = blocks_on_a_worker_that_is_then_busy(&runtime, true, || ());
            assert_ne!(Some(first), second);
        }
    }
}

#[test]
fn a_body_that_stays_waits_for_its_worker() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (first, second) = blocks_on_a_worker_that_is_then_busy(&runtime, false, || ());
    assert_eq!(Some(first), second);
}

#[test]
fn a_body_that_has_migrated_blocks_sleeps_spawns_and_uses_fibers_as_before() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    for _ in 0..10 {
        blocks_on_a_worker_that_is_then_busy(&runtime, true, || {
            yield_now();
            sleep(Duration::from_micros(200));
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
            let fiber = Fiber::builder()
                .mask(Mask::YIELD | Mask::ERROR)
                .build(|_| {
                    sleep(Duration::from_micros(100));
                    sinew_fiber::error("caught")
                })
                .unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        });
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

#[test]
fn a_body_that_may_migrate_has_a_root_that_no_other_task_runs_under() {
    // What tasks leave behind on their thread, fibers say, counts references to the root that they ran under.
    thread_local! {
        static OF_THOSE_THAT_STAY: RefCell<Vec<FiberRef>> = const { RefCell::new(Vec::new()) };
        static OF_THOSE_THAT_MIGRATE: RefCell<Vec<FiberRef>> = const { RefCell::new(Vec::new()) };
    }
    fn is_shared() -> (bool, bool) {
        let is_in = |roots: &RefCell<Vec<FiberRef>>| roots.borrow().contains(&root());
        (OF_THOSE_THAT_STAY.with(is_in), OF_THOSE_THAT_MIGRATE.with(is_in))
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let stays = || {
        let shared = is_shared();
        OF_THOSE_THAT_STAY.with_borrow_mut(|roots| roots.push(root()));
        shared
    };
    let migrates = || {
        let shared = is_shared();
        OF_THOSE_THAT_MIGRATE.with_borrow_mut(|roots| roots.push(root()));
        shared
    };
    assert_eq!(runtime.run(stays).unwrap(), (false, false));
    for _ in 0..3 {
        // SAFETY: it does not block.
        let migrating = unsafe { runtime.task().spawn_migrating(migrates) };
        assert_eq!(migrating.join().unwrap(), (false, false));
        assert_eq!(runtime.run(stays).unwrap(), (true, false), "those that stay take turns under one root");
    }
}

#[test]
fn many_migrating_bodies_that_block_all_the_time_lose_nobody() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..200u64)
            .map(|n| {
                let ended = ended.clone();
                // SAFETY: nothing of a thread is on its stack when it blocks.
                unsafe {
                    runtime.task().spawn_migrating(move || {
                        for m in 0..20 {
                            match (n + m) % 3 {
                                0 => sleep(Duration::from_micros(50)),
                                1 => yield_now(),
                                _ => assert_eq!(spawn(move || m).join().unwrap(), m),
                            }
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    })
                }
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            if n % 10 == 0 {
                task.cancel();
            }
            let _ = task.join();
        }
        assert!(ended.load(Ordering::Relaxed) >= 180);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn thread_locals_stay_right_in_bodies_that_have_blocked() {
    thread_local! {
        static MINE: Cell<Option<ThreadId>> = const { Cell::new(None) };
    }
    for workers in [2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let tasks: Vec<_> = (0..300)
            .map(|n| {
                runtime.spawn(move || {
                    let me = std::thread::current().id();
                    for _ in 0..20 {
                        MINE.with(|mine| mine.set(Some(std::thread::current().id())));
                        match n % 3 {
                            0 => yield_now(),
                            1 => sleep(Duration::from_micros(30)),
                            _ => drop(spawn(yield_now).join()),
                        }
                        assert_eq!(std::thread::current().id(), me, "it has changed threads");
                        assert_eq!(MINE.with(Cell::get), Some(me), "a thread-local is another thread's");
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    }
}
