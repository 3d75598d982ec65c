//! Signals of the system, received by tasks, threads and futures. Each test has a signal of its own, since all listeners of
//! a process are told; a program of its own, since other tests install handlers too.
#![cfg(not(any(loom, shuttle)))]

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use sinew_chan::select;
use sinew_chan::select::{recv, sleep};
use sinew_io::signal::{self, SIGALRM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, Signals};
use sinew_sched::{Cancelled, Reason, Runtime, Sysmon, TaskState, WaitError, block_on};
use sinew_test_kit::full_test_name;
use sinew_test_kit::runtimes as support;
use support::{poll, spin_until, with_manual_clock, with_runtime, with_runtimes};

/// Sends a signal to this process. Returns before anybody was told.
fn send(signal: i32) {
    // SAFETY: whoever sends one has seen to its handler.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

fn is_parked(runtime: &Runtime) -> bool {
    runtime.dump().tasks.iter().any(|task| task.state == TaskState::Parked)
}

/// Set in the process that is sent signals.
const CHILD: &str = "SINEW_SIGNALS_CHILD";

/// A real Ctrl-C: the process is sent SIGINT, ends its runtime and exits.
#[test]
fn a_process_that_waits_for_ctrl_c_ends_cleanly() {
    if std::env::var_os(CHILD).is_some() {
        return serve_until_ctrl_c();
    }
    let test = full_test_name(module_path!(), "a_process_that_waits_for_ctrl_c_ends_cleanly");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it has ended");
    }
    // SAFETY: the child has not been waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("ended with 0 left"), "{rest}");
}

fn serve_until_ctrl_c() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let server = runtime.spawn(|| sinew_sched::sleep(Duration::from_secs(3600)));
    let ctrl_c = runtime.spawn(|| signal::ctrl_c().unwrap());
    spin_until(|| runtime.dump().tasks.iter().filter(|task| task.state == TaskState::Parked).count() == 2);
    println!("ready");
    ctrl_c.join().unwrap();
    server.cancel();
    let report = runtime.shutdown(Duration::from_secs(60));
    println!("ended with {} left", report.left);
}

#[test]
fn tasks_threads_futures_and_selects_are_all_told() {
    with_runtimes(|runtime| {
        let listen = || Signals::new([SIGUSR1, SIGUSR2]).unwrap();
        let (task, select, future, thread) = (listen(), listen(), listen(), listen());
        let task = runtime.spawn(move || [task.recv().unwrap(), task.recv().unwrap()]);
        let select = runtime.spawn(move || {
            [(); 2].map(|()| {
                let signal = select! {
                    signal = recv(&select) => signal,
                    _ = sleep(Duration::from_secs(3600)) => panic!("no signal"),
                };
                signal.unwrap()
            })
        });
        let future =
            runtime.spawn_future(async move { [future.recv_async().await, future.recv_async().await] });
        let thread = std::thread::spawn(move || [thread.recv().unwrap(), thread.recv().unwrap()]);
        send(SIGUSR1);
        send(SIGUSR2);
        let mut told = [task, select, future].map(|task| task.join().unwrap()).to_vec();
        told.push(thread.join().unwrap());
        for mut signals in told {
            signals.sort_unstable(); // of two that come together either may be first
            assert_eq!(signals, [SIGUSR1, SIGUSR2]);
        }
    });
}

#[test]
fn signals_of_one_kind_that_nobody_received_are_one() {
    let signals = Signals::new([SIGWINCH]).unwrap();
    for _ in 0..1000 {
        send(SIGWINCH);
    }
    assert_eq!(signals.recv().unwrap(), SIGWINCH);
    // One each may still have been in the system, with the handler, and with the thread that tells.
    assert!(std::iter::from_fn(|| signals.try_recv()).count() <= 3);
}

#[test]
fn a_receive_that_is_given_up_loses_nothing() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let signals = std::sync::Arc::new(Signals::new([SIGHUP]).unwrap());
        for _ in 0..100 {
            let receiver = signals.clone();
            let task = runtime.spawn(move || receiver.recv());
            spin_until(|| is_parked(runtime));
            let mut dropped = Box::pin(signals.recv_async());
            assert!(poll(dropped.as_mut()).is_pending());
            send(SIGHUP);
            task.cancel(); // before, after or while it is told
            drop(dropped);
            let received = match task.join().unwrap() {
                Ok(signal) => signal,
                Err(refused) => {
                    assert_eq!(refused.reason(), Reason::Cancelled);
                    signals.recv().unwrap()
                }
            };
            assert_eq!(received, SIGHUP);
        }
        assert_eq!(signals.try_recv(), None);
    });
}

