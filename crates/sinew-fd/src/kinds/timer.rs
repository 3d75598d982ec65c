//! A timer that becomes readable when it expires, on the clock of a runtime.
//!
//! The expirations are computed from the clock by each call, so the mask does not depend on when a task runs.
//! A future on the runtime (the *driver*) sleeps until the next expiration and notifies the watchers. There is at most
//! one driver for a timer: it is started when the timer is armed, follows changes by a flag, and ends when the timer is
//! disarmed, has expired for good, or is gone. Starting and ending are decided under the lock of the timer, so a timer
//! that is armed always has a driver.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use sinew_core::{Errno, Instant};
use sinew_sched::raw::What;
use sinew_sched::{Handle, Sleep, WaitKind};

use crate::bits::Events;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::wake_flag::WakeFlag;
use crate::watchers::Watchers;

/// The length of a record in bytes.
const RECORD: usize = 8;

/// The shortest period of a periodic timer.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// A timer. A read of 8 bytes returns the number of expirations since the last read, a little-endian `u64`. It is ready
/// for `IN` when there is at least one.
///
/// ```
/// use std::time::Duration;
/// use sinew_fd::{FdTable, Flags, Timer};
/// use sinew_sched::{Handle, Runtime};
///
/// let expirations = Runtime::new().run(|| {
///     let timer = Timer::new(Handle::current().expect("a task has a runtime"));
///     timer.arm(Duration::from_millis(2), None);
///     let table = FdTable::new(16);
///     let fd = table.open(timer, Flags::NONE).unwrap();
///     let mut record = [0; 8];
///     table.read(fd, &mut record).unwrap();
///     u64::from_le_bytes(record)
/// });
/// assert_eq!(expirations.unwrap(), 1);
/// ```
#[derive(Debug)]
pub struct Timer {
    state: ObjectLock<TimerState>,
    /// Raised when the driver has to look at the state again.
    changed: Arc<WakeFlag>,
    handle: Handle,
    this: Weak<Timer>,
    watchers: Watchers,
    counters: Counters,
}

#[derive(Debug)]
struct TimerState {
    /// The next expiration. None while it is disarmed, and after the only one.
    next: Option<Instant>,
    period: Option<Duration>,
    /// Expirations that were not read.
    expired: u64,
    driven: bool,
    closed: bool,
}

impl TimerState {
    /// Counts the expirations up to `now`. Returns true if there were any.
    fn catch_up(&mut self, now: Instant) -> bool {
        let Some(next) = self.next.filter(|next| *next <= now) else { return false };
        match self.period {
            None => {
                self.expired += 1;
                self.next = None;
            }
            Some(period) => {
                let late = (now - next).as_nanos() / period.as_nanos().max(1);
                let count = u64::try_from(late).unwrap_or(u64::MAX).saturating_add(1);
                self.expired = self.expired.saturating_add(count);
                let passed = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).saturating_mul(count);
                self.next = Some(next + Duration::from_nanos(passed));
            }
        }
        true
    }
}

impl Timer {
    /// Creates a timer that is disarmed, on the clock of the runtime of `handle`.
    pub fn new(handle: Handle) -> Arc<Timer> {
        let state = TimerState { next: None, period: None, expired: 0, driven: false, closed: false };
        Arc::new_cyclic(|this| Timer {
            state: ObjectLock::new(state),
            changed: Arc::new(WakeFlag::new()),
            handle,
            this: this.clone(),
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }

    /// Arms the timer: it expires after `delay`, and then every `period`, which is at least a millisecond. Expirations
    /// that were not read are forgotten.
    pub fn arm(&self, delay: Duration, period: Option<Duration>) {
        self.set(Some(self.handle.now() + delay), period.map(|period| period.max(MIN_PERIOD)));
    }

    /// Disarms the timer. Expirations that were not read are forgotten.
    pub fn disarm(&self) {
        self.set(None, None);
    }

    /// Returns the time until the next expiration. None if the timer is disarmed, or has expired for good.
    pub fn remaining(&self) -> Option<Duration> {
        let now = self.handle.now();
        let mut state = self.state.lock();
        state.catch_up(now);
        state.next.map(|next| next - now)
    }

    fn set(&self, next: Option<Instant>, period: Option<Duration>) {
        let starts = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            (state.next, state.period, state.expired) = (next, period, 0);
            let starts = next.is_some() && !state.driven;
            state.driven |= starts;
            starts
        };
        if starts {
            let driver = drive(self.this.clone(), self.changed.clone());
            self.handle.spawn_future(driver).detach();
        } else {
            self.changed.raise();
        }
    }

    /// Counts what has expired and notifies. Returns the next expiration, or `None` if the driver has to end.
    fn advance(&self) -> Option<Instant> {
        let now = self.handle.now();
        let (next, expired) = {
            let mut state = self.state.lock();
            let expired = state.catch_up(now) || state.expired > 0;
            state.driven = state.next.is_some();
            (state.next, expired)
        };
        if expired {
            self.watchers.notify(Events::IN);
        }
        next
    }
}

/// The driver of a timer.
async fn drive(timer: Weak<Timer>, changed: Arc<WakeFlag>) {
    loop {
        changed.reset();
        let Some(next) = timer.upgrade().and_then(|timer| timer.advance()) else { return };
        let mut sleep = pin!(Sleep::until(next));
        poll_fn(|context| {
            if changed.poll(context, What::of(WaitKind::Sleep)).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context) // last: a dump shows until when it sleeps
        })
        .await;
    }
}

impl FdObject for Timer {
    fn kind(&self) -> &'static str {
        "Timer"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        let now = self.handle.now();
        let mut state = self.state.lock();
        if state.closed {
            return Events::HUP;
        }
        state.catch_up(now);
        if state.expired > 0 { Events::IN } else { Events::NONE }
    }

    fn close(&self) {
        {
            let mut state = self.state.lock();
            (state.closed, state.next) = (true, None);
        }
        self.changed.raise();
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        let queue_depth = self.state.lock().expired;
        Metrics { queue_depth, wakeups: self.watchers.wakeups(), ..self.counters.metrics() }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let now = self.handle.now();
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Errno::EBADF);
            }
            state.catch_up(now);
            if state.expired == 0 {
                return Err(Errno::EAGAIN);
            }
            let record = buffer.first_chunk_mut::<RECORD>().ok_or(Errno::ENOSPC)?;
            *record = std::mem::take(&mut state.expired).to_le_bytes();
        }
        self.counters.count_read(RECORD);
        Ok(RECORD)
    }

    fn read_minimum(&self) -> usize {
        RECORD
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.changed.raise();
    }
}
