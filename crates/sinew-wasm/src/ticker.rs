//! The tick that ends the slices of guests: every millisecond, while a guest runs.
//!
//! The code of guests compares the epoch of its engine with a deadline at every loop and call. A
//! thread advances the epochs, because on a busy worker no task could.
//!
//! # Protocol
//!
//! A worker counts itself in one of the `running` counters while it polls a guest ([`Ticker::enter`]).
//! The thread ticks while a counter is not zero, and parks after [`IDLE_TICKS`] ticks without one.
//! Before it parks it sets `parked` and looks at the counters again; a worker that enters increments
//! its counter and then looks at `parked`. A sequentially consistent fence between the two steps of
//! each has at least one of them see the other: no guest runs without ticks. `stopped` is set and
//! looked at in the same way.
//!
//! Model: `ticker_never_sleeps_through_a_guest`.

use std::time::Duration;

use sinew_sched::turn;
use sinew_sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Arc, Mutex, capacity, fence_after_rmw, park_timeout};

/// The time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks without a guest after which the thread parks. Waking it costs a guest a system call.
const IDLE_TICKS: u32 = 50;

/// Counters of running guests: workers share one only if there are more workers.
const COUNTERS: usize = capacity(16, 1);

pub(crate) struct Ticker {
    state: Arc<State>,
    thread: Option<thread::JoinHandle<()>>,
}

struct State {
    running: [Running; COUNTERS],
    parked: AtomicBool,
    stopped: AtomicBool,
    /// The thread, from when it runs.
    thread: Mutex<Option<Thread>>,
    /// Each advances an epoch; false if its engine is gone.
    epochs: Mutex<Vec<Box<dyn Fn() -> bool + Send>>>,
}

/// On a cache line of its own.
#[repr(align(128))]
struct Running(AtomicU32);

impl Ticker {
    pub(crate) fn start() -> std::io::Result<Ticker> {
        let state = Arc::new(State::new());
        let ticking = state.clone();
        let thread = thread::Builder::new().name("sinew-wasm-tick".into()).spawn(move || ticking.run())?;
        Ok(Ticker { state, thread: Some(thread) })
    }

    /// Has `tick` called at each tick until it returns false.
    pub(crate) fn add(&self, tick: impl Fn() -> bool + Send + 'static) {
        self.state.epochs.lock().push(Box::new(tick));
    }

    /// Has the epochs advance while the guard lives.
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        let counter = &self.state.running[turn::worker_index().unwrap_or(0) % COUNTERS];
        self.state.enter(counter);
        Entered(counter)
    }
}

/// A guest runs as long as this lives.
pub(crate) struct Entered<'a>(&'a Running);

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.state.wake_if_parked();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic
        }
    }
}

impl State {
    fn new() -> State {
        State {
            running: std::array::from_fn(|_| Running(AtomicU32::new(0))),
            parked: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            thread: Mutex::new(None),
            epochs: Mutex::new(Vec::new()),
        }
    }

    /// Counts a guest.
    #[inline]
    fn enter(&self, counter: &Running) {
        counter.0.fetch_add(1, Ordering::SeqCst);
        fence_after_rmw();
        self.wake_if_parked();
    }

    #[inline]
    fn wake_if_parked(&self) {
        if self.parked.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    fn run(&self) {
        *self.thread.lock() = Some(thread::current());
        let mut idle = 0;
        while !self.stopped.load(Ordering::Relaxed) {
            if self.has_guests() {
                idle = 0;
            } else if idle < IDLE_TICKS {
                idle += 1;
            } else {
                self.park();
                idle = 0;
                continue;
            }
            park_timeout(TICK);
            self.epochs.lock().retain(|tick| tick());
        }
    }

    /// Parks until a guest runs.
    fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.has_guests() && !self.stopped.load(Ordering::Relaxed) {
            thread::park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }

    fn has_guests(&self) -> bool {
        self.running.iter().any(|running| running.0.load(Ordering::Relaxed) > 0)
    }
}

#[cfg(all(test, any(loom, shuttle)))]
mod models {
    use super::*;

    /// The thread would park for ever if neither side saw the other.
    #[test]
    fn ticker_never_sleeps_through_a_guest() {
        sinew_sync::model("ticker_never_sleeps_through_a_guest", || {
            let state = Arc::new(State::new());
            let ticking = state.clone();
            let thread = thread::spawn(move || {
                *ticking.thread.lock() = Some(thread::current());
                while !ticking.has_guests() {
                    ticking.park();
                }
            });
            state.enter(&state.running[0]);
            thread.join().unwrap();
        });
    }
}
