//! Whether work is spread over the workers although bodies that have blocked stay where they are, and how the cost of a
//! task grows with their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use sinew_sched::{Events, JoinHandle, Runtime, sleep, sleep_async, spawn, task};

use crate::{Bench, Number};

const ROUNDS: Number = Number { name: "rounds", default: 100, small: 3 };

pub(crate) const BENCHES: [Bench; 4] = [
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
        about: "a task is spawned by one that goes on computing: time until it starts",
        metric: "us_p95",
        numbers: &[Number { name: "rounds", default: 500, small: 3 }],
        run: |bench, numbers| {
            let rounds = numbers[0];
            let mut lags: Vec<Duration> = run(2, move || {
                (0..rounds)
                    .map(|_| {
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
                        sleep(Duration::from_millis(1)); // everybody goes to bed
                        lag
                    })
                    .collect()
            });
            lags.sort_unstable();
            let at = |share: usize| lags[(lags.len() * share / 100).min(lags.len() - 1)].as_secs_f64() * 1e6;
            println!("RESULT sinew {} {} {:.1}", bench.name, bench.metric, at(95));
            println!("RESULT sinew {} us_p50 {:.1}", bench.name, at(50));
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
        name: "scale",
        about: "the cost of a task, spawned and joined, and of a timer, at so many against a hundredth of that",
        metric: "spawn_join_growth",
        numbers: &[Number { name: "tasks", default: 10_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let tasks = numbers[0];
            let growth = |cost: fn(u64) -> f64| {
                let few = (0..5).map(|_| cost(tasks / 100)).fold(f64::MAX, f64::min);
                cost(tasks) / few
            };
            println!("RESULT sinew {} {} {:.2}", bench.name, bench.metric, growth(spawn_join));
            println!("RESULT sinew {} timer_growth {:.2}", bench.name, growth(timers));
        },
    },
];

fn run<T: Send + 'static>(workers: usize, body: impl FnOnce() -> T + Send + 'static) -> T {
    let runtime = Runtime::builder().workers(workers).build().expect("threads can be started");
    runtime.run(body).expect("a benchmark's body returns")
}

fn join(tasks: impl Iterator<Item = JoinHandle<()>>) {
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().for_each(|task| task.join().expect("it returns"));
}

/// Work that takes a known time when nothing disturbs it.
fn compute(rounds: u64) {
    let mut x = 1u64;
    for _ in 0..rounds {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// How many rounds of [`compute`] take `time`.
fn calibrate(time: Duration) -> u64 {
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

/// Nanoseconds per task.
fn spawn_join(tasks: u64) -> f64 {
    run(2, move || {
        let start = Instant::now();
        let handles: Vec<_> = (0..tasks).map(|n| spawn(move || n)).collect();
        let sum: u64 = handles.into_iter().map(|task| task.join().expect("it returns")).sum();
        assert_eq!(sum, tasks * (tasks - 1) / 2);
        start.elapsed().as_secs_f64() * 1e9 / tasks as f64
    })
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
