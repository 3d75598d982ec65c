//! Failures that a supervisor does not see: printed, unless they are joined.

use std::process::Command;
use std::time::Duration;

use sinew_fiber::{Value, error};
use sinew_sched::{Events, JoinHandle, scope, sleep, task, yield_now};
use sinew_test_kit::full_test_name;

use super::runtime;

/// The tasks of the child process. There is one worker, so that a task runs when its spawner waits, and not before.
#[test]
#[ignore = "run by a_failure_whose_event_nobody_receives_is_printed_once"]
fn fails_with_a_supervisor_that_does_not_look() {
    fn fails(events: &Events, text: &'static str) -> JoinHandle<()> {
        task().supervisor(events).spawn(move || error(text))
    }
    fn ended(handle: JoinHandle<()>) -> JoinHandle<()> {
        while !handle.is_finished() {
            yield_now();
        }
        handle
    }
    struct Unshowable;
    impl std::error::Error for Unshowable {}
    impl std::fmt::Debug for Unshowable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("shown");
        }
    }
    impl std::fmt::Display for Unshowable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("shown");
        }
    }
    fn failed(handle: JoinHandle<()>, text: &str) {
        let raised = handle.join().unwrap_err();
        assert!(raised.to_string().contains(text), "{raised}");
    }
    runtime(1)
        .run(|| {
            let events = Events::new();
            drop(fails(&events, "gone before, detached"));
            let kept = fails(&events, "gone before, dropped later");
            let joined = fails(&events, "gone before, joined");
            drop(task().supervisor(&events).spawn_future(async { error("gone before, a future") }));
            drop(events);
            drop(ended(kept));
            failed(joined, "gone before, joined");

            let events = Events::new();
            drop(task().name("detached").supervisor(&events).spawn(|| error("unread, detached")));
            drop(task().supervisor(&events).spawn_future(async { error("unread, a future") }));
            drop(ended(fails(&events, "unread, dropped before")));
            let kept = ended(fails(&events, "unread, dropped later"));
            let joined = ended(fails(&events, "unread, joined later"));
            failed(ended(fails(&events, "unread, joined before")), "unread, joined before");
            let cancelled = task().supervisor(&events).spawn(|| sleep(Duration::from_secs(1000)));
            cancelled.cancel();
            drop(cancelled);
            drop(ended(task().supervisor(&events).spawn(|| error(Value::error(Unshowable)))));
            while events.len() < 8 {
                yield_now();
            }
            drop(events);
            drop(kept);
            failed(joined, "unread, joined later");

            let events = Events::new();
            drop(fails(&events, "received"));
            drop(events.recv().unwrap());
            drop(ended(fails(&events, "received, dropped later")));
            drop(events.recv().unwrap());
            let child = scope(|scope| {
                drop(scope.task().supervisor(&events).spawn(|| error("told to its scope")));
            });
            assert!(child.unwrap_err().to_string().contains("told to its scope"));
        })
        .unwrap();
}

#[test]
fn a_failure_whose_event_nobody_receives_is_printed_once_unless_it_is_joined() {
    let text = printed_by("fails_with_a_supervisor_that_does_not_look");
    for expected in [
        "gone before, detached",
        "gone before, dropped later",
        "gone before, a future",
        "unread, detached",
        "unread, a future",
        "unread, dropped before",
        "unread, dropped later",
        "a value that cannot be shown",
    ] {
        assert_eq!(text.matches(expected).count(), 1, "{expected:?} in:\n{text}");
    }
    assert_eq!(text.matches("raised at").count(), 7, "each has its trace:\n{text}");
    assert!(text.contains("detached#"), "a trace has the task's name:\n{text}");
    for unwanted in ["gone before, joined", "unread, joined", "received", "ancelled", "told to its scope"] {
        assert!(!text.contains(unwanted), "{unwanted:?} is in:\n{text}");
    }
}

/// What the ignored test `name` prints to stderr in a process of its own.
fn printed_by(name: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &full_test_name(module_path!(), name)])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{text}");
    text
}
