//! A signal prints a dump, if the builder said so.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sinew_io::signal::Signals;
use sinew_sched::{Runtime, TaskState, sleep};
use sinew_test_kit::full_test_name;

/// Set in the process that is sent a signal.
const CHILD: &str = "SINEW_DUMP_SIGNAL_CHILD";

#[test]
fn a_signal_prints_a_dump_and_the_process_goes_on() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let test = full_test_name(module_path!(), "a_signal_prints_a_dump_and_the_process_goes_on");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut read_until = |last: &str| {
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("the process has ended after\n{text}")).unwrap();
            text += &line;
            text.push('\n');
            if line.contains(last) {
                return text.clone();
            }
        }
    };
    read_until("ready");
    // Twice: the handler stays, and the process went on.
    for dumps in 1..=2 {
        // SAFETY: the child has not been waited for, so the number is its.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) }, 0);
        let text = read_until("whose result nobody has taken");
        assert_eq!(text.matches("runtime: 1 workers, 1 tasks").count(), dumps, "{text}");
    }
    child.kill().unwrap();
    let _ = child.wait();
    assert!(
        !text.contains("runtime: 2 workers"),
        "a runtime that listens to another signal, or none: {text}"
    );
    assert!(text.contains("\"by signal\": parked") && text.contains("sleeps_by_signal"), "{text}");
}

#[inline(never)]
fn sleeps_by_signal() {
    sleep(Duration::from_secs(3600));
    std::hint::black_box(());
}

fn child() {
    let ended = Runtime::builder().workers(1).dump_on_signal(libc::SIGUSR1).build().unwrap();
    drop(ended); // it is not shown
    let runtime = Runtime::builder().workers(1).dump_on_signal(libc::SIGUSR1).build().unwrap();
    let quiet = Runtime::builder().workers(2).build().unwrap();
    let other = Runtime::builder().workers(2).dump_on_signal(libc::SIGUSR2).build().unwrap();
    let task = runtime.task().name("by signal").spawn(sleeps_by_signal);
    while runtime.dump().tasks.iter().all(|task| task.state != TaskState::Parked) {
        std::thread::yield_now();
    }
    // Others may listen to it as well.
    let signals = Signals::new([libc::SIGUSR1]).unwrap();
    std::thread::spawn(move || while signals.recv().is_ok() {});
    eprintln!("ready");
    drop(task.join()); // until the process is killed
    drop((quiet, other));
}

/// How often the process is sent a signal whose dumps nobody reads: more often than a pipe has bytes.
const FLOOD: usize = 70_000;

#[test]
fn a_flood_of_signals_blocks_nobody_and_leaves_errno_alone() {
    if std::env::var_os(CHILD).is_some() {
        return flooded();
    }
    let test = full_test_name(module_path!(), "a_flood_of_signals_blocks_nobody_and_leaves_errno_alone");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped()) // and not read
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > patience => break None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let _ = child.kill();
    assert_eq!(status.expect("the handler blocks nobody").code(), Some(7));
}

fn flooded() {
    let _runtime = Runtime::builder().workers(1).dump_on_signal(libc::SIGUSR1).build().unwrap();
    // SAFETY: the signal has a handler, which is asked for; errno is the thread's own.
    let (flags, kept) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGUSR1, std::ptr::null(), &raw mut action);
        let errno = libc::__errno_location();
        *errno = libc::EXDEV;
        let kept = (0..FLOOD).all(|_| libc::raise(libc::SIGUSR1) == 0 && *errno == libc::EXDEV);
        (action.sa_flags, kept)
    };
    let on_stack = flags & libc::SA_ONSTACK != 0 || cfg!(valgrind); // the stack of a task may be too small
    let restarts = flags & libc::SA_RESTART != 0;
    // Without a word, for which nobody would make room, and without a shutdown.
    std::process::exit(if kept && on_stack && restarts { 7 } else { 8 });
}

#[test]
fn signals_that_cannot_be_handled_are_errors() {
    let kind = |signal| Runtime::builder().workers(1).dump_on_signal(signal).build().unwrap_err().kind();
    assert_eq!(kind(libc::SIGSEGV), ErrorKind::InvalidInput);
    assert_eq!(kind(-1), ErrorKind::InvalidInput);
    assert_eq!(kind(libc::SIGKILL), ErrorKind::InvalidInput);
    extern "C" fn another(_: libc::c_int) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, another as *const () as usize) };
    let error = Runtime::builder().workers(1).dump_on_signal(libc::SIGUSR2).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("has a handler already: take another"), "{error}");
}
