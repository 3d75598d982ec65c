//! The settings of sysmon.

use std::time::Duration;

/// What a runtime does about workers that are stuck: in a long computation, in a call that blocks the thread.
///
/// A thread of its own, sysmon, looks every now and then whether each worker changes tasks. When one does not, it rings that
/// worker's timers and lets a *temporary worker* run what the stuck one has and others may run: futures, and tasks that
/// have not started. It sleeps while all workers do.
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
        }
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
