//! Sleeping, and waiting with a deadline.

use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::{Cancelled, Reason, Refused};

use crate::clock::{now, system_now};
use crate::notes::What;
use crate::timers::with_alarm;
use crate::worker;

/// Suspends the task for at least `duration`; on a thread that is no worker, the thread. A duration of zero yields, as
/// [`yield_now`](crate::yield_now) does.
///
/// The worker looks at its timers when it has nothing else to do and at bounded intervals, so a sleep is late by less
/// than a millisecond (two, if the process uses sockets) as long as no task of the worker computes for longer without
/// a call that may wait.
///
/// Unwinds if the task is cancelled or killed, and with the refusal as an error inside the poll of a future: await a
/// [`Sleep`](crate::sleep_async) there.
#[track_caller]
pub fn sleep(duration: Duration) {
    let start = now();
    sleep_from(start, start + duration);
}

/// Suspends the task until `deadline` on the clock of its runtime ([`now`]); see [`sleep`].
#[track_caller]
pub fn sleep_until(deadline: Instant) {
    sleep_from(now(), deadline);
}

/// Suspends the task until `deadline`; it is `start` now.
#[track_caller]
fn sleep_from(start: Instant, deadline: Instant) {
    if worker::current_task().is_none() {
        return block_until(system_now() + (deadline - start));
    }
    if start >= deadline {
        return worker::yield_now();
    }
    let slept = with_alarm(deadline, || {
        loop {
            worker::await_for(What::until(deadline))?;
            if now() >= deadline {
                return Ok(());
            }
            sinew_fiber::checkpoint(); // an await that a fiber around us caught has not looked
        }
    });
    if let Err(refused) = slept {
        refused_sleep(refused, deadline);
    }
}

/// An infallible call that was refused: the error becomes an unwind.
#[cold]
#[track_caller]
fn refused_sleep(refused: Refused, deadline: Instant) {
    match refused.reason() {
        Reason::Cancelled => sinew_fiber::error(Cancelled),
        // In a destructor while the thread unwinds, or in a callback of foreign code: the worker waits.
        Reason::Unwinding | Reason::FfiScope => block_until(system_now() + (deadline - now())),
        _ => sinew_fiber::error(refused),
    }
}

/// Blocks the thread until `deadline` on the system's clock.
fn block_until(deadline: Instant) {
    loop {
        let left = deadline - system_now();
        if left.is_zero() {
            return;
        }
        sinew_sync::park_timeout(left);
    }
}
