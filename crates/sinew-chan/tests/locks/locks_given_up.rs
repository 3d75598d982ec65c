//! Waiters that are cancelled or killed, or whose time passes: nobody else is lost by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_chan::sync::{Barrier, Condvar, Mutex, OnceLock, RwLock, Semaphore, WaitGroup};
use sinew_fiber::{Reason, Refused, shield};
use sinew_sched::{JoinHandle, Runtime, WaitError, spawn, yield_now};

const SOON: Duration = Duration::from_millis(1);

fn with_workers(test: impl Fn(&Runtime)) {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        test(&runtime);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

fn on_one_worker(body: impl FnOnce() + Send + 'static) {
    Runtime::builder().workers(1).build().unwrap().run(body).unwrap();
}

/// Starts a task and, with one worker, lets it run until it waits.
fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let started = Arc::new(AtomicBool::new(false));
    let now = started.clone();
    let task = spawn(move || {
        now.store(true, Ordering::Release);
        body()
    });
    while !started.load(Ordering::Acquire) {
        yield_now();
    }
    yield_now();
    task
}

/// Random enough, and the same in every run.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn is_cancelled<T>(outcome: Result<T, Refused>) -> bool {
    outcome.is_err_and(|refused| refused.reason() == Reason::Cancelled)
}

/// `wait`, which would last for ever, fails when its task is cancelled and unwinds when it is killed. Only for tasks.
fn is_given_up(wait: impl Fn() -> Result<(), Refused> + Clone + Send + 'static) {
    for _ in 0..10 {
        let cancelled = start(wait.clone());
        cancelled.cancel();
        assert!(is_cancelled(cancelled.join().unwrap()));
        let killed = start(wait.clone());
        killed.kill();
        assert!(killed.join().is_err());
    }
}

#[test]
fn a_wait_for_a_mutex_is_given_up() {
    with_workers(|runtime| {
        let test = || {
            let mutex = Arc::new(Mutex::new(()));
            let held = mutex.lock().unwrap();
            let wants = mutex.clone();
            is_given_up(move || wants.lock().map(drop));
            assert!(matches!(mutex.lock_timeout(SOON), Err(WaitError::Timeout)));
            drop(held);
            assert!(mutex.try_lock().is_some());
        };
        runtime.run(test).unwrap();
        thread::spawn(|| {
            let mutex = Mutex::new(());
            let held = mutex.lock().unwrap();
            assert!(matches!(mutex.lock_timeout(SOON), Err(WaitError::Timeout)));
            drop(held);
            assert!(mutex.lock_timeout(Duration::ZERO).is_ok());
        })
        .join()
        .unwrap();
    });
}

