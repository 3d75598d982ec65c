//! A runtime on the thread of whoever has it: for embedders with a loop of their own, and for tests.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::time::Duration;

use sinew_core::Signal;
use sinew_fiber::{CancelLevel, Raised, Value};

use crate::clock::system_now;
use crate::dump::{Backtraces, Dump};
use crate::shared::{Report, SharedRef};
use crate::spawn::owner_spawns;
use crate::worker::{Queues, Worker};

/// Turns between two looks at whether [`CurrentThread::run`] is done.
const TURNS: u64 = 64;

/// How long a shutdown waits for what other threads have to do before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A runtime that runs its tasks on the thread that it was made on, whenever that thread says so: one turn by
/// [`step`](CurrentThread::step), all that can run now by [`run_until_idle`](CurrentThread::run_until_idle), or until one
/// task has ended by [`run`](CurrentThread::run). Between those calls nothing runs.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{ManualClock, Runtime, sleep};
///
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder().manual_clock(&clock).build_current_thread()?;
/// let task = runtime.spawn(|| sleep(Duration::from_secs(60)));
/// runtime.run_until_idle();
/// assert!(!task.is_finished());
/// clock.advance(Duration::from_secs(61));
/// runtime.run_until_idle();
/// assert!(task.is_finished());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct CurrentThread {
    pub(crate) shared: SharedRef,
    worker: ManuallyDrop<Box<Worker>>,
    grace: Duration,
    ended: bool,
    _thread: PhantomData<*const ()>,
}

owner_spawns!(CurrentThread);

impl CurrentThread {
    pub(crate) fn new(shared: SharedRef, queues: Queues, grace: Duration) -> CurrentThread {
        let worker = ManuallyDrop::new(Box::new(Worker::new(0, shared.get(), queues)));
        CurrentThread { shared, worker, grace, ended: false, _thread: PhantomData }
    }

    /// Runs one task until it ends or blocks. False if none was ready, and while the thread unwinds, when no task can run:
    /// it would take the unwind for its own.
    ///
    /// # Panics
    ///
    /// If it is called by one of the runtime's own tasks.
    pub fn step(&self) -> bool {
        self.worker.enter(Some(1)) == 0
    }

    /// Runs tasks until none is ready, and says how many turns they took. Those that sleep stay asleep: a manual clock
    /// is not moved.
    ///
    /// # Panics
    ///
    /// As for [`step`](CurrentThread::step).
    pub fn run_until_idle(&self) -> u64 {
        u64::MAX - self.worker.enter(Some(u64::MAX))
    }

    /// Runs `body` as a task, and all others meanwhile, until it has ended; the thread blocks when there is nothing to
    /// do.
    ///
    /// # Errors
    ///
    /// The signal or panic that it ended with; an error if the thread unwinds, when no task can run.
    ///
    /// # Panics
    ///
    /// As for [`step`](CurrentThread::step).
    #[track_caller]
    pub fn run<F, T>(&self, body: F) -> Result<T, Raised>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if std::thread::panicking() {
            let value = Value::new("a runtime does not run tasks on a thread that unwinds");
            return Err(Raised { signal: Signal::Error, value, trace: None });
        }
        let task = self.spawn(body);
        while !task.is_finished() {
            if self.worker.enter(Some(TURNS)) == TURNS && !task.is_finished() {
                self.worker.give_stacks_back_if_asked();
                self.shared.sleep(0, self.worker.timers().next());
            }
        }
        task.join()
    }

    /// What the runtime is doing: see [`Runtime::dump`](crate::Runtime::dump).
    pub fn dump(&self) -> Dump {
        self.shared.dump()
    }

    /// The same with backtraces: see [`Runtime::dump_with`](crate::Runtime::dump_with).
    pub fn dump_with(&self, backtraces: Backtraces) -> Dump {
        self.shared.dump_with(backtraces, Some(&self.worker))
    }

    /// Makes dumps of the runtime on any thread: see [`Runtime::dumper`](crate::Runtime::dumper).
    pub fn dumper(&self) -> impl Fn() -> Dump + Clone + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.dump()
    }

    /// Ends the runtime: unless the thread unwinds, cancels all tasks, runs them up to `grace`, kills what is left, runs it as long again, and
    /// says what did not end even so.
    pub fn shutdown(mut self, grace: Duration) -> Report {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> Report {
        self.ended = true;
        self.shared.close();
        let levels: &[CancelLevel] =
            if std::thread::panicking() { &[] } else { &[CancelLevel::Cancel, CancelLevel::Kill] };
        let calls_end = system_now() + grace;
        for &level in levels {
            let deadline = system_now() + grace;
            while !self.shared.try_end() && system_now() < deadline {
                self.shared.cancel_all(level);
                if self.worker.enter(Some(TURNS)) == TURNS {
                    let limit = (deadline - system_now()).min(LOOK_AGAIN);
                    self.shared.sleep_for(0, self.worker.timers().next(), Some(limit));
                }
            }
        }
        if !levels.is_empty() {
            self.shared.blocking.drain(calls_end);
        }
        let report = self.shared.report();
        self.shared.stop();
        if report.left > 0 {
            self.shared.abandon();
            mem::forget(self.shared.clone()); // what is left stays, and the worker with it
        } else {
            // SAFETY: not used again: `self` is being dropped, or consumed.
            unsafe { ManuallyDrop::drop(&mut self.worker) };
        }
        report
    }
}

impl Drop for CurrentThread {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end(self.grace);
        }
    }
}

impl fmt::Debug for CurrentThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentThread").field("tasks", &self.shared.active()).finish_non_exhaustive()
    }
}
