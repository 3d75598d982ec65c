//! Meeting, waiting for all, making once: from tasks and threads, with one worker and with more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sinew_chan::sync::{Barrier, Condvar, Mutex, OnceLock, WaitGroup};
use sinew_sched::{ManualClock, Runtime, WaitError, now, yield_now};

fn with_workers(test: impl Fn(&Runtime)) {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        test(&runtime);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_barrier_meets_again_and_again_with_one_leader_each_time() {
    const ROUNDS: usize = 200;
    with_workers(|runtime| {
        let barrier = Arc::new(Barrier::new(6));
        let (leaders, arrived) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let part = || {
            let (barrier, leaders, arrived) = (barrier.clone(), leaders.clone(), arrived.clone());
            move || {
                for round in 1..=ROUNDS {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    leaders.fetch_add(usize::from(barrier.wait().unwrap().is_leader()), Ordering::Relaxed);
                    assert!(arrived.load(Ordering::Relaxed) >= 6 * round, "all are here before one goes on");
                }
            }
        };
        let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(part())).collect();
        let threads: Vec<_> = (0..2).map(|_| thread::spawn(part())).collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(leaders.load(Ordering::Relaxed), ROUNDS);
    });
}

#[test]
fn a_barrier_for_nobody_or_one_keeps_nobody() {
    for size in [0, 1] {
        let barrier = Barrier::new(size);
        assert!(barrier.wait().unwrap().is_leader());
        assert!(barrier.wait().unwrap().is_leader());
    }
}

#[test]
fn a_group_is_waited_for_by_many_and_used_again() {
    with_workers(|runtime| {
        let group = Arc::new(WaitGroup::new());
        group.wait().unwrap();
        for _ in 0..20 {
            let done = Arc::new(AtomicUsize::new(0));
            let member = group.add();
            for _ in 0..10 {
                let (member, done) = (member.clone(), done.clone());
                drop(runtime.spawn(move || {
                    yield_now();
                    done.fetch_add(1, Ordering::Relaxed);
                    drop(member);
                }));
            }
            assert!(group.members() > 0);
            let wait = || {
                let (group, done) = (group.clone(), done.clone());
                move || {
                    group.wait().unwrap();
                    done.load(Ordering::Relaxed)
                }
            };
            let (task, thread) = (runtime.spawn(wait()), thread::spawn(wait()));
            drop(member);
            assert_eq!((task.join().unwrap(), thread.join().unwrap(), wait()()), (10, 10, 10));
        }
    });
}

/// A handle of it is no member: the group is over while handles are there, and goes on when one of them goes.
#[test]
fn clones_of_a_group_are_handles_to_the_same_members() {
    with_workers(|runtime| {
        let group = WaitGroup::new();
        let clone = group.clone();
        clone.wait().unwrap();
        let member = clone.add();
        assert_eq!((group.members(), clone.members()), (1, 1));
        drop(clone);
        assert_eq!(group.members(), 1);
        let waits = {
            let group = group.clone();
            runtime.spawn(move || group.wait().map(|()| group.members()))
        };
        let adds = {
            let group = group.clone();
            runtime.spawn(move || drop((group.add(), member)))
        };
        assert_eq!(waits.join().unwrap().unwrap(), 0);
        adds.join().unwrap();
        group.wait().unwrap();
    });
}

#[test]
fn a_member_that_panics_is_done() {
    with_workers(|runtime| {
        let group = WaitGroup::new();
        let member = group.add();
        let task = runtime.spawn(move || {
            let _member = member;
            panic!("half way");
        });
        group.wait().unwrap();
        assert!(task.join().is_err());
    });
}

#[test]
fn a_value_is_made_once_while_all_others_wait() {
    with_workers(|runtime| {
        let once = Arc::new(OnceLock::new());
        let made = Arc::new(AtomicUsize::new(0));
        let part = || {
            let (once, made) = (once.clone(), made.clone());
            move || {
                *once
                    .get_or_init(|| {
                        yield_now(); // whoever makes it may block
                        made.fetch_add(1, Ordering::Relaxed) + 41
                    })
                    .unwrap()
            }
        };
        let tasks: Vec<_> = (0..20).map(|_| runtime.spawn(part())).collect();
        let threads: Vec<_> = (0..2).map(|_| thread::spawn(part())).collect();
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 41));
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 41));
        assert_eq!((made.load(Ordering::Relaxed), once.set(1)), (1, Err(1)));
    });
}

#[test]
fn a_value_that_was_set_is_not_made() {
    let mut once = OnceLock::new();
    assert_eq!((once.get(), once.set(3), once.set(4)), (None, Ok(()), Err(4)));
    assert_eq!(*once.get_or_init(|| unreachable!()).unwrap(), 3);
    *once.get_mut().unwrap() += 1;
    assert_eq!(once.into_inner(), Some(4));
}

#[test]
fn all_who_wait_for_a_condition_are_woken_at_once() {
    with_workers(|runtime| {
        let pair = Arc::new((Mutex::new((0, false)), Condvar::new()));
        let part = || {
            let pair = pair.clone();
            move || {
                let mut state = pair.0.lock().unwrap();
                state.0 += 1;
                drop(pair.1.wait_while(state, |state| !state.1).unwrap());
            }
        };
        let tasks: Vec<_> = (0..40).map(|_| runtime.spawn(part())).collect();
        let thread = thread::spawn(part());
        while pair.0.lock().unwrap().0 < 41 {
            thread::yield_now();
        }
        pair.0.lock().unwrap().1 = true;
        pair.1.notify_all();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        thread.join().unwrap();
    });
}

#[test]
fn a_deadline_is_on_the_clock_of_the_runtime() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    runtime
        .run(|| {
            let (mutex, changed) = (Mutex::new(()), Condvar::new());
            let start = now();
            let held = mutex.lock().unwrap();
            assert!(matches!(mutex.lock_timeout(Duration::from_secs(3600)), Err(WaitError::Timeout)));
            let (_held, result) = changed.wait_timeout(held, Duration::from_secs(3600)).unwrap();
            assert!(result.timed_out());
            assert!((7200..7201).contains(&(now() - start).as_secs()));
        })
        .unwrap();
}
