//! Other programs: started, talked to, waited for and ended, while the worker runs other tasks.

use std::io::{ErrorKind, Read, Write, pipe};
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_chan::sync::Mutex;
use sinew_io::process::{Child, Command, Stdio};
use sinew_io::stdin;
use sinew_sched::{Cancelled, Runtime, TaskState, scope, spawn, yield_now};
use sinew_test_kit::full_test_name;

use crate::support::{Watchdog, spin_until, with_runtime, with_runtimes};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// Reads its stdin to the end, and writes it to its stdout.
fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// What the system says about a process: none once its end was taken note of.
fn state_of(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn is_cancelled(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::Other && error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
}

#[test]
fn programs_are_given_arguments_variables_and_a_directory_and_their_output_is_collected() {
    with_runtimes(|runtime| {
        let output = runtime.run(|| {
            let mut command = shell("echo $VALUE $1; pwd; echo oops >&2; exit 3");
            command.args(["name", "argument"]).env("VALUE", "variable").current_dir("/");
            command.output().unwrap()
        });
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "variable argument\n/\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "oops\n");
    });
}

#[test]
fn what_is_chosen_for_output_holds_for_output_only() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        runtime
            .run(|| {
                let mut command = shell("echo to nobody");
                command.stdout(Stdio::null());
                assert!(command.output().unwrap().stdout.is_empty());
                let mut command = shell("read line; echo \"got $line\"");
                assert_eq!(command.output().unwrap().stdout, b"got \n", "its stdin is empty");
                let child = command.stdin(Stdio::null()).spawn().unwrap();
                assert!(child.stdout.is_none());
                drop(child);
            })
            .unwrap();
    });
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let error = runtime.run(|| Command::new("/no/such/program").spawn().map(drop).unwrap_err());
        assert_eq!(error.unwrap().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn the_end_is_told_every_time_it_is_asked_for_and_taken_note_of_once() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let mut child = shell("read line; exit 7").stdin(Stdio::piped()).spawn().unwrap();
                assert!(child.try_wait().unwrap().is_none());
                let status = child.wait().unwrap(); // closes its stdin
                assert_eq!(status.code(), Some(7));
                assert_eq!((child.wait().unwrap(), child.try_wait().unwrap()), (status, Some(status)));
                assert_eq!(state_of(child.id()), None);
            })
            .unwrap();
    });
}

#[test]
fn pipes_carry_more_than_they_hold_in_both_directions() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
                let mut child = cat().spawn().unwrap();
                let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
                let mut read = Vec::new();
                scope(|scope| {
                    let bytes = &bytes;
                    drop(scope.spawn(move || stdin.write_all(bytes).unwrap()));
                    stdout.read_to_end(&mut read).unwrap();
                })
                .unwrap();
                assert!(read == bytes);
                assert!(child.wait().unwrap().success());
            })
            .unwrap();
    });
}

#[test]
fn both_outputs_are_collected_however_much_there_is() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let script = "head -c 200000 /dev/zero >&2; head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2";
        let output = runtime.run(move || shell(script).output().unwrap()).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (200_000, 400_000));
    });
}

#[test]
fn the_output_of_one_program_is_the_input_of_another() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let output = runtime.run(|| {
            let mut first = shell("echo b; echo a").stdout(Stdio::piped()).spawn().unwrap();
            let pipe = first.stdout.take().unwrap().into_stdio().unwrap();
            let output = Command::new("sort").stdin(pipe).output().unwrap();
            assert!(first.wait().unwrap().success());
            output.stdout
        });
        assert_eq!(output.unwrap(), b"a\nb\n");
    });
}

#[test]
fn a_worker_runs_other_tasks_while_one_waits_for_a_program() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let answer = runtime.run(|| {
            let mut child = cat().spawn().unwrap();
            let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let waits = spawn(move || child.wait().unwrap().success());
            let reads = spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).unwrap();
                text
            });
            yield_now(); // both wait, on the only worker
            stdin.write_all(b"still here").unwrap();
            drop(stdin);
            (waits.join().unwrap(), reads.join().unwrap())
        });
        assert_eq!(answer.unwrap(), (true, "still here".to_owned()));
    });
}

