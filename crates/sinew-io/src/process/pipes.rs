//! The pipes to and from a child.
//!
//! Our end of a pipe is an open file of our own, so it can be made one that never blocks: it is used on the worker, and
//! only if it has nothing, or is full, the task waits for the reactor. So a read that is given up has read nothing, and a
//! write that is given up has written nothing.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;

use sinew_sched::raw::{Interest, checked};

use crate::fd;
use crate::source::Source;

/// How much is read at a time from a pipe that is read to its end.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
struct Pipe(Source<File>);

impl Pipe {
    fn new(fd: impl Into<OwnedFd>) -> io::Result<Pipe> {
        let file = File::from(fd.into());
        set_nonblocking(&file, true)?;
        Ok(Pipe(Source::new(file)))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.run(Interest::WRITE, None, |mut file| file.write(bytes))
    }

    /// Another program's, which expects a file that blocks.
    fn into_stdio(self) -> io::Result<Stdio> {
        let file = self.0.into_inner();
        set_nonblocking(&file, false)?;
        Ok(file.into())
    }

    /// Reads some of what is there, if there is anything. True at the end.
    fn read_some(&self, into: &mut Vec<u8>, chunk: &mut [u8]) -> io::Result<bool> {
        match self.0.get().read(chunk) {
            Ok(read) => {
                into.extend_from_slice(&chunk[..read]);
                Ok(read == 0)
            }
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.run(Interest::READ, None, |mut file| file.read(into))
    }
}

/// Lets reads and writes of an open file fail instead of block, or not.
fn set_nonblocking(file: &File, nonblocking: bool) -> io::Result<()> {
    // SAFETY: takes numbers only; the descriptor is open.
    unsafe {
        let flags = checked(libc::fcntl(file.as_raw_fd(), libc::F_GETFL))?;
        let flags = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        checked(libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags)).map(drop)
    }
}

/// Reads both to their ends, in turns, so that the child is not stopped by a pipe that is full.
pub(super) fn read_both(
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout.map(|stdout| stdout.0), stderr.map(|stderr| stderr.0));
    if let (Some(stdout), Some(stderr)) = (&stdout, &stderr) {
        let fds = [stdout, stderr].map(|pipe| pipe.0.get().as_raw_fd());
        let mut chunk = vec![0; CHUNK];
        // Both are read each time, also if one has ended.
        while !(stdout.read_some(&mut output, &mut chunk)? | stderr.read_some(&mut errors, &mut chunk)?) {
            fd::wait_for_either(fds)?;
        }
    }
    stdout.as_mut().map_or(Ok(0), |pipe| pipe.read_to_end(&mut output))?;
    stderr.as_mut().map_or(Ok(0), |pipe| pipe.read_to_end(&mut errors))?;
    Ok((output, errors))
}

/// Where to write what a child reads. Dropping it ends what the child reads.
#[derive(Debug)]
pub struct ChildStdin(Pipe);

impl ChildStdin {
    pub(super) fn new(stdin: std::process::ChildStdin) -> io::Result<ChildStdin> {
        Pipe::new(stdin).map(ChildStdin)
    }
}

impl Write for ChildStdin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! readable {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Debug)]
        pub struct $name(Pipe);

        impl $name {
            pub(super) fn new(pipe: std::process::$name) -> io::Result<$name> {
                Pipe::new(pipe).map($name)
            }

            /// To be the stdin of another program.
            ///
            /// # Errors
            ///
            /// If the system has no descriptor for that, or refuses to change this one.
            pub fn into_stdio(self) -> io::Result<Stdio> {
                self.0.into_stdio()
            }
        }

        impl Read for $name {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                self.0.read(into)
            }
        }
    };
}

readable! {
    /// Where to read what a child writes.
    ChildStdout
}

readable! {
    /// Where to read what a child complains about.
    ChildStderr
}
