//! Calls that block their thread: where they run, what they return, and what becomes of those that nobody waits for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_chan::sync::Semaphore;
use sinew_fiber::shield;
use sinew_io::{blocking, blocking_async};
use sinew_sched::{
    Builder, JoinHandle, ManualClock, Reason, Runtime, sleep, spawn, spawn_future, timeout, yield_now,
};

use crate::support::{Tally, Watchdog, poll, spin_until, with_runtime, with_runtimes};

const GRACE: Duration = Duration::from_secs(60);

/// A call that says that it has begun, and returns when it is told to.
struct Gated {
    begun: Receiver<()>,
    go: Sender<()>,
}

impl Gated {
    fn new() -> (Gated, impl FnOnce() + Send + 'static) {
        let ((has_begun, begun), (go, goes)) = (channel(), channel());
        let call = move || {
            has_begun.send(()).unwrap();
            let _ = goes.recv();
        };
        (Gated { begun, go }, call)
    }

    /// Starts a task that makes such a call, and waits until it has begun.
    fn begin(runtime: &Runtime) -> (Gated, JoinHandle<Result<(), sinew_io::BlockingError>>) {
        let (gated, call) = Gated::new();
        let task = runtime.spawn(move || blocking(call));
        gated.begun.recv().unwrap();
        (gated, task)
    }
}

fn one_worker() -> Builder {
    Runtime::builder().workers(1)
}

fn dump_says(runtime: &Runtime, part: &str) {
    spin_until(|| runtime.dump().to_string().contains(part));
}

#[test]
fn a_worker_runs_other_tasks_while_a_call_blocks() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let (sender, receiver) = channel();
                let waits = spawn(move || blocking(move || receiver.recv().unwrap()).unwrap());
                yield_now();
                let sends = spawn(move || sender.send(7).unwrap());
                assert_eq!(waits.join().unwrap(), 7);
                sends.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn a_call_runs_on_a_thread_of_the_pool_where_locks_and_channels_work() {
    with_runtime(one_worker(), |runtime| {
        runtime
            .run(|| {
                let here = std::thread::current().id();
                let semaphore = Arc::new(Semaphore::new(0));
                let (answer, mut answered) = oneshot::channel();
                let permits = semaphore.clone();
                let call = spawn(move || {
                    blocking(move || {
                        drop(permits.acquire(1).unwrap());
                        let thread = std::thread::current();
                        answer.send((thread.id(), thread.name().unwrap().to_owned())).unwrap();
                        // A thread of the pool is no worker: what blocks there may block.
                        blocking(|| std::thread::current().id()).unwrap()
                    })
                    .unwrap()
                });
                yield_now();
                semaphore.add_permits(1);
                let (id, name) = answered.recv().unwrap();
                assert!(id != here && name.starts_with("sinew-blocking-"), "{name}");
                assert_eq!(call.join().unwrap(), id);
            })
            .unwrap();
    });
}

#[test]
fn on_a_thread_that_is_no_worker_a_call_runs_in_place() {
    let here = std::thread::current().id();
    assert_eq!(blocking(|| std::thread::current().id()).unwrap(), here);
    let future = std::pin::pin!(blocking_async(|| std::thread::current().id()));
    assert!(matches!(poll(future), std::task::Poll::Ready(Ok(id)) if id == here));
    let failed = blocking(|| -> () { panic!("in place") }).unwrap_err();
    assert!(failed.to_string().contains("in place"), "{failed}");
}

#[test]
fn a_panic_is_returned_to_the_caller_as_that_of_a_task_is_to_its_joiner() {
    with_runtimes(|runtime| {
        let called = runtime.run(|| blocking(|| -> () { panic!("no {}", "luck") })).unwrap();
        let sinew_io::BlockingError::Raised(called) = called.unwrap_err() else { panic!("it was raised") };
        let joined = runtime.run(|| panic!("no {}", "luck")).unwrap_err();
        let of = |raised: &sinew_sched::Raised| {
            let panic = raised.value.downcast_ref::<sinew_fiber::Panic>().unwrap();
            let file = panic.location.as_ref().unwrap().split(':').next().unwrap().to_owned();
            (panic.message.clone(), file, raised.signal)
        };
        assert_eq!(of(&called), of(&joined));
        // The pool goes on.
        assert_eq!(runtime.run(|| blocking(|| 5).unwrap()).unwrap(), 5);
    });
}

