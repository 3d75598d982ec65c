//! Locks: what a mutex costs alone and between tasks that all want it, beside tokio's and, on threads, parking_lot's.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use sinew_chan::sync::Mutex;
use sinew_sched::{Runtime, spawn};

use crate::measure::{Side, compare, compare_as};
use crate::{Bench, Number};

/// The workers of sinew and of tokio.
const WORKERS: usize = 2;

const LOCKS: Number = Number { name: "locks", default: 20_000_000, small: 1_000 };

pub(crate) const BENCHES: [Bench; 3] = [
    Bench {
        name: "mutex_alone",
        about: "lock and unlock a mutex that nobody else wants",
        metric: "ns_per_lock",
        numbers: &[Number { name: "locks", default: 50_000_000, small: 1_000 }],
        run: |bench, numbers| {
            let sides: [Side; 3] = [("sinew", alone), ("parking_lot", parking_lot_alone), ("std", std_alone)];
            compare(bench, numbers[0], &sides);
        },
    },
    Bench {
        name: "mutex_contended",
        about: "so many tasks on 2 workers add to one counter under one mutex, so often in all",
        metric: "ns_per_lock",
        numbers: &[Number { name: "tasks", default: 2, small: 2 }, LOCKS],
        run: |bench, numbers| contended(bench, numbers[0], numbers[1]),
    },
    Bench {
        name: "mutex_contended_64",
        about: "the same with 64 tasks",
        metric: "ns_per_lock",
        numbers: &[LOCKS],
        run: |bench, numbers| contended(bench, 64, numbers[0]),
    },
];

fn contended(bench: &Bench, tasks: u64, locks: u64) {
    let per_task = move |locks: u64| locks.div_ceil(tasks);
    let sinew = move |locks| sinew_contended(tasks, per_task(locks));
    let tokio = move |locks| tokio_contended(tasks, per_task(locks));
    let parking_lot = move |locks| parking_lot_contended(tasks, per_task(locks));
    let name = format!("mutex_contended_{tasks}");
    compare_as(
        &name,
        bench.metric,
        locks,
        &[("sinew", &sinew), ("tokio", &tokio), ("parking_lot", &parking_lot)],
    );
}

fn sinew_contended(tasks: u64, locks: u64) -> Duration {
    let runtime = Runtime::builder().workers(WORKERS).build().expect("there are threads");
    let body = move || {
        let counter = Arc::new(Mutex::new(0_u64));
        let start = Instant::now();
        let add = |counter: Arc<Mutex<u64>>| {
            move || (0..locks).for_each(|_| *counter.lock().expect("nobody cancels") += 1)
        };
        let handles: Vec<_> = (0..tasks).map(|_| spawn(add(counter.clone()))).collect();
        handles.into_iter().for_each(|task| task.join().expect("it returns"));
        let took = start.elapsed();
        assert_eq!(*counter.lock().expect("nobody cancels"), tasks * locks);
        took
    };
    runtime.run(body).expect("a benchmark's body returns")
}

fn tokio_contended(tasks: u64, locks: u64) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build();
    let runtime = runtime.expect("there are threads");
    let body = async move {
        let counter = Arc::new(tokio::sync::Mutex::new(0_u64));
        let start = Instant::now();
        let add = |counter: Arc<tokio::sync::Mutex<u64>>| async move {
            for _ in 0..locks {
                *counter.lock().await += 1;
            }
        };
        let handles: Vec<_> = (0..tasks).map(|_| tokio::spawn(add(counter.clone()))).collect();
        for task in handles {
            task.await.expect("it returns");
        }
        let took = start.elapsed();
        assert_eq!(*counter.lock().await, tasks * locks);
        took
    };
    // On a worker, as sinew's is.
    runtime.block_on(async { tokio::spawn(body).await.expect("a benchmark's body returns") })
}

/// On as many threads as there are tasks, which start together.
fn parking_lot_contended(tasks: u64, locks: u64) -> Duration {
    let counter = Arc::new(parking_lot::Mutex::new(0_u64));
    let begin = Arc::new(Barrier::new(tasks as usize + 1));
    let threads: Vec<_> = (0..tasks)
        .map(|_| {
            let (counter, begin) = (counter.clone(), begin.clone());
            std::thread::spawn(move || {
                begin.wait();
                (0..locks).for_each(|_| *counter.lock() += 1);
            })
        })
        .collect();
    let start = Instant::now();
    begin.wait();
    threads.into_iter().for_each(|thread| thread.join().expect("it returns"));
    let took = start.elapsed();
    assert_eq!(*counter.lock(), tasks * locks);
    took
}

fn alone(n: u64) -> Duration {
    let counter = Mutex::new(0_u64);
    time(n, || *counter.lock().expect("nobody cancels") += 1)
}

fn parking_lot_alone(n: u64) -> Duration {
    let counter = parking_lot::Mutex::new(0_u64);
    time(n, || *counter.lock() += 1)
}

fn std_alone(n: u64) -> Duration {
    let counter = std::sync::Mutex::new(0_u64);
    time(n, || *counter.lock().expect("nobody panics") += 1)
}

fn time(n: u64, each: impl Fn()) -> Duration {
    let start = Instant::now();
    (0..n).for_each(|_| each());
    start.elapsed()
}
