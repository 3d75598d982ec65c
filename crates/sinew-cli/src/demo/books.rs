//! The books of the demo: each message that was sent is in one of a few places.

use std::error::Error;
use std::fmt;

use sinew_kernel::{NodeRef, Snapshot};

use super::Sent;

/// How often is looked, at most, until the books balance.
const LOOKS: usize = 10;

/// Where the messages are that were sent.
#[derive(Clone, Copy)]
pub(super) struct Books {
    sent: u64,
    /// With those that are in hand.
    handled: u64,
    failed: u64,
    refused: u64,
    dead_letters: u64,
    queued: u64,
}

impl Books {
    /// `before` is how many messages there were before the first that was `sent`.
    pub(super) fn of(seen: &Snapshot, before: u64, sent: &Sent) -> Books {
        let totals = &seen.totals;
        Books {
            sent: sent.messages,
            handled: totals.handled.saturating_sub(before),
            failed: totals.failed,
            refused: sent.refused,
            dead_letters: totals.dead_letters,
            queued: totals.queued,
        }
    }

    /// Nothing stands still for a snapshot: in one during which an actor crashes, its messages may be missing, or be there
    /// twice. Then the next one tells.
    pub(super) fn look(node: NodeRef, before: u64, sent: &Sent) -> (Snapshot, Books) {
        let look = || {
            let seen = node.snapshot();
            let books = Books::of(&seen, before, sent);
            (seen, books)
        };
        (1..LOOKS).map(|_| look()).find(|(_, books)| books.balance()).unwrap_or_else(look)
    }

    pub(super) fn balance(&self) -> bool {
        self.sent == self.handled + self.failed + self.refused + self.dead_letters + self.queued
    }

    /// What is to be read at the end, if all is accounted for.
    pub(super) fn close(&self) -> Result<String, Box<dyn Error>> {
        if self.queued > 0 || !self.balance() {
            return Err(format!("the books do not balance: {self}").into());
        }
        let Books { sent, handled, failed, refused, dead_letters, .. } = self;
        Ok(format!(
            "The books balance:
  {sent:>9} sent
= {handled:>9} handled
+ {failed:>9} failed: a worker crashed at it; its supervisor was told why, and restarts the worker
+ {refused:>9} refused, back to the sender: the mailbox was full, or the worker had just crashed
+ {dead_letters:>9} dead letters: dropped by a full mailbox, or left in one when its actor ended"
        ))
    }
}

/// A line; `about` if the look was not good enough for it to add up.
impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Books { sent, handled, failed, refused, dead_letters, queued } = self;
        let about = if self.balance() { "" } else { "about " };
        write!(
            f,
            "{sent} sent = {about}{handled} handled + {failed} failed + {refused} refused \
             + {dead_letters} dead letters + {queued} queued"
        )
    }
}
