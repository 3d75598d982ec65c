//! A handle on its way into the channel, as an operation that may have to wait: that of the channel, for handles that are
//! cancelled if nobody will hear of them.

use std::fmt;

use sinew_sched::JoinHandle;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, Sending, What};

use super::{Queued, unsent};
use crate::chan;
use crate::chan::error::SendError;

/// The handle of a task on its way into a channel: see [`Sender::send_async`](super::Sender::send_async) and
/// [`select::send`](crate::select::send).
pub struct SendCase<'a, T>(chan::SendCase<'a, Queued<T>>);

impl<'a, T> SendCase<'a, T> {
    pub(super) fn new(send: chan::SendCase<'a, Queued<T>>) -> SendCase<'a, T> {
        SendCase(send)
    }
}

impl<T> Sending for SendCase<'_, T> {
    type Item = JoinHandle<T>;

    fn into_item(self) -> Option<JoinHandle<T>> {
        self.0.into_item().map(Queued::into_handle)
    }
}

impl<T> Awaited for SendCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises it of this, and so of the operation within.
        unsafe { self.0.withdraw(node) }
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: as in `withdraw`.
        unsafe { self.0.hand_on(node) };
    }
}

impl<T> Attempt for SendCase<'_, T> {
    fn attempt(&self) -> bool {
        self.0.attempt()
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: as in `withdraw`; what is within stays where this does.
        unsafe { self.0.enroll(node) }
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        // SAFETY: as in `withdraw`.
        unsafe { self.0.settle(node) }
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: as in `withdraw`.
        unsafe { self.0.under_lock(change) };
    }

    fn what(&self) -> What {
        self.0.what()
    }
}

impl<T> Case for SendCase<'_, T> {
    type Output = Result<(), SendError<JoinHandle<T>>>;

    fn output(self) -> Result<(), SendError<JoinHandle<T>>> {
        self.0.output().map_err(unsent)
    }
}

impl<T> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").finish_non_exhaustive()
    }
}
