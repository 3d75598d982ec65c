//! The timers of a worker: alarms that ring at a deadline.
//!
//! An alarm lies with whoever waits (on its stack, or in its future) and is linked into the wheel of one worker. The
//! wheel has a lock, because a future that moved on takes its alarm back from elsewhere, and because an idle worker
//! serves the timers of one that is stuck. An alarm is taken out, or has rung, before it goes: [`Timers::clear`] waits
//! for the lock, so when it returns nobody touches the alarm any more. No code but ours runs under the lock; wakers of
//! futures are called after it.
//!
//! `next` is the earliest time at which there may be something to do. It is written under the lock and read without:
//! the worker itself, which alone inserts, always sees what it wrote; any other only guesses by it.

use std::cell::Cell;
use std::task::Waker;

use sinew_core::Instant;
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::reach::Frame;
use crate::task::TaskRef;
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
}

// SAFETY: the alarms are reached under the lock only, whose holder is their only user meanwhile. Tasks are woken from
// any thread, and so are wakers.
unsafe impl Send for Ring {}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { wheel: Mutex::new(Wheel::new(0)), next: AtomicU64::new(u64::MAX) }
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
        // SAFETY: the caller's promise.
        unsafe { self.wheel.lock().remove(alarm) }
    }

    /// Gives `alarm`, of a future, another waker. False if it has rung.
    ///
    /// # Safety
    ///
    /// As for [`Timers::clear`].
    pub(crate) unsafe fn set_waker(&self, alarm: *const Alarm, waker: &Waker) -> bool {
        let _wheel = self.wheel.lock();
        // SAFETY: the caller's promise; under the lock we are its only user.
        let alarm = unsafe { &*alarm };
        if let Ring::Wake(current) = &alarm.owner {
            let waker = match current.take() {
                Some(same) if same.will_wake(waker) => same,
                _ => waker.clone(),
            };
            current.set(Some(waker));
        }
        alarm.is_set()
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
        let mut wakers = Vec::new();
        let mut wheel = self.wheel.lock();
        wheel.advance(now.as_nanos(), |ring| match ring {
            Ring::Unpark(task) => worker::unpark(*task),
            Ring::Wake(waker) => wakers.extend(waker.take()),
            Ring::Trip(frame) => frame.trip(),
        });
        self.publish(&wheel);
        drop(wheel);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// When the next alarm rings, at the earliest.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.next.load(Ordering::Relaxed) {
            u64::MAX => None,
            next => Some(Instant::from_nanos(next)),
        }
    }

    fn publish(&self, wheel: &Wheel<Ring>) {
        self.next.store(wheel.next_deadline().unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
