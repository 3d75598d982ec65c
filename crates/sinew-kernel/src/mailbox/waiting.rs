//! Senders that wait for room, and what they are told when the lock is free. How a sender waits is
//! in [`blocked_send`](crate::blocked_send).

use std::collections::VecDeque;

use sinew_chan::chan::oneshot;

/// A sender that waits for room, with its message.
pub(super) struct Waiting<M> {
    pub(super) ticket: u64,
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
pub(crate) struct Refused<M>(pub(super) VecDeque<Waiting<M>>);

impl<M> Refused<M> {
    /// Returns the messages of senders that have just unwound, to be dropped.
    #[cold]
    pub(crate) fn tell(self) -> Vec<M> {
        let sent = self.0.into_iter().map(|waiting| waiting.admitted.send(Some(waiting.message)));
        sent.filter_map(|sent| sent.err()?.item).collect()
    }
}
