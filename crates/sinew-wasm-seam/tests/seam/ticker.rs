//! The tick that ends a guest's slice: every millisecond, and only while a guest runs.
//!
//! Guests compile to code that compares the engine's epoch with a deadline at every loop and call, and yields when it has
//! passed. Somebody has to advance the epoch, and it cannot be a task: on a runtime with one worker no task runs while a
//! guest does. So it is a thread. It waits on a condition while no guest is polled (`running` is zero), and otherwise
//! ticks at the end of each millisecond. `parked` says that it waits for that condition, so that tests can see it.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use wasmtime::Engine;

const TICK: Duration = Duration::from_millis(1);

pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    parked: bool,
    over: bool,
    ticks: u64,
}

impl Ticker {
    pub(crate) fn new(engine: &Engine) -> Ticker {
        let shared = Arc::new(Shared::default());
        let (ticking, engine) = (shared.clone(), engine.clone());
        let thread = std::thread::spawn(move || ticking.tick(&engine));
        Ticker { shared, thread: Some(thread) }
    }

    /// Has the engine tick while `future` is polled.
    pub(crate) fn ticked<F: Future + Send + 'static>(&self, future: F) -> Ticked<F::Output> {
        Ticked { shared: self.shared.clone(), future: Box::pin(future) }
    }

    /// Waits until no guest runs and the thread has seen that; returns how often it has ticked.
    pub(crate) fn parked(&self) -> u64 {
        let state = self.shared.state.lock().unwrap();
        self.shared.changed.wait_while(state, |state| state.running > 0 || !state.parked).unwrap().ticks
    }

    /// How often it has ticked.
    pub(crate) fn ticks(&self) -> u64 {
        self.shared.state.lock().unwrap().ticks
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.change(|state| state.over = true);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn tick(&self, engine: &Engine) {
        let mut state = self.state.lock().unwrap();
        loop {
            state.parked = true;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |state| state.running == 0 && !state.over).unwrap();
            if state.over {
                return;
            }
            state.parked = false;
            drop(state);
            std::thread::sleep(TICK);
            state = self.state.lock().unwrap();
            if state.running > 0 {
                engine.increment_epoch();
                state.ticks += 1;
            }
        }
    }
}

/// A future during whose polls the engine ticks.
pub(crate) struct Ticked<T> {
    shared: Arc<Shared>,
    future: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Future for Ticked<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        struct Leave<'a>(&'a Shared);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.change(|state| state.running -= 1);
            }
        }
        let this = &mut *self;
        this.shared.change(|state| state.running += 1);
        let _leave = Leave(&this.shared);
        this.future.as_mut().poll(context)
    }
}
