//! The places of a pool, the items in them, and who waits for one.
//!
//! A place is taken by an item from before it is created until after it was destroyed, or has left the pool. There are as
//! many as the capacity says, and `taken` counts those that are. All of it is under one lock, and no hook, destructor or
//! waker is called with the lock held.
//!
//! - Who takes has an idle item; or a free place, in which it creates one when the lock is released; or it waits.
//! - An item that comes back is given to the first who waits, and is idle if nobody does. In a pool that is closed it is
//!   destroyed.
//! - A place that becomes free is given to the first who waits, to create an item in, and stays taken then.
//!
//! So while somebody waits nothing is idle and all places are taken, and whoever comes later passes nobody. A node is told
//! which of the two it has been given: an item, in the slot that the node leads to, or a place. Its operation
//! ([`TakeCase`]) has that until it gives it out or goes; then it goes on as if it had come back just now, without
//! a reset, since nobody has used it.
//!
//! # Every item is destroyed once
//!
//! An item belongs to exactly one of: the hook that creates it, the idle ones, a slot, a [`Pooled`](super::Pooled),
//! [`Returning`], the hook that destroys it. Each hands it on by value. [`Place`] frees a place when whatever was done in
//! it is over, by a return or by an unwind. A hook that raises something while its caller unwinds would end the process, so
//! what it raises then goes no further.
//!
//! Models: `pool_return_wakes`, `pool_lends_to_one`, `pool_failed_create_lets_the_next_try`,
//! `pool_return_against_withdrawal`, `pool_unwind_hands_on`, `pool_close`.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::thread::panicking;

use sinew_fiber::raw::{catch, report};
use sinew_sched::WaitKind;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, Queue, What, tell_each};
use sinew_sync::Arc;
use sinew_sync::ShortLock;
use sinew_sync::atomic::{AtomicUsize, Ordering};

use super::{Pooled, TakeError};
use crate::chan::drop_all;
use crate::chan::slot::Slot;

/// What a node is told: that there is an item in its slot.
const GIVEN: u8 = 1;
/// What a node is told: that it has a place.
const PLACE: u8 = 2;
/// What a node is told: that the pool is closed.
const ENDED: u8 = 3;

pub(super) type Create<T> = Box<dyn Fn() -> Result<T, Box<dyn Error + Send + Sync>> + Send + Sync>;
pub(super) type Reset<T> = Box<dyn Fn(&mut T) + Send + Sync>;
pub(super) type Destroy<T> = Box<dyn Fn(T) + Send + Sync>;

pub(super) struct Hooks<T> {
    pub(super) create: Create<T>,
    pub(super) reset: Option<Reset<T>>,
    /// None: its destructor.
    pub(super) destroy: Option<Destroy<T>>,
}

/// What a pool and its items share.
pub(super) struct Places<T> {
    state: ShortLock<State<T>>,
    hooks: Hooks<T>,
    pub(super) capacity: usize,
    /// How many items were ever created.
    pub(super) created: AtomicUsize,
    /// How many there are who can take.
    pub(super) pools: AtomicUsize,
}

struct State<T> {
    /// The one that came back last is taken first. It has room for all.
    idle: Vec<T>,
    taken: usize,
    queue: Queue,
    closed: bool,
}

impl<T> Places<T> {
    pub(super) fn new(capacity: usize, hooks: Hooks<T>) -> Places<T> {
        let idle = Vec::with_capacity(capacity);
        let state = State { idle, taken: 0, queue: Queue::new(), closed: false };
        let (created, pools) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Places { state: ShortLock::new(state), hooks, capacity, created, pools }
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.state.lock().taken
    }

    pub(super) fn idle(&self) -> usize {
        self.state.lock().idle.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Destroys what is idle, and from now on what comes back. False if it was closed before.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state.lock();
        let first = !std::mem::replace(&mut state.closed, true);
        let mut idle = std::mem::take(&mut state.idle);
        drop(state);
        tell_each(|| self.state.lock(), |state| state.queue.tell(ENDED));
        drop_all(&mut || idle.pop().map(|item| self.destroy(item)).is_some());
        first
    }

    /// Takes an item back that somebody has used.
    pub(super) fn give_back(&self, item: T) {
        let mut returning = Returning { places: self, item: Some(item) };
        if let (Some(reset), Some(item)) = (&self.hooks.reset, &mut returning.item)
            && !contain(|| reset(item))
        {
            return;
        }
        returning.item.take().into_iter().for_each(|item| self.put(item));
    }

    /// Gives an item to the first who waits, or makes it idle.
    fn put(&self, item: T) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return self.destroy(item);
        }
        let Some(node) = state.queue.claim_first() else { return state.idle.push(item) };
        // SAFETY: it was claimed just now, under the lock of its queue. Whoever waits has an empty slot.
        let waiter = unsafe {
            Slot::of_node(node).put(item);
            Node::tell(node, GIVEN)
        };
        drop(state);
        waiter.wake();
    }

    /// Destroys an item and frees its place.
    pub(super) fn destroy(&self, item: T) {
        let _place = Place(self);
        contain(|| match &self.hooks.destroy {
            Some(destroy) => destroy(item),
            None => drop(item),
        });
    }

    /// The place of an item that has left the pool is free.
    pub(super) fn free(&self) {
        let mut state = self.state.lock();
        let told = if state.closed { None } else { state.queue.tell(PLACE) };
        match told {
            Some(waiter) => {
                drop(state);
                waiter.wake();
            }
            None => state.taken -= 1,
        }
    }
}

