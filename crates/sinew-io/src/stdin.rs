//! The standard input, for tasks.
//!
//! The descriptor is shared with other programs, so it is not ours to make it one that never blocks. The task waits until
//! there is something, which takes no thread, and what there is is read by a blocking call: a file may be on a slow disk, and
//! another program may have read in between what we were told of.
//!
//! A call may be given up at the very moment at which it has read something. So what is read goes into a buffer that all
//! readers share, and the next one finds it there.
//!
//! Readers take turns, and only the one whose turn it is takes something out of the buffer. The call of the one before it
//! may still be under way; the next call waits for that, and looks whether it has brought something.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use sinew_chan::sync::{Mutex as TaskMutex, MutexGuard};
use sinew_fiber::Refused;
use sinew_sched::raw::refused_io;
use sinew_sync::Mutex;
use sinew_sync::statics::OnceLock;

use crate::blocking::blocking;
use crate::fd::{self, Interest};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// The standard input of the process. All handles share one buffer, which is not that of [`std::io::stdin`]: use one of
/// the two.
///
/// A task that waits for input is suspended, and its worker runs others. If it gives up, because it is cancelled or out of
/// time, nothing is lost: the next reader gets what comes.
///
/// ```no_run
/// use sinew_io::stdin;
/// use sinew_sched::Runtime;
///
/// Runtime::new().run(|| {
///     for line in stdin().lines() {
///         println!("{}", line?.to_uppercase());
///     }
///     std::io::Result::Ok(())
/// }).unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stdin() -> Stdin {
    static INPUT: OnceLock<Result<Input, io::ErrorKind>> = OnceLock::new();
    let open = || match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(descriptor) => Ok(Input::new(descriptor.into())),
        Err(error) => Err(error.kind()),
    };
    Stdin { input: INPUT.get_or_init(open) }
}

/// A handle to the standard input: see [`stdin`].
#[derive(Clone, Copy)]
pub struct Stdin {
    input: &'static Result<Input, io::ErrorKind>,
}

impl Stdin {
    /// Waits for a line, appends it to `line` with its newline, and returns its length: zero at the end of the input.
    ///
    /// # Errors
    ///
    /// If the input cannot be read, if the line is not UTF-8 (it is lost then), or if the task is cancelled.
    pub fn read_line(&self, line: &mut String) -> io::Result<usize> {
        self.input()?.read_line(line)
    }

    /// The lines of the input, without their newlines, until its end.
    pub fn lines(&self) -> Lines {
        Lines { stdin: *self }
    }

    fn input(&self) -> io::Result<&'static Input> {
        self.input.as_ref().map_err(|kind| (*kind).into())
    }
}

impl Read for Stdin {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.input()?.read(into)
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

/// The lines of the standard input: see [`Stdin::lines`].
#[derive(Debug)]
pub struct Lines {
    stdin: Stdin,
}

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = String::new();
        match self.stdin.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                if line.ends_with('\n') {
                    let newline = if line.ends_with("\r\n") { 2 } else { 1 };
                    line.truncate(line.len() - newline);
                }
                Some(Ok(line))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// What is read from a file in turns.
struct Input {
    turn: TaskMutex<()>,
    source: Arc<Source>,
}

/// What a call shares with the readers.
struct Source {
    file: File,
    /// Held by the call that reads.
    reading: Mutex<()>,
    unread: Mutex<VecDeque<u8>>,
}

impl Input {
    fn new(file: File) -> Input {
        let source = Source { file, reading: Mutex::new(()), unread: Mutex::new(VecDeque::new()) };
        Input { turn: TaskMutex::new(()), source: Arc::new(source) }
    }

    fn take_turn(&self) -> io::Result<MutexGuard<'_, ()>> {
        self.turn.lock().map_err(|refused: Refused| refused_io(refused))
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let _turn = self.take_turn()?;
        if !into.is_empty() && self.source.unread.lock().is_empty() {
            self.wait_for_more(0)?;
        }
        self.source.unread.lock().read(into)
    }

    fn read_line(&self, line: &mut String) -> io::Result<usize> {
        let _turn = self.take_turn()?;
        let mut looked_at = 0;
        let length = loop {
            let unread = self.source.unread.lock();
            let length = unread.len();
            let newline = unread.iter().skip(looked_at).position(|byte| *byte == b'\n');
            drop(unread);
            if let Some(at) = newline {
                break looked_at + at + 1;
            }
            if !self.wait_for_more(length)? {
                break length;
            }
            looked_at = length;
        };
        let bytes: Vec<u8> = self.source.unread.lock().drain(..length).collect();
        let read =
            str::from_utf8(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        line.push_str(read);
        Ok(length)
    }

    /// Waits until there are more than `seen` bytes in the buffer. False at the end of the input.
    fn wait_for_more(&self, seen: usize) -> io::Result<bool> {
        loop {
            fd::wait(&self.source.file, Interest::READ, None)?;
            let source = self.source.clone();
            match blocking(move || source.read_more(seen))? {
                // Another program has made it one that does not block, and has read what there was.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                read => return read,
            }
        }
    }
}

impl Source {
    fn read_more(&self, seen: usize) -> io::Result<bool> {
        let _reading = self.reading.lock();
        if self.unread.lock().len() > seen {
            return Ok(true);
        }
        let mut bytes = vec![0; CHUNK];
        let read = loop {
            match (&self.file).read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                read => break read?,
            }
        };
        self.unread.lock().extend(&bytes[..read]);
        Ok(read > 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
