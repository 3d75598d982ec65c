//! How long it takes to look at a runtime with many tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sinew_fiber::StackSize;
use sinew_sched::{Events, Runtime, TaskState, spawn};

use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 1] = [Bench {
    name: "dump_100k",
    about: "dump a runtime in which so many tasks wait for one event; as text and JSON after it",
    metric: "ms",
    numbers: &[Number { name: "tasks", default: 100_000, small: 1_000 }],
    run: |bench, numbers| {
        let tasks = numbers[0];
        let runtime = Runtime::builder().stack(StackSize::KiB64).build().expect("threads can be started");
        let started = Arc::new(AtomicU64::new(0));
        let count = started.clone();
        let spawned = runtime.run(move || {
            let events = Events::new();
            for _ in 0..tasks {
                let (events, started) = (events.clone(), count.clone());
                let waits = move || {
                    started.fetch_add(1, Ordering::Release);
                    drop(events.recv()); // until the runtime shuts down
                };
                spawn(waits).detach();
            }
        });
        spawned.expect("a benchmark's body returns");
        let parked = || runtime.dump().tasks.iter().filter(|task| task.state == TaskState::Parked).count();
        while started.load(Ordering::Acquire) < tasks || parked() < tasks as usize {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let dump = runtime.dump();
        let (looked, start) = (start.elapsed(), Instant::now());
        let (text, json) = (dump.to_string(), dump.to_json());
        let wrote = start.elapsed();
        assert!(dump.tasks.len() >= tasks as usize && !text.is_empty() && !json.is_empty());
        println!("RESULT sinew {} {} {:.1}", bench.name, bench.metric, looked.as_secs_f64() * 1e3);
        println!("RESULT sinew {} ms_to_write {:.1}", bench.name, wrote.as_secs_f64() * 1e3);
    },
}];