#[test]
fn a_wait_to_read_or_write_is_given_up() {
    with_workers(|runtime| {
        let test = || {
            let lock = Arc::new(RwLock::new(()));
            let (reads, writes) = (lock.clone(), lock.clone());
            let held = lock.read().unwrap();
            is_given_up(move || writes.write().map(drop));
            assert!(matches!(lock.write_timeout(SOON), Err(WaitError::Timeout)));
            assert!(lock.try_read().is_some(), "the writers are gone");
            drop(held);
            let held = lock.write().unwrap();
            is_given_up(move || reads.read().map(drop));
            assert!(matches!(lock.read_timeout(SOON), Err(WaitError::Timeout)));
            drop(held);
            assert!(lock.try_write().is_some());
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_wait_for_permits_is_given_up_and_lets_smaller_ones_pass() {
    with_workers(|runtime| {
        let test = || {
            let semaphore = Arc::new(Semaphore::new(2));
            let (wants, small) = (semaphore.clone(), semaphore.clone());
            is_given_up(move || wants.acquire(3).map(drop));
            let wants = semaphore.clone();
            let large = start(move || wants.acquire(3).map(drop));
            let small = start(move || small.acquire(2).map(drop));
            large.cancel();
            small.join().unwrap().unwrap();
            assert!(is_cancelled(large.join().unwrap()));
            assert!(matches!(semaphore.acquire_timeout(3, SOON), Err(WaitError::Timeout)));
            assert_eq!(semaphore.available(), 2);
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_wait_for_a_condition_is_given_up_without_the_mutex() {
    with_workers(|runtime| {
        let test = || {
            let pair = Arc::new((Mutex::new(()), Condvar::new()));
            let waits = pair.clone();
            is_given_up(move || waits.1.wait(waits.0.lock()?).map(drop));
            let (guard, result) = pair.1.wait_timeout(pair.0.lock().unwrap(), SOON).unwrap();
            assert!(result.timed_out());
            drop(pair.1.wait_timeout_while(guard, SOON, |()| true).unwrap());
            assert!(pair.0.try_lock().is_some());
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_wait_at_a_barrier_is_given_up_and_not_counted() {
    with_workers(|runtime| {
        let test = || {
            let barrier = Arc::new(Barrier::new(2));
            let waits = barrier.clone();
            is_given_up(move || waits.wait().map(drop));
            assert!(matches!(barrier.wait_timeout(SOON), Err(WaitError::Timeout)));
            let waits = barrier.clone();
            let other = start(move || waits.wait().unwrap().is_leader());
            assert_ne!(barrier.wait().unwrap().is_leader(), other.join().unwrap());
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_wait_for_a_group_is_given_up() {
    with_workers(|runtime| {
        let test = || {
            let group = Arc::new(WaitGroup::new());
            let member = group.add();
            let waits = group.clone();
            is_given_up(move || waits.wait());
            assert!(matches!(group.wait_timeout(SOON), Err(WaitError::Timeout)));
            drop(member);
            group.wait().unwrap();
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_wait_for_a_value_that_is_being_made_is_given_up() {
    with_workers(|runtime| {
        let test = || {
            let once = Arc::new(OnceLock::new());
            let (sender, mut receiver) = oneshot::channel();
            let makes = once.clone();
            let maker = start(move || *makes.get_or_init(|| receiver.recv().unwrap()).unwrap());
            let waits = once.clone();
            is_given_up(move || waits.get_or_init(|| unreachable!("it is being made")).map(drop));
            assert_eq!(once.set(1), Err(1));
            sender.send(7).unwrap();
            assert_eq!(maker.join().unwrap(), 7);
            assert_eq!(once.get(), Some(&7));
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn a_lock_that_is_free_is_taken_by_a_task_that_is_cancelled_and_another_in_a_shield() {
    on_one_worker(|| {
        let (free, taken) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let held = taken.lock().unwrap();
        let (one, other) = (free.clone(), taken.clone());
        let task = start(move || {
            assert!(is_cancelled(other.lock()));
            drop(one.lock().unwrap());
            drop(shield(|| other.lock().unwrap()));
        });
        task.cancel();
        yield_now();
        drop(held);
        task.join().unwrap();
        assert!(taken.try_lock().is_some());
    });
}

/// What a waiter is told to try, and dies before it runs, comes to the next.
#[test]
fn a_mutex_on_its_way_to_a_waiter_that_is_killed_comes_to_the_next() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(()));
        let waits = |mutex: &Arc<Mutex<()>>| {
            let mutex = mutex.clone();
            move || mutex.lock().map(drop)
        };
        for passed_over in [false, true] {
            let held = mutex.lock().unwrap();
            let dies = start(waits(&mutex));
            let next = start(waits(&mutex));
            drop(held);
            if passed_over {
                let passes = mutex.try_lock().unwrap();
                yield_now(); // the first one runs, and finds it taken
                drop(passes); // and has it now
                assert!(mutex.is_locked());
            }
            dies.kill();
            assert!(dies.join().is_err());
            next.join().unwrap().unwrap();
            assert!(mutex.try_lock().is_some());
        }
    });
}

#[test]
fn a_mutex_on_its_way_to_a_waiter_that_is_cancelled_is_taken_by_it() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let wants = mutex.clone();
        let waiter = start(move || wants.lock().map(drop));
        drop(held);
        waiter.cancel();
        waiter.join().unwrap().unwrap();
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn permits_on_their_way_to_a_waiter_that_is_killed_come_to_the_next() {
    on_one_worker(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let waits = |semaphore: &Arc<Semaphore>| {
            let semaphore = semaphore.clone();
            move || semaphore.acquire(2).unwrap().forget()
        };
        let (dies, next) = (start(waits(&semaphore)), start(waits(&semaphore)));
        semaphore.add_permits(2);
        dies.kill();
        assert!(dies.join().is_err());
        next.join().unwrap();
        assert_eq!(semaphore.available(), 0);
    });
}

/// The notified waiter cannot take the mutex again, because it is held, and gives up.
#[test]
fn a_notification_on_its_way_to_a_waiter_that_gives_up_comes_to_the_next() {
    on_one_worker(|| {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        for kill in [false, true] {
            let [gives_up, next] = [(); 2].map(|()| {
                let pair = pair.clone();
                start(move || pair.1.wait(pair.0.lock()?).map(|mut value| *value += 1))
            });
            let held = pair.0.lock().unwrap();
            pair.1.notify_one();
            if kill {
                gives_up.kill();
                assert!(gives_up.join().is_err());
            } else {
                gives_up.cancel();
                assert!(is_cancelled(gives_up.join().unwrap()));
            }
            drop(held);
            next.join().unwrap().unwrap();
        }
        assert_eq!(*pair.0.lock().unwrap(), 2);
    });
}

#[derive(Debug)]
enum Failure {
    Refused,
    NoValue,
}

impl From<Refused> for Failure {
    fn from(_: Refused) -> Failure {
        Failure::Refused
    }
}

#[test]
fn a_maker_that_panics_fails_is_cancelled_or_killed_lets_the_next_try() {
    on_one_worker(|| {
        let once = Arc::new(OnceLock::new());
        let (gate, never) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (closed, forever) = (gate.lock().unwrap(), never.lock().unwrap());
        let (lock, opened) = (once.clone(), gate.clone());
        let panics = start(move || {
            let make = || -> u32 { opened.lock().map(|_| panic!("no value")).unwrap() };
            lock.get_or_init(make).map(drop)
        });
        let lock = once.clone();
        let fails = start(move || lock.get_or_try_init(|| Err::<u32, _>(Failure::NoValue)).map(drop));
        let [cancelled, killed] = [(); 2].map(|()| {
            let (lock, never) = (once.clone(), never.clone());
            start(move || {
                let make = || {
                    drop(never.lock()?);
                    Ok::<u32, Failure>(1)
                };
                lock.get_or_try_init(make).map(drop)
            })
        });
        let lock = once.clone();
        let makes = start(move || *lock.get_or_init(|| 9).unwrap());
        drop(closed);
        assert!(panics.join().is_err());
        assert!(matches!(fails.join().unwrap(), Err(Failure::NoValue)));
        yield_now();
        cancelled.cancel();
        assert!(matches!(cancelled.join().unwrap(), Err(Failure::Refused)));
        yield_now();
        killed.kill();
        assert!(killed.join().is_err());
        assert_eq!(makes.join().unwrap(), 9);
        assert_eq!(once.get(), Some(&9));
        drop(forever);
    });
}

/// Returns `None` on timeout.
fn in_time<T>(waited: Result<T, WaitError>) -> Result<Option<T>, Refused> {
    match waited {
        Ok(guard) => Ok(Some(guard)),
        Err(WaitError::Timeout) => Ok(None),
        Err(WaitError::Refused(refused)) => Err(refused),
    }
}

/// Tasks and threads that use everything, while some are cancelled, some killed, and some lose patience.
#[test]
fn a_storm_of_waiters_that_give_up_leaves_every_count_exact() {
    const TASKS: u64 = 60;
    with_workers(|runtime| {
        let (mutex, lock) = (Arc::new(Mutex::new(0_usize)), Arc::new(RwLock::new(0_usize)));
        let (semaphore, counts) = (Arc::new(Semaphore::new(4)), Arc::new([const { AtomicUsize::new(0) }; 2]));
        let body = |seed: u64| {
            let (mutex, lock) = (mutex.clone(), lock.clone());
            let (semaphore, counts) = (semaphore.clone(), counts.clone());
            move || {
                let mut seed = seed * 0x9E37_79B9 + 1;
                for _ in 0..100 {
                    let patience = Duration::from_micros(next(&mut seed) % 50);
                    match next(&mut seed) % 6 {
                        0 => {
                            if let Some(mut value) = in_time(mutex.lock_timeout(patience))? {
                                *value += 1;
                                counts[0].fetch_add(1, Ordering::Relaxed);
                                yield_now();
                            }
                        }
                        1 => {
                            let mut value = mutex.lock()?;
                            *value += 1;
                            counts[0].fetch_add(1, Ordering::Relaxed);
                        }
                        2 => {
                            let mut value = lock.write()?;
                            *value += 1;
                            counts[1].fetch_add(1, Ordering::Relaxed);
                            yield_now();
                        }
                        3 => {
                            if let Some(value) = in_time(lock.read_timeout(patience))? {
                                assert_eq!(*value, counts[1].load(Ordering::Relaxed));
                                yield_now();
                            }
                        }
                        4 => drop(semaphore.acquire(1 + (next(&mut seed) % 4) as usize)?),
                        _ => {
                            let _permit = in_time(semaphore.acquire_timeout(3, patience))?;
                            yield_now();
                        }
                    }
                }
                Ok::<(), Refused>(())
            }
        };
        let threads: Vec<_> = (0..2).map(|n| thread::spawn(body(n + TASKS))).collect();
        let tasks: Vec<_> = (0..TASKS).map(|n| runtime.spawn(body(n))).collect();
        let mut seed = 7;
        for task in &tasks {
            match next(&mut seed) % 3 {
                0 => task.cancel(),
                1 => task.kill(),
                _ => thread::yield_now(),
            }
        }
        tasks.into_iter().for_each(|task| drop(task.join()));
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        assert_eq!(*mutex.try_lock().unwrap(), counts[0].load(Ordering::Relaxed));
        assert_eq!(*lock.try_write().unwrap(), counts[1].load(Ordering::Relaxed));
        assert_eq!(semaphore.available(), 4);
    });
}

/// Each token is taken by one waiter, whoever else gives up while it is announced.
#[test]
fn no_token_that_was_announced_is_left_lying() {
    with_workers(|runtime| {
        let pair = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let taken = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..60)
            .map(|_| {
                let (pair, taken) = (pair.clone(), taken.clone());
                runtime.spawn(move || {
                    let tokens = pair.1.wait_while(pair.0.lock()?, |tokens| *tokens == 0);
                    *tokens? -= 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                    Ok::<(), Refused>(())
                })
            })
            .collect();
        // Half of them give up; there is a token for each of the others.
        for (n, waiter) in waiters.iter().enumerate() {
            match n % 4 {
                0 => waiter.cancel(),
                2 => waiter.kill(),
                _ => {
                    *pair.0.lock().unwrap() += 1;
                    pair.1.notify_one();
                }
            }
        }
        let (stay, give_up): (Vec<_>, Vec<_>) =
            waiters.into_iter().enumerate().partition(|(n, _)| n % 2 == 1);
        for (_, waiter) in give_up {
            // One that was too late to give up has taken a token that is now missing.
            if matches!(waiter.join(), Ok(Ok(()))) {
                *pair.0.lock().unwrap() += 1;
                pair.1.notify_one();
            }
        }
        stay.into_iter().for_each(|(_, waiter)| waiter.join().unwrap().unwrap());
        assert_eq!(*pair.0.lock().unwrap(), 0);
        assert!(taken.load(Ordering::Relaxed) >= 30);
    });
}
