//! What a task weighs that waits: resident memory and page tables, all pools counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use sinew_fiber::StackSize;
use sinew_sched::{Events, JoinHandle, Runtime, spawn, spawn_future};

use crate::measure::occupied_bytes;
use crate::{Bench, Number};

const TASKS: Number = Number { name: "tasks", default: 1_000_000, small: 1_000 };

pub(crate) const BENCHES: [Bench; 2] = [
    Bench {
        name: "idle_mem",
        about: "so many tasks wait for one event; stacks of 64 KiB, the default of 256 after them",
        metric: "rss_bytes_each",
        numbers: &[TASKS],
        run: |bench, numbers| {
            let tasks = numbers[0];
            println!("RESULT sinew {} {} {:.0}", bench.name, bench.metric, thunks(StackSize::KiB64, tasks));
            println!(
                "RESULT sinew {} rss_bytes_each_at_256KiB {:.0}",
                bench.name,
                thunks(StackSize::KiB256, tasks)
            );
        },
    },
    Bench {
        name: "idle_mem_future",
        about: "so many futures wait for one gate",
        metric: "rss_bytes_each",
        numbers: &[TASKS],
        run: |bench, numbers| {
            let tasks = numbers[0];
            println!("RESULT sinew {} {} {:.0}", bench.name, bench.metric, futures(tasks));
        },
    },
];

fn thunks(stack: StackSize, tasks: u64) -> f64 {
    let runtime = Runtime::builder().stack(stack).build().expect("threads can be started");
    let events = Events::new();
    measure(runtime, tasks, move |started| {
        let (events, started) = (events.clone(), started.clone());
        spawn(move || {
            started.fetch_add(1, Ordering::Release);
            drop(events.recv()); // until the runtime shuts down
        })
    })
}

fn futures(tasks: u64) -> f64 {
    let runtime = Runtime::new();
    let gate = Arc::new(Mutex::new(Vec::<Waker>::new()));
    measure(runtime, tasks, move |started| {
        let (gate, started) = (gate.clone(), started.clone());
        spawn_future(std::future::poll_fn(move |context| {
            gate.lock().expect("nobody panics").push(context.waker().clone());
            started.fetch_add(1, Ordering::Release);
            Poll::<()>::Pending // until the runtime shuts down
        }))
    })
}

/// Bytes that each of so many tasks adds to the process, once all of them wait.
fn measure(
    runtime: Runtime,
    tasks: u64,
    start: impl Fn(&Arc<AtomicU64>) -> JoinHandle<()> + Send + 'static,
) -> f64 {
    let before = occupied_bytes();
    let started = Arc::new(AtomicU64::new(0));
    let count = started.clone();
    let handles = runtime
        .run(move || (0..tasks).map(|_| start(&count)).collect::<Vec<_>>())
        .expect("a benchmark's body returns");
    while started.load(Ordering::Acquire) < tasks {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(10)); // the last one is about to wait
    let after = occupied_bytes();
    drop(handles);
    let _ = runtime.shutdown(Duration::from_secs(60));
    after.saturating_sub(before) as f64 / tasks as f64
}