#[test]
fn a_call_that_is_cancelled_in_the_queue_is_not_begun() {
    with_runtime(one_worker().blocking_threads(1), |runtime| {
        let (first, busy) = Gated::begin(runtime);
        let (ran, tally) = (Arc::new(AtomicBool::new(false)), Tally::new());
        let (seen, value) = (ran.clone(), tally.value(0));
        let queued = runtime.spawn(move || {
            blocking(move || {
                seen.store(true, Ordering::Relaxed);
                value
            })
            .map(drop)
        });
        dump_says(runtime, "1 calls queued, 1 running");
        queued.cancel();
        assert!(queued.join().unwrap().unwrap_err().is_cancelled());
        tally.assert_even(1); // withdrawn, while all threads are busy
        assert!(
            runtime.dump().to_string().contains("0 calls queued, 1 running, of which nobody waits for 0")
        );
        first.go.send(()).unwrap();
        busy.join().unwrap().unwrap();
        assert!(runtime.run(|| blocking(|| true).unwrap()).unwrap());
        assert!(!ran.load(Ordering::Relaxed));
    });
}

#[test]
fn a_call_that_is_cancelled_while_it_runs_goes_on_alone_and_its_result_is_dropped() {
    with_runtime(one_worker(), |runtime| {
        let (gated, call) = Gated::new();
        let tally = Tally::new();
        let value = tally.value(0);
        let task = runtime.spawn(move || {
            blocking(move || {
                call();
                value
            })
            .map(drop)
        });
        gated.begun.recv().unwrap();
        task.cancel();
        assert!(task.join().unwrap().unwrap_err().is_cancelled());
        assert!(
            runtime.dump().to_string().contains("1 running, of which nobody waits for 1"),
            "{}",
            runtime.dump()
        );
        assert_eq!(tally.dropped(), 0);
        gated.go.send(()).unwrap();
        dump_says(runtime, "0 running, of which nobody waits for 0");
        tally.assert_even(1);
    });
}

#[test]
fn a_task_that_is_cancelled_begins_no_call_unless_it_is_shielded() {
    with_runtime(one_worker(), |runtime| {
        let ended = runtime.run(|| {
            let task = spawn(|| {
                // Cancelled before it has started: it runs up to its first blocking call.
                let begun = Arc::new(AtomicUsize::new(0));
                let count = begun.clone();
                let refused = blocking(move || count.fetch_add(1, Ordering::Relaxed));
                let shielded = shield(|| blocking(|| 5)).unwrap();
                (refused.unwrap_err().is_cancelled(), begun.load(Ordering::Relaxed), shielded)
            });
            task.cancel();
            task.join().unwrap()
        });
        assert_eq!(ended.unwrap(), (true, 0, 5));
    });
}

#[test]
fn a_task_that_is_killed_or_out_of_time_unwinds_out_of_its_call() {
    let clock = ManualClock::new();
    with_runtime(one_worker().manual_clock(&clock), |runtime| {
        let (gated, call) = Gated::new();
        let late = runtime.spawn(|| timeout(Duration::from_secs(1), || blocking(call).is_ok()));
        gated.begun.recv().unwrap();
        clock.advance(Duration::from_secs(2));
        assert!(late.join().unwrap().is_err());

        let (other, task) = Gated::begin(runtime);
        task.kill();
        assert!(task.join().unwrap_err().is_cancelled());
        dump_says(runtime, "2 running, of which nobody waits for 2");
        drop((gated, other));
    });
}

/// One thread, which is busy, and callers behind it, with a queue for so many of them: they are served in their order.
fn callers_are_served_in_their_order(queue: usize, queued: usize) {
    let _watchdog = Watchdog::new(format!("a queue of {queue}"));
    let builder = Runtime::builder().blocking_threads(1).blocking_queue(queue);
    let runtime = builder.build_current_thread().unwrap();
    let (gated, call) = Gated::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = runtime.spawn(move || blocking(call));
    runtime.run_until_idle();
    gated.begun.recv().unwrap();
    let tasks: Vec<_> = (0..5)
        .map(|n| {
            let order = order.clone();
            let task = runtime.spawn(move || blocking(move || order.lock().unwrap().push(n)));
            runtime.run_until_idle();
            task
        })
        .collect();
    let counts = format!("1 threads, 0 idle; {queued} calls queued, 1 running");
    assert!(runtime.dump().to_string().contains(&counts), "{}", runtime.dump());
    // One that gives up is not in the way.
    tasks[2].cancel();
    runtime.run_until_idle();
    assert!(tasks[2].is_finished());
    gated.go.send(()).unwrap();
    runtime
        .run(move || {
            first.join().unwrap().unwrap();
            let outcomes: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap().is_ok()).collect();
            assert_eq!(outcomes, [true, true, false, true, true]);
        })
        .unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 1, 3, 4]);
}

