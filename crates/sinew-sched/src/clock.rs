//! What time it is: the system's clock, or a test's.

use std::fmt;
use std::time::{Duration, SystemTime};

use sinew_core::Instant;
use sinew_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sinew_sync::statics::OnceLock;
use sinew_sync::{Arc, Mutex};

use crate::shared::RuntimeId;
use crate::worker;

/// The clock of a runtime.
pub(crate) enum Clock {
    System,
    Manual(ManualClock),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::System => system_now(),
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// The time to within some milliseconds, for little. Of the system, counted from another start than [`now`](Clock::now).
    pub(crate) fn coarse(&self) -> Instant {
        match self {
            Clock::System => coarse_now(),
            Clock::Manual(clock) => clock.now(),
        }
    }
}

/// What the system's clock says at `at`.
pub(crate) fn system_wall(at: Instant) -> SystemTime {
    let (wall, now) = (SystemTime::now(), system_now());
    let then = if at > now { wall.checked_add(at - now) } else { wall.checked_sub(now - at) };
    then.unwrap_or(wall)
}

/// The same for a manual clock, which begins at the epoch.
pub(crate) fn manual_wall(at: Instant) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(at.as_nanos())
}

fn coarse_now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes a time there.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds since this process first asked.
#[inline]
pub fn system_now() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// What time it is: on the clock of the runtime that runs the caller, or the system's on any other thread.
pub fn now() -> Instant {
    match worker::current() {
        Some(worker) => worker.shared.clock.now(),
        None => system_now(),
    }
}

/// A clock for tests: it stands still while anything runs, and when every worker of its runtime is idle it jumps to
/// the next deadline. So a test that sleeps for an hour takes no time, and what it does happens in the same order every
/// time. Deadlines are rounded up to ticks of 0.26 ms, here as everywhere: compare times with that in mind.
///
/// ```
/// use std::time::Duration;
///
/// use sinew_sched::{ManualClock, Runtime, now, sleep};
///
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder().manual_clock(&clock).build()?;
/// let slept = runtime.run(|| {
///     let start = now();
///     sleep(Duration::from_secs(3600));
///     now() - start
/// });
/// assert!((3600..3601).contains(&slept.unwrap().as_secs()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Threads that are no workers are not seen: while one of them still has something for the runtime to do,
/// [`hold`](ManualClock::hold) the clock; a task that waits for one does so by [`hold_clock`](crate::hold_clock).
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Manual>,
}

struct Manual {
    nanoseconds: AtomicU64,
    held: AtomicBool,
    runtimes: Mutex<Vec<RuntimeId>>,
}

impl ManualClock {
    /// A clock that starts at zero.
    #[allow(clippy::new_without_default, reason = "a clock is told from another by who has it")]
    pub fn new() -> ManualClock {
        let (nanoseconds, held) = (AtomicU64::new(0), AtomicBool::new(false));
        ManualClock { inner: Arc::new(Manual { nanoseconds, held, runtimes: Mutex::new(Vec::new()) }) }
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.inner.nanoseconds.load(Ordering::Acquire))
    }

    /// Lets so much time pass.
    pub fn advance(&self, duration: Duration) {
        let add = |now| Some((Instant::from_nanos(now) + duration).as_nanos());
        let _ = self.inner.nanoseconds.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.tell();
    }

    /// Whether the clock waits for [`advance`](ManualClock::advance) also when everything is idle.
    pub fn hold(&self, held: bool) {
        self.inner.held.store(held, Ordering::Release);
        self.tell();
    }

    pub(crate) fn is_held(&self) -> bool {
        self.inner.held.load(Ordering::Acquire)
    }

    /// Jumps to `instant`, unless it is later already.
    pub(crate) fn jump_to(&self, instant: Instant) {
        self.inner.nanoseconds.fetch_max(instant.as_nanos(), Ordering::AcqRel);
        self.tell();
    }

    pub(crate) fn drives(&self, runtime: RuntimeId) {
        self.inner.runtimes.lock().push(runtime);
    }

    pub(crate) fn forgets(&self, runtime: RuntimeId) {
        self.inner.runtimes.lock().retain(|driven| *driven != runtime);
    }

    /// Lets all workers look at their timers.
    fn tell(&self) {
        let runtimes = self.inner.runtimes.lock().clone();
        runtimes.into_iter().filter_map(RuntimeId::upgrade).for_each(|runtime| runtime.wake_all());
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).field("held", &self.is_held()).finish()
    }
}
