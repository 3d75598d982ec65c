//! Calls that block their thread, on threads that are there for that.
//!
//! A call becomes a job of its runtime's [`Pool`], and whoever made it waits for the result as for any other: in a
//! future, which [`blocking`] runs to its end. That future ([`on_pool`]) has three parts, each given back on every way out:
//!
//! - a *permit*: there are as many as threads and places in the queue, so a caller that gets none waits for one, first
//!   come first served. It goes with the job, and comes back when the job has ended or was withdrawn;
//! - a *claim* on the job: whoever drops it takes the job out of the queue, or, if it runs already, leaves it alone;
//! - a *hold* of the runtime's clock, for as long as somebody waits.
//!
//! The result comes through a [`oneshot`], whose sender is the job's: a job that is dropped instead of run has its caller
//! told that there will be none.
//!
//! The count of holds is changed by whoever waits, while its worker is up, and read by a worker that has lain down last of
//! all ([`Shared::sleep`](crate::shared::Shared::sleep)): the word of the beds orders the two. So a job that has ended
//! holds the clock until its caller has seen the result. Only a future that is dropped by a thread that is no worker has
//! nobody who looks again after it: it wakes them. Models: `shared_clock_or_call`,
//! `shared_clock_is_held_by_a_call`.

pub(crate) mod pool;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::ptr;
use std::sync::Arc;

use sinew_core::Mask;
use sinew_fiber::raw::ready_to_await;
use sinew_fiber::{Cancelled, Raised, Reason, Refused, Root, run_as_root};

use crate::chan::oneshot;
use crate::dump::WaitKind;
use crate::future::block_on;
use crate::notes::What;
use crate::shared::Shared;
use crate::worker;

use pool::Pool;

/// Why a blocking call has no result.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    /// The caller cannot wait here, or not any more. Either the call was never begun, or it goes on alone.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The call has panicked, or raised a signal.
    #[error("the blocking call failed: {0}")]
    Raised(#[source] Raised),
    /// There is no thread to make the call on, and none could be started.
    #[error(
        "no thread can be started for blocking calls: {0}; end some threads, or raise the system's limit"
    )]
    NoThread(#[source] Arc<io::Error>),
}

impl BlockingError {
    /// True if the caller's task is cancelled.
    pub fn is_cancelled(&self) -> bool {
        match self {
            BlockingError::Refused(refused) => refused.reason() == Reason::Cancelled,
            BlockingError::Raised(raised) => raised.is_cancelled(),
            BlockingError::NoThread(_) => false,
        }
    }
}

/// That of a task that is cancelled wraps [`Cancelled`]; its kind is never `Interrupted`, which would be tried again.
impl From<BlockingError> for io::Error {
    fn from(error: BlockingError) -> io::Error {
        match error {
            BlockingError::Refused(refused) => refused_io(refused),
            // What was raised need not be `Sync`, as what is in an `io::Error` has to be.
            BlockingError::Raised(raised) => {
                io::Error::other(format!("the blocking call failed: {raised:#}"))
            }
            BlockingError::NoThread(ref cause) => io::Error::new(cause.kind(), error.to_string()),
        }
    }
}

/// A wait that was refused, as an error of a call that does I/O.
pub(crate) fn refused_io(refused: Refused) -> io::Error {
    match refused.reason() {
        Reason::Cancelled => io::Error::other(Cancelled),
        _ => io::Error::other(refused),
    }
}

