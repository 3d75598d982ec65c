//! Channels: items go from who sends to who receives, one by one, and whoever has to wait is suspended.
//!
//! ```
//! use sinew_chan::chan;
//! use sinew_sched::{Runtime, spawn};
//!
//! let sum = Runtime::new().run(|| {
//!     let (sender, receiver) = chan::bounded(16);
//!     let squares = spawn(move || (1..=10).try_for_each(|n: u32| sender.send(n * n)));
//!     let sum = receiver.iter().sum::<u32>(); // ends when the sender is gone
//!     squares.join().unwrap().unwrap();
//!     sum
//! });
//! assert_eq!(sum.unwrap(), 385);
//! ```
//!
//! # Which one
//!
//! | to | take |
//! |---|---|
//! | hand items over one at a time, each when it is taken | [`rendezvous`] |
//! | let senders run ahead by so many items | [`bounded`] |
//! | the same between one sender and one receiver, which the types promise | [`spsc`] |
//! | hand over one value, once | [`oneshot`] |
//! | run tasks at once, and have their results in the order in which they were started | [`ordered`] |
//! | lend a few things that are expensive to make, and get them back | [`Pool`] |
//! | let them run ahead by so many bytes, or whatever else is counted | [`weighted`] |
//! | let every receiver see every item | [`broadcast`] |
//!
//! # What they have in common
//!
//! - **The same calls from tasks, threads and futures.** `send` and `recv` suspend a task and block a thread;
//!   `send_async` and `recv_async` are futures; a [`select!`](crate::select!) waits for several.
//! - **When there is no room** `send` waits, `try_send` refuses the newest item, and `force_send` drops the oldest;
//!   what was refused or dropped is returned.
//! - **Capacities are exact.**
//! - **First come, first served**, on either side, among those who wait.
//! - **Nothing is lost.** An item that was sent is received by exactly one, unless all receivers go; one that was not comes
//!   back with the error. Closing stops what comes in: what is inside is received first, then why it was closed.
//! - A call that need not wait succeeds also in a task that is cancelled; one that must returns
//!   [`Refused`](RecvError::Refused), and unwinds if the task is killed. An item that was on its way to it goes to
//!   the next receiver.
//!
//! `docs/channels.md` in the repository has all of it, with the tables of who sees what when a channel ends.

pub mod broadcast;
mod displaced;
mod ends;
mod error;
pub mod oneshot;
mod operation;
pub mod ordered;
mod pool;
mod receiver;
mod rendezvous;
mod ring;
mod sender;
mod slot;
mod wakeups;
mod weighted;

use std::collections::VecDeque;
use std::marker::PhantomData;

use sinew_sched::WaitKind;
use sinew_sched::raw::{Enrolled, Node, Prepaid, Waiter};
use sinew_sync::Arc;
use sinew_sync::atomic::AtomicUsize;

pub use displaced::Displaced;
pub use ends::{Many, One};
pub use error::{CloseError, RecvError, SendError, Unsent};
use error::{End, Ending};
pub use operation::{RecvCase, SendCase, SendOne};
pub use pool::{Pool, PoolBuilder, Pooled, TakeCase, TakeError};
pub use receiver::{IntoIter, Iter, Receiver, TryIter};
use rendezvous::Rendezvous;
use ring::Ring;
pub use sender::Sender;
pub use sinew_sched::raw::{Async, Sending};
use slot::Slot;
#[doc(hidden)]
pub use wakeups::Wakeups;
use weighted::Weighted;

/// A channel that holds nothing: a sender waits until a receiver takes its item.
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    pair(Kind::Rendezvous(Rendezvous::new()))
}

/// A channel that holds up to `capacity` items; with none, a [`rendezvous`].
///
/// Any capacity will do: up to 64 KiB of items are allocated with the channel, and a larger channel takes memory as items
/// are sent, 64 KiB at a time (or one item, if that is larger), and frees it as they are received. An empty one keeps at
/// most twice that. If an allocation fails the process aborts, as with the collections of std: a capacity larger than the
/// machine's memory bounds nothing.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    if capacity == 0 { rendezvous() } else { pair(Kind::Ring(Ring::new(capacity))) }
}

/// A [`bounded`] channel whose ends cannot be cloned or shared: one sends, one receives.
pub fn spsc<T>(capacity: usize) -> (Sender<T, One>, Receiver<T, One>) {
    if capacity == 0 {
        return pair(Kind::Rendezvous(Rendezvous::new()));
    }
    pair(Kind::Ring(Ring::new(capacity)))
}

