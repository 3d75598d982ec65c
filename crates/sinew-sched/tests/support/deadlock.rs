//! What the programs share that are tests of certain deadlocks: nobody else is in the process, not even a test harness.

use std::sync::Arc;

use sinew_chan::sync::{Barrier, Mutex};
use sinew_sched::{Builder, Deadlock, Diagnostic, Runtime, Sysmon, task};

/// Runs a program whose only test, `name`, is that the deadlock of two tasks in a runtime of two workers is reported as certain.
/// `options` are those of the runtime, `before` is what a task does first, and `uncertain` is told what is reported else.
pub(crate) fn is_certain(
    name: &'static str,
    options: impl FnOnce(Builder) -> Builder,
    before: impl FnOnce() + Send + 'static,
    uncertain: impl Fn(&Diagnostic) + Send + Sync + 'static,
) -> ! {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    if has("--list") {
        if !has("--ignored") {
            println!("{name}: test");
        }
        std::process::exit(0);
    }
    // SAFETY: without a handler, SIGALRM ends a process that has noticed nothing.
    unsafe { libc::alarm(120) };
    let sysmon = Sysmon::new().on_diagnostic(move |found| match found {
        // valgrind handles all signals, so nothing is certain there.
        Diagnostic::Deadlock(deadlock) if deadlock.is_certain || cfg!(valgrind) => passes(name, deadlock),
        found => uncertain(found),
    });
    let runtime = options(Runtime::builder().workers(2).sysmon(sysmon)).build().unwrap();
    let _ = runtime.run(|| {
        before();
        wait_for_each_other();
    });
    println!("they have not waited for each other");
    std::process::exit(1);
}

fn passes(name: &str, deadlock: &Deadlock) -> ! {
    let text = deadlock.to_string();
    assert_eq!(deadlock.left, 3);
    assert!(text.contains("\"first\"") && text.contains("\"second\""), "{text}");
    println!("test {name} ... ok");
    std::process::exit(0);
}

fn wait_for_each_other() {
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
}
