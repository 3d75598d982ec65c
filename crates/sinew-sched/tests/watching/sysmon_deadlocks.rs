//! What is reported of runtimes in which all tasks wait.

use std::sync::mpsc;
use std::time::Duration;

use sinew_chan::chan::{self, oneshot};
use sinew_sched::{Builder, Deadlock, Diagnostic, Runtime, Sysmon, sleep};

use crate::support::with_runtime;

fn reporting(workers: usize) -> (Builder, mpsc::Receiver<Deadlock>) {
    let (sender, receiver) = mpsc::channel();
    let sysmon = Sysmon::new().on_diagnostic(move |found| {
        if let Diagnostic::Deadlock(deadlock) = found {
            let _ = sender.send(deadlock.clone());
        }
    });
    (Runtime::builder().workers(workers).sysmon(sysmon), receiver)
}

/// How a report names the calling thread, as far as the number goes.
fn this_thread() -> String {
    // SAFETY: it asks who calls.
    format!("thread {} ", unsafe { libc::gettid() })
}

/// The thread of the test could wake the task, so nothing is certain; and it does.
#[test]
fn tasks_that_wait_for_a_thread_are_possibly_deadlocked_and_go_on() {
    for workers in [1, 2] {
        let (builder, reports) = reporting(workers);
        with_runtime(builder, |runtime| {
            let worker = runtime.run(this_thread).unwrap();
            let (sender, mut receiver) = oneshot::channel();
            let waits = runtime.task().name("waits").spawn(move || receiver.recv().unwrap());
            let deadlock = reports.recv().unwrap();
            assert!(!deadlock.is_certain);
            let names = |thread: &str| deadlock.holders.iter().any(|holder| holder.starts_with(thread));
            assert!(names(&this_thread()), "{deadlock}");
            assert!(!names(&worker), "a worker that sleeps wakes nobody: {deadlock}");
            assert_eq!((deadlock.left, deadlock.tasks.len()), (1, 1));
            assert_eq!(deadlock.tasks[0], (waits.id(), Some("waits".to_owned())));
            assert!(deadlock.to_string().starts_with("maybe a deadlock: 1 tasks wait"), "{deadlock}");
            sender.send(42).unwrap();
            assert_eq!(waits.join().unwrap(), 42);
        });
    }
}

/// A runtime that only waits is told of once, also if its workers are woken for nothing.
#[test]
fn the_same_state_is_reported_once() {
    let (builder, reports) = reporting(2);
    with_runtime(builder, |runtime| {
        let (sender, receiver) = chan::bounded::<u32>(1);
        let waits = runtime.spawn(move || receiver.iter().sum::<u32>());
        assert_eq!(reports.recv().unwrap().left, 1);
        sender.send(1).unwrap(); // it waits again, and no task has begun or ended
        // Twice as long as such a state lasts before it is reported. A slow machine can only let this pass.
        assert!(reports.recv_timeout(Duration::from_millis(2500)).is_err());
        let (_other, mut never) = oneshot::channel::<()>();
        let also_waits = runtime.spawn(move || never.recv().is_err());
        assert_eq!(reports.recv().unwrap().left, 2, "the next report is of another state");
        also_waits.cancel();
        assert!(also_waits.join().unwrap());
        drop(sender);
        assert_eq!(waits.join().unwrap(), 1);
    });
}

#[test]
fn a_runtime_without_tasks_or_with_a_timer_is_not_reported() {
    let (builder, reports) = reporting(2);
    with_runtime(builder, |runtime| {
        runtime.run(|| ()).unwrap();
        // Longer than a deadlock lasts before it is reported, and so is the sleep. A slow machine can only let this pass.
        assert!(reports.recv_timeout(Duration::from_millis(1500)).is_err());
        runtime.run(|| sleep(Duration::from_millis(2500))).unwrap();
        assert!(reports.try_recv().is_err());
    });
}
