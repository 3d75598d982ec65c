//! Tasks: what spawning, joining, yielding and sleeping cost, through the public API as a user's crate calls it.

use std::time::{Duration, Instant};

use sinew_sched::{JoinHandle, Runtime, sleep, sleep_async, spawn, spawn_future, yield_now};

use crate::measure::cpu_time;

use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 6] = [
    Bench {
        name: "spawn_join",
        about: "spawn so many tasks, then join them all",
        metric: "ns_per_task",
        numbers: &[Number { name: "tasks", default: 100_000, small: 1_000 }],
        run: |bench, numbers| {
            let tasks = numbers[0];
            let took = run(move || {
                let start = Instant::now();
                let handles: Vec<JoinHandle<u64>> = (0..tasks).map(|n| spawn(move || n)).collect();
                let sum: u64 = handles.into_iter().map(|task| task.join().expect("it returns")).sum();
                assert_eq!(sum, tasks * (tasks - 1) / 2);
                start.elapsed()
            });
            per(bench.name, bench.metric, took, tasks);
        },
    },
    Bench {
        name: "yield",
        about: "so many tasks yield in turns, so often in all",
        metric: "ns_per_yield",
        numbers: &[
            Number { name: "tasks", default: 2, small: 2 },
            Number { name: "yields", default: 1_000_000, small: 1_000 },
        ],
        run: |bench, numbers| {
            yields(bench.name, bench.metric, numbers[0], numbers[1]);
        },
    },
    Bench {
        name: "yield_100",
        about: "a hundred tasks yield in turns, so often in all",
        metric: "ns_per_yield",
        numbers: &[Number { name: "yields", default: 1_000_000, small: 1_000 }],
        run: |bench, numbers| yields("yield", bench.metric, 100, numbers[0]),
    },
    Bench {
        name: "skynet",
        about: "a tree of tasks, ten to a node, with so many leaves that send their number up",
        metric: "ns_per_actor",
        numbers: &[Number { name: "leaves", default: 1_000_000, small: 1_000 }],
        run: |bench, numbers| {
            let leaves = power_of_ten(numbers[0]);
            let took = run(move || {
                let start = Instant::now();
                let sum = skynet(0, leaves);
                let took = start.elapsed();
                assert_eq!(sum, leaves * (leaves - 1) / 2);
                took
            });
            let nodes: u64 = std::iter::successors(Some(leaves), |n| (*n > 1).then_some(n / 10)).sum();
            per(bench.name, bench.metric, took, nodes);
        },
    },
    Bench {
        name: "sleepers",
        about: "so many tasks sleep for so long at once",
        metric: "wall_ms",
        numbers: &[
            Number { name: "tasks", default: 100_000, small: 1_000 },
            Number { name: "milliseconds", default: 100, small: 10 },
        ],
        run: |bench, numbers| sleepers(bench, numbers, |duration| spawn(move || sleep(duration))),
    },
    Bench {
        name: "sleepers_future",
        about: "so many futures sleep for so long at once",
        metric: "wall_ms",
        numbers: &[
            Number { name: "tasks", default: 100_000, small: 1_000 },
            Number { name: "milliseconds", default: 100, small: 10 },
        ],
        run: |bench, numbers| sleepers(bench, numbers, |duration| spawn_future(sleep_async(duration))),
    },
];

/// Runs `body` as a task of a runtime with default options.
fn run(body: impl FnOnce() -> Duration + Send + 'static) -> Duration {
    Runtime::new().run(body).expect("a benchmark's body returns")
}

/// Starts so many tasks by `start`, which sleep so long, and prints what that took.
fn sleepers(bench: &Bench, numbers: &[u64], start: fn(Duration) -> JoinHandle<()>) {
    let (tasks, duration) = (numbers[0], Duration::from_millis(numbers[1]));
    let cpu = cpu_time();
    let took = run(move || {
        let begin = Instant::now();
        let handles: Vec<_> = (0..tasks).map(|_| start(duration)).collect();
        handles.into_iter().for_each(|task| task.join().expect("it returns"));
        begin.elapsed()
    });
    println!("RESULT sinew {} {} {:.2}", bench.name, bench.metric, took.as_secs_f64() * 1e3);
    println!("RESULT sinew {} cpu_ms {:.2}", bench.name, (cpu_time() - cpu).as_secs_f64() * 1e3);
}

fn yields(bench: &str, metric: &str, tasks: u64, yields: u64) {
    let took = run(move || {
        let start = Instant::now();
        let each = move || (0..yields / tasks).for_each(|_| yield_now());
        let handles: Vec<_> = (0..tasks).map(|_| spawn(each)).collect();
        handles.into_iter().for_each(|task| task.join().expect("it returns"));
        start.elapsed()
    });
    per(&format!("{bench}_{tasks}"), metric, took, yields);
}

fn per(bench: &str, metric: &str, took: Duration, count: u64) {
    println!("RESULT sinew {bench} {metric} {:.2}", took.as_secs_f64() * 1e9 / count as f64);
}

/// The number of leaves of a tree with ten children to a node.
pub(crate) fn power_of_ten(leaves: u64) -> u64 {
    assert!(leaves.checked_ilog10().is_some_and(|n| 10u64.pow(n) == leaves), "leaves must be a power of ten");
    leaves
}

fn skynet(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let each = leaves / 10;
    let children: Vec<_> = (0..10).map(|i| spawn(move || skynet(first + i * each, each))).collect();
    children.into_iter().map(|child| child.join().expect("it returns")).sum()
}
