//! What a select can wait for.

use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::is_shielded;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, Sending, What, is_cancelled};
use sinew_sched::{Events, JoinHandle, RecvEvent, WaitKind, now};

use crate::chan::{Receiver, RecvCase, SendCase, SendOne, Sender, broadcast, ordered};
use crate::source::Source;

impl<'a> Source for &'a Events {
    type Case = RecvEvent<'a>;

    fn into_case(self) -> RecvEvent<'a> {
        self.operation()
    }
}

impl<'a, T, K> Source for &'a Receiver<T, K> {
    type Case = RecvCase<'a, T>;

    fn into_case(self) -> RecvCase<'a, T> {
        self.operation()
    }
}

impl<'a, T: Clone> Source for &'a broadcast::Receiver<T> {
    type Case = broadcast::RecvCase<'a, T>;

    fn into_case(self) -> broadcast::RecvCase<'a, T> {
        self.operation()
    }
}

/// Without a source it never happens.
/// Receives from `source`, a receiver or [`Events`](sinew_sched::Events): gives what its `recv` returns. From an `Option` of
/// one it never happens while that is `None`: so a loop stops listening to a channel that has ended.
pub fn recv<S: Source>(source: S) -> S::Case {
    source.into_case()
}

/// Something that items can be sent to.
pub trait Sink<T> {
    /// The case that [`send`] makes of it.
    type Case: Sending<Item = T>;

    #[doc(hidden)]
    fn into_case(self, item: T) -> Self::Case;
}

impl<'a, T, K> Sink<T> for &'a Sender<T, K> {
    type Case = SendCase<'a, T>;

    fn into_case(self, item: T) -> SendCase<'a, T> {
        self.operation(item)
    }
}

impl<'a, T> Sink<T> for &'a broadcast::Sender<T> {
    type Case = broadcast::SendCase<'a, T>;

    fn into_case(self, item: T) -> broadcast::SendCase<'a, T> {
        self.operation(item)
    }
}

/// The item is the handle of a task.
impl<'a, T> Sink<JoinHandle<T>> for &'a ordered::Sender<T> {
    type Case = ordered::SendCase<'a, T>;

    fn into_case(self, task: JoinHandle<T>) -> ordered::SendCase<'a, T> {
        self.operation(task)
    }
}

/// Sends what is in `item`. Without an item it never happens. Gives what [`Sender::send`] returns.
///
/// If this case happens, `item` is empty afterwards: what was in it was sent or, if the channel has ended, is in the
/// [`SendError`](crate::chan::SendError). If another case happens, or none, `item` is as it was.
///
/// ```
/// use sinew_chan::select::{recv, send};
/// use sinew_chan::{chan, select};
/// use sinew_sched::Runtime;
///
/// Runtime::new().run(|| {
///     let (sender, receiver) = chan::bounded(1);
///     let (_open, other) = chan::bounded::<()>(1);
///     drop(receiver);
///     let mut item = Some("letter");
///     let sent = select! {
///         sent = send(&sender, &mut item) => sent,
///         _ = recv(&other) => unreachable!("nobody sends"),
///     };
///     assert_eq!(sent.unwrap().unwrap_err().item, "letter");
///     assert_eq!(item, None);
/// })
/// .unwrap();
/// ```
pub fn send<T, S: Sink<T>>(sender: S, item: &mut Option<T>) -> SendOne<'_, S::Case> {
    SendOne::new(item, |item| sender.into_case(item))
}

/// Happens after so long.
pub fn sleep(duration: Duration) -> Until {
    until(now() + duration)
}

/// Happens at `deadline`, on the clock of [`now`](sinew_sched::now).
pub fn until(deadline: Instant) -> Until {
    Until { deadline }
}

/// A time: see [`until`].
#[derive(Debug)]
pub struct Until {
    deadline: Instant,
}

impl Awaited for Until {
    unsafe fn withdraw(&self, _: &Node) -> bool {
        true
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for Until {
    fn attempt(&self) -> bool {
        now() >= self.deadline
    }

    /// Nobody tells it: whoever waits looks at the time.
    unsafe fn enroll(&self, _: &Node) -> Enrolled {
        Enrolled::Queued
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, _: &mut dyn FnMut()) {}

    fn what(&self) -> What {
        What::until(self.deadline)
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}

impl Case for Until {
    type Output = ();

    fn output(self) {}
}

/// Happens when the task is cancelled. Without this case a select is refused then.
pub fn cancelled() -> Cancelled {
    Cancelled(())
}

/// The cancellation of the task: see [`cancelled`].
#[derive(Debug)]
pub struct Cancelled(());

impl Awaited for Cancelled {
    unsafe fn withdraw(&self, _: &Node) -> bool {
        true
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for Cancelled {
    fn attempt(&self) -> bool {
        is_cancelled() && !is_shielded()
    }

    /// Nobody tells it: the wait is refused.
    unsafe fn enroll(&self, _: &Node) -> Enrolled {
        Enrolled::Queued
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, _: &mut dyn FnMut()) {}

    fn what(&self) -> What {
        What::of(WaitKind::Cancelled)
    }

    fn awaits_cancel(&self) -> bool {
        true
    }
}

impl Case for Cancelled {
    type Output = ();

    fn output(self) {}
}
