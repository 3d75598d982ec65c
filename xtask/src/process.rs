//! Running other programs: their output is shown as it comes and kept for counting.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{report, workspace};

/// A `cargo` command in the root of the workspace, with the cargo that runs us.
pub(crate) fn cargo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace::root());
    command
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this status; `None` if a signal killed it.
    Exited(Option<i32>),
    /// It was still running at its time limit and was killed.
    TimedOut,
}

impl End {
    pub(crate) fn is_success(&self) -> bool {
        *self == End::Exited(Some(0))
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Exited(Some(status)) => write!(f, "exit status {status}"),
            End::Exited(None) => f.write_str("killed by a signal"),
            End::TimedOut => f.write_str("killed at its time limit"),
        }
    }
}

/// What a program printed, and how it ended.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
}

impl Finished {
    /// Both streams, stdout first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.stdout.iter().chain(&self.stderr).map(String::as_str)
    }
}

/// Which of a program's output the user sees while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Everything,
    /// Only stderr: stdout is for machines.
    Stderr,
    /// What cargo says of its builds and which test programs it runs, and how each ended; not what they print.
    TestProgress,
    Nothing,
}

impl Show {
    /// Whether a line of standard output is shown.
    fn stdout(self, line: &str) -> bool {
        match self {
            Show::Everything => true,
            Show::TestProgress => line.starts_with("test result: "),
            Show::Stderr | Show::Nothing => false,
        }
    }

    /// Whether a line of standard error is shown; `in_program` is true from the first test program on.
    fn stderr(self, line: &str, in_program: bool) -> bool {
        match self {
            Show::Everything | Show::Stderr => true,
            Show::TestProgress => !in_program || report::starts_program(line),
            Show::Nothing => false,
        }
    }
}

/// Runs `command` to its end, or to `limit`. `at_limit` sees the process and what it has printed before it
/// is killed.
pub(crate) fn run_within(
    command: &mut Command,
    show: Show,
    limit: Duration,
    at_limit: impl FnOnce(u32, &[String]),
) -> Result<Finished, String> {
    let mut child = start(command)?;
    let (sender, lines) = channel();
    forward(child.stdout.take(), Stream::Stdout, sender.clone());
    forward(child.stderr.take(), Stream::Stderr, sender);

    let deadline = Instant::now().checked_add(limit);
    let mut finished = Finished { end: End::TimedOut, stdout: Vec::new(), stderr: Vec::new() };
    let mut in_program = false;
    loop {
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        match lines.recv_timeout(left) {
            Ok((Stream::Stdout, line)) => {
                if show.stdout(&line) {
                    println!("{line}");
                }
                finished.stdout.push(line);
            }
            Ok((Stream::Stderr, line)) => {
                in_program |= report::starts_program(&line);
                if show.stderr(&line, in_program) {
                    eprintln!("{line}");
                }
                finished.stderr.push(line);
            }
            // Both streams are closed: the program has ended or is about to.
            Err(RecvTimeoutError::Disconnected) => {
                finished.end = End::Exited(wait(&mut child)?.code());
                return Ok(finished);
            }
            Err(RecvTimeoutError::Timeout) => {
                at_limit(child.id(), &finished.stdout);
                // It may have ended just now; the wait below then gets its status either way.
                let _ = child.kill();
                wait(&mut child)?;
                return Ok(finished);
            }
        }
    }
}

/// Runs `command` to its end.
pub(crate) fn run(command: &mut Command, show: Show) -> Result<Finished, String> {
    run_within(command, show, Duration::MAX, |_, _| {})
}

fn start(command: &mut Command) -> Result<Child, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))
}

fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    child.wait().map_err(|error| format!("cannot wait for a process: {error}"))
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

fn forward(from: Option<impl Read + Send + 'static>, stream: Stream, to: Sender<(Stream, String)>) {
    let mut from = BufReader::new(from.expect("both streams are piped"));
    thread::spawn(move || {
        let mut line = Vec::new();
        // Ends with the stream; bytes that are no UTF-8 are shown as such and do not end it.
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            if to.send((stream, text)).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_exit_status_are_kept() {
        let finished = run(&mut shell("echo out; echo err >&2; exit 3"), Show::Nothing).unwrap();
        assert_eq!(finished.end, End::Exited(Some(3)));
        assert_eq!(finished.stdout, ["out"]);
        assert_eq!(finished.stderr, ["err"]);
    }

    #[test]
    fn a_program_past_its_limit_is_shown_to_the_caller_and_killed() {
        let (mut seen, mut limit) = (Vec::new(), Duration::from_millis(300));
        let started = Instant::now();
        while seen.is_empty() {
            let mut program = shell("echo begun; exec sleep 600");
            let finished = run_within(&mut program, Show::Nothing, limit, |_, out| {
                seen = out.to_vec();
            });
            assert_eq!(finished.unwrap().end, End::TimedOut);
            limit *= 2; // the machine is so busy that the program has not begun
        }
        assert_eq!(seen, ["begun"]);
        assert!(started.elapsed() < Duration::from_secs(600), "it has ended by itself");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut Command::new("no-such-program-here"), Show::Nothing).err().unwrap();
        assert!(error.contains("no-such-program-here"), "{error}");
    }
}
