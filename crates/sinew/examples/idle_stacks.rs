//! The memory of many parked tasks, and what remains of it after they have ended: at once, after the
//! idle time, and after a trim.
//!
//! `cargo run -p sinew --example idle_stacks 300000`

use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew::diagnostics::trim;
use sinew::sync::Semaphore;
use sinew::task::Runtime;

/// Default number of tasks; the first argument overrides it.
const TASKS: usize = 10_000;

/// Longest time that the example waits for memory to go back.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time without a change after which no more memory is expected to go back.
const SETTLED: Duration = IDLE_TIME.saturating_mul(4);

const IDLE_TIME: Duration = Duration::from_millis(250);

/// A field of `/proc/self/status`, in KiB.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says what a process takes");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a number of KiB")
}

fn print(when: &str) {
    println!("{when:<26} {:>9} KiB resident, {:>7} KiB of page tables", status("VmRSS"), status("VmPTE"));
}

/// Parks `tasks` tasks at once, and lets them end.
fn park(runtime: &Runtime, tasks: usize) {
    let (gate, before) = (Arc::new(Semaphore::new(0)), status("VmRSS"));
    let spawn = |_| {
        let gate = gate.clone();
        runtime.spawn(move || gate.acquire(1).expect("nobody cancels it").forget())
    };
    let parked: Vec<_> = (0..tasks).map(spawn).collect();
    while status("VmRSS") < before + 4 * tasks {
        std::thread::sleep(Duration::from_millis(10)); // each has touched a page at least
    }
    print("parked");
    gate.add_permits(tasks);
    parked.into_iter().for_each(|task| task.join().expect("a task that waits does not fail"));
    print("ended");
}

/// Waits until nothing more goes back.
fn settle() {
    let (mut last, deadline) = ((0, 0), Instant::now() + PATIENCE);
    let mut since = Instant::now();
    while since.elapsed() < SETTLED && Instant::now() < deadline {
        let now = (status("VmRSS"), status("VmPTE"));
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn main() {
    let tasks = std::env::args().nth(1).map_or(TASKS, |tasks| tasks.parse().expect("a number of tasks"));
    let runtime = Runtime::builder().workers(2).stack_idle_time(IDLE_TIME).build().expect("two threads");
    print("before");
    park(&runtime, tasks);
    settle();
    print("after the idle time");
    park(&runtime, tasks);
    println!("trim gives back {} KiB", trim() >> 10);
    settle();
    print("after the trim");
}
