//! The free slots of one shape, shared by all threads.
//!
//! # Where a slot is
//!
//! ```text
//! unmade ──> (guard) ──> out ──give──> warm ──trim──> (decommit) ──> cold ──renew──> (remap) ──> unmade
//!               │         ^             │                             │
//!            unguarded    └──── take ───┴──────────── take ───────────┘
//! ```
//!
//! - *unmade*: in the newest slab or one that was renewed, never used since; its guard is installed on the way out;
//! - *out*: with a [`Stack`](super::Stack), a [`Memory`](super::Memory) or a thread's cache;
//! - *warm*: given back, its pages still as its last user left them;
//! - *cold*: given back and decommitted;
//! - *unguarded*: made, but the system refused its guard; the next take tries again;
//! - in brackets: on the stack of the one thread that installs, decommits or remaps it.
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
//! `idle` is the low-water mark of warm: how few slots it has held since the period began. The bottom `idle`
//! slots have not been reached since then. Every take from warm lowers it to what is left; at the end of the period
//! ([`super::idle`]) the bottom `idle` slots are decommitted, a batch at a time so that takers find the rest. A trim that
//! somebody asks for takes all that is warm. A taker that finds nothing while a batch is out maps more, or, at a limit of
//! the system, is refused although the batch comes back a moment later.
//!
//! # Renewal
//!
//! A cold slot costs no page, but its slab's page tables stay, with the guards in them: some 600 bytes for a stack of 256 KiB.
//! A slab whose slots are all cold, or unmade, is mapped anew at the same place, which frees these; its slots are unmade then. The slab
//! is out of the lists meanwhile. Cold slots are kept by slab, so that one is found without a look at all slots.
//!
//! Models: `pool_take_give_trim`, `pool_growth`, `pool_renew` (here), `cache_bins_share_a_pool` (in the cache).

use std::collections::VecDeque;
use std::mem;

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

    /// True if slabs can be mapped anew.
    fn renews(&self) -> bool {
        false
    }

    /// Maps a slab anew at its place, none of its slots guarded or touched. The caller has all of its slots. False if the
    /// system refused: nothing may be there any more.
    fn renew(&self, _slab: &Slab) -> bool {
        false
    }
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
    /// How many slots are cold, in all slabs.
    cold: usize,
    unguarded: Vec<Slot>,
    newest: Option<Slab>,
    renewed: Vec<Slab>,
    /// The highest address first, since the system maps downwards: a new one mostly goes to the end.
    slabs: Vec<Known>,
    /// Where to look for a cold slot first.
    cold_at: usize,
    slots: usize,
}

