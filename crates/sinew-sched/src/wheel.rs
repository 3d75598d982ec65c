//! A timer wheel: deadlines in slots, so that setting, clearing and expiring one costs the same whatever their
//! number.
//!
//! Time is counted in ticks of [`TICK`] nanoseconds. Level 0 has a slot for each of the next 64 ticks, level 1
//! one for each of the next 64 spans of 64 ticks, and so on; an entry lies on the lowest level whose slots can
//! still tell its tick from the present one. When the present reaches a slot of a higher level, its entries
//! move down. A deadline beyond the top level waits in its last slot and is sorted in again from there.
//!
//! An entry is never early, and late by less than one tick plus whatever its worker takes to look.
//!
//! Entries are linked in place: they lie on the stacks of those who wait, so nothing is allocated, and whoever
//! inserted one removes it before it goes.

use std::cell::Cell;
use std::ptr;

/// Nanoseconds of a tick: 2^18, about a quarter of a millisecond.
pub(crate) const TICK: u64 = 1 << TICK_BITS;
const TICK_BITS: u32 = 18;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 7;

/// One deadline of somebody who waits for it.
pub(crate) struct Entry<T> {
    tick: Cell<u64>,
    place: Cell<Option<(u8, u8)>>,
    previous: Cell<*const Entry<T>>,
    next: Cell<*const Entry<T>>,
    pub(crate) owner: T,
}

impl<T> Entry<T> {
    /// An entry that is in no wheel.
    pub(crate) fn new(owner: T) -> Entry<T> {
        Entry {
            tick: Cell::new(0),
            place: Cell::new(None),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            owner,
        }
    }

    /// True while it is in a wheel.
    pub(crate) fn is_set(&self) -> bool {
        self.place.get().is_some()
    }
}

/// The entries of one worker.
pub(crate) struct Wheel<T> {
    /// The present: all entries of earlier ticks, and of this one, have expired.
    now: u64,
    /// The slots of level 0, then those of level 1…
    heads: Box<[*const Entry<T>]>,
    /// Which slots of a level are not empty.
    occupied: [u64; LEVELS],
    length: usize,
}

// SAFETY: the entries are reached by whoever has the wheel, one thread at a time; `T` says whether they may be.
unsafe impl<T: Send> Send for Wheel<T> {}

impl<T> Wheel<T> {
    /// An empty wheel whose present is `now`, in nanoseconds.
    pub(crate) fn new(now: u64) -> Wheel<T> {
        Wheel {
            now: now >> TICK_BITS,
            heads: vec![ptr::null(); SLOTS * LEVELS].into(),
            occupied: [0; LEVELS],
            length: 0,
        }
    }

    /// Makes the present of a wheel without entries the beginning of time.
    pub(crate) fn restart(&mut self) {
        debug_assert_eq!(self.length, 0, "an entry would be in the wrong slot");
        self.now = 0;
    }

    /// How many entries wait.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Puts `entry` in, to expire at `deadline` nanoseconds or within a tick after it.
    ///
    /// # Safety
    ///
    /// `entry` is in no wheel, and stays where it is until it has expired or was removed.
    pub(crate) unsafe fn insert(&mut self, entry: *const Entry<T>, deadline: u64) {
        // Rounded up: never early. The present tick has expired already, so the next one is the earliest.
        let tick = (deadline.saturating_add(TICK - 1) >> TICK_BITS).max(self.now + 1);
        self.length += 1;
        // SAFETY: the caller's promise.
        unsafe {
            (*entry).tick.set(tick);
            self.link(entry);
        }
    }

    /// Takes `entry` out. False if it has expired.
    ///
    /// # Safety
    ///
    /// `entry` was inserted into this wheel and is still where it was.
    pub(crate) unsafe fn remove(&mut self, entry: *const Entry<T>) -> bool {
        // SAFETY: the caller's promise; linked entries are valid.
        unsafe {
            let Some((level, slot)) = (*entry).place.take() else { return false };
            let (previous, next) = ((*entry).previous.get(), (*entry).next.get());
            if previous.is_null() {
                self.heads[level as usize * SLOTS + slot as usize] = next;
                if next.is_null() {
                    self.occupied[level as usize] &= !(1 << slot);
                }
            } else {
                (*previous).next.set(next);
            }
            if !next.is_null() {
                (*next).previous.set(previous);
            }
        }
        self.length -= 1;
        true
    }

    /// Takes out what expires up to `now`, in nanoseconds, in the order of ticks, and gives it to `expired`,
    /// after whose call the entry may be gone.
    pub(crate) fn advance(&mut self, now: u64, mut expired: impl FnMut(&T)) {
        let now = now >> TICK_BITS;
        while self.now < now {
            let Some(next) = self.next_event().filter(|next| *next <= now) else {
                self.now = now;
                return;
            };
            self.now = next;
            // From the top down: what comes down from one level may belong to the slot that the next one opens.
            for level in (0..LEVELS).rev() {
                if level == 0 || next.trailing_zeros() >= level as u32 * SLOT_BITS {
                    self.open(level, (next >> (level as u32 * SLOT_BITS)) as usize % SLOTS, &mut expired);
                }
            }
        }
    }

