//! A deadlock that becomes certain when the last thread for blocking calls has ended.

#![allow(clippy::exit, reason = "a process in which all wait has to be ended by the one who noticed")]

use std::sync::Arc;
use std::time::Duration;

use sinew_sched::sync::{Barrier, Mutex};
use sinew_sched::{Diagnostic, Runtime, Sysmon, blocking, task};

const NAME: &str = "a_deadlock_that_becomes_certain_is_reported";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    if has("--list") {
        if !has("--ignored") {
            println!("{NAME}: test");
        }
        return;
    }
    // SAFETY: without a handler, SIGALRM ends a process that has noticed nothing.
    unsafe { libc::alarm(120) };
    let sysmon = Sysmon::new().on_diagnostic(|found| match found {
        // valgrind handles all signals, so nothing is certain there.
        Diagnostic::Deadlock(deadlock) if deadlock.is_certain || cfg!(valgrind) => {
            let text = deadlock.to_string();
            assert_eq!(deadlock.left, 3);
            assert!(text.contains("\"first\"") && text.contains("\"second\""), "{text}");
            println!("test {NAME} ... ok");
            std::process::exit(0);
        }
        _ => (), // not yet: a thread for blocking calls is there, and goes
    });
    let runtime = Runtime::builder()
        .workers(2)
        .blocking_keep_alive(Duration::from_secs(3))
        .sysmon(sysmon)
        .build()
        .unwrap();
    let _ = runtime.run(|| {
        blocking(|| ()).unwrap();
        let locks = Arc::new((Mutex::new(()), Mutex::new(()), Barrier::new(2)));
        let crossed = locks.clone();
        let first = task().name("first").spawn(move || {
            let _one = locks.0.lock();
            let _ = locks.2.wait(); // each has one
            drop(locks.1.lock());
        });
        let second = task().name("second").spawn(move || {
            let _other = crossed.1.lock();
            let _ = crossed.2.wait();
            drop(crossed.0.lock());
        });
        first.join().unwrap();
        second.join().unwrap();
    });
    println!("they have not waited for each other");
    std::process::exit(1);
}