#[test]
fn calls_that_are_queued_are_made_in_their_order() {
    callers_are_served_in_their_order(10, 5);
}

#[test]
fn callers_wait_when_the_queue_is_full_and_are_served_in_their_order() {
    callers_are_served_in_their_order(1, 1);
}

#[test]
fn a_call_that_is_withdrawn_makes_room_for_another() {
    with_runtime(one_worker().blocking_threads(1).blocking_queue(1), |runtime| {
        let (gated, busy) = Gated::begin(runtime);
        for _ in 0..10 {
            let queued = runtime.spawn(|| blocking(|| ()));
            dump_says(runtime, "1 calls queued");
            queued.cancel();
            assert!(queued.join().unwrap().unwrap_err().is_cancelled());
        }
        drop(gated);
        busy.join().unwrap().unwrap();
    });
}

#[test]
fn no_more_calls_run_at_once_than_there_may_be_threads() {
    with_runtime(Runtime::builder().workers(2).blocking_threads(3).blocking_queue(0), |runtime| {
        let (now, most, three) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(3)));
        let calls: Vec<_> = (0..30)
            .map(|_| {
                let (now, most, three) = (now.clone(), most.clone(), three.clone());
                runtime.spawn(move || {
                    blocking(move || {
                        most.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                        three.wait(); // three do run at once
                        now.fetch_sub(1, Ordering::AcqRel);
                    })
                })
            })
            .collect();
        calls.into_iter().for_each(|call| call.join().unwrap().unwrap());
        assert_eq!(most.load(Ordering::Relaxed), 3);
    });
}

fn thread_of_a_call(runtime: &Runtime) -> ThreadId {
    runtime.run(|| blocking(|| std::thread::current().id()).unwrap()).unwrap()
}

#[test]
fn an_idle_thread_is_used_again_and_ends_after_the_keep_alive() {
    with_runtime(one_worker(), |runtime| {
        let first = thread_of_a_call(runtime);
        dump_says(runtime, "1 threads, 1 idle");
        assert_eq!(thread_of_a_call(runtime), first);
    });
    with_runtime(one_worker().blocking_keep_alive(Duration::ZERO), |runtime| {
        let first = thread_of_a_call(runtime);
        dump_says(runtime, "0 threads, 0 idle");
        assert_ne!(thread_of_a_call(runtime), first);
    });
}

#[test]
fn a_manual_clock_stands_still_while_a_task_waits_for_a_call() {
    let clock = ManualClock::new();
    with_runtime(Runtime::builder().workers(2).manual_clock(&clock), |runtime| {
        let dump = runtime.dumper();
        let now = clock.clone();
        let (during, sleeper) = runtime
            .run(move || {
                let sleeper = spawn(|| sleep(Duration::from_secs(3600)));
                let call = move || {
                    let asleep = ["worker 0: asleep", "worker 1: asleep", "next timer in 3"];
                    spin_until(|| asleep.iter().all(|part| dump().to_string().contains(part)));
                    now.now().as_nanos()
                };
                (blocking(call).unwrap(), sleeper)
            })
            .unwrap();
        assert_eq!(during, 0);
        sleeper.join().unwrap();
        assert!(clock.now().as_nanos() > 0);
    });
}

#[test]
fn a_manual_clock_does_not_wait_for_a_call_that_nobody_waits_for() {
    let clock = ManualClock::new();
    with_runtime(one_worker().manual_clock(&clock), |runtime| {
        let (gated, task) = Gated::begin(runtime);
        let sleeper = runtime.spawn(|| sleep(Duration::from_secs(3600)));
        dump_says(runtime, "next timer in 3");
        assert_eq!(clock.now().as_nanos(), 0);
        task.cancel();
        sleeper.join().unwrap();
        drop(gated);
    });
}