/// A channel that holds items of up to `capacity` in all, where an item weighs what `weigh` says, and at least 1: bytes,
/// say. It may be any number of items, so [`len`](Sender::len) counts them and [`weight`](Sender::weight) says what they
/// weigh.
///
/// ```
/// use sinew_chan::chan::{self, Unsent};
///
/// let (sender, receiver) = chan::weighted(10, |line: &String| line.len());
/// sender.try_send("ten bytes!".to_owned()).unwrap();
/// assert!(matches!(sender.try_send("!".to_owned()).unwrap_err().why, Unsent::Full));
/// let long = sender.send("eleven bytes".to_owned()).unwrap_err();
/// assert!(matches!(long.why, Unsent::TooHeavy { weight: 12, capacity: 10 }));
/// assert_eq!(receiver.recv().unwrap(), "ten bytes!");
/// ```
///
/// - An item that is heavier than `capacity` is refused at once with [`Unsent::TooHeavy`], in every way to send.
/// - Senders that wait are served in the order in which they came: a light item does not pass a heavy one that waits for
///   room, unless that one is given up. `try_send` does not either: while somebody waits, it finds the channel full.
/// - `force_send` drops as many of the oldest as it needs to, and passes all who wait.
/// - `weigh` is called once for each item that is to be sent, by its sender. If it panics the item is dropped, and
///   nothing else happens.
pub fn weighted<T>(
    capacity: usize,
    weigh: impl Fn(&T) -> usize + Send + Sync + 'static,
) -> (Sender<T>, Receiver<T>) {
    pair(Kind::Weighted(Weighted::new(capacity, Box::new(weigh))))
}

fn pair<T, K>(kind: Kind<T>) -> (Sender<T, K>, Receiver<T, K>) {
    let channel = Channel::new(kind);
    let sender = Sender { channel: channel.clone(), prepaid: Prepaid::new(), _kind: PhantomData };
    (sender, Receiver { channel, prepaid: Prepaid::new(), _kind: PhantomData })
}

/// What a node is told: that its item has changed hands.
const GIVEN: u8 = 1;
/// What a node is told: that the channel is closed.
const ENDED: u8 = 2;

/// What became of an attempt that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tried {
    /// The item has changed hands; or else it never will, and the slot is as it was: the channel has ended, or the item
    /// is too heavy for it.
    Done,
    Blocked,
}

/// How a kind of channel moves items from the slots of senders to those of receivers.
///
/// A slot is its caller's: full for a sender, empty for a receiver. Nodes are as [`crate::wait`] says, with one queue for
/// each side; a node that is told GIVEN has a slot that was emptied, or filled, or that [`Flavour::settle_recv`] fills.
trait Flavour<T> {
    /// Whoever gets the item is handed to `wake`, when no lock is held.
    fn try_send(&self, slot: &Slot<T>, wake: impl FnMut(Waiter)) -> Tried;
    fn try_recv(&self, slot: &Slot<T>) -> Tried;

    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll), of the operation that `slot` is in.
    unsafe fn enroll_send(&self, slot: &Slot<T>, node: &Node) -> Enrolled;

    /// # Safety
    ///
    /// As for [`Flavour::enroll_send`].
    unsafe fn enroll_recv(&self, slot: &Slot<T>, node: &Node) -> Enrolled;

    /// # Safety
    ///
    /// As for [`Awaited::withdraw`](crate::wait::Awaited::withdraw): `node` was given to [`Flavour::enroll_send`] of
    /// this.
    unsafe fn withdraw_send(&self, node: &Node) -> bool;

    /// # Safety
    ///
    /// As for [`Awaited::withdraw`](crate::wait::Awaited::withdraw): `node` was given to [`Flavour::enroll_recv`] of
    /// this.
    unsafe fn withdraw_recv(&self, node: &Node) -> bool;

    /// Does what is left to do for a receiver that was told GIVEN. False if it has to begin again.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::settle`](crate::case::Attempt::settle), of the operation that the slot is in.
    #[inline(always)]
    unsafe fn settle_recv(&self, _: &Slot<T>) -> bool {
        true
    }

    /// Gives back what a receiver was told that it has and did not take. `number` is what its node was given with it:
    /// items that come back are received in the order of their numbers.
    ///
    /// # Safety
    ///
    /// As for [`Awaited::hand_on`](crate::wait::Awaited::hand_on), of the operation that `slot` is in.
    unsafe fn put_back(&self, slot: &Slot<T>, number: usize);

    /// Sends without waiting, and returns the oldest items if there was no room for all. Leaves the slot as it is if the
    /// item will never be sent.
    fn force_send(&self, slot: &Slot<T>) -> Displaced<T>;

    /// Sends items without waiting, from the first on; leaves the others.
    fn send_some(&self, items: &mut VecDeque<T>) {
        while let Some(item) = items.pop_front() {
            let slot = Slot::of(item);
            self.try_send(&slot, Waiter::wake);
            if let Some(item) = slot.into_inner() {
                return items.push_front(item);
            }
        }
    }

    /// Receives up to `limit` items without waiting; returns how many.
    fn recv_some(&self, items: &mut Vec<T>, limit: usize) -> usize {
        let received = std::iter::from_fn(|| {
            let slot = Slot::empty();
            self.try_recv(&slot);
            slot.into_inner()
        });
        let before = items.len();
        items.extend(received.take(limit));
        items.len() - before
    }

    /// Lets nothing in any more, and tells all who wait. May be called again.
    fn close(&self);
    fn is_closed(&self) -> bool;
    fn len(&self) -> usize;

    /// What the items weigh in all.
    fn weight(&self) -> usize {
        self.len()
    }

    fn under_send_lock(&self, change: &mut dyn FnMut());
    fn under_recv_lock(&self, change: &mut dyn FnMut());
}

