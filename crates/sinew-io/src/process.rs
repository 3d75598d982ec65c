//! Other programs, for tasks: [`Command`] and [`Child`] as in [`std::process`].
//!
//! Starting a program, waiting for its end and talking to it suspend the task and never the worker. A program starts on a
//! thread for blocking calls, which is not bound to a processor: what it inherits is not the one of a worker. The rest
//! takes no thread.
//!
//! ```
//! use sinew_sched::Runtime;
//! use sinew_io::process::Command;
//!
//! let output = Runtime::new().run(|| Command::new("echo").arg("hello").output());
//! let output = output.unwrap()?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Who is waited for
//!
//! The end of a child is waited for by a descriptor of its process, and taken note of once, by the [`Child`] or, when that
//! is dropped before, by a thread of the process that looks after all such children (`orphans.rs`). So none stays behind
//! as a zombie. A wait that is given up changes nothing: the child runs, and can be waited for again.

mod child;
mod orphans;
mod pipes;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sinew_sync::Mutex;

pub use child::Child;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{ExitStatus, Output, Stdio};

use crate::blocking::blocking;

/// A program to start, as [`std::process::Command`].
#[derive(Debug)]
pub struct Command {
    /// Shared with the call that starts it.
    inner: Arc<Mutex<std::process::Command>>,
    /// Which of stdin, stdout and stderr somebody has chosen.
    chosen: [bool; 3],
    kill_on_drop: bool,
}

impl Command {
    /// The program of this name, or at this path.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        std::process::Command::new(program).into()
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Command {
        self.change(|command| command.arg(argument))
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.change(|command| command.args(arguments))
    }

    /// Sets a variable of its environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        self.change(|command| command.env(name, value))
    }

    /// Gives it none of the variables of this environment, nor those set so far.
    pub fn env_clear(&mut self) -> &mut Command {
        self.change(|command| command.env_clear())
    }

    /// Where it starts.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Command {
        self.change(|command| command.current_dir(directory))
    }

    /// What its standard input is: that of this process if not said, or nothing for [`output`](Command::output).
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Command {
        self.chosen[0] = true;
        self.change(|command| command.stdin(stdin))
    }

    /// What its standard output is: that of this process if not said, or a pipe for [`output`](Command::output).
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Command {
        self.chosen[1] = true;
        self.change(|command| command.stdout(stdout))
    }

    /// What its standard error is: that of this process if not said, or a pipe for [`output`](Command::output).
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Command {
        self.chosen[2] = true;
        self.change(|command| command.stderr(stderr))
    }

    /// Whether a [`Child`] that is dropped is killed, also by a task that is cancelled; if not said, it goes on.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Command {
        self.kill_on_drop = kill;
        self
    }

    /// Starts the program. If the caller gives up meanwhile, it is not started, or killed.
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let command = self.inner.clone();
        let mut child = blocking(move || {
            let child = command.lock().spawn()?;
            Child::new(child)
        })??;
        child.kill_on_drop = self.kill_on_drop;
        Ok(child)
    }

    /// Starts the program and waits for its end. If the caller gives up meanwhile, it goes on, unless it is to be
    /// [killed](Command::kill_on_drop).
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts the program, waits for its end, and collects what it has written. See [`status`](Command::status).
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled.
    pub fn output(&mut self) -> io::Result<Output> {
        self.default_stdio(Stdio::null, Stdio::piped);
        let child = self.spawn();
        self.default_stdio(Stdio::inherit, Stdio::inherit);
        child?.wait_with_output()
    }

    /// Sets what nobody has chosen.
    fn default_stdio(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) {
        let [stdin, stdout, stderr] = self.chosen;
        self.change(|command| {
            if !stdin {
                command.stdin(input());
            }
            if !stdout {
                command.stdout(output());
            }
            if !stderr {
                command.stderr(output());
            }
            command
        });
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut std::process::Command) -> &mut std::process::Command,
    ) -> &mut Command {
        change(&mut self.inner.lock());
        self
    }
}

/// For what this type does not offer. Stdin, stdout and stderr count as not chosen.
impl From<std::process::Command> for Command {
    fn from(command: std::process::Command) -> Command {
        Command { inner: Arc::new(Mutex::new(command)), chosen: [false; 3], kill_on_drop: false }
    }
}
