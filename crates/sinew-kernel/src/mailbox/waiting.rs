//! Senders that wait for room, and what they are told when the lock is free. How a sender waits is
//! in [`blocked_send`](crate::blocked_send).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use sinew_chan::chan::oneshot;

/// Senders that wait for room, in the order in which they came. Each is found by its ticket in logarithmic time, so
/// senders that give up cost the same however many wait.
pub(super) type Line<M> = BTreeMap<Ticket, Waiting<M>>;

/// The place of a sender among those that wait for room in one mailbox: a number that no other sender has, taken under the
/// lock of the mailbox, so that later senders have higher ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Ticket {
    pub(crate) fn new(number: u64) -> Ticket {
        Ticket(number)
    }
}

impl Ord for Ticket {
    fn cmp(&self, other: &Ticket) -> Ordering {
        #[cfg(all(test, not(any(loom, shuttle))))]
        tests::COMPARISONS.set(tests::COMPARISONS.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Ticket) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ticket {}

/// A sender that waits for room, with its message.
pub(super) struct Waiting<M> {
    pub(super) message: M,
    pub(super) admitted: Answer<M>,
}

/// Tells a sender that waits that its message is in, or gives it back.
pub(crate) type Answer<M> = oneshot::Sender<Option<M>>;

/// Senders whose messages were let in: they are told when the lock is free.
#[must_use]
pub(crate) struct Admitted<M>(pub(super) Vec<Answer<M>>);

impl<M> Admitted<M> {
    #[inline]
    pub(crate) fn tell(self) {
        for sender in self.0 {
            let _ = sender.send(None); // it may have unwound
        }
    }
}

/// Senders whose mailbox was closed: they get their messages back when the lock is free.
#[must_use]
pub(crate) struct Refused<M>(pub(super) Line<M>);

impl<M> Refused<M> {
    /// Returns the messages of senders that have just unwound, to be dropped.
    #[cold]
    pub(crate) fn tell(self) -> Vec<M> {
        let sent = self.0.into_values().map(|waiting| waiting.admitted.send(Some(waiting.message)));
        sent.filter_map(|sent| sent.err()?.item).collect()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
