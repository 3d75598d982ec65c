//! Time-outs of waits that are mostly over before anybody looks at the clock.
//!
//! To look at the clock takes as long as to switch to another task and back. An answer mostly comes sooner than the worker's next look
//! at its timers, which it takes before it sleeps, every 61 turns, and at every tick of sysmon. So a wait may say how long it lasts,
//! and not until when: it is put on a list of its worker, and at that look, which is the first thing that the worker does with its
//! timers, those that are still there get an alarm that far from then ([`Countdowns::begin`]). So a time-out is never early, and late
//! by up to one look more than an alarm is.
//!
//! Not on a clock that tests move: what such a clock says is known at once, and whoever moves it counts from there.
//!
//! # Who touches what
//!
//! A countdown lies on the stack of who waits, and is taken out before it goes. All of it, and the list, belongs to the thread of one
//! worker: a task that could go on on another has an alarm from the start. From `begin` on the alarm in it belongs to the timers
//! ([`crate::timers`]), until it was cleared there. A worker that goes has begun all that it had.

use std::cell::Cell;
use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sync::atomic::{AtomicPtr, Ordering};

use crate::clock::{Clock, now};
use crate::notes::What;
use crate::task::Kind;
use crate::timers::{Alarm, Ring, Timers};
use crate::wait::{block_thread, wait};
use crate::worker;

/// How long a wait lasts at most.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Until then, on the clock of [`now`].
    Until(Instant),
    /// So long from when it begins.
    For(Duration),
}

impl Limit {
    /// So long from now. If it is counted from when the wait begins, nobody looks at the clock for it now.
    #[inline]
    pub fn within(timeout: Duration) -> Limit {
        match worker::current() {
            Some(worker) if matches!(worker.shared.clock, Clock::System) && !timeout.is_zero() => {
                Limit::For(timeout)
            }
            _ => Limit::Until(now() + timeout),
        }
    }

    /// Until when, if it begins now.
    pub fn deadline(self) -> Instant {
        match self {
            Limit::Until(deadline) => deadline,
            Limit::For(timeout) => now() + timeout,
        }
    }
}

/// A wait of a task, for so long.
struct Countdown {
    alarm: Alarm,
    what: What,
    timeout: Duration,
    /// Once it has begun: the alarm is set for then.
    deadline: Cell<Option<Instant>>,
    previous: Cell<*const Countdown>,
    next: Cell<*const Countdown>,
}

/// Those of a worker that have not begun.
pub(crate) struct Countdowns {
    /// An atomic only because it lies where others can see it.
    first: AtomicPtr<Countdown>,
}

impl Countdowns {
    pub(crate) fn new() -> Countdowns {
        Countdowns { first: AtomicPtr::new(ptr::null_mut()) }
    }

    fn first(&self) -> *const Countdown {
        self.first.load(Ordering::Relaxed)
    }

    fn set_first(&self, first: *const Countdown) {
        self.first.store(first.cast_mut(), Ordering::Relaxed);
    }

    /// True if no time-out is put off, as far as an onlooker can tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_null()
    }

    /// Sets the alarms of all. Only the worker does this.
    #[inline(always)]
    pub(crate) fn begin(&self, timers: &Timers, clock: &Clock) {
        if !self.first().is_null() {
            self.begin_now(timers, clock.now());
        }
    }

    #[cold]
    fn begin_now(&self, timers: &Timers, now: Instant) {
        while !self.first().is_null() {
            // SAFETY: what is in the list is valid, and stays so until it is cleared, which is this thread's to do.
            unsafe {
                let countdown = &*self.first();
                self.remove(countdown);
                let deadline = now + countdown.timeout;
                if let Ring::Unpark(task) = &countdown.alarm.owner {
                    task.task.notes.add_deadline(countdown.what, deadline);
                }
                countdown.deadline.set(Some(deadline));
                timers.set(&raw const countdown.alarm, deadline);
            }
        }
    }

    /// # Safety
    ///
    /// It is in no list, and stays where it is until it was removed.
    #[inline(always)]
    unsafe fn push(&self, countdown: *const Countdown) {
        let next = self.first();
        // SAFETY: the caller's promise; what is in the list is valid.
        unsafe {
            (*countdown).next.set(next);
            if let Some(next) = next.as_ref() {
                next.previous.set(countdown);
            }
        }
        self.set_first(countdown);
    }

    /// # Safety
    ///
    /// It is in this list.
    #[inline(always)]
    unsafe fn remove(&self, countdown: &Countdown) {
        let (previous, next) = (countdown.previous.get(), countdown.next.get());
        // SAFETY: what is in the list is valid.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.set_first(next),
            }
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
        }
    }
}