    /// Until when nothing expires: the nanosecond of the next tick at which there is something to do.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.next_event().map(|tick| tick << TICK_BITS)
    }

    /// Empties one slot whose time has come: entries of the present expire, later ones move down.
    fn open(&mut self, level: usize, slot: usize, expired: &mut impl FnMut(&T)) {
        let mut entry = std::mem::replace(&mut self.heads[level * SLOTS + slot], ptr::null());
        self.occupied[level] &= !(1 << slot);
        while !entry.is_null() {
            // SAFETY: linked entries are valid, and `expired` is called after the last use of one.
            unsafe {
                let next = (*entry).next.get();
                (*entry).place.set(None);
                if (*entry).tick.get() <= self.now {
                    self.length -= 1;
                    expired(&(*entry).owner);
                } else {
                    self.link(entry);
                }
                entry = next;
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Wheel::insert`]; its tick lies in the future.
    unsafe fn link(&mut self, entry: *const Entry<T>) {
        // SAFETY: the caller's promise.
        let entry = unsafe { &*entry };
        let tick = entry.tick.get();
        let differing = 63 - (tick ^ self.now).max(1).leading_zeros();
        let level = ((differing / SLOT_BITS) as usize).min(LEVELS - 1);
        let shift = level as u32 * SLOT_BITS;
        // The top level goes round: a slot is told by its distance. What is beyond all of them waits in the last.
        let ahead = ((tick >> shift) - (self.now >> shift)).min(SLOTS as u64 - 1);
        let slot = ((self.now >> shift) + ahead) as usize % SLOTS;
        let head = self.heads[level * SLOTS + slot];
        entry.place.set(Some((level as u8, slot as u8)));
        entry.previous.set(ptr::null());
        entry.next.set(head);
        if !head.is_null() {
            // SAFETY: linked entries are valid.
            unsafe { (*head).previous.set(entry) };
        }
        self.heads[level * SLOTS + slot] = entry;
        self.occupied[level] |= 1 << slot;
    }

    /// The next tick at which a slot that is not empty opens.
    fn next_event(&self) -> Option<u64> {
        (0..LEVELS)
            .filter(|level| self.occupied[*level] != 0)
            .map(|level| {
                let shift = level as u32 * SLOT_BITS;
                let present = (self.now >> shift) % SLOTS as u64;
                // The distance from the present slot to the next one that is occupied, going round.
                let ahead = self.occupied[level].rotate_right(present as u32 + 1).trailing_zeros() as u64 + 1;
                ((self.now >> shift) + ahead) << shift
            })
            .min()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Random enough, and the same in every run.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    #[test]
    fn every_entry_expires_once_never_early_and_within_a_tick_however_far_away() {
        let mut seed = 42;
        for bits in [20, 24, 30, 36, 42, 50, 58, 62] {
            let mut wheel = Wheel::new(0);
            let entries: Vec<_> = (0..300)
                .map(|_| {
                    let deadline = next(&mut seed) % (1 << bits);
                    (deadline, Entry::new((deadline, Cell::new(None::<u64>))))
                })
                .collect();
            for (deadline, entry) in &entries {
                // SAFETY: the entries stay in their vector until all have expired.
                unsafe { wheel.insert(entry, *deadline) };
            }
            let mut now = 0;
            while let Some(event) = wheel.next_deadline() {
                assert!(event > now);
                now = event;
                wheel.advance(now, |(deadline, expired)| {
                    assert!(now >= *deadline, "early");
                    assert!(now < deadline.saturating_add(2 * TICK), "late");
                    assert_eq!(expired.replace(Some(now)), None, "twice");
                });
            }
            assert_eq!(wheel.len(), 0);
            assert!(entries.iter().all(|(_, entry)| entry.owner.1.get().is_some()));
        }
    }

    #[test]
    fn a_jump_of_time_expires_everything_before_it_in_order_and_nothing_after_it() {
        let mut seed = 7;
        for _ in 0..50 {
            let mut wheel = Wheel::new(0);
            let entries: Vec<_> = (0..100).map(|_| Entry::new(next(&mut seed) % (1 << 34))).collect();
            for entry in &entries {
                // SAFETY: as above.
                unsafe { wheel.insert(entry, entry.owner) };
            }
            let now = next(&mut seed) % (1 << 34);
            let mut expired = Vec::new();
            wheel.advance(now, |deadline| expired.push(*deadline >> TICK_BITS));
            assert!(expired.is_sorted());
            let expected = entries.iter().filter(|entry| entry.owner.div_ceil(TICK).max(1) <= now / TICK);
            assert_eq!(expired.len(), expected.count());
            assert_eq!(wheel.len(), 100 - expired.len());
            for entry in &entries {
                // SAFETY: as above.
                unsafe { wheel.remove(entry) };
            }
            assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
        }
    }
}
