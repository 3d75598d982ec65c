//! Blocking calls against everything else: each is run once or not at all, each caller is told, nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_io::{blocking, blocking_async};
use sinew_sched::{Builder, JoinHandle, Runtime, spawn, timeout, yield_now};

use crate::support::{self, SEED, Tally, Watchdog, next, rounds, spin_until, with_runtime};

const GRACE: Duration = Duration::from_secs(60);

/// What the calls of a test have come to.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Few threads, a short queue, and threads that end as soon as they are idle, or not.
fn small(workers: usize, random: u64) -> Builder {
    let keep_alive = if random.is_multiple_of(2) { Duration::ZERO } else { Duration::from_secs(10) };
    let builder = Runtime::builder().workers(workers).safety_nets(random.is_multiple_of(3));
    builder
        .blocking_threads(1 + random as usize % 4)
        .blocking_queue(random as usize % 3)
        .blocking_keep_alive(keep_alive)
}

/// A call that may take a moment, and may panic.
fn call(
    counts: &Arc<Counts>,
    values: &Tally,
    random: u64,
) -> impl FnOnce() -> support::Counted + Send + 'static {
    let (counts, value) = (counts.clone(), values.value(random));
    move || {
        counts.begun.fetch_add(1, Ordering::Relaxed);
        counts.most.fetch_max(counts.now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
        if random % 5 == 1 {
            std::thread::yield_now();
        }
        counts.now.fetch_sub(1, Ordering::AcqRel);
        assert!(random % 7 != 2, "a call that panics");
        value
    }
}

/// Makes calls, blocking and in futures, under deadlines and not, and checks each result.
fn caller(counts: &Arc<Counts>, values: &Tally, mut seed: u64) {
    for _ in 0..20 {
        let random = next(&mut seed);
        let call = call(counts, values, random);
        let outcome = match random % 4 {
            0 => Some(blocking(call)),
            1 => match spawn(move || blocking(call)).join() {
                Ok(outcome) => Some(outcome),
                Err(raised) if raised.is_cancelled() => None,
                Err(raised) => panic!("{raised}"),
            },
            2 => timeout(Duration::from_micros(random % 200), || blocking(call)).ok(),
            _ => sinew_sched::block_on(blocking_async(call)).ok(),
        };
        match outcome {
            None => (),
            Some(Ok(value)) => assert_eq!(value.number(), random),
            Some(Err(error)) => assert!(random % 7 == 2 || error.is_cancelled(), "{error}"),
        }
    }
}

fn callers(runtime: &Runtime, counts: &Arc<Counts>, values: &Tally, seed: u64) -> Vec<JoinHandle<()>> {
    let caller = |n| {
        let (counts, values) = (counts.clone(), values.clone());
        runtime.spawn(move || caller(&counts, &values, seed + n))
    };
    (0..32).map(caller).collect()
}

#[test]
fn calls_that_are_cancelled_panic_or_run_out_of_time_are_each_run_once_or_dropped() {
    let mut seed = SEED;
    for workers in [1, 2, 8] {
        for _ in 0..rounds(6) {
            let random = next(&mut seed);
            with_runtime(small(workers, random), |runtime| {
                let (counts, values) = (Arc::new(Counts::default()), Tally::new());
                let tasks = callers(runtime, &counts, &values, random);
                let mut cancelled = 0;
                for task in tasks.iter().step_by(3) {
                    std::thread::yield_now();
                    task.cancel();
                    cancelled += 1;
                }
                for task in tasks {
                    if let Err(raised) = task.join() {
                        assert!(raised.is_cancelled(), "{raised}");
                        cancelled -= 1;
                    }
                }
                assert!(cancelled >= 0);
                // Those that nobody waits for end too.
                spin_until(|| runtime.dump().to_string().contains("; 0 calls queued, 0 running"));
                assert!(counts.most.load(Ordering::Relaxed) <= 1 + random as usize % 4);
                assert!(counts.begun.load(Ordering::Relaxed) <= values.made());
                values.assert_even(values.made());
            });
        }
    }
}

#[test]
fn a_shutdown_in_the_middle_of_calls_leaves_none_of_them() {
    let mut seed = SEED;
    for workers in [1, 2, 8] {
        for _ in 0..rounds(10) {
            let random = next(&mut seed);
            let runtime = small(workers, random).build().unwrap();
            let watchdog = Watchdog::new(format!("{workers} workers"));
            watchdog.watch(&runtime);
            let (counts, values) = (Arc::new(Counts::default()), Tally::new());
            let tasks = callers(&runtime, &counts, &values, random);
            (0..random % 50).for_each(|_| std::thread::yield_now());
            let report = runtime.shutdown(GRACE);
            assert_eq!((report.left, report.blocking), (0, 0), "{report:?}");
            drop(tasks);
            values.assert_even(values.made());
            assert_eq!(counts.now.load(Ordering::Relaxed), 0);
        }
    }
}

#[test]
fn many_more_callers_than_threads_all_get_their_turn() {
    with_runtime(Runtime::builder().workers(2).blocking_threads(2).blocking_queue(1), |runtime| {
        let sum = runtime.run(|| {
            let tasks: Vec<_> = (0..2000u64)
                .map(|n| {
                    spawn(move || {
                        yield_now();
                        blocking(move || n).unwrap()
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum.unwrap(), 1999 * 1000);
    });
}
