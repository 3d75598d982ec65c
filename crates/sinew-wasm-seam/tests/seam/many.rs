//! Ten thousand guests wait at once, and all of them go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan;
use sinew_sched::Runtime;

use crate::ended::WAITS;
use crate::guests::{Guest, Host};
use crate::stack_support::run_in_child;
use crate::support::{Tally, Watchdog, spin_until};

const GUESTS: usize = 10_000;

/// What the process has in memory, with its page tables, in bytes.
fn in_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    };
    field("VmRSS:") + field("VmPTE:")
}

/// In a process of its own, since it measures one.
#[test]
fn ten_thousand_guests_wait_at_once_and_all_finish() {
    const TEST: &str = "ten_thousand_guests_wait_at_once_and_all_finish";
    let output = run_in_child(module_path!(), TEST, || {
        let watchdog = Watchdog::new(format!("{GUESTS} guests"));
        let runtime = Runtime::builder().workers(2).build().unwrap();
        watchdog.watch(&runtime);
        let host = Host::new();
        let module = host.module(WAITS);
        let (tally, waiting) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
        let (gate, receiver) = chan::bounded(GUESTS);
        let before = in_memory();
        let tasks: Vec<_> = (0..GUESTS)
            .map(|n| {
                let waiting = waiting.clone();
                let guest = Guest::at(receiver.clone()).holding(tally.value(n as u64)).on_wait(move |_| {
                    waiting.fetch_add(1, Ordering::AcqRel);
                });
                runtime.spawn_future(host.call(&module, guest, n as i32))
            })
            .collect();
        spin_until(|| waiting.load(Ordering::Acquire) == GUESTS);
        assert_eq!((host.out(), tally.dropped()), ((GUESTS, GUESTS), 0));
        println!("{} bytes for each of {GUESTS} guests that wait", (in_memory() - before) / GUESTS);

        for _ in 0..GUESTS {
            gate.send(1).unwrap();
        }
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap().unwrap(), n as i32 + 1);
        }
        tally.assert_even(GUESTS);
        assert_eq!(host.out(), (0, 0));
        assert_eq!((host.stacks.taken(), host.memories.taken()), (GUESTS, GUESTS));

        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        let Host { engine, linker, stacks, memories } = host;
        drop((module, linker, engine));
        assert_eq!((Arc::strong_count(&stacks), Arc::strong_count(&memories)), (1, 1), "the engine is gone");
    });
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}
