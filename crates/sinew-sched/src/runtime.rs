//! A runtime on threads of its own: how it starts, what it admits, and how it ends.

use std::fmt;
use std::time::Duration;

use sinew_fiber::raw::tell_of_trims_by;
use sinew_fiber::{CancelLevel, Raised, Stack, StackError, StackSize};
use sinew_sync::thread::{self, JoinHandle as ThreadHandle, Thread};
use sinew_sync::{Arc, Mutex};

use crate::blocking::pool::{Limits, Pool};
use crate::clock::{Clock, ManualClock, system_now};
use crate::counters::WorkerCounters;
use crate::cpu;
use crate::current_thread::CurrentThread;
use crate::dump::{Backtraces, Dump, signal};
use crate::handle::Handle;
use crate::shared::{MOST_WORKERS, Report, Shared, SharedRef, reference};
use crate::spawn::owner_spawns;
use crate::sysmon::{self, Sysmon};
use crate::worker::{self, Queues, Worker};

/// How long the memory of stacks that no task needs is kept.
const STACK_IDLE_TIME: Duration = Duration::from_secs(10);

/// The options of a runtime.
///
/// ```
/// use sinew_sched::Runtime;
///
/// let runtime = Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(runtime.run(|| 42).unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: Option<usize>,
    stack: StackSize,
    grace: Duration,
    clock: Option<ManualClock>,
    pin_workers: bool,
    look_again: bool,
    blocking: Limits,
    sysmon: Sysmon,
    stack_idle_time: Duration,
    dump_signal: Option<i32>,
}

