//! What is reported of nodes in which all wait.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_chan::sync::Semaphore;
use sinew_kernel::{Flow, Node};
use sinew_sched::{Diagnostic, Runtime, Sysmon};

use crate::kit::{Hooked, Watchdog};

/// A node without anything to do is not reported, so what comes after that is.
#[test]
fn an_actor_that_waits_for_ever_after_it_was_idle_is_reported() {
    let _watchdog = Watchdog::new("2 workers".to_owned());
    let (sender, reports) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sysmon = Sysmon::new().on_diagnostic(move |found| {
        if let Diagnostic::Deadlock(deadlock) = found {
            let _ = sender.lock().unwrap().send(deadlock.to_string());
        }
    });
    let node = Node::builder().runtime(Runtime::builder().workers(2).sysmon(sysmon)).build().unwrap();
    let permits = Arc::new(Semaphore::new(0));
    let wanted = permits.clone();
    let waits = Hooked::new(move |(), _| {
        let _ = wanted.acquire(1);
        Flow::Continue
    });
    let actor = node.actor().name("waits").spawn(waits).unwrap();
    // Twice as long as a state lasts before it is reported. A slow machine can only let this pass.
    std::thread::sleep(Duration::from_millis(2500));
    actor.tell(()).unwrap();
    let report = reports.recv().unwrap();
    permits.add_permits(1);
    assert!(report.contains("semaphore"), "{report}");
    let called = format!(" \"actor {} (waits)\"", actor.id());
    assert_eq!(report.matches(&called).count(), 2, "among those that wait, and in the dump: {report}");
}
