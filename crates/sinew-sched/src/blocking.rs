//! Calls that block their thread, as the scheduler sees them: threads to run them on, and clocks that wait for them.
//!
//! A call becomes a job of its runtime's [`Pool`]. Its caller ([`BlockingCaller`]) has three things, each given back on
//! every way out:
//!
//! - a *place*: there are as many as threads and places in the queue, so a caller that gets none waits for one, first
//!   come first served. It goes with the job, and comes back when the job has ended or was withdrawn;
//! - a [`Submitted`] job: dropping it takes the job out of the queue or, if the job runs already, leaves it alone;
//! - a *hold* of the runtime's clock, for as long as the caller waits.
//!
//! The count of holds is changed by a caller, while its worker is up, and read by a worker that has lain down last of
//! all ([`Shared::sleep`](crate::shared::Shared::sleep)): the word of the beds orders the two. So a job that has ended
//! holds the clock until its caller has seen the result. Only a future that is dropped by a thread that is no worker has
//! nobody who looks again after it: it wakes them. Models: `shared_clock_or_call`,
//! `shared_clock_is_held_by_a_call`.

pub(crate) mod pool;

use std::fmt;
use std::io;
use std::sync::Arc;

use sinew_fiber::{Cancelled, Reason, Refused};

use crate::case::Async;
use crate::shared::{Shared, SharedRef};
use crate::worker;

/// Converts a refused wait to the error of a call that does I/O.
pub fn refused_io(refused: Refused) -> io::Error {
    match refused.reason() {
        Reason::Cancelled => io::Error::other(Cancelled),
        _ => io::Error::other(refused),
    }
}

/// A caller of the threads for blocking calls of its own runtime. It holds the runtime's clock, and its memory.
pub struct BlockingCaller {
    hold: ClockHold,
}

impl BlockingCaller {
    /// Returns the caller for the running task. None outside of a runtime.
    pub fn current() -> Option<BlockingCaller> {
        hold_clock().map(|hold| BlockingCaller { hold })
    }

    /// Waits for a place in the pool, for one job.
    pub async fn admit(&self) {
        Async::new(self.hold.0.blocking.admission()).await;
    }

    /// Has a thread run `job`, which does not unwind. Only after [`admit`](BlockingCaller::admit), once.
    pub fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Submitted<'_> {
        let pool = &self.hold.0.get().blocking;
        Submitted { caller: self, job: Some(pool.submit(job)) }
    }

    /// Returns why there is no thread for a job that was dropped.
    pub fn refusal(&self) -> Arc<io::Error> {
        self.hold.0.blocking.refusal()
    }
}

impl fmt::Debug for BlockingCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingCaller")
    }
}

/// A job that was submitted. Dropping this withdraws the job, unless it runs.
#[must_use = "a job is withdrawn when this is dropped"]
pub struct Submitted<'a> {
    caller: &'a BlockingCaller,
    job: Option<u64>,
}

impl Submitted<'_> {
    /// The job has ended.
    pub fn ended(mut self) {
        self.job = None;
    }
}

impl Drop for Submitted<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job {
            self.caller.hold.0.blocking.give_up(job);
        }
    }
}

impl fmt::Debug for Submitted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").field("job", &self.job).finish()
    }
}

/// Keeps a [manual clock](crate::ManualClock) of the caller's runtime from jumping until it is dropped: for a task that waits for a
/// thread that is no worker, as blocking calls do by themselves. None outside of a runtime.
///
/// ```
/// use std::time::Duration;
/// use sinew_chan::chan::oneshot;
/// use sinew_sched::{ManualClock, Runtime, hold_clock, sleep, spawn};
///
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder().manual_clock(&clock).build()?;
/// runtime.run(|| {
///     spawn(|| sleep(Duration::from_secs(3600))).detach();
///     let (sender, mut receiver) = oneshot::channel();
///     let hold = hold_clock();
///     std::thread::spawn(move || sender.send("done"));
///     receiver.recv().unwrap();
///     assert_eq!(sinew_sched::now().as_nanos(), 0);
///     drop(hold);
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hold_clock() -> Option<ClockHold> {
    worker::current().map(|worker| ClockHold::new(worker.shared))
}

/// Holds a manual clock: see [`hold_clock`].
#[must_use = "the clock is held until this is dropped"]
pub struct ClockHold(SharedRef);

impl ClockHold {
    fn new(shared: &'static Shared) -> ClockHold {
        shared.blocking.hold();
        ClockHold(shared.keep())
    }
}

impl fmt::Debug for ClockHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockHold")
    }
}

impl Drop for ClockHold {
    fn drop(&mut self) {
        self.0.blocking.release();
        if !worker::current().is_some_and(|worker| worker.runtime == self.0.id) {
            self.0.wake_all(); // nobody else looks whether the clock may jump
        }
    }
}