/// A slab that was mapped, and its cold slots.
#[derive(Debug)]
struct Known {
    slab: Slab,
    cold: Vec<Slot>,
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
        if let Some(slot) = self.take_cold() {
            return Found::Ready(slot);
        }
        match self.unguarded.pop().or_else(|| self.make()) {
            Some(slot) => Found::Unguarded(slot),
            None => Found::Nothing,
        }
    }

    fn take_cold(&mut self) -> Option<Slot> {
        if self.cold == 0 {
            return None;
        }
        let slabs = self.slabs.len();
        let mut places = (0..slabs).map(|step| (self.cold_at + step) % slabs);
        let at = places.find(|at| !self.slabs[*at].cold.is_empty())?;
        self.cold_at = at;
        self.cold -= 1;
        self.slabs[at].cold.pop()
    }

    fn give_cold(&mut self, slots: impl IntoIterator<Item = Slot>) {
        for slot in slots {
            let at = self.position(slot.start().addr().get());
            self.slabs[at].cold.push(slot);
            (self.cold, self.cold_at) = (self.cold + 1, at);
        }
    }

    /// How many slabs begin above this address: the next one is the one that it is in.
    fn position(&self, address: usize) -> usize {
        self.slabs.partition_point(|known| known.slab.first_address() > address)
    }

    /// A slot that was never used.
    fn make(&mut self) -> Option<Slot> {
        loop {
            if let Some(slot) = self.newest.as_mut().and_then(Slab::make) {
                return Some(slot);
            }
            self.newest = Some(self.renewed.pop()?);
        }
    }

    /// True if the slab has cold slots, and perhaps unmade ones, and no others.
    fn is_all_cold(&self, known: &Known) -> bool {
        let is_newest = |slab: &&Slab| slab.first_address() == known.slab.first_address();
        let unmade = self.newest.as_ref().filter(is_newest).map_or(0, Slab::left);
        !known.cold.is_empty() && known.cold.len() + unmade == known.slab.slots()
    }

    /// Gives back what the list of warm slots has taken for a peak.
    fn shrink(&mut self) {
        let twice = 2 * self.warm.len();
        self.warm.shrink_to(twice);
    }

    fn unmade(&self) -> usize {
        self.newest.iter().chain(&self.renewed).map(Slab::left).sum()
    }

    fn free(&self) -> usize {
        self.warm.len() + self.cold + self.unguarded.len() + self.unmade()
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
            if !lists.warm.is_empty() || lists.cold > 0 || !lists.unguarded.is_empty() {
                return;
            }
            std::iter::from_fn(|| lists.make()).take(most).collect()
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
        self.lists.lock().give_cold([slot]);
    }

    /// Decommits slots that the caller took out of their list, and gives them back. Answers the bytes.
    pub(crate) fn retire(&self, slots: Vec<Slot>) -> usize {
        if slots.is_empty() {
            return 0;
        }
        let bytes = slots.iter().map(|slot| self.backing.decommit(slot)).sum();
        self.lists.lock().give_cold(slots);
        bytes
    }

    /// Decommits all warm slots, and renews slabs. Answers the bytes.
    pub(crate) fn trim(&self) -> usize {
        let (mut left, mut bytes) = (self.lists.lock().warm.len(), 0); // what is given back meanwhile is in use
        loop {
            let batch: Vec<Slot> = {
                let mut lists = self.lists.lock();
                let batch = left.min(lists.warm.len()).min(TRIM_BATCH);
                lists.idle = lists.idle.saturating_sub(batch);
                lists.warm.drain(..batch).collect()
            };
            if batch.is_empty() {
                self.lists.lock().shrink();
                self.renew();
                return bytes;
            }
            left -= batch.len();
            bytes += self.retire(batch);
        }
    }

    /// Begins a period: what is warm now has not been reached in it yet.
    pub(crate) fn begin_period(&self) {
        let mut lists = self.lists.lock();
        lists.idle = lists.warm.len();
        lists.shrink();
    }

    /// Decommits up to `most` of the warm slots that nobody has reached since the period began. Answers how many.
    pub(crate) fn trim_idle(&self, most: usize) -> usize {
        let mut trimmed = 0;
        loop {
            let batch: Vec<Slot> = {
                let mut lists = self.lists.lock();
                let batch = lists.idle.min(TRIM_BATCH).min(most - trimmed);
                lists.idle -= batch;
                lists.warm.drain(..batch).collect()
            };
            if batch.is_empty() {
                return trimmed;
            }
            trimmed += batch.len();
            self.retire(batch);
        }
    }

    /// True if there are warm slots.
    pub(crate) fn is_warm(&self) -> bool {
        !self.lists.lock().warm.is_empty()
    }

    /// Maps the slabs anew of which all slots are cold.
    pub(crate) fn renew(&self) {
        if !self.backing.renews() {
            return;
        }
        let mut from = 0; // what is mapped meanwhile may move the others, which are then looked at the next time
        loop {
            let (slab, slots) = {
                let mut lists = self.lists.lock();
                let mut others = from..lists.slabs.len();
                let Some(at) = others.find(|at| lists.is_all_cold(&lists.slabs[*at])) else { return };
                from = at + 1;
                let (slab, slots) = (lists.slabs[at].slab.anew(), mem::take(&mut lists.slabs[at].cold));
                lists.cold -= slots.len();
                lists.newest.take_if(|newest| newest.first_address() == slab.first_address());
                (slab, slots)
            };
            if self.backing.renew(&slab) {
                drop(slots); // the slab makes them again
                self.lists.lock().renewed.push(slab);
            }
        }
    }

    /// How many slots are where. A slot that is being guarded or decommitted counts as out.
    pub(crate) fn count(&self) -> Count {
        let lists = self.lists.lock();
        Count { slabs: lists.slabs.len(), slots: lists.slots, out: lists.out() }
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
        let at = lists.position(slab.first_address());
        lists.slabs.insert(at, Known { slab: slab.anew(), cold: Vec::new() });
        lists.slots += slab.slots();
        // It had no slot left to make above, but a slab may have been renewed meanwhile.
        let previous = lists.newest.replace(slab).filter(|slab| slab.left() > 0);
        lists.renewed.extend(previous);
        Ok(())
    }

    fn error(&self, refused: Refused, live: usize) -> StackError {
        match refused {
            Refused::OutOfMemory => StackError::OutOfMemory { bytes: self.backing.bytes(), live },
            Refused::MapLimit { mappings, limit } => StackError::MapLimit { mappings, limit },
        }
    }
}
