//! A listener that runs out of descriptors says so once in a while, keeps its connections waiting, and accepts them when there are
//! descriptors again. In a process of its own, which has few.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sinew_io::fd::{self, Interest};
use sinew_io::net::TcpListener;
use sinew_sched::{Elapsed, ManualClock, Runtime, sleep, spawn, spawn_future, timeout};
use sinew_test_kit::full_test_name;

use crate::support;

const CONNECTIONS: usize = 5;

/// Set for the process that has few descriptors.
const CHILD: &str = "SINEW_TEST_FEW_DESCRIPTORS";

#[test]
fn a_listener_without_descriptors_waits_and_says_so_once_in_a_while() {
    if std::env::var_os(CHILD).is_some() {
        return child().unwrap();
    }
    let _watchdog = support::Watchdog::new("a child process".to_owned());
    let test =
        full_test_name(module_path!(), "a_listener_without_descriptors_waits_and_says_so_once_in_a_while");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // A task that accepts, a future, and a task that is cancelled meanwhile.
    for episode in 0..3 {
        let line = said.next().expect("the child says that it has no descriptors").unwrap();
        assert!(line.contains("127.0.0.1:"), "{line}");
        assert!(line.contains("64 descriptors"), "{line}");
        assert!(line.contains("ulimit -n"), "{line}");
        stdin.write_all(&[episode]).unwrap();
    }
    drop(stdin);
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert!(rest.is_empty(), "{rest:?}");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn child() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    limit.rlim_cur = 64;
    // SAFETY: the same.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let runtime = Runtime::builder().workers(2).manual_clock(&ManualClock::new()).build()?;
    let body = || {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0")?);
        // A wait, so that the descriptors that waits need are there.
        let waited = timeout(Duration::from_secs(1), || listener.accept().is_ok());
        assert_eq!(waited, Err(Elapsed));
        for round in 0.. {
            let clients = connect(&listener)?;
            let hoard = hoard();
            let accepts = listener.clone();
            let accept = move || accepts.incoming().take(CONNECTIONS).try_for_each(|stream| stream.map(drop));
            match round {
                0 => {
                    let task = spawn(accept);
                    continue_when_told()?;
                    drop(hoard);
                    task.join().unwrap()?;
                }
                1 => {
                    let task = spawn(accept); // so soon again: there is nothing to say
                    sleep(Duration::from_secs(30));
                    drop(hoard);
                    task.join().unwrap()?;
                    sleep(Duration::from_secs(30)); // all is well for a while
                }
                2 => {
                    let accepts = listener.clone();
                    let future = spawn_future(async move {
                        for _ in 0..CONNECTIONS {
                            drop(accepts.accept_async().await?);
                        }
                        Ok::<_, io::Error>(())
                    });
                    continue_when_told()?;
                    drop(hoard);
                    future.join().unwrap()?;
                    sleep(Duration::from_secs(30));
                }
                _ => {
                    let task = spawn(accept);
                    continue_when_told()?;
                    task.cancel();
                    let error = task.join().unwrap().unwrap_err();
                    assert!(error.get_ref().unwrap().is::<sinew_sched::Cancelled>());
                    break;
                }
            }
            drop(clients);
        }
        Ok(())
    };
    runtime.run(body).unwrap()
}

fn connect(listener: &TcpListener) -> io::Result<Vec<TcpStream>> {
    let address = listener.local_addr()?;
    (0..CONNECTIONS).map(|_| TcpStream::connect(address)).collect()
}

/// All descriptors that are left.
fn hoard() -> Vec<File> {
    let hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(hoard.len() > CONNECTIONS);
    hoard
}

/// The parent has seen what was said. Then there are many more tries, by the manual clock, and nothing to say of them.
fn continue_when_told() -> io::Result<()> {
    fd::wait(&io::stdin(), Interest::READ, None)?;
    io::stdin().read_exact(&mut [0; 1])?;
    sleep(Duration::from_secs(10));
    Ok(())
}