/// A runtime whose threads for blocking calls end as soon as they have nothing to do.
fn without_threads(workers: usize) -> sinew_sched::Builder {
    Runtime::builder().workers(workers).blocking_keep_alive(Duration::ZERO)
}

/// How many tasks of the runtime wait for a descriptor.
fn waiting(runtime: &Runtime) -> usize {
    let dump = runtime.dump();
    dump.tasks.iter().filter(|task| task.state == TaskState::Parked).count()
}

#[test]
fn a_wait_or_read_that_is_cancelled_leaves_the_child_as_it_was() {
    with_runtime(without_threads(1), |runtime| {
        let child = Arc::new(Mutex::new(runtime.run(|| cat().spawn().unwrap()).unwrap()));
        let (mut stdin, stdout) = {
            let mut child = child.lock().unwrap();
            (child.stdin.take().unwrap(), Arc::new(Mutex::new(child.stdout.take().unwrap())))
        };
        for n in 0..20 {
            let (waited, read) = (child.clone(), stdout.clone());
            let task = runtime.spawn(move || match n % 2 {
                0 => waited.lock().unwrap().wait().map(drop),
                _ => read.lock().unwrap().read(&mut [0]).map(drop),
            });
            spin_until(|| waiting(runtime) == 1);
            task.cancel();
            assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        }
        let ended = runtime.run(move || {
            stdin.write_all(b"all of it").unwrap();
            drop(stdin);
            let mut text = String::new();
            stdout.lock().unwrap().read_to_string(&mut text).unwrap();
            (text, child.lock().unwrap().wait().unwrap().success())
        });
        assert_eq!(ended.unwrap(), ("all of it".to_owned(), true));
    });
}

#[test]
fn a_child_that_is_killed_is_waited_for_as_any_other() {
    with_runtimes(|runtime| {
        let status = runtime.run(|| {
            let mut child = cat().spawn().unwrap();
            child.kill().unwrap();
            child.wait().unwrap()
        });
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status.unwrap()), Some(9));
    });
}

#[test]
fn a_child_that_is_dropped_goes_on_or_is_killed_and_never_becomes_a_zombie() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let spawn = |kill: bool| {
            let child = runtime.run(move || cat().kill_on_drop(kill).spawn().unwrap());
            child.unwrap()
        };
        let (mut goes_on, killed) = (spawn(false), spawn(true));
        let (alive, dead) = (goes_on.id(), killed.id());
        let stdin = goes_on.stdin.take();
        drop(goes_on);
        drop(killed);
        spin_until(|| state_of(dead).is_none());
        assert!(state_of(alive).is_some_and(|state| state != 'Z'));
        drop(stdin); // the end of what it reads is its end
        spin_until(|| state_of(alive).is_none());
    });
}

#[test]
fn many_children_that_are_dropped_at_any_time_all_end_and_none_stays() {
    with_runtime(Runtime::builder().workers(2).blocking_threads(4), |runtime| {
        let tasks: Vec<_> = (0..40)
            .map(|n| {
                let task = runtime.spawn(move || -> std::io::Result<u32> {
                    let mut child: Child = cat().kill_on_drop(true).spawn()?;
                    let id = child.id();
                    if n % 3 == 0 {
                        child.wait()?;
                    }
                    Ok(id)
                });
                if n % 4 == 1 {
                    task.cancel(); // before it was started, while it is, or after
                }
                task
            })
            .collect();
        let started: Vec<u32> = tasks.into_iter().filter_map(|task| task.join().unwrap().ok()).collect();
        assert!(!started.is_empty());
        spin_until(|| started.iter().all(|id| state_of(*id).is_none()));
        // Also those whose caller was gone.
        let own = std::process::id().to_string();
        spin_until(|| {
            let children = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
                let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                let fields = stat.rsplit(") ").next().unwrap_or_default().to_owned();
                stat.contains("(cat)") && fields.split(' ').nth(1) == Some(&own)
            });
            children.count() == 0
        });
    });
}

/// How many children wait at once in a test; valgrind would run itself in each.
const MANY: usize = if cfg!(valgrind) { 10 } else { 500 };