#[test]
fn a_shutdown_waits_for_calls_that_run_and_reports_those_that_do_not_end() {
    let _watchdog = Watchdog::new("a shutdown".to_owned());
    let runtime = one_worker().build().unwrap();
    let dump = runtime.dumper();
    let ended = Arc::new(AtomicBool::new(false));
    let (gated, call) = Gated::new();
    let seen = ended.clone();
    let task = runtime.spawn(move || {
        blocking(move || {
            call();
            seen.store(true, Ordering::Release);
        })
    });
    gated.begun.recv().unwrap();
    let shutdown = std::thread::spawn(move || runtime.shutdown(GRACE));
    assert!(task.join().unwrap().unwrap_err().is_cancelled());
    spin_until(|| dump().to_string().contains("1 running, of which nobody waits for 1"));
    gated.go.send(()).unwrap();
    let report = shutdown.join().unwrap();
    assert_eq!((report.left, report.blocking), (0, 0));
    assert!(ended.load(Ordering::Acquire));

    let runtime = one_worker().build().unwrap();
    let (gated, _task) = Gated::begin(&runtime);
    let report = runtime.shutdown(Duration::from_millis(10));
    assert_eq!((report.left, report.blocking), (0, 1));
    drop(gated);

    let runtime = Runtime::builder().build_current_thread().unwrap();
    let (gated, call) = Gated::new();
    let _task = runtime.spawn(move || blocking(call));
    runtime.run_until_idle();
    gated.begun.recv().unwrap();
    let report = runtime.shutdown(Duration::from_millis(10));
    assert_eq!((report.left, report.blocking), (0, 1));
}

#[test]
fn a_call_may_run_on_all_processors_although_its_worker_may_not() {
    fn allowed() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned()
    }
    let here = allowed();
    with_runtime(one_worker().pin_workers(true), |runtime| {
        let (worker, pool) = runtime.run(|| (allowed(), blocking(allowed).unwrap())).unwrap();
        assert_eq!(pool, here);
        let several = here.bytes().filter(|byte| byte.is_ascii_hexdigit() && *byte != b'0').count() > 1
            || !matches!(here.trim_end().as_bytes().last(), Some(b'1' | b'2' | b'4' | b'8' | b'0'));
        assert!(!several || worker != here, "{worker}");
    });
}

#[test]
fn a_future_awaits_a_call_and_must_not_block_for_one() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let task = spawn_future(async {
                    let refused = blocking(|| ()).unwrap_err();
                    let sinew_io::BlockingError::Refused(refused) = refused else { panic!("{refused}") };
                    let failed = blocking_async(|| -> () { panic!("inside") }).await.unwrap_err();
                    (refused.reason(), failed.to_string(), blocking_async(|| 5).await.unwrap())
                });
                let (reason, failed, five) = task.join().unwrap();
                assert_eq!((reason, five), (Reason::InsidePoll, 5));
                assert!(failed.contains("inside"), "{failed}");
            })
            .unwrap();
    });
}

#[test]
fn a_future_that_is_dropped_withdraws_its_call_or_leaves_it_alone() {
    with_runtime(one_worker().blocking_threads(1), |runtime| {
        let (gated, call) = Gated::new();
        let first = runtime.spawn_future(blocking_async(call));
        gated.begun.recv().unwrap();
        let tally = Tally::new();
        let value = tally.value(0);
        let second = runtime.spawn_future(blocking_async(move || value.number()));
        dump_says(runtime, "1 calls queued");
        second.cancel();
        assert!(second.join().unwrap_err().is_cancelled());
        tally.assert_even(1);
        first.cancel();
        assert!(first.join().unwrap_err().is_cancelled());
        assert!(runtime.dump().to_string().contains("of which nobody waits for 1"));
        drop(gated);
    });
}

#[test]
fn an_io_error_of_a_cancelled_call_wraps_cancelled() {
    with_runtime(one_worker(), |runtime| {
        let kind = runtime.run(|| {
            let task = spawn(|| std::io::Error::from(blocking(|| ()).unwrap_err()));
            task.cancel();
            let error = task.join().unwrap();
            assert!(error.get_ref().unwrap().is::<sinew_sched::Cancelled>(), "{error:?}");
            error.kind()
        });
        assert_eq!(kind.unwrap(), std::io::ErrorKind::Other);
    });
}
