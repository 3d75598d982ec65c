//! What tests share: runtimes of several sizes, a watchdog, and counts that must come out even.

use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sinew_chan::chan::oneshot;
use sinew_sched::{Builder, CurrentThread, JoinHandle, ManualClock, Runtime, WorkerState};

/// How many times longer than usual the tests run: `SINEW_STRESS`, or 1. A fraction makes them shorter.
pub fn scale() -> f64 {
    std::env::var("SINEW_STRESS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// `usual` rounds, or more or fewer for who asked for it; at least one.
pub fn rounds(usual: usize) -> usize {
    ((usual as f64 * scale()) as usize).max(1)
}

/// Runs `test` with one worker, two, and more than there are cores; each with idle workers that look again by themselves,
/// and with ones that sleep until they are woken.
pub fn with_runtimes(test: impl Fn(&Runtime)) {
    for nets in [true, false] {
        for workers in [1, 2, 8] {
            with_runtime(Runtime::builder().workers(workers).safety_nets(nets), &test);
        }
    }
}

/// Runs `test` with so many workers, of which the idle ones look after the others. For tests in which a task keeps its
/// worker busy until another, which it has queued, was run by somebody else.
pub fn with_idle_lookers(workers: &[usize], test: impl Fn(&Runtime, usize)) {
    for &workers in workers {
        with_runtime(Runtime::builder().workers(workers), |runtime| test(runtime, workers));
    }
}

/// Runs `test` with a runtime, which has to end with nothing left.
pub fn with_runtime(builder: Builder, test: impl FnOnce(&Runtime)) {
    let runtime = builder.clone().build().unwrap();
    let watchdog = Watchdog::new(format!("{builder:?}"));
    watchdog.watch(&runtime);
    test(&runtime);
    let dump = runtime.dumper();
    let report = runtime.shutdown(Duration::from_secs(60));
    assert_eq!(report.left, 0, "{report:?}\n{}", dump());
}

/// A runtime on this thread.
pub fn current_thread() -> CurrentThread {
    Runtime::builder().build_current_thread().unwrap()
}

/// Runs `test` as a task, on a clock that jumps.
pub fn with_manual_clock(test: impl FnOnce() + Send + 'static) {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).manual_clock(&clock).build().unwrap().run(test).unwrap();
}

/// A task that ends when it is told to, with what it is told.
pub fn gated(runtime: &CurrentThread) -> (oneshot::Sender<u64>, JoinHandle<u64>) {
    let (gate, mut opened) = oneshot::channel();
    let task = runtime.spawn(move || opened.recv().unwrap());
    runtime.run_until_idle();
    (gate, task)
}

/// Polls a future that nobody is woken for.
pub fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

type Dump = Box<dyn Fn() -> String + Send>;

/// Ends the process, with a dump of the runtimes, if it is not dropped in time.
///
/// The time is the only thing that a clock decides here, and it is so long that only a hang reaches it.
pub struct Watchdog {
    state: Arc<(Mutex<Watched>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Watched {
    over: bool,
    dumps: Vec<Dump>,
}

impl Watchdog {
    /// Begins to watch the running test; `what` is printed if it hangs.
    pub fn new(what: String) -> Watchdog {
        let state = Arc::new((Mutex::new(Watched { over: false, dumps: Vec::new() }), Condvar::new()));
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let deadline = Instant::now() + Duration::from_secs(120 + 4 * scale() as u64);
        let watched = state.clone();
        let thread = std::thread::spawn(move || {
            let (state, over) = &*watched;
            let mut state = state.lock().unwrap();
            while !state.over {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    bark(&test, &what, &state.dumps);
                }
                state = over.wait_timeout(state, left).unwrap().0;
            }
        });
        Watchdog { state, thread: Some(thread) }
    }

    /// Has a dump of `runtime` printed if there is a hang.
    pub fn watch(&self, runtime: &Runtime) {
        let dump = runtime.dumper();
        self.watch_dump(Box::new(move || dump().to_string()));
    }

    /// Has this dump printed if there is a hang.
    pub fn watch_dump(&self, dump: Dump) {
        self.state.0.lock().unwrap().dumps.push(dump);
    }
}

/// Two dumps, a second apart: what differs still moves. The harness would keep what is printed, hence the plain writes.
fn bark(test: &str, what: &str, dumps: &[Dump]) -> ! {
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "\n{test} hangs, with {what}");
    for _ in 0..2 {
        for dump in dumps {
            let _ = writeln!(stderr, "{}", dump());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    std::process::abort();
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.state.0.lock().unwrap().over = true;
        self.state.1.notify_all();
        let _ = self.thread.take().unwrap().join();
    }
}

/// Counts values that are made and dropped: each that was made is dropped once.
#[derive(Clone, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value of a [`Tally`], with a number in it that is wrong as soon as it was dropped.
pub struct Counted {
    tally: Tally,
    number: u64,
    alive: u64,
}

const ALIVE: u64 = 0x5a5a_1234_5a5a_4321;

impl Tally {
    /// Creates a tally without values.
    pub fn new() -> Tally {
        Tally::default()
    }

    /// Makes a value.
    pub fn value(&self, number: u64) -> Counted {
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Counted { tally: self.clone(), number, alive: ALIVE }
    }

    /// Returns how many values were made.
    pub fn made(&self) -> usize {
        self.0.made.load(Ordering::Acquire)
    }

    /// Returns how many values were dropped.
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::Acquire)
    }

    /// So many were made, and all of them dropped.
    #[track_caller]
    pub fn assert_even(&self, made: usize) {
        assert_eq!((self.made(), self.dropped()), (made, made), "made and dropped");
    }
}

impl Counted {
    /// Returns the number; panics if the value was dropped.
    pub fn number(&self) -> u64 {
        assert_eq!(self.alive, ALIVE, "used after it was dropped");
        self.number
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(std::mem::replace(&mut self.alive, 0), ALIVE, "dropped twice");
        self.tally.0.dropped.fetch_add(1, Ordering::AcqRel);
    }
}

/// A random number, the same in every run.
pub fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// A seed for [`next`].
pub const SEED: u64 = 88_172_645_463_325_252;

/// A value that comes later, once, and whoever waits for it.
#[derive(Default)]
pub struct Later(Mutex<(Option<u64>, Option<Waker>)>);

impl Later {
    /// Sets the value.
    pub fn set(&self, value: u64) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            assert!(state.0.replace(value).is_none(), "set twice");
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits for the value.
    pub async fn get(&self) -> u64 {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            match state.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Says that it is over when it is dropped, also by a test that fails, to threads that go on until then.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits on the thread until `done`; the watchdog sees to it that this ends.
pub fn spin_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// Waits until all workers sleep.
pub fn wait_until_all_sleep(runtime: &Runtime) {
    spin_until(|| runtime.dump().workers.iter().all(|worker| worker.state == WorkerState::Asleep));
}

/// How often the threads whose names begin so have gone to sleep so far. None if one has just ended.
pub fn sleeps(threads: &str) -> Option<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        if field("Name:").starts_with(threads) {
            sum += field("voluntary_ctxt_switches:").parse::<u64>().unwrap();
        }
    }
    Some(sum)
}

/// Waits until sysmon, which sleeps between two ticks, has looked so often at a runtime of which a worker is up. If other
/// tests run in this process, their sysmons count as well: then it may have looked less often.
pub fn wait_for_ticks(count: u64) {
    let now = || sleeps("sinew-sysmon");
    let start = loop {
        if let Some(start) = now() {
            break start;
        }
    };
    spin_until(|| now().is_some_and(|now| now >= start + count));
}