impl Builder {
    /// How many threads run tasks; as many as there are processors if not said. At least one.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers.max(1));
        self
    }

    /// How large the stacks are that tasks run on; 256 KiB if not said. A task that needs more ends the process.
    pub fn stack(mut self, stack: StackSize) -> Builder {
        self.stack = stack;
        self
    }

    /// How long a runtime that is dropped waits for its tasks to end, first after cancelling and then after killing
    /// them; 5 seconds if not said.
    pub fn grace(mut self, grace: Duration) -> Builder {
        self.grace = grace;
        self
    }

    /// Binds each worker to a CPU of its own, in turn among those that the process could use when its first runtime was
    /// built. Defaults to false: workers start on different CPUs, and the kernel may move them.
    ///
    /// For machines where nothing else runs: the bound workers of two processes may meet on one CPU while another one
    /// idles. Threads and processes inherit the binding from the worker that starts them.
    pub fn pin_workers(mut self, pin: bool) -> Builder {
        self.pin_workers = pin;
        self
    }

    /// Lets `clock` tell the time, instead of the system: see [`ManualClock`].
    pub fn manual_clock(mut self, clock: &ManualClock) -> Builder {
        self.clock = Some(clock.clone());
        self
    }

    /// How many threads there are at most for blocking calls; 512 if not said. At least one. Each is
    /// started when it is needed.
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.blocking.threads = threads.max(1);
        self
    }

    /// How many blocking calls can be queued when all threads for them are busy; 1,024 if not said.
    /// When the queue is full, callers wait for a place in it.
    pub fn blocking_queue(mut self, calls: usize) -> Builder {
        self.blocking.queue = calls;
        self
    }

    /// How long a thread for blocking calls stays when it has nothing to do; 10 seconds if not said.
    pub fn blocking_keep_alive(mut self, keep_alive: Duration) -> Builder {
        self.blocking.keep_alive = keep_alive;
        self
    }

    /// What looks after workers that are stuck: see [`Sysmon`], also for what it is if not said.
    pub fn sysmon(mut self, sysmon: Sysmon) -> Builder {
        self.sysmon = sysmon;
        self
    }

    /// How long the memory of stacks that no task needs any more is kept for later tasks; then it is given back to the
    /// system. Defaults to 10 seconds; with [`Duration::MAX`] it is kept.
    ///
    /// A stack goes back when it was not needed for one to two such times, however often others were: what the largest burst
    /// of tasks in that time needed stays. Free stacks belong to the process: of several runtimes, the shortest time counts.
    ///
    /// Sysmon does this. A runtime [without](Sysmon::off), or on the calling thread, gives nothing back by itself;
    /// [`trim`](crate::trim) does so at once.
    pub fn stack_idle_time(mut self, time: Duration) -> Builder {
        self.stack_idle_time = time;
        self
    }

    /// Has a signal, by its number, print a [dump](Runtime::dump_with) of the runtime to standard error, with backtraces of
    /// up to 100 tasks: `kill -USR1` then shows what a process is doing that hangs. Off if not said.
    ///
    /// The signal's handler stays for as long as the process lives. One that another library handles is an error of
    /// [`build`](Builder::build), and so is one that cannot be handled.
    pub fn dump_on_signal(mut self, signal: i32) -> Builder {
        self.dump_signal = Some(signal);
        self
    }

    /// Whether a worker that is idle while others are busy looks every now and then if one of them is stuck with tasks
    /// that it could take, and sysmon does. Without that it sleeps until somebody wakes it: for tests of whether
    /// somebody does.
    #[doc(hidden)]
    pub fn safety_nets(mut self, on: bool) -> Builder {
        self.look_again = on;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread, or has no stack of the size that was asked for; if there were to be more than
    /// 16,384 workers.
    pub fn build(self) -> std::io::Result<Runtime> {
        let workers = self.workers.unwrap_or_else(cpu::parallelism);
        if workers > MOST_WORKERS {
            let text = format!("a runtime has at most {MOST_WORKERS} workers, not {workers}");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
        }
        let settings = if self.look_again { self.sysmon.clone() } else { Sysmon::off() };
        let temporary = settings.most_temporary(workers);
        let (shared, mut queues) = self.share(workers, temporary)?;
        let spare = queues.split_off(workers);
        let (cpus, _) = (cpu::allowed(), cpu::parallelism()); // both asked before any worker is bound
        let places = (workers <= cpus.len() || self.pin_workers) && !cpus.is_empty();
        let ready = Arc::new(Ready::new());
        let mut runtime =
            Runtime { shared: shared.clone(), threads: Vec::new(), sysmon: None, grace: self.grace };
        for (index, queues) in queues.into_iter().enumerate() {
            let cpu = places.then(|| cpus[index % cpus.len()]);
            let (ready, reference) = (ready.clone(), shared.clone());
            let thread = thread::Builder::new().name(format!("sinew-worker-{index}")).spawn(move || {
                let worker = Worker::new(index, reference.get(), queues);
                cpu.into_iter().for_each(if self.pin_workers { cpu::bind } else { cpu::place });
                let prepared = worker.prepare();
                let fine = prepared.is_ok();
                ready.tell(prepared);
                if fine {
                    worker.enter(None);
                }
                drop(worker);
                drop(reference);
            })?;
            runtime.threads.push(thread);
        }
        ready.wait(workers)?;
        runtime.sysmon = sysmon::start(&shared, settings, spare, self.stack_idle_time)?;
        Ok(runtime)
    }

    /// A runtime that runs its tasks on the calling thread, when it is told to; [`workers`](Builder::workers) is not
    /// looked at.
    ///
    /// # Errors
    ///
    /// If there is no stack of the size that was asked for.
    pub fn build_current_thread(self) -> std::io::Result<CurrentThread> {
        let (shared, mut queues) = self.share(1, 0)?;
        Ok(CurrentThread::new(shared, queues.remove(0), self.grace))
    }

    /// What so many workers share, and their queues.
    fn share(&self, workers: usize, temporary: usize) -> std::io::Result<(SharedRef, Vec<Queues>)> {
        // A worker cannot do without its first stack: a size that cannot be had is told here.
        drop(Stack::take(self.stack).map_err(std::io::Error::other)?);
        let queues: Vec<Queues> = (0..workers + temporary).map(|_| Queues::new()).collect();
        let clock = self.clock.clone().map_or(Clock::System, Clock::Manual);
        let mut shared = Shared::new(&queues, temporary, self.stack, clock, self.look_again);
        shared.blocking = Pool::new(self.blocking.clone(), shared.id);
        let shared = SharedRef::new(shared);
        tell_of_trims_by(|| reference::all().iter().for_each(|runtime| runtime.wake_all()));
        if let Some(signal) = self.dump_signal {
            signal::listen(signal, shared.id)?;
        }
        if let Some(clock) = &self.clock {
            clock.drives(shared.id);
        }
        Ok((shared, queues))
    }
}

/// What the workers tell whoever starts them: whether they have their first stacks.
struct Ready {
    told: Mutex<Vec<Result<(), StackError>>>,
    builder: Thread,
}

impl Ready {
    fn new() -> Ready {
        Ready { told: Mutex::new(Vec::new()), builder: thread::current() }
    }

    fn tell(&self, prepared: Result<(), StackError>) {
        self.told.lock().push(prepared);
        self.builder.unpark();
    }

    fn wait(&self, workers: usize) -> std::io::Result<()> {
        while self.told.lock().len() < workers {
            thread::park();
        }
        self.told.lock().drain(..).collect::<Result<(), _>>().map_err(std::io::Error::other)
    }
}

/// Tasks on a few threads. Dropping it shuts it down.
pub struct Runtime {
    pub(crate) shared: SharedRef,
    threads: Vec<ThreadHandle<()>>,
    sysmon: Option<ThreadHandle<()>>,
    grace: Duration,
}