#[test]
fn many_children_are_waited_for_and_read_from_without_a_thread() {
    with_runtime(without_threads(2), |runtime| {
        let (input, hold) = pipe().unwrap();
        let tasks: Vec<_> = (0..MANY)
            .map(|n| {
                let input = input.try_clone().unwrap();
                runtime.spawn(move || {
                    let mut command = Command::new("cat");
                    // Half of them are waited for, half are read from.
                    let child =
                        command.stdin(input).stdout(if n % 2 == 0 { Stdio::null() } else { Stdio::piped() });
                    let mut child = child.spawn().unwrap();
                    drop(command);
                    let mut text = String::new();
                    child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_string(&mut text)).unwrap();
                    assert!(text.is_empty() && child.wait().unwrap().success());
                })
            })
            .collect();
        drop(input);
        spin_until(|| {
            let dump = runtime.dump();
            let text = dump.to_string();
            let parked = dump.tasks.iter().filter(|task| task.state == TaskState::Parked);
            parked.count() == MANY && text.contains("blocking: 0 threads, 0 idle; 0 calls queued, 0 running")
        });
        drop(hold); // the end of what all of them read
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn a_collection_of_output_that_is_cancelled_drops_the_child() {
    with_runtime(without_threads(1), |runtime| {
        let (started, id) = oneshot::channel();
        let task = runtime.spawn(move || {
            let mut command = shell("echo begun; echo begun >&2; exec cat");
            let (input, _hold) = pipe().unwrap();
            command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
            let child = command.spawn().unwrap();
            started.send(child.id()).unwrap();
            child.wait_with_output().map(drop)
        });
        let id = { id }.recv().unwrap();
        spin_until(|| waiting(runtime) == 1);
        task.cancel();
        assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        spin_until(|| state_of(id).is_none());
    });
}

#[test]
fn a_program_may_run_on_all_processors_although_the_worker_may_not() {
    let allowed =
        |status: &str| status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned();
    let here = allowed(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
    with_runtime(Runtime::builder().workers(1).pin_workers(true), |runtime| {
        let output = runtime.run(|| Command::new("cat").arg("/proc/self/status").output().unwrap()).unwrap();
        assert_eq!(allowed(&String::from_utf8(output.stdout).unwrap()), here);
    });
}

#[test]
fn on_a_thread_that_is_no_worker_programs_are_started_and_waited_for_in_place() {
    assert_eq!(shell("echo here").output().unwrap().stdout, b"here\n");
    let both = shell("head -c 200000 /dev/zero >&2; head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2");
    let output = { both }.output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (200_000, 400_000));
    assert!(Command::new("true").status().unwrap().success());
}

/// The test program starts itself, to be the one whose stdin is read.
#[test]
fn the_standard_input_is_read_by_lines() {
    const CHILD: &str = "SINEW_TEST_READS_STDIN";
    if std::env::var_os(CHILD).is_some() {
        let text = Runtime::new().run(|| {
            let (mut lines, mut line) = (stdin().lines(), String::new());
            let first = lines.next().unwrap().unwrap();
            stdin().read_line(&mut line).unwrap();
            let rest: Vec<_> = lines.map(Result::unwrap).collect();
            format!("{first}|{line:?}|{}", rest.join(","))
        });
        println!("<{}>", text.unwrap());
        return;
    }
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let output = runtime.run(|| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let test = full_test_name(module_path!(), "the_standard_input_is_read_by_lines");
            command.args(["--exact", &test, "--nocapture"]).env(CHILD, "yes");
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"one\r\ntwo\nthree\nfour").unwrap();
            child.wait_with_output().unwrap()
        });
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(text.contains("<one|\"two\\n\"|three,four>"), "{text}");
    });
}

#[test]
fn a_shutdown_does_not_wait_for_children_or_input() {
    let _watchdog = Watchdog::new("a shutdown".to_owned());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let mut child = runtime.run(|| cat().spawn().unwrap()).unwrap();
    let (stdin, id) = (child.stdin.take(), child.id());
    let waits = runtime.spawn(move || child.wait().map(drop));
    spin_until(|| waiting(&runtime) == 1);
    let report = runtime.shutdown(Duration::from_secs(60));
    assert_eq!((report.left, report.blocking), (0, 0));
    assert!(is_cancelled(&waits.join().unwrap().unwrap_err()));
    drop(stdin);
    spin_until(|| state_of(id).is_none());
}
