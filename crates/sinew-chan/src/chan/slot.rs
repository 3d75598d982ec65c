//! Where an item is while it changes hands: in the operation that sends it, or in the one that receives it.
//!
//! The operation's node has the address. As long as the node is in a queue the slot belongs to whoever has the lock of
//! the queue; when it was told, or taken out, to the operation again.

use sinew_sched::raw::Node;
use sinew_sync::cell::UnsafeCell;

pub(super) struct Slot<T> {
    item: UnsafeCell<Option<T>>,
    weight: usize,
}

impl<T> Slot<T> {
    #[inline(always)]
    pub(super) fn empty() -> Slot<T> {
        Slot { item: UnsafeCell::new(None), weight: 0 }
    }

    #[inline(always)]
    pub(super) fn of(item: T) -> Slot<T> {
        Slot::weighing(0, item)
    }

    #[inline(always)]
    pub(super) fn weighing(weight: usize, item: T) -> Slot<T> {
        Slot { item: UnsafeCell::new(Some(item)), weight }
    }

    /// What the item weighs, in a channel that asks for it.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// # Safety
    ///
    /// The slot is the caller's at the moment (module prose).
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the caller's promise.
        self.item.with_mut(|item| unsafe { (*item).take() })
    }

    /// # Safety
    ///
    /// As for [`Slot::take`]. The slot is empty.
    #[inline(always)]
    pub(super) unsafe fn put(&self, item: T) {
        // SAFETY: the caller's promise; there is nothing to drop.
        self.item.with_mut(|place| unsafe { place.write(Some(item)) });
    }

    pub(super) fn into_inner(self) -> Option<T> {
        // SAFETY: whoever has the slot by value is the only one who does.
        unsafe { self.take() }
    }

    /// Lets `node` lead here.
    #[inline(always)]
    pub(super) fn lead(&self, node: &Node) {
        node.place.set(std::ptr::from_ref(self).cast());
    }

    /// The slot that `node` leads to.
    ///
    /// # Safety
    ///
    /// `node` was given its place by [`Slot::lead`] of a `Slot<T>`, and has not been told since it was taken out of a queue.
    #[inline(always)]
    pub(super) unsafe fn of_node<'a>(node: *const Node) -> &'a Slot<T> {
        // SAFETY: the caller's promise; the operation with the slot does not leave before its node is told.
        unsafe { &*(*node).place.get().cast::<Slot<T>>() }
    }
}
