//! Threads that park, for loom: its own `unpark` also wakes a thread that waits for a lock, which then has not got it.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};

loom::thread_local! {
    static OWN: Thread = Thread(Arc::new(Permit { given: Mutex::new(false), changed: Condvar::new() }));
}

/// A handle to a thread, by which it is unparked.
#[derive(Clone, Debug)]
pub struct Thread(Arc<Permit>);

#[derive(Debug)]
struct Permit {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Thread {
    /// Threads of a model have no names.
    pub fn name(&self) -> Option<&str> {
        None
    }
}

/// The thread that calls.
pub fn current() -> Thread {
    OWN.with(Thread::clone)
}

/// Blocks the thread until it is unparked.
pub fn park() {
    let permit = current().0;
    let mut given = permit.given.lock().unwrap();
    while !*given {
        given = permit.changed.wait(given).unwrap();
    }
    *given = false;
}

impl Thread {
    /// Lets the thread go on, now or when it parks.
    pub fn unpark(&self) {
        *self.0.given.lock().unwrap() = true;
        self.0.changed.notify_one();
    }
}
