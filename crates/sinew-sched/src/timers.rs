//! The timers of a worker: alarms that ring at a deadline.
//!
//! An alarm lies with whoever waits (on its stack, or in its future) and is linked into the wheel of one worker. The
//! wheel has a lock, because a future that moved on takes its alarm back from elsewhere, and because an idle worker
//! serves the timers of one that is stuck. An alarm is taken out, or has rung, before it goes: [`Timers::clear`] waits
//! for the lock, so when it returns nobody touches the alarm any more. No code but ours runs under the lock, nor in the
//! middle of a worker's turn: wakers that are not ours are called by a task.
//!
//! `next` is the earliest time at which there may be something to do. It is written under the lock and read without:
//! the worker itself, which alone inserts, always sees what it wrote; any other only guesses by it, but knows that a
//! worker was up when it wrote what is read.
//!
//! Timers are never freed, since a future may keep its alarm set in them longer than their worker or thread lives, but later
//! workers and threads use them again, once no alarm is set in them any more.
//!
//! Models: `timers_ring_or_cancel`, `timers_ring_or_clear`.

use std::cell::Cell;
use std::task::Waker;

use sinew_core::Instant;
use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::{MODEL, Mutex, statics};

use crate::clock::Clock;
use crate::reach::Frame;
use crate::task::TaskRef;
use crate::waker::{task_of, wake_foreign};
use crate::wheel::{Entry, Wheel};
use crate::worker;

/// What happens at a deadline.
pub(crate) enum Ring {
    /// This task goes on.
    Unpark(TaskRef),
    /// This future is polled.
    Wake(Cell<Option<Waker>>),
    /// What is inside this frame unwinds.
    Trip(Frame),
}

/// A deadline that somebody has set.
pub(crate) type Alarm = Entry<Ring>;

pub(crate) struct Timers {
    wheel: Mutex<Wheel<Ring>>,
    next: AtomicU64,
    /// How many alarms are set. Written under the lock, like `next`.
    set: AtomicU64,
}

/// The timers of workers and threads that are gone.
fn spare() -> statics::MutexGuard<'static, Vec<&'static Timers>> {
    static SPARE: statics::Mutex<Vec<&'static Timers>> = statics::Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// SAFETY: the alarms are reached under the lock only, whose holder is their only user meanwhile. Tasks are woken from
// any thread, and so are wakers.
unsafe impl Send for Ring {}

impl Timers {
    fn new() -> Timers {
        let (next, set) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Timers { wheel: Mutex::new(Wheel::new(0)), next, set }
    }

    /// Timers that nobody else uses, with no alarm set.
    pub(crate) fn take() -> &'static Timers {
        let mut spare = spare();
        let empty = spare.iter().position(|timers| timers.restart());
        empty.map_or_else(|| &*Box::leak(Box::new(Timers::new())), |at| spare.swap_remove(at))
    }

    /// The worker or thread that looked after the timers is gone: another may have them.
    pub(crate) fn give(&'static self) {
        if !MODEL {
            spare().push(self);
        }
    }

    /// Sets the present back to the beginning of time, for another clock. False if an alarm is set.
    fn restart(&self) -> bool {
        let mut wheel = self.wheel.lock();
        if wheel.len() > 0 {
            return false;
        }
        wheel.restart();
        self.publish(&wheel);
        true
    }

    /// Lets `alarm` ring at `deadline`.
    ///
    /// # Safety
    ///
    /// `alarm` is set nowhere, stays where it is until it was cleared, and is only used through its timers.
    pub(crate) unsafe fn set(&self, alarm: *const Alarm, deadline: Instant) {
        let mut wheel = self.wheel.lock();
        // SAFETY: the caller's promise.
        unsafe { wheel.insert(alarm, deadline.as_nanos()) };
        self.publish(&wheel);
    }

    /// Takes `alarm` back. False if it has rung.
    ///
    /// # Safety
    ///
    /// `alarm` was set here and is still where it was.
    pub(crate) unsafe fn clear(&self, alarm: *const Alarm) -> bool {
        let mut wheel = self.wheel.lock();
        // SAFETY: the caller's promise.
        let removed = unsafe { wheel.remove(alarm) };
        self.set.store(wheel.len() as u64, Ordering::Relaxed);
        removed
    }

    /// Gives `alarm`, of a future, another waker. False if it has rung.
    ///
    /// # Safety
    ///
    /// As for [`Timers::clear`].
    pub(crate) unsafe fn set_waker(&self, alarm: *const Alarm, waker: &Waker) -> bool {
        // A waker's clone and drop may be anybody's code, which the lock is not held for.
        let mut waker = Some(waker.clone());
        let wheel = self.wheel.lock();
        // SAFETY: the caller's promise; under the lock we are its only user.
        let alarm = unsafe { &*alarm };
        if let Ring::Wake(current) = &alarm.owner {
            waker = current.replace(waker);
        }
        let is_set = alarm.is_set();
        drop(wheel);
        drop(waker);
        is_set
    }

    /// Rings all alarms whose time has come.
    #[inline]
    pub(crate) fn expire(&self, clock: &Clock) {
        let next = self.next.load(Ordering::Relaxed);
        if next != u64::MAX {
            let now = clock.now();
            if now.as_nanos() >= next {
                self.ring(now);
            }
        }
    }

    #[cold]
    fn ring(&self, now: Instant) {
        let foreign = self.ring_ours(now);
        if !foreign.is_empty() {
            wake_foreign(foreign);
        }
    }

    /// Rings all alarms whose time has come, and returns the wakers among them that are not ours.
    pub(crate) fn ring_ours(&self, now: Instant) -> Vec<Waker> {
        let mut foreign = Vec::new();
        let mut wheel = self.wheel.lock();
        wheel.advance(now.as_nanos(), |ring| match ring {
            Ring::Unpark(task) => worker::unpark(*task),
            Ring::Trip(frame) => frame.trip(),
            Ring::Wake(waker) => match waker.take() {
                Some(waker) if let Some(task) = task_of(&waker) => worker::unpark(task),
                waker => foreign.extend(waker),
            },
        });
        self.publish(&wheel);
        foreign
    }

    /// When the next alarm rings, at the earliest.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.next.load(Ordering::Acquire) {
            u64::MAX => None,
            next => Some(Instant::from_nanos(next)),
        }
    }

    /// How many alarms are set.
    pub(crate) fn len(&self) -> u64 {
        self.set.load(Ordering::Relaxed)
    }

    fn publish(&self, wheel: &Wheel<Ring>) {
        self.set.store(wheel.len() as u64, Ordering::Relaxed);
        self.next.store(wheel.next_deadline().unwrap_or(u64::MAX), Ordering::Release);
    }
}

