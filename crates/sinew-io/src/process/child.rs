//! A program that was started.

use std::io::{self, ErrorKind};
use std::mem::{self, ManuallyDrop};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::{ExitStatus, Output};

use sinew_sched::raw::{Bell, Interest, checked};
use sinew_sync::thread;

use super::orphans;
use super::pipes::{ChildStderr, ChildStdin, ChildStdout, read_both};
use crate::source::Source;

/// A program that runs, or has run, as [`std::process::Child`].
///
/// Dropping it lets the program go on alone, unless it is to be [killed](super::Command::kill_on_drop). Either way its end
/// is seen to.
#[derive(Debug)]
pub struct Child {
    /// Where to write what it reads, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Where to read what it writes, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// Where to read what it complains about, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    process: ManuallyDrop<Process>,
    pub(super) kill_on_drop: bool,
}

/// A process whose end has to be taken note of.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: std::process::Child,
    /// Becomes readable when the process has ended.
    pub(super) ended: Source<OwnedFd>,
}

impl Child {
    /// A program that was just started. Until somebody says otherwise it is killed when it is dropped: perhaps nobody
    /// waits for it any more.
    pub(super) fn new(mut child: std::process::Child) -> io::Result<Child> {
        let prepared = (|| {
            let stdin = child.stdin.take().map(ChildStdin::new).transpose()?;
            let stdout = child.stdout.take().map(ChildStdout::new).transpose()?;
            let stderr = child.stderr.take().map(ChildStderr::new).transpose()?;
            io::Result::Ok((stdin, stdout, stderr, Source::new(watch(child.id())?)))
        })();
        match prepared {
            Ok((stdin, stdout, stderr, ended)) => {
                let process = ManuallyDrop::new(Process { child, ended });
                Ok(Child { stdin, stdout, stderr, process, kill_on_drop: true })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait(); // this is a thread for blocking calls, and it does not take long
                Err(error)
            }
        }
    }

    /// Its number in the system.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Closes its stdin, so that it does not wait for more, and waits for its end. May be called again, and returns the
    /// same.
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled: then it goes on, and can be waited for again.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let Process { child, ended } = &mut *self.process;
        ended.run(Interest::READ, None, |_| child.try_wait()?.ok_or(ErrorKind::WouldBlock.into()))
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    ///
    /// As std's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child.try_wait()
    }

    /// Kills it. Its end still has to be waited for.
    ///
    /// # Errors
    ///
    /// As std's.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.child.kill()
    }

    /// Waits for its end, and collects what it writes to pipes until then. Drops the child when the caller gives up.
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = read_both(self.stdout.take(), self.stderr.take())?;
        let status = self.wait()?;
        Ok(Output { status, stdout, stderr })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: not used again.
        let mut process = unsafe { ManuallyDrop::take(&mut self.process) };
        if self.kill_on_drop {
            let _ = process.child.kill();
        }
        if let Ok(None) = process.child.try_wait() {
            orphans::adopt(process);
        }
    }
}

/// A descriptor that becomes readable when the process with this number, which nobody has waited for, has ended.
fn watch(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(number), 0) };
    match checked(RawFd::try_from(fd).unwrap_or(-1)) {
        // SAFETY: just made, and nobody else's.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => watch_by_a_thread(number),
        Err(error) => Err(error),
    }
}

/// The same where processes have no descriptors: before Linux 5.3, in some sandboxes, under valgrind. The thread leaves the
/// end of the process to be taken note of by whoever waits for it.
fn watch_by_a_thread(number: u32) -> io::Result<OwnedFd> {
    let bell = Bell::new()?;
    let ended = bell.descriptor()?;
    let wait = move || {
        // SAFETY: plain numbers, for which zero is fine; the system writes there.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: as above. If somebody has taken note of the end meanwhile, it fails.
        while let Err(error) = checked(unsafe { libc::waitid(libc::P_PID, number, &raw mut info, options) })
            && error.kind() == ErrorKind::Interrupted
        {}
        bell.ring();
    };
    thread::Builder::new().name(format!("sinew-child-{number}")).spawn(wait)?;
    Ok(ended)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::fd;

    #[test]
    fn a_thread_tells_the_end_of_a_child_and_leaves_it_to_be_taken_note_of() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let ended = watch_by_a_thread(child.id()).unwrap();
        let early = fd::wait(&ended, Interest::READ, sinew_sched::now());
        assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut, "it has not ended");
        drop(child.stdin.take());
        assert!(fd::wait(&ended, Interest::READ, None).unwrap().is_readable());
        assert!(child.try_wait().unwrap().unwrap().success());
    }
}
