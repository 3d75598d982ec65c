//! The language of the random programs: bodies are lists of operations on a table of fibers that all share.
//!
//! There are no loops: a body runs at most once, so every program ends. An operation names a fiber by how
//! many were made after it, and carries no value: the machines number the operations as they start, and
//! the number is the value, so every value says where it came from.

use std::fmt::{self, Write};
use std::sync::Arc;

use sinew_fiber::{CancelLevel, Signal};

/// A list of operations; the body of a fiber, of a root, or of a scope.
pub(crate) type Body = Arc<Vec<Op>>;

/// A fiber to be made: the letters of its mask and bindings, and what it runs.
#[derive(Clone, Debug)]
pub(crate) struct Make {
    pub(crate) letters: String,
    pub(crate) body: Body,
}

/// A fiber of the table: the newest if 0, else that many earlier, round and round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target(pub(crate) usize);

impl Target {
    /// The place in a table of `len` fibers.
    pub(crate) fn among(self, len: usize) -> Option<usize> {
        if len == 0 { None } else { Some(len - 1 - self.0 % len) }
    }
}

/// One operation of the running body.
#[derive(Clone)]
pub(crate) enum Op {
    /// Makes a fiber and puts it into the table.
    New(Make),
    /// Makes a fiber, puts it into the table and resumes it.
    Run(Make),
    /// When this body is left, by a return or an unwind, a destructor makes a fiber that catches all
    /// terminal signals besides its letters, and resumes it.
    Guard(Make),
    /// Takes the handle out of the table; it is dropped when this body is left.
    Own(Target),
    Resume(Target),
    Cancel(Target),
    Propagate(Target),
    /// The next item of an iteration.
    Next(Target),
    /// Takes the handle out of the table and drops it.
    Drop(Target),
    /// Takes the handle out of the table and ends the fiber by `Fiber::end`.
    End(Target),
    /// Takes the signal that the fiber stopped with, its value and its trace.
    Take(Target),
    Yield,
    Debug,
    Await,
    Error,
    /// Any signal, by `signal`.
    Signal(Signal),
    Panic,
    /// Leaves the body.
    Return,
    Checkpoint,
    /// One interrupt for the running task.
    Interrupt,
    /// Cancels or kills the running task.
    Stop(CancelLevel),
    Shield(Body),
    Ffi(Body),
    Get(usize),
    Set(usize),
    Unset(usize),
}

/// How many keys the operations on bindings use.
pub(crate) const KEYS: usize = 2;

/// How many roots a program has.
pub(crate) const ROOTS: usize = 2;

/// Bodies that run one after the other, each under one of the roots, with one table of fibers. A root has
/// no hook, or one for the signals of these letters. At the end everything left in the table is dropped,
/// under root 0.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) roots: [Option<String>; ROOTS],
    pub(crate) runs: Vec<(usize, Body)>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program")?;
        for (number, root) in self.roots.iter().enumerate() {
            match root {
                Some(letters) => writeln!(f, "  root{number} with a hook for {letters:?}")?,
                None => writeln!(f, "  root{number} without a hook")?,
            }
        }
        for (root, body) in &self.runs {
            writeln!(f, "  run under root{root}")?;
            let mut text = String::new();
            write_body(&mut text, body, 2)?;
            f.write_str(&text)?;
        }
        Ok(())
    }
}

fn write_body(f: &mut String, body: &Body, indent: usize) -> fmt::Result {
    for op in body.iter() {
        writeln!(f, "{:width$}{op:?}", "", width = indent * 2)?;
        match op {
            Op::New(Make { body, .. }) | Op::Run(Make { body, .. }) | Op::Guard(Make { body, .. }) => {
                write_body(f, body, indent + 1)?;
            }
            Op::Shield(body) | Op::Ffi(body) => write_body(f, body, indent + 1)?,
            _ => (),
        }
    }
    Ok(())
}

/// The head of the operation, without the bodies in it.
impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |f: &mut fmt::Formatter<'_>, name, target: &Target| write!(f, "{name} -{}", target.0);
        match self {
            Op::New(make) => write!(f, "new {:?}", make.letters),
            Op::Run(make) => write!(f, "run {:?}", make.letters),
            Op::Guard(make) => write!(f, "guard {:?}", make.letters),
            Op::Own(target) => of(f, "own", target),
            Op::Resume(target) => of(f, "resume", target),
            Op::Cancel(target) => of(f, "cancel", target),
            Op::Propagate(target) => of(f, "propagate", target),
            Op::Next(target) => of(f, "next", target),
            Op::Drop(target) => of(f, "drop", target),
            Op::End(target) => of(f, "end", target),
            Op::Take(target) => of(f, "take", target),
            Op::Yield => f.write_str("yield"),
            Op::Debug => f.write_str("debug"),
            Op::Await => f.write_str("await"),
            Op::Error => f.write_str("error"),
            Op::Signal(signal) => write!(f, "signal {signal}"),
            Op::Panic => f.write_str("panic"),
            Op::Return => f.write_str("return"),
            Op::Checkpoint => f.write_str("checkpoint"),
            Op::Interrupt => f.write_str("interrupt"),
            Op::Stop(CancelLevel::Cancel) => f.write_str("cancel task"),
            Op::Stop(CancelLevel::Kill) => f.write_str("kill task"),
            Op::Shield(_) => f.write_str("shield"),
            Op::Ffi(_) => f.write_str("ffi scope"),
            Op::Get(key) => write!(f, "get key {key}"),
            Op::Set(key) => write!(f, "set key {key}"),
            Op::Unset(key) => write!(f, "unset key {key}"),
        }
    }
}