/// Runs `wait`, at the end of which the running task is woken at `deadline` at the latest: what it waits for has to be
/// checked in a loop, and the time too. Only for tasks.
pub(crate) fn with_alarm<T>(deadline: Instant, wait: impl FnOnce() -> T) -> T {
    /// Takes the alarm back on every way out.
    struct Set<'a>(&'a Timers, *const Alarm);
    impl Drop for Set<'_> {
        fn drop(&mut self) {
            // SAFETY: it was set below and has not moved.
            unsafe { self.0.clear(self.1) };
        }
    }
    let worker = worker::current().expect("only tasks set alarms");
    let task = worker::current_task().expect("only tasks set alarms");
    let timers = worker.timers();
    let alarm = Alarm::new(Ring::Unpark(task.reference()));
    // SAFETY: `Set` clears the alarm before it goes.
    unsafe { timers.set(&raw const alarm, deadline) };
    let _set = Set(timers, &raw const alarm);
    wait()
}

#[cfg(test)]
mod tests {
    use std::future::Pending;

    use sinew_fiber::{CancelLevel, StackSize};
    use sinew_sync::{model, thread};

    use super::*;
    use crate::future::{Plain, future_table};
    use crate::shared::Shared;
    use crate::task::Task;
    use crate::worker::Queues;

    /// A task that is parked on a runtime without workers.
    fn parked() -> (&'static Shared, &'static Task) {
        let shared: &Shared =
            Box::leak(Box::new(Shared::new(&[Queues::new()], 0, StackSize::KiB16, Clock::System, true)));
        let task: &Task = Box::leak(Box::new(Task::new(0)));
        // SAFETY: a fresh slot, and the table of what is put there.
        unsafe {
            task.prepare(Plain(std::future::pending::<()>()), future_table::<Plain<Pending<()>>>(), shared, 0)
        };
        assert!(task.state.commit_park());
        (shared, task)
    }

    /// An alarm that rings against a cancel of the same task, which then takes the alarm back: the task is queued once,
    /// and nobody touches the alarm after that.
    #[test]
    fn an_alarm_and_a_cancel_queue_a_task_once() {
        model("timers_ring_or_cancel", || {
            let (shared, task) = parked();
            let timers = shared.inboxes[0].timers;
            let alarm = Box::new(Alarm::new(Ring::Unpark(task.reference())));
            // SAFETY: it is cleared before it goes.
            unsafe { timers.set(&raw const *alarm, Instant::from_nanos(1)) };
            let worker = thread::spawn(move || timers.ring(Instant::from_nanos(1 << 40)));
            task.word.cancel(CancelLevel::Cancel);
            worker::unpark(task.reference());
            // SAFETY: it was set above.
            unsafe { timers.clear(&raw const *alarm) };
            drop(alarm);
            worker.join().unwrap();
            assert!(shared.injector.steal().success().is_some());
            assert!(shared.injector.steal().success().is_none(), "queued twice");
        });
    }

    /// Whoever takes an alarm back has it, or it has rung by then.
    #[test]
    fn an_alarm_is_taken_back_or_has_rung() {
        model("timers_ring_or_clear", || {
            let (shared, task) = parked();
            let timers = shared.inboxes[0].timers;
            let alarm = Box::new(Alarm::new(Ring::Unpark(task.reference())));
            // SAFETY: it is cleared before it goes.
            unsafe { timers.set(&raw const *alarm, Instant::from_nanos(1)) };
            let worker = thread::spawn(move || timers.ring(Instant::from_nanos(1 << 40)));
            // SAFETY: it was set above.
            let cleared = unsafe { timers.clear(&raw const *alarm) };
            assert_eq!(shared.injector.steal().success().is_some(), !cleared);
            drop(alarm);
            worker.join().unwrap();
            assert!(shared.injector.steal().success().is_none(), "it has rung when it was taken back");
        });
    }
}
