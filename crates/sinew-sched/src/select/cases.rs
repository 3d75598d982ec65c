//! What a select can wait for.

use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::is_shielded;

use crate::case::{Attempt, Case, Enrolled};
use crate::chan::{Receiver, RecvCase, SendCase, SendOne, Sender, Sending, broadcast, ordered};
use crate::clock::now;
use crate::dump::WaitKind;
use crate::join::JoinHandle;
use crate::notes::What;
use crate::wait::{Awaited, Node};
use crate::worker;

/// Something that items can be received from.
pub trait Source {
    /// The case that [`recv`] makes of it.
    type Case: Case;

    #[doc(hidden)]
    fn into_case(self) -> Self::Case;
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
impl<S: Source> Source for Option<S> {
    type Case = Maybe<S::Case>;

    fn into_case(self) -> Maybe<S::Case> {
        Maybe(self.map(Source::into_case))
    }
}

/// A case, or none, which never happens.
#[derive(Debug)]
pub struct Maybe<C>(Option<C>);

impl<C: Awaited> Awaited for Maybe<C> {
    fn withdraw(&self, node: &Node) -> bool {
        self.0.as_ref().is_none_or(|case| case.withdraw(node))
    }

    fn hand_on(&self, node: &Node) {
        self.0.iter().for_each(|case| case.hand_on(node));
    }
}

impl<C: Attempt> Attempt for Maybe<C> {
    fn attempt(&self) -> bool {
        self.0.as_ref().is_some_and(Attempt::attempt)
    }

    fn enroll(&self, node: &Node) -> Enrolled {
        self.0.as_ref().map_or(Enrolled::Queued, |case| case.enroll(node))
    }

    fn settle(&self, node: &Node) -> bool {
        self.0.as_ref().is_none_or(|case| case.settle(node))
    }

    fn under_lock(&self, change: &mut dyn FnMut()) {
        self.0.iter().for_each(|case| case.under_lock(change));
    }

    fn what(&self) -> What {
        self.0.as_ref().map_or(What::of(WaitKind::Never), Attempt::what)
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(Attempt::deadline)
    }

    fn awaits_cancel(&self) -> bool {
        self.0.as_ref().is_some_and(Attempt::awaits_cancel)
    }
}

impl<C: Case> Case for Maybe<C> {
    type Output = C::Output;

    fn output(self) -> C::Output {
        self.0.expect("a case that happened").output()
    }
}

/// Receives from `source`, a receiver or [`Events`](crate::Events): gives what its `recv` returns. From an `Option` of
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

/// Sends what is in `item`, which is empty afterwards; if another case happens it is as it was. Without an item it
/// never happens. Gives what [`Sender::send`] returns.
pub fn send<T, S: Sink<T>>(sender: S, item: &mut Option<T>) -> SendOne<'_, S::Case> {
    SendOne::new(item, |item| sender.into_case(item))
}

/// Happens after so long.
pub fn sleep(duration: Duration) -> Until {
    until(now() + duration)
}

/// Happens at `deadline`, on the clock of [`now`](crate::now).
pub fn until(deadline: Instant) -> Until {
    Until { deadline }
}

/// A time: see [`until`].
#[derive(Debug)]
pub struct Until {
    deadline: Instant,
}

impl Awaited for Until {
    fn withdraw(&self, _: &Node) -> bool {
        true
    }

    fn hand_on(&self, _: &Node) {}
}

impl Attempt for Until {
    fn attempt(&self) -> bool {
        now() >= self.deadline
    }

    /// Nobody tells it: whoever waits looks at the time.
    fn enroll(&self, _: &Node) -> Enrolled {
        Enrolled::Queued
    }

    fn settle(&self, _: &Node) -> bool {
        true
    }

    fn under_lock(&self, _: &mut dyn FnMut()) {}

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
    fn withdraw(&self, _: &Node) -> bool {
        true
    }

    fn hand_on(&self, _: &Node) {}
}

impl Attempt for Cancelled {
    fn attempt(&self) -> bool {
        worker::current_task().is_some_and(|task| task.word.level().is_some()) && !is_shielded()
    }

    /// Nobody tells it: the wait is refused.
    fn enroll(&self, _: &Node) -> Enrolled {
        Enrolled::Queued
    }

    fn settle(&self, _: &Node) -> bool {
        true
    }

    fn under_lock(&self, _: &mut dyn FnMut()) {}

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
