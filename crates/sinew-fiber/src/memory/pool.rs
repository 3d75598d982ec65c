//! The free slots of one shape, shared by all threads.
//!
//! # Where a slot is
//!
//! ```text
//! unmade ──> (guard) ──> out ──give──> warm ──trim──> (decommit) ──> cold
//!               │         ^             │                             │
//!            unguarded    └──── take ───┴──────────── take ───────────┘
//! ```
//!
//! - *unmade*: in the newest slab, never used; its guard is installed on the way out;
//! - *out*: with a [`Stack`](super::Stack), a [`Memory`](super::Memory) or a thread's cache;
//! - *warm*: given back, its pages still as its last user left them;
//! - *cold*: given back and decommitted;
//! - *unguarded*: made, but the system refused its guard; the next take tries again;
//! - in brackets: on the stack of the one thread that installs or decommits it.
//!
//! A take prefers warm to cold to unguarded to unmade, the newest first in each: what was touched last is
//! in the processor's cache, and what lies at the bottom can idle.
//!
//! # Protocol
//!
//! One lock guards the lists. A [`Slot`] cannot be copied, so a slot that is in one place is in no other:
//! every step takes it out of a list under the lock or puts it into one under the lock. No system call on a
//! slot happens under the lock; between the two critical sections of such a step the slot is in no list, so
//! nobody can take it while it is being guarded or decommitted.
//!
//! Growth has a lock of its own, taken before the lock of the lists and never after it: it is held across
//! the `mmap`, so threads that find nothing do not map a slab each. Having waited for it, a thread looks
//! again before it maps. Whoever finds a free slot meanwhile is not held up.
//!
//! # Idling
//!
//! `idle` is the low-water mark of warm: how few slots it has held since the last trim. The bottom `idle`
//! slots have not been reached since then. Every take from warm lowers it to what is left; a trim takes
//! from the bottom while it is not zero, a batch at a time so that takers find the rest, and then sets it to
//! the length, which starts the next period. A taker that finds nothing while a batch is out maps more, or,
//! at a limit of the system, is refused although the batch comes back a moment later.
//!
//! Models: `pool_take_give_trim`, `pool_growth` (here), `cache_bins_share_a_pool` (in the cache).

use std::collections::VecDeque;

use sinew_sync::{Mutex, capacity};

use super::error::StackError;
use super::slab::{Slab, Slot};

#[cfg(test)]
pub(crate) mod tests;

/// Slots that one step of a trim has outside the lists.
const TRIM_BATCH: usize = capacity(64, 1);

/// What a pool stands on: the system in production, a table of counters in a model.
pub(crate) trait Backing {
    /// Usable bytes of a slot.
    fn bytes(&self) -> usize;

    /// Slots of the first slab.
    fn first_slots(&self) -> usize;

    /// Slots of the largest slab.
    fn most_slots(&self) -> usize;

    /// Maps a slab.
    fn map(&self, slots: usize) -> Result<Slab, Refused>;

    /// Installs the guard of a slot that is used for the first time.
    fn guard(&self, slot: &Slot) -> Result<(), Refused>;

    /// Installs the guards of several such slots, cheaper than one by one. Says how many of them, from the first on, have
    /// theirs.
    fn guard_all(&self, slots: &[Slot]) -> usize {
        slots.iter().take_while(|slot| self.guard(slot).is_ok()).count()
    }

    /// Gives the pages of an idle slot back; answers how many bytes that was.
    fn decommit(&self, slot: &Slot) -> usize;
}

/// Why the system refused a slab or a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    OutOfMemory,
    MapLimit { mappings: usize, limit: usize },
}

/// How many slots of a pool are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) slabs: usize,
    pub(crate) slots: usize,
    pub(crate) out: usize,
}

/// The free slots of one shape, and the way to more of them.
#[derive(Debug)]
pub(crate) struct Pool<B> {
    backing: B,
    lists: Mutex<Lists>,
    /// Slots of the next slab.
    growth: Mutex<usize>,
}

#[derive(Debug, Default)]
struct Lists {
    warm: VecDeque<Slot>,
    idle: usize,
    cold: Vec<Slot>,
    unguarded: Vec<Slot>,
    newest: Option<Slab>,
    slabs: usize,
    slots: usize,
}

/// What a look at the lists found.
enum Found {
    Ready(Slot),
    Unguarded(Slot),
    Nothing,
}

impl Lists {
    fn take(&mut self) -> Found {
        if let Some(slot) = self.warm.pop_back() {
            self.idle = self.idle.min(self.warm.len());
            return Found::Ready(slot);
        }
        if let Some(slot) = self.cold.pop() {
            return Found::Ready(slot);
        }
        match self.unguarded.pop().or_else(|| self.newest.as_mut()?.make()) {
            Some(slot) => Found::Unguarded(slot),
            None => Found::Nothing,
        }
    }

    fn unmade(&self) -> usize {
        self.newest.as_ref().map_or(0, Slab::left)
    }

    fn free(&self) -> usize {
        self.warm.len() + self.cold.len() + self.unguarded.len() + self.unmade()
    }