/// Waits until `is_told`, for `what`, for up to `timeout`: then it is false. An error if the task is cancelled, or must not block here.
#[inline(always)]
pub(crate) fn wait_for(is_told: impl Fn() -> bool, timeout: Duration, what: What) -> Result<bool, Refused> {
    /// Takes it out on every way out.
    struct Counting<'a>(&'a Countdown, &'static Countdowns, &'static Timers);
    impl Drop for Counting<'_> {
        fn drop(&mut self) {
            // SAFETY: it was pushed below, on this thread, or its alarm was set since.
            unsafe {
                match self.0.deadline.get() {
                    None => self.1.remove(self.0),
                    Some(_) => _ = self.2.clear(&raw const self.0.alarm),
                }
            }
        }
    }
    let task = worker::current_task().filter(|task| task.table().kind != Kind::Migrating);
    let (Some(worker), Some(task)) = (worker::current(), task) else {
        return wait(is_told, Some(now() + timeout), what);
    };
    let (countdowns, timers) = worker.countdowns();
    let countdown = Countdown {
        alarm: Alarm::new(Ring::Unpark(task.reference())),
        what,
        timeout,
        deadline: Cell::new(None),
        previous: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
    };
    // SAFETY: `Counting` takes it out before it goes.
    unsafe { countdowns.push(&raw const countdown) };
    let counting = Counting(&countdown, countdowns, timers);
    while !is_told() {
        let what = match counting.0.deadline.get() {
            None => what,
            Some(deadline) if now() >= deadline => return Ok(false),
            Some(_) => what.with_deadline(),
        };
        // A fiber that was stopped here may go on in another task of this thread.
        match worker::current() {
            Some(worker) => worker.wait(what)?,
            None => block_thread()?,
        }
    }
    Ok(true)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::wait_kind::WaitKind;

    fn countdown(seconds: u64) -> Countdown {
        Countdown {
            alarm: Alarm::new(Ring::Wake(Cell::new(None))),
            what: What::of(WaitKind::Event),
            timeout: Duration::from_secs(seconds),
            deadline: Cell::new(None),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        }
    }

    #[test]
    fn whoever_is_still_there_gets_an_alarm_whoever_has_left() {
        for gone in 0..16u32 {
            let (list, timers) = (Countdowns::new(), Timers::take());
            let all: Vec<_> = (0..4).map(countdown).collect();
            let is_gone = |n: usize| gone & 1 << n != 0;
            // SAFETY: all stay in their vector, and are taken out of the list or the timers before that goes.
            unsafe {
                all.iter().for_each(|countdown| list.push(countdown));
                (0..4).filter(|n| is_gone(*n)).for_each(|n| list.remove(&all[n]));
                list.begin_now(timers, Instant::from_nanos(5));
                assert!(list.first().is_null());
                assert_eq!(timers.len(), u64::from(4 - gone.count_ones()));
                for (n, countdown) in (0..).zip(&all).filter(|(n, _)| !is_gone(*n as usize)) {
                    assert_eq!(countdown.deadline.get(), Some(Instant::from_nanos(5 + n * 1_000_000_000)));
                    assert!(timers.clear(&raw const countdown.alarm));
                }
            }
            assert!((0..4).filter(|n| is_gone(*n)).all(|n| all[n].deadline.get().is_none()));
        }
    }
}
