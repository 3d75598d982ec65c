//! A flag that one task, thread or future waits for.
//!
//! The owner of a wait [resets](WakeFlag::reset) its flag, looks whether what it waits for is there already, and waits
//! for the flag if not. The party that makes a change does so first and [raises](WakeFlag::raise) the flag then. So a
//! change before the look is seen by the look, and a change after it leaves the flag raised: both sides go through the
//! short lock of the flag, which orders them. Raising is idempotent; a raised flag may be a false alarm, and the owner
//! looks again.
//!
//! The waiter is taken out under the lock and woken without it: a waker of another executor is foreign code.

use std::fmt;
use std::task::{Context, Poll};

use sinew_core::Instant;
use sinew_sched::Refused;
use sinew_sched::raw::{self, Waiter, What};
use sinew_sync::ShortLock;

/// See the [module](self).
pub(crate) struct WakeFlag {
    state: ShortLock<State>,
}

struct State {
    raised: bool,
    waiter: Option<Waiter>,
}

impl WakeFlag {
    pub(crate) fn new() -> WakeFlag {
        WakeFlag { state: ShortLock::new(State { raised: false, waiter: None }) }
    }

    /// Raises the flag and wakes its waiter.
    pub(crate) fn raise(&self) {
        let waiter = {
            let mut state = self.state.lock();
            state.raised = true;
            state.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Lowers the flag. Only its owner calls this, before it looks.
    pub(crate) fn reset(&self) {
        self.state.lock().raised = false;
    }

    fn is_raised(&self) -> bool {
        self.state.lock().raised
    }

    /// Makes `waiter` the one to wake. Returns true if the flag is raised already.
    fn enroll(&self, waiter: Waiter) -> bool {
        let (raised, unused) = {
            let mut state = self.state.lock();
            if state.raised { (true, Some(waiter)) } else { (false, state.waiter.replace(waiter)) }
        };
        drop(unused);
        raised
    }

    fn leave(&self) {
        let waiter = self.state.lock().waiter.take();
        drop(waiter);
    }

    /// Waits until the flag is raised. Returns false at the deadline.
    pub(crate) fn wait(&self, deadline: Option<Instant>, what: What) -> Result<bool, Refused> {
        if self.enroll(Waiter::current()) {
            return Ok(true);
        }
        let _enrolled = Enrolled(self);
        raw::wait(|| self.is_raised(), deadline, what)
    }

    /// [`wait`](WakeFlag::wait) in the poll of a future, without a deadline.
    pub(crate) fn poll(&self, context: &Context<'_>, what: What) -> Poll<()> {
        if self.enroll(Waiter::of(context.waker())) {
            return Poll::Ready(());
        }
        raw::announce(what);
        Poll::Pending
    }
}

/// Forgets the waiter on every way out of a blocking wait, also when its task is killed.
struct Enrolled<'a>(&'a WakeFlag);

impl Drop for Enrolled<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl fmt::Debug for WakeFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeFlag").field("raised", &self.is_raised()).finish_non_exhaustive()
    }
}
