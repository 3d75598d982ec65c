//! In the models whoever may have to wait is a thread that nobody joins before it has ended by itself; a deadline that
//! has passed stands for whatever makes a waiter give up, and a [`Waiting`] that is dropped for an unwind.

use sinew_sched::WaitKind;
use sinew_sched::raw::{Group, What, wait};
use sinew_sync::{Arc, model, model_bounded, thread};

use super::*;

const PAST: Option<Instant> = Some(Instant::from_nanos(0));

fn spawn(lock: &Arc<Lock>, body: impl FnOnce(&Lock) + 'static + Send) -> thread::JoinHandle<()> {
    let lock = lock.clone();
    thread::spawn(move || body(&lock))
}

/// A lock that somebody has.
fn locked() -> Arc<Lock> {
    let lock = Arc::new(Lock::new());
    assert!(lock.try_lock());
    lock
}

fn free(lock: &Lock) -> bool {
    lock.word.load(Ordering::Relaxed) == 0 && lock.queue.lock().is_empty()
}

fn lock_and_unlock(lock: &Lock, deadline: Option<Instant>) {
    if lock.lock(deadline).unwrap() {
        lock.unlock();
    }
}

/// Puts a node into the queue and unwinds, or takes the lock and gives it back.
fn queue_and_unwind(lock: &Lock) {
    let node = Node::new(0);
    // SAFETY: the node is new, and `Waiting` takes it out of this queue before it goes.
    unsafe { if lock.take_or_queue(&node) { lock.unlock() } else { drop(Waiting::new(lock, &node)) } }
}

/// Waits as one case of a select does, and gives the lock back if it gets it.
fn select_and_unlock(lock: &Lock, deadline: Option<Instant>) {
    let group = Group::new();
    // SAFETY: the group outlives the node.
    let node = unsafe { Node::in_group(&raw const group, 0) };
    // SAFETY: the node is new, and does not go before the group says that it was told, or it was withdrawn.
    let has = match unsafe { lock.enroll(&node) } {
        Enrolled::Queued => {
            let told = wait(|| group.won().is_some(), deadline, What::of(WaitKind::Mutex)).unwrap();
            // SAFETY: it was enrolled with this lock above.
            told || !unsafe { lock.withdraw(&node) }
        }
        enrolled => enrolled == Enrolled::Done,
    };
    if has {
        lock.unlock();
    }
}

/// The first half of giving the lock back; [`Lock::wake_next`] is the other. Others may come between the two.
fn begin_unlock(lock: &Lock) {
    lock.word.fetch_sub(LOCKED, Ordering::Release);
}

#[test]
fn a_select_is_passed_over_once() {
    model("mutex_select_is_next", || {
        let (lock, group) = (Lock::new(), Group::new());
        // SAFETY: the group outlives the node.
        let node = unsafe { Node::in_group(&raw const group, 0) };
        assert!(lock.try_lock());
        // SAFETY: the node is new, and is told below.
        assert_eq!(unsafe { lock.enroll(&node) }, Enrolled::Queued);
        begin_unlock(&lock);
        assert!(lock.try_lock(), "the lock is free");
        lock.wake_next();
        begin_unlock(&lock);
        assert!(!lock.try_lock(), "it was passed over before");
        lock.wake_next();
        assert_eq!(node.told(), YOURS);
        lock.unlock();
        assert!(free(&lock));
    });
}

#[test]
fn a_select_that_was_passed_over_and_has_something_else_leaves_the_lock_to_the_next() {
    model("mutex_select_is_elsewhere", || {
        let (lock, group, next) = (Lock::new(), Group::new(), Node::new(0));
        // SAFETY: the group outlives the node.
        let node = unsafe { Node::in_group(&raw const group, 0) };
        assert!(lock.try_lock());
        // SAFETY: both are new; the one is withdrawn below, and the other is told.
        unsafe {
            assert_eq!(lock.enroll(&node), Enrolled::Queued);
            assert!(!lock.take_or_queue(&next));
        }
        lock.wake_next(); // late: somebody has the lock already
        assert!(group.claim());
        lock.unlock();
        assert_eq!((node.told(), next.told()), (0, YOURS));
        // SAFETY: it was enrolled above.
        assert!(!unsafe { lock.withdraw(&node) });
        lock.unlock();
        assert!(free(&lock));
    });
}

