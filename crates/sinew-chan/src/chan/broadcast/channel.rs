//! What the ends of a broadcast channel do, under its lock. The protocol is that of [`super::state`].

use std::cell::Cell;
use std::sync::Arc;

use sinew_sched::raw::{Enrolled, Node, Waiter, tell_each_from};
use sinew_sync::atomic::AtomicUsize;
use sinew_sync::{ShortGuard, ShortLock};

use super::Slow;
use super::state::{Seen, State};
use crate::chan::Tried;
use crate::chan::error::{End, Ending};
use crate::chan::slot::Slot;

pub(super) struct Channel<T> {
    state: ShortLock<State<T>>,
    pub(super) capacity: usize,
    slow: Slow,
    pub(super) ending: Ending,
    pub(super) senders: AtomicUsize,
}

impl<T> Channel<T> {
    /// A channel with one sender and no receiver.
    pub(super) fn new(capacity: usize, slow: Slow) -> Channel<T> {
        let (ending, senders) = (Ending::new(), AtomicUsize::new(1));
        Channel { state: ShortLock::new(State::new(capacity)), capacity, slow, ending, senders }
    }

    /// Tells all who need not wait any more.
    fn tell_all(&self, state: ShortGuard<'_, State<T>>) {
        if state.has_to_tell() {
            tell_each_from(state, || self.state.lock(), State::tell_next, Waiter::wake);
        }
    }

    /// Leaves the slot as it is if nobody will see the item, and sets `cut_off` if that is because all were cut off.
    pub(super) fn try_send(&self, slot: &Slot<Arc<T>>, cut_off: &Cell<bool>) -> Tried {
        let (mut overwritten, mut seen) = (None, Vec::new());
        let mut state = self.state.lock();
        if !state.is_heard() {
            return Tried::Done;
        }
        if state.senders_wait() || self.slow == Slow::Block && !state.has_room() {
            return Tried::Blocked;
        }
        if !state.has_room() {
            match self.slow {
                Slow::Drop => seen = state.cut_off_slowest(),
                _ => overwritten = state.overwrite(),
            }
        }
        if state.is_heard() {
            // SAFETY: the slot is the caller's.
            state.put(unsafe { slot.take() }.expect("an item to send"));
        } else {
            cut_off.set(true);
        }
        self.tell_all(state);
        drop((overwritten, seen));
        Tried::Done
    }

    pub(super) fn try_recv(&self, seat: usize, slot: &Slot<Seen<T>>) -> Tried {
        let mut state = self.state.lock();
        if state.has_to_wait(seat) {
            return Tried::Blocked;
        }
        if let Some((_, seen)) = state.see(seat) {
            // SAFETY: the slot is the caller's.
            unsafe { slot.put(seen) };
            self.tell_all(state);
        }
        Tried::Done
    }

    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll), of the operation that `slot` is in.
    pub(super) unsafe fn enroll_send(&self, slot: &Slot<Arc<T>>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if !state.is_heard() {
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        if !state.senders_wait() && (state.has_room() || self.slow != Slow::Block) {
            return Enrolled::Again;
        }
        slot.lead(node);
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { state.push_sender(node) };
        Enrolled::Queued
    }

    /// # Safety
    ///
    /// As for [`Channel::enroll_send`].
    pub(super) unsafe fn enroll_recv(&self, seat: usize, slot: &Slot<Seen<T>>, node: &Node) -> Enrolled {
        let mut state = self.state.lock();
        if !state.has_to_wait(seat) {
            return Enrolled::Again;
        }
        slot.lead(node);
        // SAFETY: as in `enroll_send`.
        unsafe { state.push_receiver(seat, node) };
        Enrolled::Queued
    }

    /// Takes the node of a sender out that [`Channel::enroll_send`] has put into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Awaited::withdraw`](crate::wait::Awaited::withdraw).
    pub(super) unsafe fn withdraw_send(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().remove_sender(node) }
    }

    /// Takes the node of a receiver out that [`Channel::enroll_recv`] has put into the queue of this seat.
    ///
    /// # Safety
    ///
    /// As for [`Awaited::withdraw`](crate::wait::Awaited::withdraw).
    pub(super) unsafe fn withdraw_recv(&self, seat: usize, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.state.lock().remove_receiver(seat, node) }
    }

    /// Gives back what somebody at `seat` was given and did not take; `next` is what its node was given with it.
    pub(super) fn put_back(&self, seat: usize, next: u64, seen: Seen<T>) {
        let mut state = self.state.lock();
        state.put_back(seat, next, seen);
        let waiter = state.tell_at(seat);
        drop(state);
        waiter.into_iter().for_each(Waiter::wake);
    }

    pub(super) fn subscribe(&self) -> usize {
        self.state.lock().subscribe()
    }

    pub(super) fn subscribe_like(&self, seat: usize) -> usize {
        self.state.lock().subscribe_like(seat)
    }

    pub(super) fn leave(&self, seat: usize) {
        let mut state = self.state.lock();
        let left = state.leave(seat);
        self.tell_all(state);
        drop(left);
    }

    /// Ends the channel. False if it was ended before.
    #[cold]
    pub(super) fn end(&self, end: End) -> bool {
        let first = self.ending.set(end);
        let mut state = self.state.lock();
        state.close(); // also for who comes second: whoever was first may not have got there yet
        self.tell_all(state);
        first
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed()
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().len()
    }

    pub(super) fn unseen(&self, seat: usize) -> usize {
        self.state.lock().unseen(seat)
    }

    pub(super) fn receivers(&self) -> usize {
        self.state.lock().receivers()
    }

    /// Calls `change` under the lock of all queues.
    pub(super) fn under_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.state.lock();
        change();
    }
}
