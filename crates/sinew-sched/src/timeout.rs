//! Deadlines around code.

use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::{catch, open_scope, re_raise};

use crate::clock::now;
use crate::reach::{Frame, Tripped};
use crate::timers::{Alarm, Ring};
use crate::worker;

/// The deadline of a [`timeout`] has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the deadline has passed")]
pub struct Elapsed;

/// Runs `body` for at most `duration`: after that it unwinds at its next blocking call, and this returns an error.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{Elapsed, Runtime, sleep, timeout};
///
/// let runtime = Runtime::new();
/// let outcome = runtime.run(|| timeout(Duration::from_millis(1), || sleep(Duration::from_secs(60))));
/// assert_eq!(outcome.unwrap(), Err(Elapsed));
/// ```
///
/// Code that never blocks is not stopped; what it returns is returned, however late. Timeouts nest, and the outermost
/// that has passed is the one that is told. Children of scopes inside are cancelled when the deadline passes. A
/// [`shield`](sinew_fiber::shield) inside defers it, as it does a cancel.
///
/// # Errors
///
/// [`Elapsed`] if `body` was unwound by this deadline.
///
/// # Panics
///
/// If the caller is not a task.
#[track_caller]
pub fn timeout<T>(duration: Duration, body: impl FnOnce() -> T) -> Result<T, Elapsed> {
    deadline(now() + duration, body)
}

/// Runs `body` until `deadline` at the latest; see [`timeout`].
///
/// # Errors
///
/// [`Elapsed`] if `body` was unwound by this deadline.
///
/// # Panics
///
/// If the caller is not a task.
#[track_caller]
pub fn deadline<T>(deadline: Instant, body: impl FnOnce() -> T) -> Result<T, Elapsed> {
    /// Takes alarm and frame back on every way out.
    struct Armed<'a> {
        alarm: &'a Alarm,
        timers: &'static crate::timers::Timers,
        frame: Frame,
    }
    impl Drop for Armed<'_> {
        fn drop(&mut self) {
            // SAFETY: it was set below and has not moved.
            unsafe { self.timers.clear(self.alarm) };
            self.frame.close();
        }
    }
    let worker = worker::current().expect("`timeout` is for tasks: call it inside `Runtime::run`");
    let task = worker::current_task().expect("a worker runs nothing but tasks");
    let (frame, timers) = (Frame::new(task), worker.timers());
    frame.open(None);
    let alarm = Alarm::new(Ring::Trip(frame));
    if deadline <= now() {
        frame.trip();
    }
    // SAFETY: `Armed` clears the alarm before it goes.
    unsafe { timers.set(&raw const alarm, deadline) };
    let outcome = {
        let _armed = Armed { alarm: &alarm, timers, frame };
        open_scope(|| catch(body))
    };
    match outcome {
        Ok(result) => Ok(result),
        Err(raised) if raised.value.downcast_ref::<Tripped>().is_some_and(|tripped| tripped.0 == frame) => {
            Err(Elapsed)
        }
        Err(raised) => re_raise(raised),
    }
}

/// Ticks, one every `period`, the first one `period` from now.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{ManualClock, Runtime, interval, now};
///
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder().manual_clock(&clock).build()?;
/// let took = runtime.run(|| {
///     let start = now();
///     let mut ticks = interval(Duration::from_secs(1));
///     for _ in 0..3 {
///         ticks.tick();
///     }
///     now() - start
/// });
/// assert_eq!(took.unwrap().as_secs(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn interval(period: Duration) -> Interval {
    Interval { next: now() + period, period }
}

/// What [`interval`] returns.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Sleeps until the next tick, and returns the time at which it was due. Ticks that have passed while nobody waited
    /// are skipped, and the others stay where they were; unwinds like [`sleep`](crate::sleep).
    pub fn tick(&mut self) -> Instant {
        let due = self.next;
        crate::time::sleep_until(due);
        let late = now() - due;
        let period = self.period.as_nanos().max(1);
        let passed =
            Duration::from_nanos(u64::try_from(late.as_nanos() / period * period).unwrap_or(u64::MAX));
        self.next = due + passed + self.period;
        due
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