#[test]
fn a_select_that_was_passed_over_gets_the_lock() {
    model("mutex_select_passed_over_once", || {
        let lock = locked();
        let waiter = spawn(&lock, |lock| select_and_unlock(lock, None));
        lock.unlock();
        if lock.try_lock() {
            lock.unlock();
        }
        waiter.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn a_select_that_was_passed_over_and_gives_up_leaves_the_lock_to_all() {
    model_bounded("mutex_select_passed_over_gives_up", 4, || {
        let lock = locked();
        let gives_up = spawn(&lock, |lock| select_and_unlock(lock, PAST));
        let stays = spawn(&lock, |lock| lock_and_unlock(lock, None));
        lock.unlock();
        if lock.try_lock() {
            lock.unlock();
        }
        gives_up.join().unwrap();
        stays.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn a_waiter_is_woken_by_whoever_gives_the_lock_back() {
    model("mutex_unlock_wakes", || {
        let lock = locked();
        let waiter = spawn(&lock, |lock| lock_and_unlock(lock, None));
        lock.unlock();
        waiter.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn two_who_count_under_the_lock_lose_nothing() {
    model("mutex_excludes", || {
        let lock = Arc::new(Lock::new());
        let count = Arc::new(AtomicUsize::new(0));
        let threads = [count.clone(), count.clone()].map(|count| {
            spawn(&lock, move |lock| {
                assert!(lock.lock(None).unwrap());
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                lock.unlock();
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(free(&lock));
    });
}

#[test]
fn what_comes_to_a_waiter_that_gives_up_comes_to_the_next() {
    model_bounded("mutex_unlock_against_withdrawal", 4, || {
        let lock = locked();
        let gives_up = spawn(&lock, |lock| lock_and_unlock(lock, PAST));
        let stays = spawn(&lock, |lock| lock_and_unlock(lock, None));
        lock.unlock();
        gives_up.join().unwrap();
        stays.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn what_comes_to_a_waiter_that_unwinds_comes_to_the_next() {
    model_bounded("mutex_unwind_hands_on", 4, || {
        let lock = locked();
        let unwinds = spawn(&lock, queue_and_unwind);
        let stays = spawn(&lock, |lock| lock_and_unlock(lock, None));
        lock.unlock();
        unwinds.join().unwrap();
        stays.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn a_waiter_that_was_passed_over_gets_the_lock() {
    model("mutex_passed_over_once", || {
        let lock = locked();
        let waiter = spawn(&lock, |lock| lock_and_unlock(lock, None));
        lock.unlock();
        if lock.try_lock() {
            lock.unlock();
        }
        waiter.join().unwrap();
        assert!(free(&lock));
    });
}

/// Whoever gives the lock back may come so late to the queue that others have had the lock meanwhile, and one has it.
#[test]
fn whoever_is_late_to_give_the_lock_on_does_not_give_away_what_another_has() {
    fn count(lock: &Lock, count: &AtomicUsize) {
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        lock.unlock();
    }
    model_bounded("mutex_late_unlock", 4, || {
        let lock = locked();
        let counted = Arc::new(AtomicUsize::new(0));
        let passed = Arc::new(AtomicUsize::new(0));
        let (one, other, passes) = (counted.clone(), counted.clone(), passed.clone());
        let waiter = spawn(&lock, move |lock| {
            assert!(lock.lock(None).unwrap());
            count(lock, &one);
        });
        let passing = spawn(&lock, move |lock| {
            for _ in (0..2).filter(|_| lock.try_lock()) {
                count(lock, &other);
                passes.fetch_add(1, Ordering::Relaxed);
            }
        });
        lock.unlock();
        waiter.join().unwrap();
        passing.join().unwrap();
        assert_eq!(counted.load(Ordering::Relaxed), 1 + passed.load(Ordering::Relaxed));
        assert!(free(&lock));
    });
}

#[test]
fn a_waiter_that_was_passed_over_and_gives_up_leaves_the_lock_to_all() {
    model("mutex_passed_over_gives_up", || {
        let lock = locked();
        let waiter = spawn(&lock, |lock| lock_and_unlock(lock, PAST));
        lock.unlock();
        if lock.try_lock() {
            lock.unlock();
        }
        waiter.join().unwrap();
        assert!(free(&lock));
    });
}

/// Takes the lock, and puts the node of a waiter that was passed over into the queue.
///
/// # Safety
///
/// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
unsafe fn reserve(lock: &Lock, node: &Node) {
    // SAFETY: the caller promises the same.
    assert!(lock.try_lock() && !unsafe { lock.take_or_queue(node) });
}

#[test]
fn nobody_takes_a_lock_that_is_reserved() {
    model("mutex_reserved", || {
        let (lock, node) = (Arc::new(Lock::new()), Node::new(PASSED_OVER));
        // SAFETY: the node is new, and is told below.
        unsafe { reserve(&lock, &node) };
        let hasty = spawn(&lock, |lock| assert!(!lock.lock(PAST).unwrap()));
        lock.unlock();
        assert_eq!(node.told(), YOURS);
        hasty.join().unwrap();
        lock.unlock();
        assert!(free(&lock));
    });
}

#[test]
fn a_lock_that_was_given_to_a_waiter_that_unwinds_is_free() {
    model("mutex_reserved_unwinds", || {
        let (lock, node) = (Arc::new(Lock::new()), Node::new(PASSED_OVER));
        // SAFETY: the node is new, and `Waiting` takes it out before it goes.
        unsafe { reserve(&lock, &node) };
        let unlocks = spawn(&lock, Lock::unlock);
        // SAFETY: it was put into this queue above.
        drop(unsafe { Waiting::new(&*lock, &node) });
        unlocks.join().unwrap();
        assert!(free(&lock));
    });
}

#[test]
fn a_waiter_that_was_passed_over_is_before_those_who_wait() {
    model("mutex_reserved_first", || {
        let (lock, [waits, node]) = (Lock::new(), [0, PASSED_OVER].map(Node::new));
        // SAFETY: both are new, and are told below.
        assert!(lock.try_lock() && unsafe { !lock.take_or_queue(&waits) && !lock.take_or_queue(&node) });
        lock.unlock();
        assert_eq!((node.told(), waits.told()), (YOURS, 0));
        lock.unlock();
        assert!(waits.told() == TRY && lock.take(WOKEN));
        lock.unlock();
        assert!(free(&lock));
    });
}
