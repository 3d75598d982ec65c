//! Sleeping in a future.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sinew_core::Instant;

use crate::clock::{Clock, now, system_now};
use crate::timers::{Alarm, Ring, Timers};
use crate::worker;

/// A future that is ready `duration` after it was first polled. For code that is `async` already; anything else calls
/// [`sleep`](crate::sleep).
///
/// It is woken by the worker that polls it, or by the [`block_on`](crate::block_on) of its thread.
///
/// ```
/// use std::time::Duration;
/// use sinew_sched::{Runtime, sleep_async};
///
/// let runtime = Runtime::new();
/// let task = runtime.spawn_future(async {
///     sleep_async(Duration::from_millis(1)).await;
///     42
/// });
/// assert_eq!(task.join().unwrap(), 42);
/// ```
pub fn sleep_async(duration: Duration) -> Sleep {
    let alarm = Alarm::new(Ring::Wake(Cell::new(None)));
    Sleep { duration, deadline: None, timers: None, alarm, _pinned: PhantomPinned }
}

/// What [`sleep_async`] returns.
#[must_use = "a future does nothing until it is polled"]
pub struct Sleep {
    duration: Duration,
    deadline: Option<Instant>,
    /// Where the alarm is set.
    timers: Option<&'static Timers>,
    alarm: Alarm,
    _pinned: PhantomPinned,
}

// SAFETY: once it is set, the alarm is only reached through its timers, under their lock; before, only through `&mut`.
unsafe impl Send for Sleep {}
// SAFETY: a shared `Sleep` offers nothing.
unsafe impl Sync for Sleep {}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let deadline = *this.deadline.get_or_insert_with(|| now() + this.duration);
        let rung = match this.timers {
            // SAFETY: the alarm was set there and, being pinned, has not moved.
            Some(timers) => !unsafe { timers.set_waker(&this.alarm, context.waker()) },
            None if now() >= deadline => true,
            None => {
                let timers = timers_here();
                if let Ring::Wake(waker) = &this.alarm.owner {
                    waker.set(Some(context.waker().clone()));
                }
                this.timers = Some(timers);
                // SAFETY: it is pinned, and `drop` clears it before it goes.
                unsafe { timers.set(&this.alarm, deadline) };
                false
            }
        };
        if rung { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timers) = self.timers {
            // SAFETY: it was set there, and has not moved.
            unsafe { timers.clear(&self.alarm) };
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("duration", &self.duration).finish_non_exhaustive()
    }
}

/// The timers that whoever polls here looks after.
fn timers_here() -> &'static Timers {
    match worker::current() {
        Some(worker) => worker.timers(),
        None => OWN.with(|own| own.timers.get()).expect(
            "a `Sleep` is polled by a worker or by `sinew_sched::block_on`: nobody else here would wake it",
        ),
    }
}

thread_local! {
    static OWN: Own = const { Own { timers: Cell::new(None), spare: Cell::new(None) } };
}

struct Own {
    /// While a `block_on` of this thread looks after them.
    timers: Cell<Option<&'static Timers>>,
    /// Made once per thread, and kept for ever: a `Sleep` may outlive the thread.
    spare: Cell<Option<&'static Timers>>,
}

/// The timers of a thread that is no worker, for the time of a [`block_on`](crate::block_on).
pub(crate) struct OwnTimers {
    timers: &'static Timers,
    outer: Option<&'static Timers>,
}

impl OwnTimers {
    pub(crate) fn enter() -> OwnTimers {
        OWN.with(|own| {
            let timers = own.spare.get().unwrap_or_else(|| Box::leak(Box::new(Timers::new())));
            own.spare.set(Some(timers));
            OwnTimers { timers, outer: own.timers.replace(Some(timers)) }
        })
    }

    /// Blocks the thread until it is unparked or something has rung.
    pub(crate) fn park(&self) {
        match self.timers.next() {
            None => sinew_sync::thread::park(),
            Some(next) => sinew_sync::park_timeout(next - system_now()),
        }
        self.timers.expire(&Clock::System);
    }
}

impl Drop for OwnTimers {
    fn drop(&mut self) {
        OWN.with(|own| own.timers.set(self.outer));
    }
}
