use sinew_sync::atomic::AtomicBool;
use sinew_sync::model;

use super::*;
use crate::case::block;

/// A pool with at most one thread and a queue of two, whose threads are started by the test.
fn pool(keep_alive: Duration) -> &'static Pool {
    Box::leak(Box::new(Pool::starting(Limits { threads: 1, queue: 2, keep_alive }, |_, _| Ok(()))))
}

const LONG: Duration = Duration::from_secs(3600);

fn submit(pool: &'static Pool, job: impl FnOnce() + Send + 'static) -> u64 {
    assert!(pool.admission().attempt(), "there is a place");
    pool.submit(Box::new(job))
}

fn pending_and_places(pool: &Pool) -> (usize, usize) {
    let state = pool.state.lock();
    (state.pending(), state.places)
}

fn flag() -> &'static AtomicBool {
    Box::leak(Box::new(AtomicBool::new(false)))
}

/// A thread that is idle and whose time has passed ends or takes the job; if it ends, another is started for it.
#[test]
fn a_job_is_run_although_the_idle_thread_is_about_to_end() {
    model("blocking_job_or_keep_alive", || {
        let (pool, ran) = (pool(Duration::ZERO), flag());
        pool.state.lock().threads = 1;
        let thread = thread::spawn(move || pool.next(1).map(|(_, job)| job()).is_some());
        submit(pool, move || ran.store(true, Ordering::Relaxed));
        let took = thread.join().unwrap();
        assert_eq!(took, ran.load(Ordering::Relaxed));
        let state = pool.state.lock();
        let another = (state.threads, state.queue.len()) == (1, 1);
        assert!(took || another, "it has ended, and no other was started");
    });
}

/// A job that is given up is run or withdrawn, and its permit comes back once.
#[test]
fn a_job_that_is_given_up_is_run_or_dropped() {
    model("blocking_job_runs_or_is_withdrawn", || {
        let (pool, ran) = (pool(LONG), flag());
        let number = submit(pool, move || ran.store(true, Ordering::Relaxed));
        pool.stop();
        let thread = thread::spawn(move || pool.serve(0));
        pool.give_up(number);
        thread.join().unwrap();
        assert_eq!(pending_and_places(pool), (0, 3));
        assert_eq!(pool.counts().threads, 0);
    });
}

#[test]
fn threads_end_when_the_pool_stops_and_what_was_queued_is_run_first() {
    model("blocking_stop_ends_threads", || {
        let (pool, ran) = (pool(LONG), flag());
        submit(pool, move || ran.store(true, Ordering::Relaxed));
        let thread = thread::spawn(move || pool.serve(0));
        pool.stop();
        thread.join().unwrap();
        assert!(ran.load(Ordering::Relaxed));
    });
}

#[test]
fn a_shutdown_waits_for_the_last_job() {
    model("blocking_drain_waits", || {
        let (pool, ran) = (pool(LONG), flag());
        submit(pool, move || ran.store(true, Ordering::Relaxed));
        pool.stop();
        let thread = thread::spawn(move || pool.serve(0));
        pool.drain(Instant::from_nanos(u64::MAX));
        assert!(ran.load(Ordering::Relaxed));
        thread.join().unwrap();
    });
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn jobs_without_a_thread_are_dropped_and_their_places_come_back() {
    let limits = Limits { threads: 2, queue: 2, keep_alive: LONG };
    let refuse = |_: &'static Pool, _| Err(io::ErrorKind::WouldBlock.into());
    let pool: &'static Pool = Box::leak(Box::new(Pool::starting(limits, refuse)));
    let (held, dropped) = (std::sync::Arc::new(()), std::sync::Arc::new(()));
    let job = dropped.clone();
    submit(pool, move || drop(job));
    assert_eq!(std::sync::Arc::strong_count(&dropped), 1);
    assert_eq!(pool.refusal().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(pending_and_places(pool), (0, 4));

    pool.state.lock().threads = 1; // with one that is busy, a job waits for it
    let job = held.clone();
    submit(pool, move || drop(job));
    assert_eq!((std::sync::Arc::strong_count(&held), pool.state.lock().pending()), (2, 1));
}

/// A pool with one place.
fn narrow_pool() -> &'static Pool {
    let limits = Limits { threads: 1, queue: 0, keep_alive: LONG };
    Box::leak(Box::new(Pool::starting(limits, |_, _| Ok(()))))
}

/// A caller that waits for a place is woken when another gives its place back.
#[test]
fn a_place_that_is_given_back_goes_to_the_caller_that_waits() {
    model("blocking_place_is_passed_on", || {
        let pool = narrow_pool();
        assert!(pool.admission().attempt());
        let waits = thread::spawn(move || assert!(block(&pool.admission(), None).unwrap()));
        pool.give_places(1);
        waits.join().unwrap();
        assert_eq!(pending_and_places(pool), (0, 0), "the caller has it");
    });
}

/// A caller that gives up while a place is passed on to it has the place, or leaves it free.
#[test]
fn a_place_for_a_caller_that_gives_up_is_not_lost() {
    model("blocking_place_or_withdrawal", || {
        let pool = narrow_pool();
        assert!(pool.admission().attempt());
        let gives_up = thread::spawn(move || block(&pool.admission(), Some(Instant::from_nanos(0))).unwrap());
        pool.give_places(1);
        let has_it = gives_up.join().unwrap();
        assert_eq!(pending_and_places(pool), (0, usize::from(!has_it)));
    });
}

/// A drain that waits for a job which is given up before a thread has taken it goes on at once.
#[test]
fn a_drain_ends_when_the_last_job_is_given_up() {
    model("blocking_drain_ends_with_a_withdrawal", || {
        let pool = pool(LONG);
        let job = submit(pool, || ());
        let drains = thread::spawn(move || pool.drain(system_now() + LONG));
        pool.give_up(job);
        drains.join().unwrap();
        assert_eq!(pool.state.lock().pending(), 0);
    });
}

/// A caller that cannot start a thread drops the jobs of others.
#[test]
#[cfg(not(any(loom, shuttle)))]
fn a_job_of_another_caller_whose_destructor_panics_harms_nobody() {
    struct Panics(&'static AtomicUsize);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("the destructor of a job");
        }
    }
    let limits = Limits { threads: 1, queue: 2, keep_alive: LONG };
    let refuses = |_: &'static Pool, _| Err(io::Error::other("no thread"));
    let pool: &'static Pool = Box::leak(Box::new(Pool::starting(limits, refuses)));
    let dropped: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    pool.state.lock().threads = 1; // others have queued theirs while a thread was being started
    for _ in 0..2 {
        let panics = Panics(dropped);
        submit(pool, move || drop(panics));
    }
    pool.state.lock().threads = 0;
    submit(pool, || panic!("there is no thread to run it"));
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert_eq!(pending_and_places(pool), (0, 3));
    assert_eq!(pool.refusal().to_string(), "no thread");
}
