//! Where a signal came from: the place that raised it and the chain of fibers around that place.

use std::backtrace::Backtrace;
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use sinew_sync::statics::{AtomicBool, Ordering};

/// The fibers that a trace names at most, from the innermost up.
const MAX_LINKS: usize = 64;

static BACKTRACES: AtomicBool = AtomicBool::new(false);

/// Turns native backtraces in traces on or off for the whole process. They are off at first: capturing
/// one costs far more than raising the signal.
pub fn capture_backtraces(on: bool) {
    BACKTRACES.store(on, Ordering::Relaxed);
}

/// What a [`Link`] is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// A fiber.
    Fiber,
    /// A root of [`run_as_root`](crate::run_as_root).
    Root,
    /// A task of a scheduler.
    Task,
    /// The root that a thread has of itself; its name is the thread's.
    Thread,
}

/// `fiber`, `root`, `task` or `thread`, as messages name it.
impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkKind::Fiber => "fiber",
            LinkKind::Root => "root",
            LinkKind::Task => "task",
            LinkKind::Thread => "thread",
        })
    }
}

/// One fiber or root of a [`Trace`]: its name, its number and where it was created.
#[derive(Clone, Debug)]
pub struct Link {
    /// Fiber, root or thread.
    pub kind: LinkKind,
    /// The name that it was given.
    pub name: Option<Cow<'static, str>>,
    /// Its number, unique in the process.
    pub id: u64,
    /// Where it was created; of a task, where its stack was.
    pub created: &'static Location<'static>,
}

/// `parser#12`, or `#12` if it has no name.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name.as_deref().unwrap_or(""), self.id)
    }
}

/// Where a signal was raised: captured at the raise, and kept by every
/// [`propagate`](crate::propagate) on the way up.
#[derive(Debug)]
pub struct Trace {
    raised: Place,
    links: Vec<Link>,
    backtrace: Option<Backtrace>,
}

/// A place in the source.
#[derive(Clone, Debug)]
struct Place {
    file: Cow<'static, str>,
    line: u32,
    column: u32,
}

impl Place {
    fn of(location: &'static Location<'static>) -> Place {
        Place { file: location.file().into(), line: location.line(), column: location.column() }
    }

    /// The place of a panic, which std lends for the time of its hook only.
    fn of_panic(location: &Location<'_>) -> Place {
        Place { file: location.file().to_owned().into(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Trace {
    /// The trace of a signal that is raised at `location` in the fibers of `chain`, innermost first.
    pub(crate) fn capture(
        location: &'static Location<'static>,
        chain: impl Iterator<Item = Link>,
    ) -> Box<Trace> {
        Trace::of(Place::of(location), chain)
    }

    /// The trace of a panic, likewise.
    pub(crate) fn capture_panic(location: &Location<'_>, chain: impl Iterator<Item = Link>) -> Box<Trace> {
        Trace::of(Place::of_panic(location), chain)
    }

    fn of(raised: Place, chain: impl Iterator<Item = Link>) -> Box<Trace> {
        let links = chain.take(MAX_LINKS).collect();
        let backtrace = BACKTRACES.load(Ordering::Relaxed).then(Backtrace::force_capture);
        Box::new(Trace { raised, links, backtrace })
    }

    /// The file, line and column that raised the signal, as `file:line:column`.
    pub fn raised_at(&self) -> String {
        self.raised.to_string()
    }

    /// The fibers from the one that raised the signal up to its root; of a long chain, the innermost 64.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The native backtrace of the raise, if [`capture_backtraces`] is on.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.backtrace.as_ref()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  raised at {}", self.raised)?;
        for link in &self.links {
            match link.kind {
                LinkKind::Fiber => write!(f, "\n  in fiber {link}, created at {}", link.created)?,
                LinkKind::Root => write!(f, "\n  under root {link}, created at {}", link.created)?,
                LinkKind::Task => write!(f, "\n  in task {link}")?,
                LinkKind::Thread => {
                    write!(f, "\n  on thread {}", link.name.as_deref().unwrap_or("without a name"))?;
                }
            }
        }
        if let Some(backtrace) = &self.backtrace {
            write!(f, "\n{backtrace}")?;
        }
        Ok(())
    }
}