/// Runs `call`, which may block its thread, on a thread that is there for that, and suspends the running task until it
/// has returned. On a thread that is no worker it simply runs `call`.
///
/// ```
/// use sinew_sched::{Runtime, blocking};
///
/// let runtime = Runtime::new();
/// let answer = runtime.run(|| {
///     blocking(|| {
///         std::thread::sleep(std::time::Duration::from_millis(1)); // the worker runs other tasks meanwhile
///         42
///     })
/// });
/// assert_eq!(answer.unwrap().unwrap(), 42);
/// ```
///
/// A runtime starts such threads when it needs them, up to
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads). When all are busy, calls are queued; when
/// [the queue](crate::Builder::blocking_queue) is full, callers wait, first come first served.
///
/// There `call` runs as on any other thread: it has no task, no dynamic bindings of the caller's, and it may use locks and
/// channels of this crate. It can not be stopped. When the caller's task is cancelled or killed, or out of time, the call
/// is not begun if it is still queued; else it goes on alone, and its result is dropped. A shutdown waits for such calls,
/// and [reports](crate::Report::blocking) those that do not end.
///
/// # Errors
///
/// [`BlockingError::Refused`] if the task is cancelled, or must not block here: inside the poll of a future, use
/// [`blocking_async`]. [`BlockingError::Raised`] if `call` panics.
pub fn blocking<F, T>(call: F) -> Result<T, BlockingError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let Some(worker) = worker::current() else { return run(call).map_err(BlockingError::Raised) };
    let shared = worker.shared;
    ready_to_await()?;
    block_on(on_pool(shared, call))?
}

/// [`blocking`] for futures. The call is begun when the future is first polled; a future that is dropped leaves its call as
/// a task does that is cancelled. Polled by an executor that is not Sinew's, it runs `call` inside the poll.
///
/// ```
/// use sinew_sched::{Runtime, blocking_async};
///
/// let runtime = Runtime::new();
/// let task = runtime.spawn_future(async { blocking_async(|| 42).await.unwrap() });
/// assert_eq!(task.join().unwrap(), 42);
/// ```
///
/// # Errors
///
/// As for [`blocking`].
pub async fn blocking_async<F, T>(call: F) -> Result<T, BlockingError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match worker::current().map(|worker| worker.shared) {
        Some(shared) => on_pool(shared, call).await,
        None => run(call).map_err(BlockingError::Raised),
    }
}

/// Runs `call` on this thread, under a root of its own: a panic is noted with its place, and not printed.
fn run<T>(call: impl FnOnce() -> T) -> Result<T, Raised> {
    run_as_root(&mut Root::new("blocking", Mask::NONE), None, call)
}

async fn on_pool<F, T>(shared: &'static Shared, call: F) -> Result<T, BlockingError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let _hold = ClockHold::new(shared);
    let pool = &shared.blocking;
    let (sender, mut result) = oneshot::channel();
    let job = move || {
        if let Err(unwanted) = sender.send(run(call)) {
            drop_unwanted(unwanted.item);
        }
    };
    pool.admit().await;
    let mut claim = Claim { pool, job: Some(pool.submit(Box::new(job))) };
    let mut receive = pin!(result.recv_async());
    let outcome = poll_fn(|context| {
        let polled = receive.as_mut().poll(context);
        worker::announce(What::of(WaitKind::Blocking));
        polled
    })
    .await;
    claim.job = None;
    match outcome {
        Ok(outcome) => outcome.map_err(BlockingError::Raised),
        Err(_) => Err(BlockingError::NoThread(pool.refusal())),
    }
}

/// Drops what a call came to, as part of the job.
fn drop_unwanted<T>(outcome: Result<T, Raised>) {
    let dropped = run(|| match outcome {
        Err(raised) if !raised.is_cancelled() => {
            eprintln!("a blocking call failed, and nobody waits for it: {raised:#}");
        }
        outcome => drop(outcome),
    });
    std::mem::forget(dropped); // what a destructor raises may raise again when it is dropped
}

/// The right of a caller to give its job up.
struct Claim {
    pool: &'static Pool,
    job: Option<u64>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(job) = self.job {
            self.pool.give_up(job);
        }
    }
}

/// Keeps a [manual clock](crate::ManualClock) of the caller's runtime from jumping until it is dropped: for a task that waits for a
/// thread that is no worker, as [`blocking`] does by itself. None outside of a runtime.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{ManualClock, Runtime, chan::oneshot, hold_clock, sleep, spawn};
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
pub struct ClockHold(&'static Shared);

impl ClockHold {
    fn new(shared: &'static Shared) -> ClockHold {
        shared.blocking.hold();
        ClockHold(shared)
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
        if !worker::current().is_some_and(|worker| ptr::eq(worker.shared, self.0)) {
            self.0.wake_all(); // nobody else looks whether the clock may jump
        }
    }
}