#[allow(clippy::large_enum_variant, reason = "there is one for each channel, behind a pointer")]
enum Kind<T> {
    Ring(Ring<T>),
    Rendezvous(Rendezvous<T>),
    Weighted(Weighted<T>),
}

/// Calls a method of [`Flavour`] on whichever it is.
macro_rules! flavour {
    ($channel:expr, $method:ident($($argument:expr),*)) => {
        match &$channel.kind {
            $crate::chan::Kind::Ring(ring) => ring.$method($($argument),*),
            $crate::chan::Kind::Rendezvous(rendezvous) => rendezvous.$method($($argument),*),
            $crate::chan::Kind::Weighted(weighted) => weighted.$method($($argument),*),
        }
    };
}
use flavour;

/// What the ends of a channel share.
struct Channel<T> {
    kind: Kind<T>,
    ending: Ending,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

impl<T> Channel<T> {
    fn new(kind: Kind<T>) -> Arc<Channel<T>> {
        let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(1));
        Arc::new(Channel { kind, ending: Ending::new(), senders, receivers })
    }

    /// What its senders and its receivers wait for.
    #[inline(always)]
    fn kinds(&self) -> (WaitKind, WaitKind) {
        match &self.kind {
            Kind::Ring(_) => (WaitKind::SendBounded, WaitKind::RecvBounded),
            Kind::Rendezvous(_) => (WaitKind::SendRendezvous, WaitKind::RecvRendezvous),
            Kind::Weighted(_) => (WaitKind::SendWeighted, WaitKind::RecvWeighted),
        }
    }

    fn capacity(&self) -> usize {
        match &self.kind {
            Kind::Ring(ring) => ring.capacity(),
            Kind::Rendezvous(_) => 0,
            Kind::Weighted(weighted) => weighted.capacity(),
        }
    }

    /// A slot with an item to send.
    #[inline(always)]
    fn slot(&self, item: T) -> Slot<T> {
        match &self.kind {
            Kind::Weighted(weighted) => weighted.slot(item),
            _ => Slot::of(item),
        }
    }

    /// Why an item of this weight will never be sent.
    #[cold]
    fn why_unsent(&self, weight: usize) -> Unsent {
        match &self.kind {
            Kind::Weighted(weighted) if weight > weighted.capacity() => {
                Unsent::TooHeavy { weight, capacity: weighted.capacity() }
            }
            _ => self.ending.get().into(),
        }
    }

    /// Ends the channel. False if it was ended before.
    #[cold]
    fn end(&self, end: End) -> bool {
        let first = self.ending.set(end);
        flavour!(self, close()); // also for who comes second: whoever was first may not have got there yet
        first
    }

    fn last_sender_goes(&self) {
        self.end(End::Closed);
    }

    /// What is inside is dropped now, and not with the channel: whoever still has a sender may wait for what is in there,
    /// a question with the sender of its answer.
    fn last_receiver_goes(&self) {
        self.end(End::Closed);
        drop_all(&mut || {
            let slot = Slot::empty();
            flavour!(self, try_recv(&slot));
            slot.into_inner().map(drop).is_some()
        });
    }
}

/// Calls `drop_one` until nothing is left to drop; it goes on if a destructor unwinds, as std's collections do.
fn drop_all(drop_one: &mut dyn FnMut() -> bool) {
    struct Rest<'a>(&'a mut dyn FnMut() -> bool);

    impl Drop for Rest<'_> {
        fn drop(&mut self) {
            while (self.0)() {}
        }
    }

    let rest = Rest(drop_one);
    while (rest.0)() {}
}

#[cfg(test)]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
