//! A queue of nodes that wait for the same thing: the protocol is in [`super`].

use std::ptr;

use super::{Node, Waiter};
use crate::group::Pair;
use crate::worker::{self, Worker};

/// A waiter that any other could replace is overtaken at most so often, less one, while it is the first.
pub(crate) const OVERTAKING_LIMIT: usize = 16;

/// Nodes that wait for the same thing, first come first told. Its owner keeps it under a lock.
pub struct Queue {
    first: *const Node,
    last: *const Node,
}

// SAFETY: the nodes are reached under the lock that the queue is kept under, by one thread at a time.
unsafe impl Send for Queue {}

impl Queue {
    /// Creates an empty queue.
    #[allow(
        clippy::new_without_default,
        reason = "a queue is a part of a wait object, which says what it begins with"
    )]
    pub const fn new() -> Queue {
        Queue { first: ptr::null(), last: ptr::null() }
    }

    /// Returns true if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// What the first node in the queue wants.
    pub fn first_wants(&self) -> Option<usize> {
        // SAFETY: nodes in the queue are valid.
        unsafe { self.first.as_ref() }.map(|node| node.wants.get())
    }

    /// Has the first node in the queue want something else.
    pub fn set_first_wants(&mut self, wants: usize) {
        // SAFETY: nodes in the queue are valid.
        unsafe { self.first.as_ref() }.into_iter().for_each(|node| node.wants.set(wants));
    }

    /// The first node in the queue, valid as long as the lock is held; null if there is none.
    pub fn first(&self) -> *const Node {
        self.first
    }

    /// Puts `node` at the head of the queue.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    pub unsafe fn push_first(&mut self, node: *const Node) {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            (*node).wake_caller();
            (*node).queued.set(true);
            (*node).next.set(self.first);
            match self.first.as_ref() {
                Some(first) => first.previous.set(node),
                None => self.last = node,
            }
        }
        self.first = node;
    }

    /// Puts `node` at the end of the queue.
    ///
    /// # Safety
    ///
    /// `node` is new, and stays where it is until it was told or removed.
    #[inline]
    pub unsafe fn push(&mut self, node: *const Node) {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            (*node).wake_caller();
            (*node).queued.set(true);
            (*node).previous.set(self.last);
            match self.last.as_ref() {
                Some(last) => last.next.set(node),
                None => self.first = node,
            }
        }
        self.last = node;
    }

    /// Takes `node` out. False if it was told: then it is not in the queue.
    ///
    /// # Safety
    ///
    /// `node` was pushed into this queue.
    #[inline]
    pub unsafe fn remove(&mut self, node: *const Node) -> bool {
        // SAFETY: the caller's promise; nodes in the queue are valid.
        unsafe {
            let node = &*node;
            if !node.queued.replace(false) {
                return false;
            }
            let (previous, next) = (node.previous.get(), node.next.get());
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.first = next,
            }
            match next.as_ref() {
                Some(next) => next.previous.set(previous),
                None => self.last = previous,
            }
        }
        true
    }

    /// Moves the newest node to the head if its task waits on the worker of the caller, and that of the first on another
    /// worker: waking it needs no other CPU. For waiters of which any will do; `turn` counts those that were told, and
    /// every [`OVERTAKING_LIMIT`]th time the first stays where it is.
    #[inline(always)]
    pub fn bring_near(&mut self, turn: usize) {
        if !ptr::eq(self.first, self.last) && !turn.is_multiple_of(OVERTAKING_LIMIT) {
            self.bring_newest_near();
        }
    }

    #[cold]
    fn bring_newest_near(&mut self) {
        let Some(worker) = worker::current().map(Worker::index) else { return };
        // SAFETY: nodes in the queue are valid, and there are two at least.
        unsafe {
            let (first, last) = (&*self.first, &*self.last);
            if first.waits_on(worker) != Some(false) || last.waits_on(worker) != Some(true) {
                return;
            }
            self.last = last.previous.get();
            (*self.last).next.set(ptr::null());
            last.previous.set(ptr::null());
            last.next.set(first);
            first.previous.set(last);
            self.first = last;
        }
    }

    /// Takes the first node out that can be claimed, and those before it, which are dead. It has to be told.
    #[must_use = "the node has to be told"]
    #[inline]
    pub fn claim_first(&mut self) -> Option<*const Node> {
        while !self.first.is_null() {
            if let Some(first) = self.claim_head() {
                return Some(first);
            }
        }
        None
    }

    /// Takes the first node out, of a queue that is not empty. It has to be told; none if it was dead.
    #[must_use = "the node has to be told"]
    #[inline(always)]
    pub fn claim_head(&mut self) -> Option<*const Node> {
        let first = self.first;
        // SAFETY: nodes in the queue are valid; a dead one is not touched after it is out.
        unsafe {
            let claimed = (*first).claim();
            self.remove_first();
            claimed.then_some(first)
        }
    }

    /// Takes the first node out that is told, and those before it, which are dead. Whoever waits has to be woken when the
    /// lock is released.
    #[must_use = "the waiter has to be woken"]
    pub fn tell(&mut self, what: u8) -> Option<Waiter> {
        let node = self.claim_first()?;
        // SAFETY: it was in the queue, so it is valid until it is told.
        Some(unsafe { Node::tell(node, what) })
    }

    /// Takes the first node out whose wants are `wanted` and that is told.
    #[must_use = "the waiter has to be woken"]
    pub fn tell_where(&mut self, what: u8, wanted: impl Fn(usize) -> bool) -> Option<Waiter> {
        let mut next = self.first;
        while !next.is_null() {
            let node = next;
            // SAFETY: nodes in the queue are valid; one that was claimed is, until it is told.
            unsafe {
                next = (*node).next.get();
                if wanted((*node).wants.get()) {
                    let claimed = (*node).claim();
                    self.remove(node);
                    if claimed {
                        return Some(Node::tell(node, what));
                    }
                }
            }
        }
        None
    }

    /// Finds the first node that can be claimed together with `own`, which waits for the opposite, and takes it out. It
    /// has to be told. A node of the same waiter is passed over: nobody can do both halves at once.
    #[inline(always)]
    pub fn claim_for(&mut self, own: &Node) -> Partner {
        // SAFETY: nodes in the queue are valid.
        unsafe {
            match self.first.as_ref() {
                None => Partner::Nobody,
                Some(first) if first.group.is_null() && own.group.is_null() => {
                    self.remove_first();
                    Partner::Found(first)
                }
                Some(_) => self.search_for(own),
            }
        }
    }

    #[cold]
    fn search_for(&mut self, own: &Node) -> Partner {
        let mut next = self.first;
        while !next.is_null() {
            let node = next;
            // SAFETY: nodes in the queue are valid; a dead one is not touched after it is out.
            unsafe {
                next = (*node).next.get();
                if !own.group.is_null() && ptr::eq((*node).group, own.group) {
                    continue;
                }
                match own.claim_with(&*node) {
                    Pair::Claimed => {
                        self.remove(node);
                        return Partner::Found(node);
                    }
                    Pair::OwnTaken => return Partner::OwnTaken,
                    Pair::OtherTaken => _ = self.remove(node),
                }
            }
        }
        Partner::Nobody
    }

    /// Takes the first node out. There is one.
    #[inline(always)]
    fn remove_first(&mut self) {
        // SAFETY: nodes in the queue are valid.
        unsafe {
            (*self.first).queued.set(false);
            self.first = (*self.first).next.get();
            match self.first.as_ref() {
                Some(first) => first.previous.set(ptr::null()),
                None => self.last = ptr::null(),
            }
        }
    }
}

/// Who is there for the other half of an exchange.
pub enum Partner {
    /// This node, which is claimed and in no queue any more.
    Found(*const Node),
    /// Nobody waits.
    Nobody,
    /// The group of whoever asks was claimed meanwhile.
    OwnTaken,
}
