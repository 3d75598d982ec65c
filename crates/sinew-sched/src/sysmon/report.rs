//! What sysmon reports, and to whom.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sinew_sync::Arc;

use crate::slots::TaskId;

/// Something that sysmon has found; see [`Sysmon::on_diagnostic`](crate::Sysmon::on_diagnostic).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A task keeps its worker.
    Stall(Stall),
}

/// A task that has kept its worker for longer than [`Sysmon::stall_threshold`](crate::Sysmon::stall_threshold): it has not
/// blocked, yielded or ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The task.
    pub task: TaskId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The number of its worker.
    pub worker: usize,
    /// For how long it has run, at least.
    pub ran_for: Duration,
    /// The function that it is in: the innermost that is neither of the standard library nor of Sinew. There is one
    /// report for each.
    pub site: Option<String>,
    /// Where it is, innermost first. Empty if its thread did not say.
    pub backtrace: Vec<Frame>,
}

/// A frame of a backtrace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Frame {
    /// The address of an instruction.
    pub address: usize,
    /// The function that it is in, if that is known.
    pub function: Option<String>,
    /// The file and the line of the source, if they are known.
    pub source: Option<(String, u32)>,
}

impl Stall {
    /// The function that the frames, innermost first, say that a task is in.
    pub(super) fn site_of(backtrace: &[Frame]) -> Option<String> {
        const OURS: [&str; 6] = ["std::", "core::", "alloc::", "sinew_", "__rustc", "rust_"];
        let named = || backtrace.iter().filter_map(|frame| frame.function.as_deref());
        let is_user = |name: &&str| {
            let path = name.trim_start_matches(['<', '&', '*']);
            path.contains("::") && !OURS.iter().any(|ours| path.starts_with(ours))
        };
        named().find(is_user).or_else(|| named().next()).map(str::to_owned)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::Stall(stall) => stall.fmt(f),
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.task)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, " has kept worker {} for {:.1?}", self.worker, self.ran_for)?;
        if let Some(site) = &self.site {
            write!(f, ", in {site}")?;
        }
        write!(f, ": tasks that have blocked on that worker wait for it")?;
        if self.backtrace.is_empty() {
            return write!(f, "\n  (its thread did not say where it is)");
        }
        self.backtrace.iter().enumerate().try_for_each(|(number, frame)| write!(f, "\n{number:4}: {frame}"))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => f.write_str(function)?,
            None => write!(f, "{:#x}", self.address)?,
        }
        match &self.source {
            Some((file, line)) => write!(f, "\n        at {file}:{line}"),
            None => Ok(()),
        }
    }
}

type Function = dyn Fn(&Diagnostic) + Send + Sync;

/// Who is told.
#[derive(Clone, Default)]
pub(super) struct Hook(Option<Arc<Function>>);

impl Hook {
    pub(super) fn new(hook: impl Fn(&Diagnostic) + Send + Sync + 'static) -> Hook {
        Hook(Some(Arc::new(hook)))
    }

    /// Tells. A hook that panics does not end sysmon.
    pub(super) fn tell(&self, diagnostic: &Diagnostic) {
        match &self.0 {
            None => eprintln!("sinew: {diagnostic}"),
            Some(hook) => drop(catch_unwind(AssertUnwindSafe(|| hook(diagnostic)))),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a function" } else { "stderr" })
    }
}
