//! What tests of sockets share: both kinds of callers, and connected pairs.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{self, Read, Write};

use sinew_io::net::{TcpListener, TcpStream};
use sinew_sched::{Runtime, spawn};

use crate::support::{Watchdog, with_runtimes};

/// Who calls: tasks, or threads that are no workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Tasks,
    Threads,
}

/// Something that was started, to be joined.
pub(crate) struct Started<T>(Box<dyn FnOnce() -> T + Send>);

impl<T> Started<T> {
    pub(crate) fn join(self) -> T {
        (self.0)()
    }
}

impl By {
    pub(crate) fn start<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> Started<T> {
        match self {
            By::Tasks => {
                let task = spawn(body);
                Started(Box::new(move || task.join().expect("it returns")))
            }
            By::Threads => {
                let thread = std::thread::spawn(body);
                Started(Box::new(move || thread.join().expect("it returns")))
            }
        }
    }
}

/// Runs `test` in a task of runtimes of all sizes, and on a thread.
pub(crate) fn everywhere(test: fn(By) -> io::Result<()>) {
    with_runtimes(|runtime| run(runtime, move || test(By::Tasks)));
    let _watchdog = Watchdog::new("threads".to_owned());
    test(By::Threads).unwrap();
}

/// Runs `test` in a task.
pub(crate) fn run(runtime: &Runtime, test: impl FnOnce() -> io::Result<()> + Send + 'static) {
    runtime.run(test).unwrap().unwrap();
}

/// Runs `test` in a task of runtimes of all sizes.
pub(crate) fn in_tasks(test: fn() -> io::Result<()>) {
    with_runtimes(|runtime| run(runtime, test));
}

/// The two sides of a connection.
pub(crate) fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, address) = listener.accept()?;
    assert_eq!(address, one.local_addr()?);
    Ok((one, other))
}

/// Bytes that tell where they are from.
pub(crate) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed))
        .collect()
}

/// Writes until a write fails: how much was written, and why no more. It is not known before how much that is: what the
/// other side does not read is still on its way for a while.
pub(crate) fn write_until_error(mut stream: impl Write) -> (usize, io::Error) {
    let mut written = 0;
    loop {
        match stream.write(&[7; 64 * 1024]) {
            Ok(more) => written += more,
            Err(error) => return (written, error),
        }
    }
}

pub(crate) fn read_all(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// True if the error says that the task was cancelled.
pub(crate) fn is_cancelled(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other
        && error.get_ref().is_some_and(|error| error.is::<sinew_sched::Cancelled>())
}
