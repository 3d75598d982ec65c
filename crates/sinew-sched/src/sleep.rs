//! Sleeping in a future.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::Duration;

use sinew_core::Instant;

use crate::blocked::Blocked;
use crate::clock::{Clock, now, system_now};
use crate::notes::What;
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
    Sleep::new(duration, None)
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

impl Sleep {
    fn new(duration: Duration, deadline: Option<Instant>) -> Sleep {
        let alarm = Alarm::new(Ring::Wake(Cell::new(None)));
        Sleep { duration, deadline, timers: None, alarm, _pinned: PhantomPinned }
    }

    /// Returns a future that is ready at `deadline`, on the clock of [`now`].
    pub fn until(deadline: Instant) -> Sleep {
        Sleep::new(deadline - now(), Some(deadline))
    }
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
        if let Some(timers) = this.timers {
            // SAFETY: the alarm was set there and, being pinned, has not moved.
            if !unsafe { timers.set_waker(&this.alarm, context.waker()) } {
                return Poll::Ready(());
            }
        }
        if now() >= deadline {
            return Poll::Ready(());
        }
        let here = timers_here();
        if this.timers.is_none_or(|timers| !ptr::eq(timers, here)) {
            // First polled, or polled where nobody looks after the timers that it was first polled with.
            if let Some(elsewhere) = this.timers.replace(here) {
                // SAFETY: as above.
                unsafe { elsewhere.clear(&this.alarm) };
            }
            if let Ring::Wake(waker) = &this.alarm.owner {
                waker.set(Some(context.waker().clone()));
            }
            // SAFETY: it is pinned, in no wheel, and `drop` clears it before it goes.
            unsafe { here.set(&this.alarm, deadline) };
        }
        worker::announce(What::until(deadline));
        Poll::Pending
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
    /// What it looked after last.
    spare: Cell<Option<&'static Timers>>,
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(timers) = self.spare.take() {
            timers.give();
        }
    }
}

/// The timers of a thread that is no worker, for the time of a [`block_on`](crate::block_on).
pub(crate) struct OwnTimers {
    timers: &'static Timers,
    outer: Option<&'static Timers>,
}

impl OwnTimers {
    pub(crate) fn enter() -> OwnTimers {
        OWN.with(|own| {
            let timers = own.spare.get().unwrap_or_else(Timers::take);
            own.spare.set(Some(timers));
            OwnTimers { timers, outer: own.timers.replace(Some(timers)) }
        })
    }

    /// Blocks the thread until it is unparked or something has rung.
    pub(crate) fn park(&self) {
        match self.timers.next() {
            None => {
                let _blocked = Blocked::new();
                sinew_sync::thread::park();
            }
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
