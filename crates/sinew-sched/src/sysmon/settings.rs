//! The settings of sysmon.

use std::ffi::c_int;
use std::time::Duration;

use super::report::{Diagnostic, Hook};
use super::stall::PATIENCE;

/// What a runtime does about workers that are stuck: in a long computation, in a call that blocks the thread.
///
/// A thread of its own, sysmon, looks every now and then whether each worker changes tasks. When one does not, it rings that
/// worker's timers and lets a *temporary worker* run what the stuck one has and others may run: futures, and tasks that
/// have not started. A task that keeps its worker for long while others wait behind it is reported, with a backtrace, and so
/// is a runtime in which all tasks wait for each other. Sysmon sleeps while all workers do.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{Runtime, Sysmon};
///
/// let sysmon = Sysmon::new().temporary_workers(8).idle_timeout(Duration::from_secs(1));
/// let runtime = Runtime::builder().workers(2).sysmon(sysmon).build()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Nothing depends on it: without it ([`Sysmon::off`]) the same tasks run, but what waits behind a stuck worker waits for
/// that worker or for another that has nothing to do. A runtime [on the calling
/// thread](crate::Builder::build_current_thread) has none.
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until they are given to a builder"]
pub struct Sysmon {
    off: bool,
    pub(super) tick: Duration,
    pub(super) stuck_after: Duration,
    temporary_workers: Option<usize>,
    pub(super) scale_interval: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) stall_threshold: Duration,
    pub(super) patience: Duration,
    pub(super) signal: Option<c_int>,
    pub(super) hook: Hook,
}

/// The most temporary workers of a runtime.
const MOST_TEMPORARY: usize = 1024;

/// The shortest time between two looks.
const SHORTEST_TICK: Duration = Duration::from_micros(100);

impl Sysmon {
    /// The settings of a runtime for which nothing else is said.
    pub fn new() -> Sysmon {
        Sysmon {
            off: false,
            tick: Duration::from_millis(5),
            stuck_after: Duration::from_millis(10),
            temporary_workers: None,
            scale_interval: Duration::from_millis(10),
            idle_timeout: Duration::from_millis(100),
            stall_threshold: Duration::from_secs(1),
            patience: PATIENCE,
            signal: Some(libc::SIGURG),
            hook: Hook::default(),
        }
    }

    /// How long a thread has to take the signal that asks where it is; 100 ms if not said. For tests on machines that are
    /// slow: its backtrace must not depend on that.
    #[doc(hidden)]
    pub fn patience(mut self, patience: Duration) -> Sysmon {
        self.patience = patience;
        self
    }

    /// No sysmon, and no temporary workers.
    pub fn off() -> Sysmon {
        Sysmon { off: true, ..Sysmon::new() }
    }

    /// How often to look, while a worker is up; every 5 ms if not said. At least 100 µs.
    pub fn tick(mut self, tick: Duration) -> Sysmon {
        self.tick = tick.max(SHORTEST_TICK);
        self
    }

    /// How long a worker runs one task before it counts as stuck; 10 ms if not said.
    pub fn stuck_after(mut self, stuck_after: Duration) -> Sysmon {
        self.stuck_after = stuck_after;
        self
    }

    /// How many temporary workers there are at most; as many as the runtime has workers if not said, and never more than
    /// 1,024. With none, sysmon still rings the timers of workers that are stuck.
    pub fn temporary_workers(mut self, most: usize) -> Sysmon {
        self.temporary_workers = Some(most);
        self
    }

    /// How much time passes at least from the start of one temporary worker to that of the next; 10 ms if not said.
    pub fn scale_interval(mut self, scale_interval: Duration) -> Sysmon {
        self.scale_interval = scale_interval;
        self
    }

    /// How long a temporary worker without work stays; 100 ms if not said. One on which tasks have blocked stays for those,
    /// and takes no others.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Sysmon {
        self.idle_timeout = idle_timeout;
        self
    }

    /// How long a task keeps its worker, while something waits behind it, before that is reported as a
    /// [`Stall`](crate::Stall). Defaults to 1 s; with [`Duration::MAX`] nothing is reported. Work that another worker could
    /// take counts if none has taken it for as long.
    pub fn stall_threshold(mut self, stall_threshold: Duration) -> Sysmon {
        self.stall_threshold = stall_threshold;
        self
    }

    /// The signal that asks a worker's thread for a backtrace; SIGURG if not said, which nobody minds, and with none there are
    /// no backtraces. A handler that was set for it before is called for those that sysmon did not send.
    ///
    /// Building a runtime fails if it cannot be handled.
    pub fn signal(mut self, signal: Option<c_int>) -> Sysmon {
        self.signal = signal;
        self
    }

    /// Who is told what sysmon finds, on sysmon's thread; it is printed to stderr if not said, but for deadlocks that are
    /// not certain.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use sinew_sched::{Diagnostic, Runtime, Sysmon, task};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let sysmon = Sysmon::new()
    ///     .stall_threshold(Duration::from_millis(10))
    ///     .on_diagnostic(move |found| drop(sender.send(found.clone())));
    /// let runtime = Runtime::builder().sysmon(sysmon).build()?;
    /// let found = runtime.run(move || {
    ///     let _behind = task().pinned().spawn(|| ()); // has to run on the same worker
    ///     receiver.recv().unwrap() // blocks the thread until that is reported
    /// });
    /// let found = found.unwrap();
    /// assert!(matches!(found, Diagnostic::Stall(_)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_diagnostic(mut self, hook: impl Fn(&Diagnostic) + Send + Sync + 'static) -> Sysmon {
        self.hook = Hook::new(hook);
        self
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off
    }

    /// How many temporary workers a runtime with so many workers may have.
    pub(crate) fn most_temporary(&self, workers: usize) -> usize {
        if self.off { 0 } else { self.temporary_workers.unwrap_or(workers).min(MOST_TEMPORARY) }
    }
}

impl Default for Sysmon {
    fn default() -> Sysmon {
        Sysmon::new()
    }
}