owner_spawns!(Runtime);

impl Runtime {
    /// Returns the runtime by reference.
    pub fn handle(&self) -> Handle {
        Handle::of(&self.shared)
    }

    /// A runtime with default options.
    ///
    /// # Panics
    ///
    /// If the system cannot start a thread; [`Builder::build`] returns that as an error.
    #[allow(clippy::new_without_default, reason = "it starts threads")]
    pub fn new() -> Runtime {
        Runtime::builder().build().expect("the system can start a thread")
    }

    /// The options of a runtime.
    pub fn builder() -> Builder {
        let grace = Duration::from_secs(5);
        let (stack, blocking, sysmon) = (StackSize::default(), Limits::default(), Sysmon::default());
        Builder {
            workers: None,
            stack,
            grace,
            clock: None,
            pin_workers: false,
            look_again: true,
            blocking,
            sysmon,
            stack_idle_time: STACK_IDLE_TIME,
            dump_signal: None,
        }
    }

    /// Runs `body` as a task and waits for it.
    ///
    /// # Errors
    ///
    /// The signal or panic that it ended with.
    #[track_caller]
    pub fn run<F, T>(&self, body: F) -> Result<T, Raised>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn(body).join()
    }

    /// What the runtime is doing: each worker with its queues, its counts and its timers, and each task with what it waits
    /// for and where it was spawned. As text for people, or as JSON.
    ///
    /// It may be asked for at any time, also when all workers are stuck. Nothing stands still for it: each task is seen
    /// as it was at some moment, but tasks may contradict each other, one that has just been spawned may be missing, and
    /// a count may be behind.
    ///
    /// ```
    /// use sinew_sched::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let dump = runtime.dump();
    /// assert_eq!(dump.workers.len(), 2);
    /// assert!(dump.to_string().contains("worker 1: "));
    /// assert!(dump.to_json().starts_with('{'));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dump(&self) -> Dump {
        self.shared.dump()
    }

    /// A [dump](Runtime::dump) with backtraces of up to so many tasks that are parked, and the fibers that these are in. Each
    /// worker is asked for those of its own tasks, and answers between two turns; one that does not within 200 ms is
    /// named. Names of functions are looked up in the program's debug information, which takes time and, in a task, a
    /// large stack.
    ///
    /// Futures, and bodies that migrate, have none.
    ///
    /// ```
    /// use sinew_sched::{Backtraces, Runtime};
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// println!("{}", runtime.dump_with(Backtraces::UpTo(100)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dump_with(&self, backtraces: Backtraces) -> Dump {
        self.shared.dump_with(backtraces, None)
    }

    /// What each worker has counted since the runtime started. Counters are behind by nothing, but read one after the other.
    ///
    /// ```
    /// use sinew_sched::{Runtime, yield_now};
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.run(yield_now).unwrap();
    /// assert!(runtime.counters().iter().map(|worker| worker.turns).sum::<u64>() > 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn counters(&self) -> Vec<WorkerCounters> {
        self.shared.counters()
    }

    /// Makes [dumps](Runtime::dump) of the runtime for whoever has it, on any thread, also while the runtime is shut down
    /// and afterwards: for a watchdog. The memory of the runtime is kept as long as there is one.
    pub fn dumper(&self) -> impl Fn() -> Dump + Clone + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.dump()
    }

    /// Ends the runtime: cancels all tasks, waits for them up to `grace`, kills what is left, waits as long again,
    /// and says what did not end even so.
    ///
    /// Blocking calls that nobody waits for any more have until `grace` after the shutdown began.
    ///
    /// A task that does this to its own runtime does not wait for itself: it gets a report of what is left, itself
    /// included, at once, and the workers end after the last task.
    pub fn shutdown(mut self, grace: Duration) -> Report {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> Report {
        self.shared.close();
        if worker::current().is_some_and(|worker| worker.runtime == self.shared.id) {
            self.shared.cancel_all(CancelLevel::Cancel);
            self.shared.stop();
            return self.shared.report();
        }
        let deadline = system_now() + grace;
        let mut levels = [CancelLevel::Cancel, CancelLevel::Kill].into_iter();
        let _ = self.shared.try_end() || levels.any(|level| self.shared.drain(level, grace));
        self.shared.blocking.drain(deadline);
        let report = self.shared.report();
        self.shared.stop();
        if report.left == 0 {
            for thread in self.threads.drain(..).chain(self.sysmon.take()) {
                let _ = thread.join();
            }
        }
        report
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.shared.is_stopping() {
            let _ = self.end(self.grace);
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.threads.len()).finish_non_exhaustive()
    }
}
