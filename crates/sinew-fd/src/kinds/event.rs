//! A counter that becomes readable when it is not zero, as an eventfd is.

use std::sync::Arc;

use sinew_core::Errno;

use crate::bits::Events;
use crate::lock::ObjectLock;
use crate::metrics::{Counters, Metrics};
use crate::object::FdObject;
use crate::watchers::Watchers;

/// The highest value of a counter.
const MAX: u64 = u64::MAX - 1;

/// The length of a record in bytes.
const RECORD: usize = 8;

/// A counter. A write of 8 bytes, a little-endian `u64`, adds to it; a read of 8 bytes returns the sum and sets it to
/// zero. It is ready for `IN` while it is not zero, and for `OUT` while 1 can be added.
///
/// A write that would exceed `u64::MAX - 1` fails with `EAGAIN`; a blocking write waits for the next read.
#[derive(Debug)]
pub struct EventCounter {
    state: ObjectLock<EventState>,
    watchers: Watchers,
    counters: Counters,
}

#[derive(Debug)]
struct EventState {
    value: u64,
    closed: bool,
}

impl EventCounter {
    /// Creates a counter with this value.
    pub fn new(value: u64) -> Arc<EventCounter> {
        Arc::new(EventCounter {
            state: ObjectLock::new(EventState { value: value.min(MAX), closed: false }),
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }

    /// Adds to the counter.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the sum would be too large, `EBADF` if the object is closed.
    pub fn add(&self, amount: u64) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Errno::EBADF);
            }
            let sum = state.value.checked_add(amount).filter(|sum| *sum <= MAX);
            state.value = sum.ok_or(Errno::EAGAIN)?;
        }
        self.counters.count_write(RECORD);
        if amount > 0 {
            self.watchers.notify(Events::IN);
        }
        Ok(())
    }
}

impl FdObject for EventCounter {
    fn kind(&self) -> &'static str {
        "Event"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        let state = self.state.lock();
        if state.closed {
            return Events::HUP;
        }
        let readable = if state.value > 0 { Events::IN } else { Events::NONE };
        let writable = if state.value < MAX { Events::OUT } else { Events::NONE };
        readable | writable
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        let queue_depth = self.state.lock().value;
        let wakeups = self.watchers.wakeups();
        Metrics { queue_depth, queue_limit: MAX, wakeups, ..self.counters.metrics() }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let value = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Errno::EBADF);
            }
            if state.value == 0 {
                return Err(Errno::EAGAIN);
            }
            let record = buffer.first_chunk_mut::<RECORD>().ok_or(Errno::ENOSPC)?;
            *record = state.value.to_le_bytes();
            std::mem::take(&mut state.value)
        };
        debug_assert!(value > 0);
        self.counters.count_read(RECORD);
        self.watchers.notify(Events::OUT);
        Ok(RECORD)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let amount = u64::from_le_bytes(*bytes.first_chunk::<RECORD>().ok_or(Errno::EINVAL)?);
        if amount > MAX {
            return Err(Errno::EINVAL);
        }
        self.add(amount)?;
        Ok(RECORD)
    }

    fn read_minimum(&self) -> usize {
        RECORD
    }

    fn write_minimum(&self) -> usize {
        RECORD
    }
}