    fn out(&self) -> usize {
        self.slots - self.free()
    }
}

impl<B: Backing> Pool<B> {
    /// A pool without slots; the first take maps the first slab.
    pub(crate) fn new(backing: B) -> Pool<B> {
        let growth = Mutex::new(backing.first_slots());
        Pool { backing, lists: Mutex::default(), growth }
    }

    /// What the pool stands on.
    #[inline]
    pub(crate) fn backing(&self) -> &B {
        &self.backing
    }

    /// Takes the slot that was given back last, or a new one.
    pub(crate) fn take(&self) -> Result<Slot, StackError> {
        loop {
            let found = self.lists.lock().take();
            match found {
                Found::Ready(slot) => return Ok(slot),
                Found::Unguarded(slot) => return self.guarded(slot),
                Found::Nothing => self.grow()?,
            }
        }
    }

    /// Takes up to `most` warm slots, handing them over oldest first.
    pub(crate) fn take_warm(&self, most: usize, each: impl FnMut(Slot)) {
        let mut lists = self.lists.lock();
        let left = lists.warm.len().saturating_sub(most);
        lists.idle = lists.idle.min(left);
        lists.warm.drain(left..).for_each(each);
    }

    /// Takes up to `most` slots that were never used, from one place, if there is nothing else; fewer, or none, if the
    /// newest slab has no more.
    pub(crate) fn take_new(&self, most: usize, each: impl FnMut(Slot)) {
        let mut slots: Vec<Slot> = {
            let mut lists = self.lists.lock();
            if !lists.warm.is_empty() || !lists.cold.is_empty() || !lists.unguarded.is_empty() {
                return;
            }
            let newest = &mut lists.newest;
            std::iter::from_fn(|| newest.as_mut()?.make()).take(most).collect()
        };
        let guarded = self.backing.guard_all(&slots);
        let refused = slots.split_off(guarded);
        if !refused.is_empty() {
            self.lists.lock().unguarded.extend(refused);
        }
        slots.into_iter().rev().for_each(each); // the lowest is taken first
    }

    /// Gives slots back, oldest first, with their pages as they are.
    pub(crate) fn give(&self, slots: impl IntoIterator<Item = Slot>) {
        self.lists.lock().warm.extend(slots);
    }

    /// Gives a slot back that its owner has decommitted.
    pub(crate) fn give_cold(&self, slot: Slot) {
        self.lists.lock().cold.push(slot);
    }

    /// Decommits slots that the caller took out of their list, and gives them back. Answers the bytes.
    pub(crate) fn retire(&self, slots: Vec<Slot>) -> usize {
        if slots.is_empty() {
            return 0;
        }
        let bytes = slots.iter().map(|slot| self.backing.decommit(slot)).sum();
        self.lists.lock().cold.extend(slots);
        bytes
    }

    /// Decommits the warm slots that nobody has reached since the previous trim. Answers the bytes.
    pub(crate) fn trim(&self) -> usize {
        let mut bytes = 0;
        loop {
            let batch: Vec<Slot> = {
                let mut lists = self.lists.lock();
                if lists.idle == 0 {
                    lists.idle = lists.warm.len();
                    return bytes;
                }
                let batch = lists.idle.min(TRIM_BATCH);
                lists.idle -= batch;
                lists.warm.drain(..batch).collect()
            };
            bytes += self.retire(batch);
        }
    }

    /// How many slots are where. A slot that is being guarded or decommitted counts as out.
    pub(crate) fn count(&self) -> Count {
        let lists = self.lists.lock();
        Count { slabs: lists.slabs, slots: lists.slots, out: lists.out() }
    }

    /// The slot with its guard, or, refused, back among the unguarded.
    fn guarded(&self, slot: Slot) -> Result<Slot, StackError> {
        match self.backing.guard(&slot) {
            Ok(()) => Ok(slot),
            Err(refused) => {
                let mut lists = self.lists.lock();
                lists.unguarded.push(slot);
                Err(self.error(refused, lists.out()))
            }
        }
    }

    /// Maps one more slab, unless another thread has just made slots free; smaller ones when a large one is
    /// refused.
    fn grow(&self) -> Result<(), StackError> {
        let mut next = self.growth.lock();
        let out = {
            let lists = self.lists.lock();
            if lists.free() > 0 {
                return Ok(());
            }
            lists.out()
        };
        let slab = loop {
            match self.backing.map(*next) {
                Ok(slab) => break slab,
                Err(_) if *next > 1 => *next /= 2,
                Err(refused) => return Err(self.error(refused, out)),
            }
        };
        *next = (*next * 2).min(self.backing.most_slots());
        let mut lists = self.lists.lock();
        lists.slabs += 1;
        lists.slots += slab.slots();
        // Whatever was the newest has no slot left to make: it had none above, and only growth adds any.
        lists.newest = Some(slab);
        Ok(())
    }

    fn error(&self, refused: Refused, live: usize) -> StackError {
        match refused {
            Refused::OutOfMemory => StackError::OutOfMemory { bytes: self.backing.bytes(), live },
            Refused::MapLimit { mappings, limit } => StackError::MapLimit { mappings, limit },
        }
    }
}
