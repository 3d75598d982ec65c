//! What sysmon reports, and to whom.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc; // a model's has no trait objects
use std::time::Duration;

use sinew_fiber::raw::report;

use crate::task_id::TaskId;

/// Something that sysmon has found; see [`Sysmon::on_diagnostic`](crate::Sysmon::on_diagnostic).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A task keeps its worker.
    Stall(Stall),
    /// All tasks wait.
    Deadlock(Deadlock),
}

/// A task that has kept its worker for longer than [`Sysmon::stall_threshold`](crate::Sysmon::stall_threshold) while others
/// waited behind it: it has not blocked, yielded or ended.
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

/// All tasks of a runtime have waited for a second, and no timer is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// Whether it is known that no thread of the process could wake one of them: each is a worker or sysmon of this runtime,
    /// or blocked without a time limit in a wait of this crate, and the process handles no signals of its own. If not,
    /// this may be a runtime that waits for somebody else.
    pub is_certain: bool,
    /// Who keeps it from being certain: threads, and handlers of signals, that may wake a task. Nobody, if it is.
    pub holders: Vec<String>,
    /// How many tasks wait.
    pub left: u64,
    /// Which, and their names. At most 100.
    pub tasks: Vec<(TaskId, Option<String>)>,
    /// What the runtime is doing, as [`Runtime::dump`](crate::Runtime::dump) says.
    pub dump: String,
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
    /// Returns the function that a task is in, from its frames, innermost first: the first that is the user's.
    pub(super) fn site_of(backtrace: &[Frame]) -> Option<String> {
        let named = || backtrace.iter().filter_map(|frame| frame.function.as_deref());
        named().find(|name| is_of_user(name)).or_else(|| named().next()).map(str::to_owned)
    }
}

/// Returns true for the name of a function that belongs neither to the standard library nor to Sinew.
fn is_of_user(name: &str) -> bool {
    const LIBRARIES: [&str; 6] = ["std::", "core::", "alloc::", "sinew_", "__rustc::", "backtrace::"];
    let is_path =
        |path: &str| path.contains("::") && !LIBRARIES.iter().any(|library| path.starts_with(library));
    let Some(implementation) = name.strip_prefix('<') else { return is_path(name) };
    // `<type as trait>::function` or `<type>::function`. A type without a path is a primitive one: the trait decides.
    let of_type = implementation.trim_start_matches(['&', '*', '[', '(']);
    let end = of_type.find([' ', '>']).unwrap_or(of_type.len());
    match implementation.split_once(" as ") {
        Some((_, of_trait)) if !of_type[..end].contains("::") => is_path(of_trait),
        _ => is_path(&of_type[..end]),
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::Stall(stall) => stall.fmt(f),
            Diagnostic::Deadlock(deadlock) => deadlock.fmt(f),
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
        write!(
            f,
            ": others wait behind it (`yield_now` in long computations, `blocking` around calls that block \
             the thread, `sinew_chan::sync` instead of std's locks)"
        )?;
        if self.backtrace.is_empty() {
            return write!(f, "\n  (its thread did not say where it is)");
        }
        self.backtrace.iter().enumerate().try_for_each(|(number, frame)| write!(f, "\n{number:4}: {frame}"))
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_certain {
            true => {
                write!(f, "deadlock: {} tasks wait, and no thread is left that could wake one", self.left)?
            }
            false => {
                write!(f, "maybe a deadlock: {} tasks wait, no worker has anything to do", self.left)?;
                self.holders
                    .iter()
                    .try_for_each(|holder| write!(f, "\n  unless one is woken by {holder}"))?;
            }
        }
        for (id, name) in &self.tasks {
            match name {
                Some(name) => write!(f, "\n  task {id} {name:?}")?,
                None => write!(f, "\n  task {id}")?,
            }
        }
        let rest = self.left.saturating_sub(self.tasks.len() as u64);
        if rest > 0 {
            write!(f, "\n  and {rest} more")?;
        }
        write!(f, "\n{}", self.dump.trim_end())
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

    /// Tells. A hook that panics does not end sysmon. What may well be nothing is not printed: many runtimes wait for
    /// threads of others most of the time.
    pub(super) fn tell(&self, diagnostic: &Diagnostic) {
        match &self.0 {
            None if matches!(diagnostic, Diagnostic::Deadlock(deadlock) if !deadlock.is_certain) => (),
            None => report(format_args!("sinew: {diagnostic}")),
            Some(hook) => drop(catch_unwind(AssertUnwindSafe(|| hook(diagnostic)))),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a function" } else { "stderr" })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_the_innermost_function_of_the_user() {
        let site = |names: &[&str]| {
            let frame = |name: &&str| Frame { address: 1, function: Some((*name).to_owned()), source: None };
            Stall::site_of(&names.iter().map(frame).collect::<Vec<_>>())
        };
        let names =
            ["read", "<std::fs::File as std::io::Read>::read", "app::load", "sinew_sched::worker::core_main"];
        assert_eq!(site(&names).as_deref(), Some("app::load"));
        assert_eq!(
            site(&["<app::Codec as core::fmt::Debug>::fmt", "app::load"]).as_deref(),
            Some("<app::Codec as core::fmt::Debug>::fmt")
        );
        let primitive = ["<u64>::wrapping_mul", "<[u8] as core::fmt::Debug>::fmt", "app::load"];
        assert_eq!(site(&primitive).as_deref(), Some("app::load"));
        assert_eq!(
            site(&["<u64 as app::Codec>::read", "app::load"]).as_deref(),
            Some("<u64 as app::Codec>::read")
        );
        assert_eq!(site(&["<&app::Codec>::read", "app::load"]).as_deref(), Some("<&app::Codec>::read"));
        assert_eq!(site(&["memcpy", "sinew_sched::worker::core_main"]).as_deref(), Some("memcpy"));
        assert_eq!(site(&[]), None);
    }
}
