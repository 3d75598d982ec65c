//! Sleeping, timeouts and intervals, and clocks for tests.
//!
//! [`timeout`] limits any code: a blocking call that is still waiting when the time has passed
//! unwinds. With a [`ManualClock`] a test of an hour takes no time.
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew::task::Runtime;
//! use sinew::time::{Elapsed, ManualClock, now, sleep, timeout};
//!
//! let clock = ManualClock::new();
//! let runtime = Runtime::builder().manual_clock(&clock).build()?;
//! let waited = runtime.run(|| {
//!     let start = now();
//!     let slept = timeout(Duration::from_secs(60), || sleep(Duration::from_secs(3600)));
//!     assert_eq!(slept, Err(Elapsed));
//!     (now() - start).as_secs()
//! });
//! assert_eq!(waited.unwrap(), 60);
//! # Ok::<(), std::io::Error>(())
//! ```

#[doc(inline)]
pub use sinew_sched::{
    ClockHold, Elapsed, Instant, Interval, ManualClock, Sleep, WaitError, deadline, hold_clock, interval,
    now, sleep, sleep_async, sleep_until, timeout,
};
