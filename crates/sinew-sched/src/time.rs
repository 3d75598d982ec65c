//! Sleeping: deadlines in the worker's timer wheel.

use std::cell::RefCell;
use std::ptr;
use std::time::{Duration, Instant};

use sinew_fiber::{Cancelled, Reason, await_};

use crate::task::TaskRef;
use crate::wheel::{Entry, Wheel};
use crate::worker;

/// The deadlines of the tasks that sleep on one worker. Only that worker uses it, and no code of others runs while
/// it is borrowed.
pub(crate) struct Timers {
    epoch: Instant,
    wheel: RefCell<Wheel<TaskRef>>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { epoch: Instant::now(), wheel: RefCell::new(Wheel::new(0)) }
    }

    fn nanoseconds(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Wakes everybody whose time has come.
    pub(crate) fn expire(&self, now: Instant) {
        let now = self.nanoseconds(now);
        let mut wheel = self.wheel.borrow_mut();
        if wheel.len() > 0 {
            // An unpark of a task of this worker only puts it into a queue.
            wheel.advance(now, |task| worker::unpark(*task));
        }
    }

    /// When the next deadline is, at the earliest.
    pub(crate) fn next(&self) -> Option<Instant> {
        let next = self.wheel.borrow().next_deadline()?;
        Some(self.epoch + Duration::from_nanos(next))
    }
}

/// Suspends the task for at least `duration`; on a thread that is no worker, the thread. The worker looks at its
/// timers when it has nothing else to do and every 61 turns, so a sleep is late by less than a millisecond as long
/// as no task of the worker runs for longer without blocking.
///
/// Unwinds if the task is cancelled or killed.
pub fn sleep(duration: Duration) {
    sleep_until(after(duration));
}

/// The instant that is `duration` from now; far away if there is none.
pub(crate) fn after(duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + CENTURY)
}

/// Suspends the task until `deadline`; see [`sleep`].
pub fn sleep_until(deadline: Instant) {
    let Some(worker) = worker::current() else { return block_until(deadline) };
    let task = worker::current_task().expect("a worker runs nothing but tasks");
    /// Takes the entry out of the wheel on every way out. A fiber that is kept in a thread-local is ended when its
    /// worker, and the wheel with it, is gone.
    struct Set<'a>(&'a Entry<TaskRef>);
    impl Drop for Set<'_> {
        fn drop(&mut self) {
            if let Some(worker) = worker::current() {
                // SAFETY: it was inserted below, by the one worker that this thread ever is, and has not moved.
                unsafe { worker.timers.wheel.borrow_mut().remove(ptr::from_ref(self.0)) };
            }
        }
    }
    let entry = Entry::new(task.reference());
    let timers = &worker.timers;
    // SAFETY: `Set` removes the entry before it goes.
    unsafe { timers.wheel.borrow_mut().insert(&raw const entry, timers.nanoseconds(deadline)) };
    let _set = Set(&entry);
    while Instant::now() < deadline {
        match await_(()) {
            Ok(_) => (),
            // An infallible call: the error becomes an unwind.
            Err(refused) if refused.reason() == Reason::Cancelled => sinew_fiber::error(Cancelled),
            // In a destructor while the thread unwinds, or in a callback of foreign code: the worker waits.
            Err(_) => block_until(deadline),
        }
    }
}

fn block_until(deadline: Instant) {
    while let left @ 1.. = deadline.saturating_duration_since(Instant::now()).as_nanos() {
        sinew_sync::park_timeout(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)));
    }
}