#[test]
fn a_wait_has_a_limit_on_the_clock_of_its_runtime() {
    let signals = Signals::new([SIGALRM]).unwrap();
    assert_eq!(signals.try_recv(), None);
    with_manual_clock(move || {
        let start = sinew_sched::now();
        assert!(matches!(signals.recv_timeout(Duration::from_secs(3600)), Err(WaitError::Timeout)));
        assert_eq!((sinew_sched::now() - start).as_secs(), 3600);
        assert!(matches!(signals.recv_timeout(Duration::ZERO), Err(WaitError::Timeout)));
        send(SIGALRM);
        assert_eq!(signals.recv().unwrap(), SIGALRM);
    });
}

#[test]
fn ctrl_c_is_refused_where_nothing_may_wait() {
    let inside_poll = block_on(async { signal::ctrl_c().unwrap_err() }).unwrap();
    assert_eq!(inside_poll.kind(), ErrorKind::Other);
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let task = runtime.spawn(signal::ctrl_c);
        spin_until(|| is_parked(runtime));
        task.cancel();
        assert!(task.join().unwrap().unwrap_err().get_ref().unwrap().is::<Cancelled>());
    });
}

#[test]
fn a_listener_hears_what_comes_after_it_was_made_until_it_is_dropped() {
    let signal = libc::SIGRTMIN();
    let first = Signals::new([signal, signal]).unwrap();
    send(signal);
    assert_eq!(first.recv().unwrap(), signal);
    let second = Signals::new([signal]).unwrap();
    assert_eq!((first.try_recv(), second.try_recv()), (None, None));
    drop(first);
    send(signal);
    assert_eq!(second.recv().unwrap(), signal);
    drop(second);
    send(signal); // nobody listens, and the process goes on
}

/// Whichever of the two is there first.
#[test]
fn the_signal_of_sysmon_can_be_listened_to() {
    let first = Signals::new([libc::SIGRTMIN() + 1]).unwrap();
    for signal in [libc::SIGRTMIN() + 1, libc::SIGRTMIN() + 2, libc::SIGURG] {
        let builder = Runtime::builder().workers(1).sysmon(Sysmon::new().signal(Some(signal)));
        with_runtime(builder, |runtime| {
            let signals = Signals::new([signal]).unwrap();
            let task = runtime.spawn(move || signals.recv().unwrap());
            spin_until(|| is_parked(runtime));
            send(signal);
            assert_eq!(task.join().unwrap(), signal);
        });
    }
    assert_eq!(first.recv().unwrap(), libc::SIGRTMIN() + 1);
    assert_eq!(first.try_recv(), None, "told once");
}

#[test]
fn signals_that_cannot_be_handled_are_errors_that_say_so() {
    let error = |signals: &[i32]| Signals::new(signals.iter().copied()).unwrap_err();
    for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, -1, 32, 65, i32::MAX, i32::MIN] {
        let error = error(&[SIGHUP, signal]);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(&format!("signal {signal} ")), "{error}");
    }
    assert!(error(&[]).to_string().contains("name one"));
    extern "C" fn another(_: libc::c_int) {}
    let taken = libc::SIGRTMIN() + 3;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(taken, another as *const () as usize) };
    assert_eq!(error(&[taken]).kind(), ErrorKind::AlreadyExists);
}

/// A future that is polled by nobody of ours.
#[test]
fn a_future_is_woken_on_any_executor() {
    let signal = libc::SIGRTMIN() + 4;
    let signals = Signals::new([signal]).unwrap();
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut received = pin!(signals.recv_async());
    assert!(received.as_mut().poll(&mut context).is_pending());
    send(signal);
    loop {
        match received.as_mut().poll(&mut context) {
            std::task::Poll::Ready(number) => return assert_eq!(number, signal),
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Handlers on top of each other would not fit on the alternate stack of a thread.
#[test]
fn signals_of_many_kinds_may_come_to_one_thread_at_once() {
    let kinds: Vec<i32> = (libc::SIGRTMIN() + 5..libc::SIGRTMIN() + 25).collect();
    let signals = Signals::new(kinds.iter().copied()).unwrap();
    // SAFETY: the set is ours, and the handlers are there; a raised signal stays with this thread until it is let through.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        kinds.iter().for_each(|kind| assert_eq!(libc::sigaddset(&raw mut set, *kind), 0));
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        kinds.iter().for_each(|kind| assert_eq!(libc::raise(*kind), 0));
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
    let mut received: Vec<i32> = kinds.iter().map(|_| signals.recv().unwrap()).collect();
    received.sort_unstable();
    assert_eq!(received, kinds);
}
