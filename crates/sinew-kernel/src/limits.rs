//! How many bytes of messages a node holds.
//!
//! Counted are the bytes of payloads that lie outside of their messages, from when a message is sent until its actor begins to
//! handle it or it is dropped, whichever way: so the count is part of what is in the mailbox, and given back by its destructor. Values
//! between native actors are not counted, since nobody knows what they hold; nor are payloads that are so short that they
//! lie in the message.

use sinew_sched::turn;
use sinew_sync::atomic::{AtomicUsize, Ordering};

use crate::error::Unsent;
use crate::message::Message;

/// The bytes that a node may hold, and does.
pub(crate) struct Budget {
    most: Option<usize>,
    used: AtomicUsize,
}

/// Bytes that are counted until this is dropped.
struct Charge {
    budget: &'static Budget,
    bytes: usize,
}

/// A message in a mailbox, and what is counted for it.
pub(crate) struct Queued {
    pub(crate) message: Message,
    charge: Option<Charge>,
}

impl Budget {
    /// With no limit nothing is counted.
    pub(crate) fn new(most: Option<usize>) -> Budget {
        Budget { most, used: AtomicUsize::new(0) }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.most.is_some()
    }

    /// How many bytes are counted.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts the bytes of a message, unless they are too many.
    pub(crate) fn charge(&'static self, message: Message) -> Result<Queued, (Message, Unsent)> {
        let bytes = message.payload.heap_bytes();
        let (Some(most), 1..) = (self.most, bytes) else { return Ok(Queued::uncounted(message)) };
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= most);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Queued { message, charge: Some(Charge { budget: self, bytes }) }),
            Err(queued) => {
                turn::charge(); // a sender that tries again lets others run, who make room
                Err((message, Unsent::NodeFull { bytes, queued, most }))
            }
        }
    }
}

impl Queued {
    pub(crate) fn uncounted(message: Message) -> Queued {
        Queued { message, charge: None }
    }

    pub(crate) fn is_charged(&self) -> bool {
        self.charge.is_some()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
