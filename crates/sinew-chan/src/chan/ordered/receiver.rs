//! The end of a channel of tasks that joins them.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Raised;
use sinew_sched::raw::{
    Async, Attempt, Awaited, Case, Ended, Enrolled, Node, Task, What, attempt_or_block, task_of,
};
use sinew_sched::{JoinHandle, WaitKind, now};

use super::Queued;
use crate::chan;
use crate::chan::error::{RecvError, unwind};
use crate::source::Source;

/// The end of a [`channel`](super::channel) that joins tasks, in the order in which they were sent. In a select it is
/// a case of [`recv`](crate::select::recv).
///
/// Dropping it ends the channel and cancels all tasks that were not received.
pub struct Receiver<T> {
    channel: chan::Receiver<Queued<T>>,
    /// The task that is joined next, if its handle was taken out of the channel already.
    head: Option<JoinHandle<T>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(channel: chan::Receiver<Queued<T>>) -> Receiver<T> {
        Receiver { channel, head: None }
    }

    /// Waits for the next task and returns how it ended, as [`JoinHandle::join`] does. A task that has ended is received
    /// also by a caller that is cancelled.
    ///
    /// # Errors
    ///
    /// If the channel has ended and all tasks in it were received; if it has to wait and the caller is cancelled, or must
    /// not block here: then the same task is still the next.
    pub fn recv(&mut self) -> Result<Result<T, Raised>, RecvError> {
        let recv = self.operation();
        attempt_or_block(&recv, None)?;
        recv.output()
    }

    /// Like [`recv`](Receiver::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Receiver::recv), and [`RecvError::Timeout`]: then the same task is still the next.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Result<T, Raised>, RecvError> {
        self.recv_until(now() + timeout)
    }

    /// [`recv_timeout`](Self::recv_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn recv_until(&mut self, deadline: Instant) -> Result<Result<T, Raised>, RecvError> {
        let recv = self.operation();
        if attempt_or_block(&recv, Some(deadline))? { recv.output() } else { Err(RecvError::Timeout) }
    }

    /// How the next task ended, if it has.
    ///
    /// # Errors
    ///
    /// If the channel has ended and all tasks in it were received.
    pub fn try_recv(&mut self) -> Result<Option<Result<T, Raised>>, RecvError> {
        let recv = self.operation();
        if recv.attempt() { recv.output().map(Some) } else { Ok(None) }
    }

    /// A future that waits for the next task. Dropped before it is ready it has received nothing: the same task is still
    /// the next.
    pub fn recv_async(&mut self) -> Async<RecvCase<'_, T>> {
        Async::new(self.operation())
    }

    /// How the tasks end, one after the other, until the channel has ended. Where [`recv`](Receiver::recv) fails because
    /// the caller is cancelled or must not block, it unwinds.
    pub fn iter(&mut self) -> Iter<'_, T> {
        Iter(self)
    }

    /// How the tasks have ended that have, up to the first that has not.
    pub fn try_iter(&mut self) -> TryIter<'_, T> {
        TryIter(self)
    }

    /// Closes the channel: no task is sent any more; those in it can be received. False if it was ended before.
    pub fn close(&self) -> bool {
        self.channel.close()
    }

    /// Ends the channel: senders see `error`; the tasks in it can be received. False if it was ended before.
    pub fn reject(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.channel.reject(error)
    }

    /// Ends the channel for both sides, which see that it was cancelled. The tasks in it are not: they can be received.
    /// False if it was ended before.
    pub fn cancel(&self) -> bool {
        self.channel.cancel()
    }

    /// True once the channel was ended, in whatever way.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// How many tasks were sent and not received. One of them may be out of the channel already, since a receive that
    /// was given up has waited for it.
    pub fn len(&self) -> usize {
        self.channel.len() + usize::from(self.head.is_some())
    }

    /// True if all tasks that were sent were received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many handles the channel holds, besides the one that the receiver waits for.
    pub fn capacity(&self) -> usize {
        self.channel.capacity()
    }

    fn operation(&mut self) -> RecvCase<'_, T> {
        // What a future that was forgotten has left there.
        self.head.iter_mut().for_each(JoinHandle::clear_wait);
        RecvCase {
            arrival: self.channel.operation(),
            ended: Ended::new(),
            head: RefCell::new(&mut self.head),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.close();
        self.head.iter_mut().for_each(JoinHandle::clear_wait);
        drop(Queued(self.head.take()));
        self.channel.try_iter().for_each(drop);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Receiver");
        shown.field("len", &self.len()).field("capacity", &self.capacity());
        shown.field("closed", &self.is_closed()).finish()
    }
}

