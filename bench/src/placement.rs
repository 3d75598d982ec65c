//! Whether work is spread over the workers although bodies that have blocked stay where they are, and how the cost of a
//! task grows with their number.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use sinew_sched::{Builder, Events, JoinHandle, Runtime, sleep, sleep_async, spawn, task};

use crate::{Bench, Number};

const ROUNDS: Number = Number { name: "rounds", default: 100, small: 3 };

pub(crate) const BENCHES: [Bench; 5] = [
    Bench {
        name: "par8",
        about: "rounds of 8 tasks of 200 µs, spawned at once: useful processor time / (workers x wall)",
        metric: "efficiency",
        numbers: &[ROUNDS],
        run: |bench, numbers| {
            let rounds = numbers[0];
            let unit = calibrate(Duration::from_micros(200));
            let wall: Vec<Duration> = run(2, move || {
                (0..rounds)
                    .map(|_| {
                        let start = Instant::now();
                        join((0..8).map(|_| spawn(move || compute(unit))));
                        start.elapsed()
                    })
                    .collect()
            });
            efficiency(bench, "", &wall, Duration::from_micros(8 * 200));
        },
    },
    Bench {
        name: "lag",
        about: "a task spawns another and goes on computing: time until the other starts, with workers free and bound to CPUs",
        metric: "us_p95",
        numbers: &[Number { name: "rounds", default: 500, small: 3 }],
        run: |bench, numbers| {
            let (mut free, mut bound) = (Vec::new(), Vec::new());
            // In turns, so that both meet the same machine.
            while (free.len() as u64) < numbers[0] {
                let rounds = (numbers[0] - free.len() as u64).min(100);
                free.extend(lags(Runtime::builder().workers(2), rounds));
                bound.extend(lags(Runtime::builder().workers(2).pin_workers(true), rounds));
            }
            for (side, mut lags) in [("sinew", free), ("bound", bound)] {
                lags.sort_unstable();
                let at =
                    |share: usize| lags[(lags.len() * share / 100).min(lags.len() - 1)].as_secs_f64() * 1e6;
                println!("RESULT {side} {} {} {:.1}", bench.name, bench.metric, at(95));
                println!("RESULT {side} {} us_p50 {:.1}", bench.name, at(50));
            }
        },
    },
    Bench {
        name: "block_then_compute",
        about: "rounds of 8 tasks that block once and then compute 1 ms: useful processor time / (workers x wall)",
        metric: "efficiency",
        numbers: &[ROUNDS],
        run: |bench, numbers| {
            let rounds = numbers[0];
            let unit = calibrate(Duration::from_millis(1));
            let wall: Vec<Duration> = run(2, move || {
                (0..rounds)
                    .map(|_| {
                        let (blocked, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
                        let gate = Events::new();
                        let tasks: Vec<_> = (0..8)
                            .map(|_| {
                                let (gate, blocked) = (gate.clone(), blocked.clone());
                                spawn(move || {
                                    blocked.fetch_add(1, Ordering::AcqRel);
                                    gate.recv().expect("nobody cancels it");
                                    compute(unit);
                                })
                            })
                            .collect();
                        // The end of each of these is an event, and opens the gate for one.
                        join((0..8).map(|_| task().supervisor(&gate).spawn(|| ())));
                        join(tasks.into_iter());
                        start.elapsed()
                    })
                    .collect()
            });
            efficiency(bench, "_first", &wall[..1], Duration::from_millis(8));
            efficiency(bench, "", &wall[1.min(wall.len() - 1)..], Duration::from_millis(8));
        },
    },
    Bench {
        name: "timers",
        about: "set so many timers, then clear them",
        metric: "ns_per_timer",
        numbers: &[Number { name: "timers", default: 1_000_000, small: 1_000 }],
        run: |bench, numbers| {
            println!("RESULT sinew {} {} {:.2}", bench.name, bench.metric, timers(numbers[0]))
        },
    },
    Bench {
        name: "scale",
        about: "the cost of a task, spawned and joined, and of a timer, at so many against a hundredth of that; fresh processes",
        metric: "spawn_join_growth",
        numbers: &[Number { name: "tasks", default: 10_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let tasks = numbers[0];
            println!("RESULT sinew {} {} {:.2}", bench.name, bench.metric, growth("spawn_join", tasks));
            println!("RESULT sinew {} timer_growth {:.2}", bench.name, growth("timers", tasks));
        },
    },
];

/// How long tasks take to start whose spawner goes on computing.
fn lags(builder: Builder, rounds: u64) -> Vec<Duration> {
    let round = || {
        let started = Arc::new(AtomicBool::new(false));
        let flag = started.clone();
        let start = Instant::now();
        let lone = spawn(move || {
            flag.store(true, Ordering::Release);
            start.elapsed()
        });
        while start.elapsed() < Duration::from_millis(3) && !started.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let lag = lone.join().expect("it returns");
        sleep(Duration::from_millis(1)); // all workers go to sleep
        lag
    };
    let runtime = builder.build().expect("threads can be started");
    runtime.run(move || (0..rounds).map(|_| round()).collect()).expect("a benchmark's body returns")
}

fn run<T: Send + 'static>(workers: usize, body: impl FnOnce() -> T + Send + 'static) -> T {
    let runtime = Runtime::builder().workers(workers).build().expect("threads can be started");
    runtime.run(body).expect("a benchmark's body returns")
}

fn join(tasks: impl Iterator<Item = JoinHandle<()>>) {
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().for_each(|task| task.join().expect("it returns"));
}

/// Work that takes a known time when nothing disturbs it.
pub(crate) fn compute(rounds: u64) {
    let mut x = 1u64;
    for _ in 0..rounds {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// How many rounds of [`compute`] take `time`.
pub(crate) fn calibrate(time: Duration) -> u64 {
    const PROBE: u64 = 2_000_000;
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            compute(PROBE);
            start.elapsed()
        })
        .min()
        .expect("there were some");
    (PROBE as f64 * time.as_secs_f64() / best.as_secs_f64()) as u64
}

/// The share of two processors' time over all rounds that was useful.
fn efficiency(bench: &Bench, suffix: &str, walls: &[Duration], useful: Duration) {
    let wall: f64 = walls.iter().map(Duration::as_secs_f64).sum();
    let share = useful.as_secs_f64() * walls.len() as f64 / (2.0 * wall);
    println!("RESULT sinew {}{suffix} {} {share:.3}", bench.name, bench.metric);
}

/// What `bench` costs at `many` against a hundredth of that, each in processes of its own, where no memory is warm.
fn growth(bench: &str, many: u64) -> f64 {
    cost(bench, many) / cost(bench, (many / 100).max(1))
}

/// The figure of a benchmark of this program: the median of 5.
fn cost(bench: &str, count: u64) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let mut costs: Vec<f64> = (0..5)
        .map(|_| {
            let count = count.to_string();
            let output = Command::new(&program).args([bench, &count]).output().expect("it can be started");
            let text = String::from_utf8_lossy(&output.stdout);
            let figure = text.split_whitespace().last().and_then(|figure| figure.parse().ok());
            figure.expect("it prints a figure")
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[2]
}

/// Nanoseconds per timer that is set, lies among so many, and is cleared.
fn timers(timers: u64) -> f64 {
    let runtime = Runtime::builder().workers(2).build().expect("threads can be started");
    let task = runtime.spawn_future(async move {
        let hour = |n| Duration::from_secs(3600) + Duration::from_micros(n % 1_000_000);
        let start = Instant::now();
        let mut set: Vec<_> = (0..timers).map(|n| Box::pin(sleep_async(hour(n)))).collect();
        let mut context = Context::from_waker(Waker::noop());
        for sleep in &mut set {
            assert!(sleep.as_mut().poll(&mut context).is_pending());
        }
        drop(set);
        start.elapsed().as_secs_f64() * 1e9 / timers as f64
    });
    task.join().expect("it returns")
}
