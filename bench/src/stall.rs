//! How long tasks that any worker could run wait while workers are stuck.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use sinew_sched::{Runtime, Sysmon, spawn, spawn_future};

use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 1] = [Bench {
    name: "stall",
    about: "tasks spawned by a stuck worker and from outside while 1 of 2 workers, or both, are stuck: their delay",
    metric: "p99_ms",
    numbers: &[
        Number { name: "tasks", default: 1000, small: 20 },
        Number { name: "stuck_ms", default: 1000, small: 20 },
    ],
    run: |bench, numbers| {
        let (tasks, stuck) = (numbers[0], Duration::from_millis(numbers[1]));
        for (workers, prefix) in [(1, ""), (2, "all_")] {
            let mut delays = delays(workers, tasks, stuck);
            delays.sort_unstable();
            let at = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)];
            let milliseconds = |delay: Duration| delay.as_secs_f64() * 1e3;
            println!("RESULT sinew {} {prefix}{} {:.3}", bench.name, bench.metric, milliseconds(at(99)));
            println!("RESULT sinew {} {prefix}max_ms {:.3}", bench.name, milliseconds(at(100)));
        }
    },
}];

/// How long each of the tasks waited, of which a half is spawned from outside, and the other by those that are `stuck`
/// for so long, evenly over that time.
fn delays(workers: u64, tasks: u64, stuck: Duration) -> Vec<Duration> {
    let silent = Sysmon::new().stall_threshold(Duration::MAX);
    let runtime = Runtime::builder().workers(2).sysmon(silent).build().expect("threads can be started");
    let (sender, delays) = mpsc::channel();
    let keepers: Vec<_> = (0..workers)
        .map(|_| {
            let sender = sender.clone();
            runtime.spawn(move || {
                at_even_times(
                    tasks / 2 / workers,
                    stuck,
                    |_| std::hint::spin_loop(),
                    |n| {
                        let (sender, start) = (sender.clone(), Instant::now());
                        let told = move || sender.send(start.elapsed()).expect("somebody counts");
                        if n % 2 == 0 {
                            spawn(told).detach()
                        } else {
                            spawn_future(async move { told() }).detach()
                        }
                    },
                );
            })
        })
        .collect();
    at_even_times(tasks / 2, stuck, std::thread::sleep, |n| {
        let (sender, start) = (sender.clone(), Instant::now());
        let told = move || sender.send(start.elapsed()).expect("somebody counts");
        match n % 2 {
            0 => runtime.spawn(told).detach(),
            _ => runtime.spawn_future(async move { told() }).detach(),
        }
    });
    drop(sender);
    keepers.into_iter().for_each(|keeper| keeper.join().expect("it returns"));
    delays.iter().collect()
}

/// Calls `each` so many times over so much time, and `pause` in between.
fn at_even_times(times: u64, over: Duration, pause: fn(Duration), each: impl Fn(u64)) {
    let start = Instant::now();
    for n in 0..times {
        let at = over.mul_f64(n as f64 / times as f64);
        while start.elapsed() < at {
            pause(at - start.elapsed().min(at));
        }
        each(n);
    }
    while start.elapsed() < over {
        pause(over - start.elapsed().min(over));
    }
}
