//! Whether tasks share what there is: a worker with tasks that never wait, and the CPUs with other processes.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sinew_chan::chan::bounded;
use sinew_chan::sync::Mutex;
use sinew_sched::{Runtime, sleep, spawn, yield_now};

use crate::placement::{calibrate, compute};
use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 3] = [
    Bench {
        name: "fair",
        about: "a task sleeps for 1 ms at a time beside tasks on each worker whose calls never have to wait: how late it is",
        metric: "p99_ms",
        numbers: &[Number { name: "sleeps", default: 300, small: 3 }],
        run: |bench, numbers| {
            let late: Vec<(&str, Duration)> =
                LOOPS.iter().map(|(name, calls)| (*name, lateness(*calls, numbers[0]))).collect();
            let worst = late.iter().map(|(_, late)| *late).max().expect("there are some");
            println!("RESULT sinew {} {} {:.3}", bench.name, bench.metric, worst.as_secs_f64() * 1e3);
            for (name, late) in late {
                println!("RESULT sinew {} p99_ms_{name} {:.3}", bench.name, late.as_secs_f64() * 1e3);
            }
        },
    },
    Bench {
        name: "busy",
        about: "one task computes for so long on a runtime of 2 workers: wall time",
        metric: "wall_ms",
        numbers: &[Number { name: "milliseconds", default: 1_500, small: 10 }],
        run: |bench, numbers| {
            let unit = calibrate(Duration::from_millis(1));
            let milliseconds = numbers[0];
            let runtime = Runtime::builder().workers(2).build().expect("threads can be started");
            let start = Instant::now();
            runtime.run(move || (0..milliseconds).for_each(|_| compute(unit))).expect("it returns");
            println!(
                "RESULT sinew {} {} {:.1}",
                bench.name,
                bench.metric,
                start.elapsed().as_secs_f64() * 1e3
            );
        },
    },
    Bench {
        name: "neighbours",
        about: "two processes with one busy task each, beside one alone; par8 and skynet beside a process that spins on \
                one CPU, beside alone",
        metric: "ratio",
        numbers: &[
            Number { name: "milliseconds", default: 1_500, small: 10 },
            Number { name: "rounds", default: 100, small: 3 },
            Number { name: "leaves", default: 1_000_000, small: 1_000 },
        ],
        run: |bench, numbers| {
            let [busy, rounds, leaves] = [0, 1, 2].map(|at| numbers[at].to_string());
            let alone = figure(start("busy", &busy));
            let two = [start("busy", &busy), start("busy", &busy)].map(figure);
            let ratio = two[0].max(two[1]) / alone;
            println!("RESULT sinew {} {} {ratio:.2}", bench.name, bench.metric);
            for (name, number) in [("par8", rounds), ("skynet", leaves)] {
                let alone = figure(start(name, &number));
                let beside = {
                    let _spinner = Spinner::start();
                    figure(start(name, &number))
                };
                // An efficiency is better if it is higher, a time if it is lower.
                let ratio = if name == "par8" { alone / beside } else { beside / alone };
                println!("RESULT sinew {} {name}_spinner_ratio {ratio:.2}", bench.name);
            }
        },
    },
];

/// Makes calls that could wait, and do not, until it is told to stop.
type Calls = fn(&AtomicBool);

const LOOPS: [(&str, Calls); 6] = [
    ("send_recv", |stop| {
        let (sender, receiver) = bounded(64);
        until(stop, || {
            sender.send(1_u64).expect("somebody receives");
            receiver.recv().expect("somebody sends");
        });
    }),
    ("backlog", |stop| {
        let (sender, receiver) = bounded(1 << 16);
        (0..1 << 15).for_each(|item: u64| sender.send(item).expect("somebody receives"));
        until(stop, || {
            let item = receiver.recv().expect("somebody sends");
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20) {}
            sender.send(item).expect("somebody receives");
        });
    }),
    ("lock", |stop| {
        let mutex = Mutex::new(0_u64);
        until(stop, || *mutex.lock().expect("nobody cancels it") += 1);
    }),
    ("recv_timeout", |stop| {
        let (_sender, receiver) = bounded::<u8>(1);
        until(stop, || _ = receiver.recv_timeout(Duration::ZERO).expect_err("nobody sends"));
    }),
    ("sleep_zero", |stop| until(stop, || sleep(Duration::ZERO))),
    ("yield", |stop| until(stop, yield_now)),
];

fn until(stop: &AtomicBool, mut call: impl FnMut()) {
    while !stop.load(Ordering::Relaxed) {
        call();
    }
}

/// The 99th percentile of how late a task was that slept so often, beside two that call.
fn lateness(calls: Calls, sleeps: u64) -> Duration {
    let runtime = Runtime::builder().workers(2).build().expect("threads can be started");
    let run = move || {
        let stop = Arc::new(AtomicBool::new(false));
        let loops: Vec<_> = (0..2)
            .map(|_| {
                let stop = stop.clone();
                spawn(move || calls(&stop))
            })
            .collect();
        let nap = Duration::from_millis(1);
        let mut late: Vec<Duration> = (0..sleeps)
            .map(|_| {
                let start = Instant::now();
                sleep(nap);
                start.elapsed().saturating_sub(nap)
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        loops.into_iter().for_each(|task| task.join().expect("it returns"));
        late.sort_unstable();
        late[(late.len() * 99 / 100).min(late.len() - 1)]
    };
    runtime.run(run).expect("it returns")
}

/// Starts another shape of this program.
fn start(bench: &str, number: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args([bench, number]).stdout(Stdio::piped()).spawn().expect("it can be started")
}

/// The first figure that a shape prints.
fn figure(process: Child) -> f64 {
    let output = process.wait_with_output().expect("it prints a figure");
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = text.lines().next().and_then(|line| line.split_whitespace().last()?.parse().ok());
    figure.expect("it prints a figure")
}

/// A process that keeps the first CPU busy until it is dropped.
struct Spinner(Child);

impl Spinner {
    fn start() -> Spinner {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
        Spinner(command.spawn().expect("taskset of util-linux is there"))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was killed");
    }
}
