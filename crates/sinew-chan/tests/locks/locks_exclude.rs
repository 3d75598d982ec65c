//! What a lock lets in at once, from tasks and threads, with one worker, with as many as cores, and with more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_chan::sync::{Condvar, Mutex, RwLock, RwLockWriteGuard, Semaphore};
use sinew_sched::{Runtime, spawn, yield_now};

fn with_workers(test: impl Fn(&Runtime)) {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        test(&runtime);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

/// Runs `body` in so many tasks and threads at once.
fn in_tasks_and_threads(
    runtime: &Runtime,
    tasks: usize,
    threads: usize,
    body: impl Fn(usize) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let part = |n| {
        let body = body.clone();
        move || body(n)
    };
    let tasks: Vec<_> = (0..tasks).map(|n| runtime.spawn(part(n))).collect();
    let threads: Vec<_> = (0..threads).map(|n| thread::spawn(part(n))).collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn tasks_and_threads_that_count_under_one_mutex_lose_nothing() {
    with_workers(|runtime| {
        let count = Arc::new(Mutex::new(0));
        let counted = count.clone();
        in_tasks_and_threads(runtime, 16, 3, move |_| {
            for n in 0..1000 {
                let mut count = counted.lock().unwrap();
                let before = *count;
                if n % 16 == 0 {
                    yield_now();
                }
                *count = before + 1;
            }
        });
        assert_eq!(Arc::into_inner(count).unwrap().into_inner(), 19_000);
    });
}

#[test]
fn a_task_that_waits_for_a_lock_does_not_hold_its_worker_up() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let ended = runtime.run(|| {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock().unwrap();
        let wants = lock.clone();
        let waiter = spawn(move || drop(wants.lock().unwrap()));
        // The waiter is started before this one, and blocks; this one is still run, and the holder still goes on.
        let (sender, mut receiver) = oneshot::channel();
        drop(spawn(move || sender.send(7).unwrap()));
        yield_now();
        assert_eq!(receiver.recv().unwrap(), 7);
        assert!(!waiter.is_finished());
        drop(held);
        waiter.join().is_ok()
    });
    assert!(ended.unwrap());
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    with_workers(|runtime| {
        let lock = Arc::new(RwLock::new(0_usize));
        let (readers, writes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (inside, written, shared) = (readers, writes.clone(), lock.clone());
        in_tasks_and_threads(runtime, 12, 2, move |n| {
            for round in 0..300 {
                if (round + n) % 4 == 0 {
                    let mut value = shared.write().unwrap();
                    assert_eq!(inside.load(Ordering::Relaxed), 0);
                    let before = *value;
                    yield_now();
                    *value = before + 1;
                    written.fetch_add(1, Ordering::Relaxed);
                    if round % 8 == 0 {
                        let value = RwLockWriteGuard::downgrade(value);
                        assert_eq!(*value, before + 1);
                    }
                } else {
                    let value = shared.read().unwrap();
                    inside.fetch_add(1, Ordering::Relaxed);
                    let before = *value;
                    yield_now();
                    assert_eq!(*value, before);
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(*lock.try_read().unwrap(), writes.load(Ordering::Relaxed));
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_semaphore_lets_in_as_many_as_it_has_permits() {
    with_workers(|runtime| {
        let semaphore = Arc::new(Semaphore::new(5));
        let permits = semaphore.clone();
        let taken = AtomicUsize::new(0);
        in_tasks_and_threads(runtime, 16, 2, move |n| {
            for round in 0..300 {
                let permit = permits.acquire(1 + (n + round) % 5).unwrap();
                assert!(taken.fetch_add(permit.count(), Ordering::Relaxed) + permit.count() <= 5);
                yield_now();
                taken.fetch_sub(permit.count(), Ordering::Relaxed);
            }
        });
        assert_eq!(semaphore.available(), 5);
    });
}

#[test]
fn everything_put_into_a_bounded_queue_comes_out_once() {
    const EACH: usize = 500;
    with_workers(|runtime| {
        let queue = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
        let sum = Arc::new(AtomicUsize::new(0));
        let total = sum.clone();
        in_tasks_and_threads(runtime, 6, 2, move |n| {
            let (items, not_full, not_empty) = &*queue;
            for item in 0..EACH {
                if n % 2 == 0 {
                    let mut items =
                        not_full.wait_while(items.lock().unwrap(), |items| items.len() == 2).unwrap();
                    items.push(item);
                    not_empty.notify_one();
                } else {
                    let mut items =
                        not_empty.wait_while(items.lock().unwrap(), |items| items.is_empty()).unwrap();
                    total.fetch_add(items.pop().unwrap(), Ordering::Relaxed);
                    drop(items);
                    not_full.notify_one();
                }
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * EACH * (EACH - 1) / 2);
    });
}

#[test]
fn a_panic_gives_back_what_was_held_and_leaves_the_value() {
    with_workers(|runtime| {
        let locks = Arc::new((Mutex::new(1), RwLock::new(1), Semaphore::new(3)));
        let held = locks.clone();
        let task = runtime.spawn(move || {
            let mut value = held.0.lock().unwrap();
            let mut other = held.1.write().unwrap();
            let _permit = held.2.acquire(2).unwrap();
            (*value, *other) = (2, 2);
            yield_now();
            panic!("while everything is held");
        });
        let waits = locks.clone();
        let waiter = runtime.spawn(move || {
            let both = (*waits.0.lock().unwrap(), *waits.1.read().unwrap());
            drop(waits.2.acquire(3).unwrap());
            both
        });
        assert!(task.join().is_err());
        let both = waiter.join().unwrap();
        assert!(
            both == (2, 2) || both.0 == 1,
            "the waiter came first, or sees the value as it was left: {both:?}"
        );
        assert_eq!((*locks.0.try_lock().unwrap(), *locks.1.try_write().unwrap()), (2, 2));
        assert_eq!(locks.2.available(), 3);
    });
}

#[test]
fn locks_are_made_in_statics() {
    static COUNT: Mutex<u32> = Mutex::new(0);
    static VALUE: RwLock<u32> = RwLock::new(5);
    static PERMITS: Semaphore = Semaphore::new(1);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    in_tasks_and_threads(&runtime, 4, 2, |_| {
        let _permit = PERMITS.acquire(1).unwrap();
        *COUNT.lock().unwrap() += *VALUE.read().unwrap();
    });
    assert_eq!(*COUNT.lock().unwrap(), 30);
}

#[test]
fn a_guard_is_dropped_on_another_thread() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
    assert!(mutex.try_lock().is_some());
}
