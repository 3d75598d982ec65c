//! Who is next: in each test the order is that of one worker, so it is always the same.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread;

use sinew_chan::sync::{Mutex, RwLock, Semaphore};
use sinew_sched::{JoinHandle, Runtime, spawn, yield_now};

#[derive(Clone, Default)]
struct Log(Arc<StdMutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs `body` as the main task of a runtime with one worker, with a log.
fn on_one_worker(body: impl FnOnce(Log) + Send + 'static) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| body(Log::default())).unwrap();
}

/// Starts a task and lets it run until it waits.
fn start(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let started = Arc::new(AtomicBool::new(false));
    let now = started.clone();
    let task = spawn(move || {
        now.store(true, Ordering::Relaxed);
        body();
    });
    while !started.load(Ordering::Relaxed) {
        yield_now();
    }
    yield_now();
    task
}

#[test]
fn waiters_get_a_mutex_in_the_order_in_which_they_came() {
    on_one_worker(|log| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let tasks = ["first", "second", "third"].map(|name| {
            let (mutex, log) = (mutex.clone(), log.clone());
            start(move || {
                let _held = mutex.lock().unwrap();
                log.add(name);
                yield_now();
            })
        });
        drop(held);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(log.take(), ["first", "second", "third"]);
    });
}

#[test]
fn a_waiter_that_was_passed_over_once_is_next() {
    on_one_worker(|log| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let waiter = {
            let (mutex, log) = (mutex.clone(), log.clone());
            start(move || {
                let _held = mutex.lock().unwrap();
                log.add("waiter");
            })
        };
        drop(held);
        let passes = mutex.try_lock().expect("the waiter was woken and has not run");
        yield_now(); // the waiter runs, and finds the lock taken
        drop(passes);
        assert!(mutex.try_lock().is_none(), "nobody passes a second time");
        let _held = mutex.lock().unwrap();
        log.add("holder");
        assert_eq!(log.take(), ["waiter", "holder"]);
        waiter.join().unwrap();
    });
}

#[test]
fn a_waiter_that_was_passed_over_and_gives_up_is_not_waited_for() {
    on_one_worker(|_| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let wants = mutex.clone();
        let waiter = start(move || assert!(wants.lock().is_err()));
        drop(held);
        let passes = mutex.try_lock().expect("the waiter was woken and has not run");
        yield_now();
        waiter.cancel();
        yield_now();
        waiter.join().unwrap();
        drop(passes);
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn a_mutex_that_others_take_again_and_again_comes_to_those_who_wait() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let mutex = Arc::new(Mutex::new(()));
        let done = Arc::new(AtomicBool::new(false));
        // A thread, and a task that is suspended while it has the lock: it is taken nearly always.
        let (hogged, enough) = (mutex.clone(), done.clone());
        let hog = thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                drop(hogged.lock().unwrap());
            }
        });
        let (hogged, enough) = (mutex.clone(), done.clone());
        let other = runtime.spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                let held = hogged.lock().unwrap();
                yield_now();
                drop(held);
            }
        });
        runtime
            .run(move || {
                for _ in 0..1000 {
                    drop(mutex.lock().unwrap());
                    yield_now();
                }
            })
            .unwrap();
        done.store(true, Ordering::Relaxed);
        hog.join().unwrap();
        other.join().unwrap();
    }
}

#[test]
fn a_reader_does_not_pass_a_writer_that_waits() {
    on_one_worker(|log| {
        let lock = Arc::new(RwLock::new(()));
        let reads = lock.read().unwrap();
        let writer = {
            let (lock, log) = (lock.clone(), log.clone());
            start(move || {
                let _held = lock.write().unwrap();
                log.add("writer");
                yield_now();
            })
        };
        assert!(lock.try_read().is_none());
        let readers = [(); 2].map(|()| {
            let (lock, log) = (lock.clone(), log.clone());
            start(move || {
                let _held = lock.read().unwrap();
                log.add("reader");
                yield_now(); // the other one is here too
                log.add("read");
            })
        });
        let last = {
            let (lock, log) = (lock.clone(), log.clone());
            start(move || {
                let _held = lock.write().unwrap();
                log.add("last writer");
            })
        };
        drop(reads);
        for task in [writer, last].into_iter().chain(readers) {
            task.join().unwrap();
        }
        assert_eq!(log.take(), ["writer", "reader", "reader", "read", "read", "last writer"]);
    });
}

#[test]
fn a_large_request_for_permits_is_not_passed_by_small_ones() {
    on_one_worker(|log| {
        let semaphore = Arc::new(Semaphore::new(3));
        let one = semaphore.acquire(1).unwrap();
        let request = |count, name| {
            let (semaphore, log) = (semaphore.clone(), log.clone());
            start(move || {
                let _permits = semaphore.acquire(count).unwrap();
                log.add(name);
            })
        };
        let tasks = [request(3, "large"), request(1, "small"), request(2, "medium")];
        assert!(semaphore.try_acquire(1).is_none(), "there are two, and a queue");
        assert_eq!((log.take().len(), semaphore.available()), (0, 2));
        drop(one);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(log.take(), ["large", "small", "medium"]);
        assert_eq!(semaphore.available(), 3);
    });
}

#[test]
fn permits_that_are_added_or_forgotten_are_counted() {
    let semaphore = Semaphore::new(2);
    semaphore.acquire(2).unwrap().forget();
    assert_eq!(semaphore.available(), 0);
    assert!(semaphore.try_acquire(1).is_none());
    let waiters = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                semaphore.acquire(2).unwrap().forget();
                waiters.fetch_add(1, Ordering::Relaxed);
            });
        }
        (0..7).for_each(|_| semaphore.add_permits(1));
    });
    assert_eq!((waiters.load(Ordering::Relaxed), semaphore.available()), (3, 1));
}