impl<'a, T> Source for &'a mut Receiver<T> {
    type Case = RecvCase<'a, T>;

    fn into_case(self) -> RecvCase<'a, T> {
        self.operation()
    }
}

/// The next task of a channel: see [`Receiver::recv_async`] and [`select::recv`](crate::select::recv).
pub struct RecvCase<'a, T> {
    /// The first stage: the next handle comes out of the channel.
    arrival: chan::RecvCase<'a, Queued<T>>,
    /// The second stage: its task ends.
    ended: Ended,
    /// None in the first stage. The receiver's own, so that it is there whatever becomes of this.
    head: RefCell<&'a mut Option<JoinHandle<T>>>,
}

impl<T> RecvCase<'_, T> {
    /// The task that it waits for, in the second stage.
    fn task(&self) -> Option<&'static Task> {
        self.head.borrow().as_ref().map(task_of)
    }

    fn has_ended(&self) -> bool {
        self.head.borrow().as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The first stage is over. True if there is nothing to wait for any more: the channel has ended, or the task has.
    ///
    /// # Safety
    ///
    /// The arrival is done: its node, if it had one, was told.
    unsafe fn arrive(&self) -> bool {
        // SAFETY: the caller's promise.
        match unsafe { self.arrival.take() } {
            None => true,
            Some(handle) => {
                **self.head.borrow_mut() = Some(handle.into_handle());
                self.has_ended()
            }
        }
    }
}

impl<T> Awaited for RecvCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        match self.task() {
            // SAFETY: the caller promises that the node was enrolled with this. The stage is still the same: the next
            // one begins when it was told.
            None => unsafe { self.arrival.withdraw(node) },
            Some(task) => self.ended.withdraw(task, node),
        }
    }

    /// The handle stays with the receiver, and so does the result.
    unsafe fn hand_on(&self, _: &Node) {
        if self.task().is_none() {
            // SAFETY: the caller promises that the node was told, in this stage.
            unsafe { self.arrive() };
        }
    }
}

impl<T> Attempt for RecvCase<'_, T> {
    fn attempt(&self) -> bool {
        match self.task() {
            Some(_) => self.has_ended(),
            // SAFETY: it was attempted, and is done.
            None => self.arrival.attempt() && unsafe { self.arrive() },
        }
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of the node and of this, and so of either stage.
        unsafe {
            match self.task() {
                // A bounded channel is asked again for what is in it: it is done only when it has ended.
                None => self.arrival.enroll(node),
                Some(task) => self.ended.enroll(task, node),
            }
        }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        // SAFETY: the caller promises that the node was told, in this stage.
        self.task().is_some() || unsafe { self.arrive() }
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: the caller promises that a node is enrolled with this; the stage is that of the node, as in
        // `withdraw`.
        unsafe {
            match self.task() {
                None => self.arrival.under_lock(change),
                Some(task) => self.ended.under_lock(task, change),
            }
        }
    }

    fn what(&self) -> What {
        match self.task() {
            None => What::of(WaitKind::RecvOrdered),
            Some(task) => What::end_of(task.id()),
        }
    }
}

impl<T> Case for RecvCase<'_, T> {
    type Output = Result<Result<T, Raised>, RecvError>;

    fn output(self) -> Result<Result<T, Raised>, RecvError> {
        match self.head.into_inner().take() {
            Some(ended) => Ok(ended.join()),
            None => self.arrival.output().map(|handle| handle.into_handle().join()),
        }
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").finish_non_exhaustive()
    }
}

/// How the tasks of a channel end, one after the other: see [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(&'a mut Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = Result<T, Raised>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<T, Raised>> {
        next_of(self.0)
    }
}

/// How the tasks of a channel have ended: see [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a mut Receiver<T>);

impl<T> Iterator for TryIter<'_, T> {
    type Item = Result<T, Raised>;

    fn next(&mut self) -> Option<Result<T, Raised>> {
        self.0.try_recv().ok().flatten()
    }
}

/// How the tasks of a channel end, one after the other, with the receiver inside.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = Result<T, Raised>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<T, Raised>> {
        next_of(&mut self.0)
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = Result<T, Raised>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<'a, T> IntoIterator for &'a mut Receiver<T> {
    type Item = Result<T, Raised>;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

#[track_caller]
fn next_of<T>(receiver: &mut Receiver<T>) -> Option<Result<T, Raised>> {
    match receiver.recv() {
        Ok(outcome) => Some(outcome),
        Err(RecvError::Refused(refused)) => unwind(refused),
        Err(_) => None,
    }
}