/// Calls a hook. In a destructor, while its stack unwinds, what the hook raises goes no further; false then.
fn contain(hook: impl FnOnce()) -> bool {
    if !panicking() {
        hook();
        return true;
    }
    match catch(hook) {
        Ok(()) => true,
        Err(raised) => {
            report(format_args!("a hook of a pool has failed while its caller unwound: {raised:#}"));
            std::mem::forget(raised); // its destructor may raise, too
            false
        }
    }
}

/// A place without an item: freed when this goes.
struct Place<'a, T>(&'a Places<T>);

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.0.free();
    }
}

/// An item on its way back, destroyed if it does not arrive.
struct Returning<'a, T> {
    places: &'a Places<T>,
    item: Option<T>,
}

impl<T> Drop for Returning<'_, T> {
    fn drop(&mut self) {
        self.item.take().into_iter().for_each(|item| self.places.destroy(item));
    }
}

/// What an operation has.
#[derive(Clone, Copy)]
enum Has {
    Nothing,
    /// An item, in its slot.
    Item,
    Place,
    /// It knows that the pool is closed.
    End,
}

/// An item of a pool: see [`Pool::take_async`](super::Pool::take_async) and [`select::recv`](crate::select::recv).
pub struct TakeCase<'a, T> {
    places: &'a Arc<Places<T>>,
    has: Cell<Has>,
    slot: Slot<T>,
}

impl<'a, T> TakeCase<'a, T> {
    pub(super) fn new(places: &'a Arc<Places<T>>) -> TakeCase<'a, T> {
        TakeCase { places, has: Cell::new(Has::Nothing), slot: Slot::empty() }
    }

    /// Takes what there is to take, if `claim` says so; false if it does not.
    fn take_from(&self, state: &mut State<T>, claim: impl FnOnce() -> bool) -> Option<bool> {
        let has = if !state.idle.is_empty() {
            Has::Item
        } else if state.closed {
            Has::End
        } else if state.taken < self.places.capacity {
            Has::Place
        } else {
            return None;
        };
        if !claim() {
            return Some(false);
        }
        match has {
            // SAFETY: the node is in no queue, so the slot is ours, and it is empty: the operation has nothing yet.
            Has::Item => state.idle.pop().into_iter().for_each(|item| unsafe { self.slot.put(item) }),
            Has::Place => state.taken += 1,
            Has::Nothing | Has::End => (),
        }
        self.has.set(has);
        Some(true)
    }

    /// Gives on what it has.
    fn give_on(&self) {
        match self.has.replace(Has::Nothing) {
            Has::Item => self.take_item().into_iter().for_each(|item| self.places.put(item)),
            Has::Place => self.places.free(),
            Has::Nothing | Has::End => (),
        }
    }

    fn take_item(&self) -> Option<T> {
        // SAFETY: the node is in no queue, so the slot is ours.
        unsafe { self.slot.take() }
    }
}

impl<T> Awaited for TakeCase<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.places.state.lock().queue.remove(node) }
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: the caller promises the same.
        unsafe { self.settle(node) };
        self.give_on();
    }
}

impl<T> Attempt for TakeCase<'_, T> {
    fn attempt(&self) -> bool {
        self.take_from(&mut self.places.state.lock(), || true).is_some()
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let mut state = self.places.state.lock();
        match self.take_from(&mut state, || node.claim()) {
            Some(true) => Enrolled::Done,
            Some(false) => Enrolled::Taken,
            None => {
                self.slot.lead(node);
                // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
                unsafe { state.queue.push(node) };
                Enrolled::Queued
            }
        }
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        self.has.set(match node.told() {
            GIVEN => Has::Item,
            PLACE => Has::Place,
            _ => Has::End,
        });
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.places.state.lock();
        change();
    }

    fn what(&self) -> What {
        What::at(WaitKind::Pool, self.places)
    }
}

impl<T> Case for TakeCase<'_, T> {
    type Output = Result<Pooled<T>, TakeError>;

    fn output(self) -> Result<Pooled<T>, TakeError> {
        let item = match self.has.replace(Has::Nothing) {
            Has::Item => self.take_item().expect("an item that was given"),
            Has::Place => {
                let place = Place(self.places);
                let item = (self.places.hooks.create)().map_err(TakeError::Failed)?;
                std::mem::forget(place); // the item has it
                self.places.created.fetch_add(1, Ordering::Relaxed);
                item
            }
            Has::Nothing | Has::End => return Err(TakeError::Closed),
        };
        Ok(Pooled::new(self.places.clone(), item))
    }
}

impl<T> Drop for TakeCase<'_, T> {
    fn drop(&mut self) {
        self.give_on();
    }
}

impl<T> fmt::Debug for TakeCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
