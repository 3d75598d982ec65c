//! Calls that block their thread, on threads that are there for that.
//!
//! A call becomes a job of its runtime's pool of threads. The caller waits for the result in a future ([`on_pool`]),
//! which [`blocking`] runs to its end. The future holds a place in the pool's queue, the right to withdraw the job, and
//! the runtime's clock ([`BlockingCaller`]); each is given back on every way out.
//!
//! The result comes through a [`oneshot`] whose sender belongs to the job: when a job is dropped instead of run, its
//! caller learns that there will be no result.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use sinew_chan::chan::oneshot;
use sinew_core::Mask;
use sinew_fiber::raw::{ready_to_await, report};
use sinew_fiber::{Raised, Reason, Refused, Root, run_as_root};
use sinew_sched::raw::{BlockingCaller, What, announce, refused_io};
use sinew_sched::{WaitKind, block_on};

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

/// That of a task that is cancelled wraps [`Cancelled`](sinew_fiber::Cancelled); its kind is never `Interrupted`, which would be tried again.
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

/// Runs `call`, which may block its thread, on a thread that is there for that, and suspends the running task until it
/// has returned. On a thread that is no worker it simply runs `call`.
///
/// ```
/// use sinew_io::blocking;
/// use sinew_sched::Runtime;
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
/// [`Builder::blocking_threads`](sinew_sched::Builder::blocking_threads). When all are busy, calls are queued; when
/// [the queue](sinew_sched::Builder::blocking_queue) is full, callers wait, first come first served.
///
/// There `call` runs as on any other thread: it has no task, no dynamic bindings of the caller's, and it may use locks and
/// channels of `sinew-chan`. It can not be stopped. When the caller's task is cancelled or killed, or out of time, the call
/// is not begun if it is still queued; else it goes on alone, and its result is dropped. A shutdown waits for such calls,
/// and [reports](sinew_sched::Report::blocking) those that do not end.
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
    let Some(caller) = BlockingCaller::current() else { return run(call).map_err(BlockingError::Raised) };
    ready_to_await()?;
    block_on(on_pool(caller, call))?
}

/// [`blocking`] for futures. The call is begun when the future is first polled; a future that is dropped leaves its call as
/// a task does that is cancelled. Polled by an executor that is not Sinew's, it runs `call` inside the poll.
///
/// ```
/// use sinew_io::blocking_async;
/// use sinew_sched::Runtime;
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
    match BlockingCaller::current() {
        Some(caller) => on_pool(caller, call).await,
        None => run(call).map_err(BlockingError::Raised),
    }
}

/// Runs `call` on this thread, under a root of its own: a panic is noted with its place, and not printed.
fn run<T>(call: impl FnOnce() -> T) -> Result<T, Raised> {
    run_as_root(&mut Root::new("blocking", Mask::NONE), None, call)
}

async fn on_pool<F, T>(caller: BlockingCaller, call: F) -> Result<T, BlockingError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (sender, mut result) = oneshot::channel();
    let job = move || {
        if let Err(unwanted) = sender.send(run(call)) {
            drop_unwanted(unwanted.item);
        }
    };
    caller.admit().await;
    let submitted = caller.submit(Box::new(job));
    let mut receive = pin!(result.recv_async());
    let outcome = poll_fn(|context| {
        let polled = receive.as_mut().poll(context);
        announce(What::of(WaitKind::Blocking));
        polled
    })
    .await;
    submitted.ended();
    match outcome {
        Ok(outcome) => outcome.map_err(BlockingError::Raised),
        Err(_) => Err(BlockingError::NoThread(caller.refusal())),
    }
}

/// Drops what a call came to, as part of the job.
fn drop_unwanted<T>(outcome: Result<T, Raised>) {
    let dropped = run(|| match outcome {
        Err(raised) if !raised.is_cancelled() => {
            report(format_args!("a blocking call failed, and nobody waits for it: {raised:#}"));
        }
        outcome => drop(outcome),
    });
    std::mem::forget(dropped); // what a destructor raises may raise again when it is dropped
}
