//! The CPU time of a guest: its slices, and its limits.
//!
//! The epoch only asks, once a tick: the callback then reads the CPU clock of the thread, so a guest
//! whose thread was not running is not charged for that. Reading this clock is a system call, so a
//! message that is handled between two ticks reads it never. Such a message is charged one tick if a
//! tick happens to hit it, which is its time on average.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sinew_sched::raw::is_cancelled;
use sinew_sched::turn;
use sinew_sync::statics::{AtomicU64, Ordering};
use wasmtime::UpdateDeadline;

use crate::failure::HostExit;
use crate::limits::{DEFAULT_WEIGHT, Limits};
use crate::ticker::TICK;

thread_local! {
    /// The poll of a guest that runs on this thread: a number that no poll on another thread has.
    static POLL: Cell<u64> = const { Cell::new(0) };
}

/// Threads that have polled guests.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// Polls that a thread numbers before it would use a number of the next one.
const POLLS_PER_THREAD: u64 = 1 << 40;

/// A poll of a guest begins on this thread.
#[inline(never)]
pub(crate) fn begin_poll() {
    let poll = match POLL.get() {
        0 => THREADS.fetch_add(1, Ordering::Relaxed) * POLLS_PER_THREAD,
        poll => poll,
    };
    POLL.set(poll + 1);
}

#[inline(never)]
fn current_poll() -> u64 {
    POLL.get()
}

/// CPU time that the calling thread has used.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The times of a guest.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// The poll in which the deadline was set anew.
    deadline_poll: u64,
    /// The poll that the next two belong to.
    poll: u64,
    slice_start: Duration,
    last: Duration,
    /// Of its whole life.
    total: Duration,
    /// Since its message began.
    message: Duration,
    /// It has not started yet.
    starts: bool,
}

impl Cpu {
    pub(crate) fn new() -> Cpu {
        Cpu { starts: true, ..Cpu::default() }
    }

    /// It has started: from now on its messages count.
    pub(crate) fn started(&mut self) {
        (self.starts, self.message) = (false, Duration::ZERO);
    }

    /// A message begins. What it receives while it starts belongs to its start.
    pub(crate) fn begin_message(&mut self) {
        if !self.starts {
            self.message = Duration::ZERO;
        }
    }

    /// The deadline was set to the next tick.
    pub(crate) fn deadline_set(&mut self) {
        self.deadline_poll = current_poll();
    }

    /// The CPU time of its whole life.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// A tick has hit it.
    pub(crate) fn tick(&mut self, limits: &Limits, can_block: bool) -> Result<UpdateDeadline, HostExit> {
        turn::keep_alive();
        let (poll, now) = (current_poll(), thread_cpu());
        if self.poll != poll {
            // The first tick of this poll. Its begin is not known, unless the deadline is of before:
            // then it was hit at once, for a tick that has passed meanwhile.
            (self.poll, self.slice_start, self.last) = (poll, now, now);
            if self.deadline_poll == poll {
                self.charge(TICK);
            }
        } else {
            self.charge(now.saturating_sub(self.last));
            self.last = now;
        }
        self.check(limits)?;
        if is_cancelled() {
            // Its task ends it at the next turn, or here if it has to be interrupted.
            return if can_block { Ok(UpdateDeadline::Yield(1)) } else { Err(HostExit::Killed) };
        }
        let slice = limits.slice.saturating_mul(limits.weight) / DEFAULT_WEIGHT;
        if can_block {
            let is_over = now.saturating_sub(self.slice_start) >= slice;
            return Ok(if is_over { UpdateDeadline::Yield(1) } else { UpdateDeadline::Continue(1) });
        }
        if self.starts || self.message < slice {
            return Ok(UpdateDeadline::Continue(1));
        }
        Err(HostExit::Limit(format!(
            "a message took more than {slice:?} of CPU time, which is the limit without a stack; give the \
             guest a stack class, or a longer slice"
        )))
    }

    fn charge(&mut self, time: Duration) {
        self.total += time;
        self.message += time;
    }

    fn check(&self, limits: &Limits) -> Result<(), HostExit> {
        let exceeded = |what: &str, limit: Duration| {
            Err(HostExit::Limit(format!("{what} took more than {limit:?} of CPU time")))
        };
        if self.starts {
            return if self.message > limits.start_cpu {
                exceeded("its start", limits.start_cpu)
            } else {
                Ok(())
            };
        }
        match (limits.message_cpu, limits.total_cpu) {
            (Some(limit), _) if self.message > limit => exceeded("a message", limit),
            (_, Some(limit)) if self.total > limit => exceeded("its whole life", limit),
            _ => Ok(()),
        }
    }
}
