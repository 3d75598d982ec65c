//! Reports to a standard error that takes nothing: each is counted as lost, and the process goes on.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use sinew_fiber::{Value, error};
use sinew_sched::{Runtime, Sysmon, lost_reports, spawn, task};
use sinew_test_kit::full_test_name;

use crate::support::{Watchdog, spin_until};

/// Says which test runs in a child process, whose standard error is what the test is about.
const CHILD: &str = "SINEW_REPORTS_LOST_CHILD";

/// What a child exits with that has come to its end.
const REACHED_ITS_END: i32 = 7;

/// Runs `body` in children whose standard error is a full disk, and a pipe that nobody reads any more. Each has to come to
/// its end, with as many reports lost as `body` returns.
fn when_stderr_fails(test: &str, body: fn() -> u64) {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        let _watchdog = Watchdog::new(test.to_owned());
        let expected = body();
        std::process::exit(if lost_reports() == expected { REACHED_ITS_END } else { 1 });
    }
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    for (stderr, what) in [(Stdio::from(full), "a full disk"), (Stdio::from(unread), "a broken pipe")] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &full_test_name(module_path!(), test), "--nocapture"])
            .env(CHILD, test)
            .stdout(Stdio::null())
            .stderr(stderr)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(REACHED_ITS_END), "standard error is {what}: {status}");
    }
}

#[test]
fn a_parent_that_panics_while_it_holds_a_failed_child_s_handle_ends_with_its_own_panic() {
    let test = "a_parent_that_panics_while_it_holds_a_failed_child_s_handle_ends_with_its_own_panic";
    when_stderr_fails(test, || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let parent = runtime.run(|| {
            let child = spawn(|| panic!("the child's"));
            spin_until(|| child.is_finished());
            panic!("the parent's");
        });
        let error = parent.unwrap_err().to_string();
        assert!(error.contains("the parent's"), "{error}");
        1
    });
}

#[test]
fn detaching_a_task_that_has_failed_does_not_panic() {
    when_stderr_fails("detaching_a_task_that_has_failed_does_not_panic", || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        for _ in 0..3 {
            let failed = runtime.spawn(|| panic!("nobody joins it"));
            spin_until(|| failed.is_finished());
            failed.detach();
        }
        3
    });
}

#[test]
fn sysmon_goes_on_after_a_stall_report_that_was_lost() {
    when_stderr_fails("sysmon_goes_on_after_a_stall_report_that_was_lost", || {
        let millisecond = Duration::from_millis(1);
        let sysmon = Sysmon::new().tick(millisecond).stuck_after(millisecond).stall_threshold(millisecond);
        let runtime = Runtime::builder().workers(1).sysmon(sysmon.signal(None)).build().unwrap();
        for count in 1..=3 {
            let stalls = runtime.task().name(format!("stall {count}")).spawn(move || {
                let behind = task().pinned().spawn(|| ());
                spin_until(|| lost_reports() >= count);
                behind.join().unwrap();
            });
            stalls.join().unwrap();
        }
        3
    });
}

/// Every call writes one datagram.
#[test]
fn a_report_is_written_by_one_call_whatever_its_text() {
    const TEST: &str = "a_report_is_written_by_one_call_whatever_its_text";
    if std::env::var_os(CHILD).is_some_and(|name| name == TEST) {
        let _watchdog = Watchdog::new(TEST.to_owned());
        let runtime = Runtime::builder().workers(1).build().unwrap();
        for body in [|| panic!("one\ntwo\n"), || error(Value::error(Unprintable))] {
            let failed = runtime.spawn(body);
            spin_until(|| failed.is_finished());
            failed.detach();
        }
        std::process::exit(if lost_reports() == 0 { REACHED_ITS_END } else { 1 });
    }
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &full_test_name(module_path!(), TEST), "--nocapture"])
        .env(CHILD, TEST)
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    let mut written = Vec::new();
    let mut bytes = [0; 4096];
    let status = loop {
        let ended = child.try_wait().unwrap();
        match (ours.recv(&mut bytes), ended) {
            (Ok(length), _) => written.push(String::from_utf8(bytes[..length].to_vec()).unwrap()),
            (Err(_), Some(status)) => break status,
            (Err(_), None) => (),
        }
    };
    assert_eq!(status.code(), Some(REACHED_ITS_END), "{status}");
    let reports: Vec<_> = written.iter().filter(|text| text.starts_with("task #")).collect();
    assert_eq!(reports.len(), 2, "{written:?}");
    assert!(
        reports.iter().all(|text| text.contains("nobody joins it") && text.ends_with('\n')),
        "{written:?}"
    );
    assert!(reports[0].contains("one\ntwo\n"), "{written:?}");
    assert!(reports[1].ends_with(" (the rest of this text could not be made)\n"), "{written:?}");
}

/// A value whose text cannot be made.
#[derive(Debug)]
struct Unprintable;

impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("it has no text");
    }
}

impl std::error::Error for Unprintable {}

#[test]
fn detaching_a_task_that_failed_with_a_value_whose_display_panics_does_not_panic() {
    let test = "detaching_a_task_that_failed_with_a_value_whose_display_panics_does_not_panic";
    when_stderr_fails(test, || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let failed = runtime.spawn(|| error(Value::error(Unprintable)));
        spin_until(|| failed.is_finished());
        failed.detach();
        1
    });
}
