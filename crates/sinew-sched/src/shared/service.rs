//! Who is in service: a runtime has room for more workers than it begins with, and sysmon has a bed too.
//!
//! # Places
//!
//! There is an inbox, and a set of queues, for each worker that there may ever be, so that an index stays what it is. One
//! that nobody has is *out of service*: its queues are empty, nobody sleeps in its bed, and it counts as idle.
//!
//! ```text
//! off ──start_service──> all ──serve_own──> own ──start_service──> all
//!  ^                      │                  │
//!  └────── end_service ───┴──────────────────┘
//! ```
//!
//! A worker on duty for *all* takes whatever it finds. One on duty for its *own* runs the bodies that have blocked on it, and
//! rings their timers, and takes nothing from others; nobody wakes it for anything else.
//!
//! # Nothing is left behind
//!
//! Only a worker itself pushes to its queues, and it leaves when they are empty. To its inbox others push bodies that
//! have blocked on it, and it does not leave while it has one: it knows, because it counts its cores, and each body has one.
//! So nothing is pushed to a worker that leaves. What it might have taken from others is still in their queues. But somebody
//! who pushed there may have woken this very worker, and no other, just when it got up by itself. So it says that it
//! leaves, or serves its own only, passes a sequentially consistent fence, and looks once more: either it sees what was
//! pushed, or the pusher sees that it is not there and wakes another.
//!
//! # The clock
//!
//! A manual clock jumps when nobody is up: when those who sleep and those who are out of service are all. Both counts are
//! in one word, with the number of times that somebody got up, which also counts every start of a service. So to leave
//! is like lying down: whoever does so last looks whether the clock jumps. Sysmon, which may have a task in its
//! hands that is in no queue, counts as somebody who is in service while it does something ([`Shared::act_as_sysmon`]).
//!
//! # When sysmon sleeps
//!
//! While nobody is up, sysmon sleeps without a time limit. It says so, passes a fence, and looks whether somebody is up; a
//! worker gets up, passes a fence, and looks whether sysmon sleeps. So one of the two sees the other.
//!
//! A worker that finds the reactor's lock taken sleeps elsewhere: whoever has it serves the reactor, and does so again
//! before it sleeps. But sysmon does not, nor a temporary worker that leaves; each wakes another after that, and may not
//! see the one that has found the lock taken and has not lain down yet. So sysmon looks once more when nobody is up: as
//! long as none of those who sleep serves the reactor, it does not sleep, and wakes one.
//!
//! Models: `service_end_or_inject`, `service_own_or_inject`, `service_call_back`, `service_end_or_clock`,
//! `service_sysmon_or_clock`, `service_sysmon_or_get_up`.

use std::time::Duration;

use sinew_sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use sinew_sync::park_timeout;
use sinew_sync::statics::OnceLock;
use sinew_sync::thread::{self, Thread};

use crate::clock::system_now;

use super::{GOT_UP, Inbox, OUT, Shared, out_of_service, sleepers};

/// What a worker is there for.
pub(super) struct Duty(AtomicU8);

const OFF: u8 = 0;
const OWN: u8 = 1;
const ALL: u8 = 2;

impl Duty {
    pub(super) fn new(in_service: bool) -> Duty {
        Duty(AtomicU8::new(if in_service { ALL } else { OFF }))
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, duty: u8) {
        self.0.store(duty, Ordering::Relaxed);
    }
}

/// Where sysmon sleeps.
pub(super) struct SysmonBed {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl SysmonBed {
    pub(super) fn new() -> SysmonBed {
        SysmonBed { asleep: AtomicBool::new(false), thread: OnceLock::new() }
    }
}

/// How long sysmon slept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slept {
    /// Somebody is up, or has to get up.
    NotAtAll,
    /// Somebody got up, or the runtime ends.
    UntilWoken,
    /// As long as it was to.
    AllTheTime,
}

impl Inbox {
    pub(crate) fn is_in_service(&self) -> bool {
        self.duty.get() != OFF
    }

