//! Where lines go.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::mem;

use sinew_fiber::raw::{catch, write_stderr};
use sinew_sync::{Arc, Mutex, MutexGuard};

use super::Log;
use super::line::Line;
use crate::failure::discard_raised;

/// Bytes that are written at once, or a line more.
const CHUNK: usize = 16 * 1024;

/// Where lines go, shared by clones of a node's options.
#[derive(Clone)]
pub(crate) struct Sink {
    is_off: bool,
    state: Arc<Mutex<State>>,
}

pub(super) type Locked<'a> = MutexGuard<'a, State>;

pub(super) struct State {
    out: Out,
    /// Lines that could not be written, which was not said yet.
    unsaid: u64,
}

enum Out {
    Nowhere,
    Stderr,
    Writer(Box<dyn Write + Send>),
    #[cfg(feature = "tracing")]
    Tracing,
}

impl Sink {
    pub(crate) fn stderr() -> Sink {
        Sink::new(Out::Stderr)
    }

    pub(crate) fn off() -> Sink {
        Sink::new(Out::Nowhere)
    }

    pub(crate) fn writer(writer: impl Write + Send + 'static) -> Sink {
        Sink::new(Out::Writer(Box::new(writer)))
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn tracing() -> Sink {
        Sink::new(Out::Tracing)
    }

    fn new(out: Out) -> Sink {
        let is_off = matches!(out, Out::Nowhere);
        Sink { is_off, state: Arc::new(Mutex::new(State { out, unsaid: 0 })) }
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        self.state.lock()
    }

    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        self.state.try_lock()
    }
}

impl State {
    /// Writes lines, and then that so many were lost. Returns how many could not be written: that is said when the next ones can.
    pub(super) fn write(&mut self, log: &Log, lines: VecDeque<Line>, lost: u64) -> u64 {
        let unsaid = mem::take(&mut self.unsaid);
        let (mut chunk, mut unwritten) = (Chunk::default(), 0);
        if unsaid > 0 {
            chunk.add_loss(log, unsaid);
        }
        for line in lines {
            chunk.add(line);
            if chunk.bytes >= CHUNK {
                unwritten += self.write_chunk(log, mem::take(&mut chunk));
            }
        }
        if lost > 0 {
            chunk.add_loss(log, lost);
        }
        unwritten + self.write_chunk(log, chunk)
    }

    fn write_chunk(&mut self, log: &Log, chunk: Chunk) -> u64 {
        let Chunk { lines, own, lost, .. } = chunk;
        if lines.is_empty() || self.out.write(log, &lines) {
            return 0;
        }
        self.unsaid += own + lost;
        own
    }
}

/// Lines that are written at once.
#[derive(Default)]
struct Chunk {
    lines: Vec<Line>,
    bytes: usize,
    /// How many of the lines do not say that others were lost, and how many those say.
    own: u64,
    lost: u64,
}

impl Chunk {
    fn add(&mut self, line: Line) {
        (self.bytes, self.own) = (self.bytes + line.text.len(), self.own + 1);
        self.lines.push(line);
    }

    fn add_loss(&mut self, log: &Log, lost: u64) {
        self.lines.push(Line::of_loss(log, lost));
        self.lost += lost;
    }
}

impl Out {
    /// False if they could not be written, or the writer has panicked.
    fn write(&mut self, log: &Log, lines: &[Line]) -> bool {
        let text = || {
            let mut text = String::new();
            lines.iter().for_each(|line| line.write(log.handle.wall_clock(line.at), &mut text));
            text
        };
        let written = match self {
            Out::Nowhere => return true,
            Out::Stderr => return write_stderr(text().as_bytes()).is_ok(),
            Out::Writer(writer) => {
                catch(|| writer.write_all(text().as_bytes()).and_then(|()| writer.flush()))
            }
            #[cfg(feature = "tracing")]
            Out::Tracing => catch(|| {
                lines.iter().filter(|line| !line.is_event).for_each(super::tracing::tell);
                Ok(())
            }),
        };
        match written {
            Ok(written) => written.is_ok(),
            Err(raised) => {
                discard_raised(raised);
                false
            }
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("is_off", &self.is_off).finish_non_exhaustive()
    }
}
