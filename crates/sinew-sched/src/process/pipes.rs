//! The pipes to and from a child.
//!
//! Our end of a pipe is an open file of our own, so it can be made one that never blocks: it is used on the worker, and
//! only if it has nothing, or is full, the task waits. So a read that is given up has read nothing, and a write that is
//! given up has written nothing.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;

use crate::polling::{Interest, Shared, set_nonblocking, wait_for, wait_for_any};

/// How much is read at a time from a pipe that is read to its end.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
struct Pipe(Arc<File>);

impl Pipe {
    fn new(fd: impl Into<OwnedFd>) -> io::Result<Pipe> {
        let file = File::from(fd.into());
        set_nonblocking(file.as_fd(), true)?;
        Ok(Pipe(Arc::new(file)))
    }

    fn retry<T>(&self, interest: Interest, mut attempt: impl FnMut(&File) -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt(&self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for(&self.0, interest)?,
                outcome => return outcome,
            }
        }
    }

    /// Another program's, which expects a file that blocks.
    fn into_stdio(self) -> io::Result<Stdio> {
        set_nonblocking(self.0.as_fd(), false)?;
        let file = Arc::try_unwrap(self.0).or_else(|shared| shared.try_clone())?;
        Ok(file.into())
    }

    /// Reads what is there. True at the end.
    fn read_available(&self, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match (&*self.0).read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(read) => into.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads both to their ends, in turns, so that the child is not stopped by a pipe that is full.
pub(super) fn read_both(
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut read = [Vec::new(), Vec::new()];
    let mut pipes = [stdout.map(|stdout| stdout.0), stderr.map(|stderr| stderr.0)];
    loop {
        for (pipe, into) in pipes.iter_mut().zip(&mut read) {
            if let Some(open) = pipe
                && open.read_available(into)?
            {
                *pipe = None;
            }
        }
        let open = pipes.iter().flatten().map(|pipe| (pipe.0.clone() as Shared, Interest::Read));
        let open: Vec<_> = open.collect();
        if open.is_empty() {
            return Ok(read.into());
        }
        wait_for_any(open)?;
    }
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
        self.0.retry(Interest::Write, |mut file| file.write(bytes))
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
                self.0.retry(Interest::Read, |mut file| file.read(into))
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