    /// True if the worker takes whatever it finds, from whomever.
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        self.duty.get() == ALL
    }

    /// True if the worker is there for the bodies that have blocked on it, and for nothing else.
    pub(crate) fn serves_own(&self) -> bool {
        self.duty.get() == OWN
    }

    /// True if the worker would take what others have: it has found nothing since it lay down.
    pub(crate) fn would_take(&self) -> bool {
        self.takes_all() && self.idle.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// The workers that there are.
    pub(crate) fn in_service(&self) -> impl Iterator<Item = (usize, &Inbox)> {
        self.inboxes.iter().enumerate().filter(|(_, inbox)| inbox.is_in_service())
    }

    /// True if there are more workers than the runtime began with.
    pub(crate) fn has_temporary(&self) -> bool {
        out_of_service(self.beds.load(Ordering::Relaxed)) <= self.inboxes.len() - self.base
    }

    /// True if nobody is up, workers or sysmon; `beds` is the word of the beds.
    pub(super) fn nobody_is_up(&self, beds: u64) -> bool {
        sleepers(beds) + out_of_service(beds) == self.inboxes.len() + 1
    }

    /// Puts `worker`, which is out of service, into service. The caller is in service itself ([`Shared::act_as_sysmon`]).
    pub(crate) fn start_service(&self, worker: usize) {
        let inbox = &self.inboxes[worker];
        *inbox.sleeper() = None;
        inbox.idle.store(false, Ordering::Relaxed);
        inbox.duty.set(ALL);
        self.beds.fetch_add(GOT_UP - OUT, Ordering::AcqRel);
    }

    /// Takes `worker`, which is up and has nothing in its queues nor a body of its own, out of service. False if there is
    /// something to do, in which case it stays.
    pub(crate) fn end_service(&self, worker: usize) -> bool {
        let beds = self.leave_service(worker);
        let work = self.has_movable();
        if work {
            self.start_service(worker);
        } else {
            self.clock_jumps(beds, None);
            if self.has_reactor() {
                self.wake_one(); // it may be the one who served it
            }
        }
        !work
    }

    /// Takes `worker` out of service although there is something to do: it could not be started.
    pub(crate) fn give_service_up(&self, worker: usize) {
        self.leave_service(worker);
        self.wake_one();
    }

    fn leave_service(&self, worker: usize) -> u64 {
        let inbox = &self.inboxes[worker];
        inbox.idle.store(true, Ordering::Relaxed);
        inbox.duty.set(OFF);
        let beds = self.beds.fetch_add(OUT, Ordering::AcqRel) + OUT;
        fence(Ordering::SeqCst);
        beds
    }

    /// `worker`, which is up, takes nothing from others any more. False if there is something to take, in which case it
    /// goes on as before.
    pub(crate) fn serve_own(&self, worker: usize) -> bool {
        let duty = &self.inboxes[worker].duty;
        duty.set(OWN);
        fence(Ordering::SeqCst);
        let work = self.has_movable();
        if work {
            duty.set(ALL);
        }
        !work
    }

    /// Has `worker`, which serves its own, take from others again. Sysmon calls this.
    pub(crate) fn call_back(&self, worker: usize) {
        self.inboxes[worker].duty.set(ALL);
        fence(Ordering::SeqCst);
        self.wake(worker);
    }

    /// Does something as sysmon. Meanwhile no manual clock jumps.
    pub(crate) fn act_as_sysmon<T>(&self, act: impl FnOnce() -> T) -> T {
        self.beds.fetch_add(GOT_UP - OUT, Ordering::AcqRel);
        let done = act();
        let beds = self.beds.fetch_add(OUT, Ordering::AcqRel) + OUT;
        // What a worker pushed before it lay down is seen, since its bed is in the same word.
        if !self.has_movable() {
            self.clock_jumps(beds, None);
        }
        done
    }

    /// How often somebody has got up, if nobody is.
    pub(crate) fn got_up_if_nobody_is_up(&self) -> Option<u64> {
        let beds = self.beds.load(Ordering::SeqCst);
        self.nobody_is_up(beds).then_some(beds / GOT_UP)
    }

    /// Sleeps, as sysmon, until a worker gets up or the runtime ends, or for so long.
    pub(crate) fn sleep_as_sysmon(&self, limit: Option<Duration>) -> Slept {
        let bed = &self.sysmon;
        bed.thread.get_or_init(thread::current);
        bed.asleep.store(true, Ordering::Release); // whoever sees it sees the thread
        fence(Ordering::SeqCst);
        let mut slept = Slept::NotAtAll;
        // It acquires the beds of all who sleep.
        let nobody_is_up = self.nobody_is_up(self.beds.load(Ordering::Acquire));
        if nobody_is_up && self.is_unserved() {
            self.wake_one();
        } else if nobody_is_up {
            let until = limit.map(|limit| system_now() + limit);
            slept = Slept::UntilWoken;
            while bed.asleep.load(Ordering::Acquire) && !self.has_ended() {
                match until.map(|until| until - system_now()) {
                    None => thread::park(),
                    Some(left) if left.is_zero() => {
                        slept = Slept::AllTheTime;
                        break;
                    }
                    Some(left) => park_timeout(left),
                }
            }
        }
        bed.asleep.store(false, Ordering::Relaxed);
        slept
    }

    /// True if there is a reactor and none of those who sleep serves it.
    fn is_unserved(&self) -> bool {
        self.has_reactor() && self.nobody_sleeps_there()
    }

    /// Wakes sysmon, if it sleeps.
    pub(super) fn wake_sysmon(&self) {
        let bed = &self.sysmon;
        if bed.asleep.load(Ordering::Acquire) && bed.asleep.swap(false, Ordering::AcqRel) {
            bed.thread.get().expect("one who sleeps has said who it is").unpark();
        }
    }

    /// Wakes everybody because the runtime ends.
    pub(crate) fn tell_end(&self) {
        self.wake_all();
        self.sysmon.asleep.store(false, Ordering::Release);
        self.sysmon.thread.get().into_iter().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests;
