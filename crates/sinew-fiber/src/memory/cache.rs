//! Each thread's own few free stacks, in front of the shared pools.
//!
//! A thread that takes a stack and gives it back soon needs no lock for it: one [`Bin`] for each standard
//! size holds up to [`CAPACITY`] slots. An empty bin fetches half of that from the pool, a full one gives
//! its older half back, so a thread at the edge does not go to the pool at every step.
//!
//! # Protocol
//!
//! A bin is cells of one thread; nothing in it is shared, and the pool's lock orders what passes from one
//! thread to another. Slots `0..length` are present, oldest first.
//!
//! Only the owning thread empties a bin. A trim asks all threads to, by a count ([`ask`]) that each compares with the last
//! one that it has seen when it has nothing else to do ([`is_asked`]): a scheduler's workers do before they sleep. The count
//! is ordered with nothing: a thread that sees it late is asked late.
//!
//! A bin is closed (capacity zero, nothing in it) until its thread first misses, and again once the thread
//! is ending: opening it registers the destructor that empties all bins at the end of the thread. A closed
//! bin is always empty and always full, so the fast path needs no check of its own for either time.
//!
//! The thread-local is read behind functions that are never inlined and return values: code that suspends a
//! fiber between two takes must not keep the address of one thread's cells and use it on another.
//!
//! Model: `cache_bins_share_a_pool`.

use std::cell::Cell;

use sinew_sync::capacity;
use sinew_sync::statics::{AtomicU64, Ordering};

use super::error::StackError;
use super::pool::{Backing, Pool};
use super::registry::{self, BINS, Store};
use super::slab::Slot;

#[cfg(test)]
mod tests;

/// Slots of one size that a thread keeps at most.
pub(crate) const CAPACITY: usize = capacity(64, 2);

thread_local! {
    static CACHE: [Bin; BINS] = const { [const { Bin::closed() }; BINS] };
    static AT_THREAD_EXIT: CloseAll = const { CloseAll };
    /// The last of [`ASKED`] that the thread has emptied its cache for.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// The cached slot of bin `index` that was given back last.
#[inline(never)]
pub(crate) fn pop(index: usize) -> Option<Slot> {
    CACHE.with(|bins| bins[index].pop())
}

/// Caches a slot in bin `index`; hands it back when the bin is full or closed.
#[inline(never)]
pub(crate) fn push(index: usize, slot: Slot) -> Result<(), Slot> {
    CACHE.with(|bins| bins[index].push(slot))
}

/// Takes a slot of `store` when the bin has none.
#[cold]
pub(crate) fn take(store: &Store, index: usize) -> Result<Slot, StackError> {
    CACHE.with(|bins| {
        open(&bins[index]);
        bins[index].take(&store.pool)
    })
}

/// Gives a slot of `store` back when the bin did not accept it.
#[cold]
pub(crate) fn give(store: &Store, index: usize, slot: Slot) {
    CACHE.with(|bins| {
        open(&bins[index]);
        bins[index].give(&store.pool, slot);
    });
}

/// How often all threads were asked to empty their caches.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Asks all threads to [`empty`] their caches when they have nothing else to do.
pub fn ask() {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// True if the calling thread was asked to empty its cache, and has not since.
#[inline(never)]
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) != SEEN.get()
}

/// Decommits the stacks in the calling thread's cache, and gives them to all. Answers the bytes.
#[inline(never)]
pub fn empty() -> usize {
    SEEN.set(ASKED.load(Ordering::Relaxed));
    let mut bytes = 0;
    for index in 0..BINS {
        let slots = CACHE.with(|bins| bins[index].take_oldest(bins[index].length.get()));
        if !slots.is_empty() {
            let pool = &registry::standard(index).pool;
            bytes += pool.retire(slots);
            pool.renew();
        }
    }
    bytes
}

/// True if the calling thread's cache has no stack.
#[inline(never)]
pub fn is_empty() -> bool {
    CACHE.with(|bins| bins.iter().all(|bin| bin.length.get() == 0))
}

/// How many slots the calling thread's bin `index` holds.
pub(crate) fn length(index: usize) -> usize {
    CACHE.with(|bins| bins[index].length.get())
}

/// Opens a bin, unless its thread is ending.
fn open(bin: &Bin) {
    if AT_THREAD_EXIT.try_with(|_| ()).is_ok() {
        bin.capacity.set(CAPACITY);
    }
}

/// Empties and closes all bins of a thread that ends. Later drops on it go to the pools.
struct CloseAll;

impl Drop for CloseAll {
    fn drop(&mut self) {
        CACHE.with(|bins| {
            for (index, bin) in bins.iter().enumerate() {
                if bin.length.get() > 0 {
                    bin.flush(&registry::standard(index).pool);
                }
                bin.capacity.set(0);
            }
        });
    }
}

/// A thread's free slots of one size.
struct Bin {
    length: Cell<usize>,
    capacity: Cell<usize>,
    slots: [Cell<Option<Slot>>; CAPACITY],
}

impl Bin {
    const fn closed() -> Bin {
        Bin { length: Cell::new(0), capacity: Cell::new(0), slots: [const { Cell::new(None) }; CAPACITY] }
    }

    #[inline]
    fn pop(&self) -> Option<Slot> {
        let left = self.length.get().checked_sub(1)?;
        self.length.set(left);
        self.slots[left].take()
    }

    #[inline]
    fn push(&self, slot: Slot) -> Result<(), Slot> {
        let length = self.length.get();
        if length == self.capacity.get() {
            return Err(slot);
        }
        self.slots[length].set(Some(slot));
        self.length.set(length + 1);
        Ok(())
    }

    /// Takes a slot; from the pool, with some more for later, when there is none here.
    fn take<B: Backing>(&self, pool: &Pool<B>) -> Result<Slot, StackError> {
        if let Some(slot) = self.pop() {
            return Ok(slot);
        }
        let half = self.capacity.get() / 2;
        let keep = |slot| self.push(slot).expect("half of the capacity fits into an empty bin");
        pool.take_warm(half, keep);
        if self.length.get() == 0 {
            // Neighbours: threads that touch stacks beside each other's share the locks of their page tables.
            pool.take_new(half, keep);
        }
        self.pop().map_or_else(|| pool.take(), Ok)
    }

    /// Gives a slot back; a full bin makes room by handing its older half to the pool.
    fn give<B: Backing>(&self, pool: &Pool<B>, slot: Slot) {
        let Err(slot) = self.push(slot) else { return };
        let older = self.take_oldest(self.length.get().div_ceil(2));
        pool.give(older);
        if let Err(slot) = self.push(slot) {
            pool.give([slot]);
        }
    }

    /// Hands everything to the pool.
    fn flush<B: Backing>(&self, pool: &Pool<B>) {
        pool.give(self.take_oldest(self.length.get()));
    }

    /// Takes the `count` slots at the bottom out and moves the others down.
    fn take_oldest(&self, count: usize) -> Vec<Slot> {
        let length = self.length.get();
        let oldest = self.slots[..count].iter().filter_map(Cell::take).collect();
        for index in count..length {
            self.slots[index - count].swap(&self.slots[index]);
        }
        self.length.set(length - count);
        oldest
    }
}
