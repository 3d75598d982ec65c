//! Which pools the process has: one for each shape that was ever asked for.
//!
//! A [`Store`] is made once and lives as long as the process, so whatever owns a slot can point to its pool.
//! The standard stack sizes have a place in an array, and a bin in every thread's cache; any other shape is
//! looked up in a list under a lock. Programs use few shapes, and slabs are never unmapped, so neither the
//! list nor what hangs on it grows with the number of fibers. These are the process's own singletons, which
//! no model runs; what the pools do is modelled in theirs.

use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::statics::{Mutex, OnceLock};

use super::cache;
use super::error::StackError;
use super::idle::{Idle, Idling};
use super::pool::Pool;
use super::slab::{GuardKind, Guards, Mapped, Shape, Slot};
use super::stack::STANDARD_SIZES;

/// Bins of a thread's cache: one for each standard stack size.
pub(crate) const BINS: usize = STANDARD_SIZES.len();

/// All slots of one shape: the shared pool, and which bin of each thread's cache is in front of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) pool: Pool<Mapped>,
    bin: Option<usize>,
}

static STORES: Mutex<Vec<&'static Store>> = Mutex::new(Vec::new());
static STANDARD: [OnceLock<&'static Store>; BINS] = [const { OnceLock::new() }; BINS];

/// The store of a standard stack size.
#[inline]
pub(crate) fn standard(index: usize) -> &'static Store {
    STANDARD[index].get_or_init(|| of_shape(Shape::stack(STANDARD_SIZES[index])))
}

/// The store of `shape`, made when it is asked for the first time.
pub(crate) fn of_shape(shape: Shape) -> &'static Store {
    let mut stores = STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(store) = stores.iter().find(|store| *store.pool.backing().shape() == shape) {
        return store;
    }
    let bin = STANDARD_SIZES.iter().position(|&bytes| Shape::stack(bytes) == shape);
    let store: &'static Store = Box::leak(Box::new(Store { pool: Pool::new(Mapped::new(shape)), bin }));
    stores.push(store);
    store
}

fn all() -> Vec<&'static Store> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

impl Store {
    /// How the slots look.
    #[inline]
    pub(crate) fn shape(&self) -> &Shape {
        self.pool.backing().shape()
    }

    /// Takes a slot, from the calling thread's cache where there is one.
    #[cold]
    pub(crate) fn take(&self) -> Result<Slot, StackError> {
        match self.bin {
            Some(index) => cache::take(self, index),
            None => self.pool.take(),
        }
    }

    /// Gives a slot back, to the calling thread's cache where there is one.
    #[inline]
    pub(crate) fn give(&self, slot: Slot) {
        match self.bin {
            Some(index) => {
                if let Err(slot) = cache::push(index, slot) {
                    cache::give(self, index, slot);
                }
            }
            None => self.pool.give([slot]),
        }
    }
}

/// What the process has of stacks and linear memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Mappings made.
    pub slabs: usize,
    /// Slots in them.
    pub slots: usize,
    /// Slots that are taken, or in the cache of a thread other than the calling one.
    pub in_use: usize,
    /// Slots that are not in use, most of them never touched.
    pub free: usize,
    /// How guards are made: by markers, if they work in this process and the kernel has refused none.
    pub guards: GuardKind,
}

/// What the process has of stacks and linear memories now, over all sizes.
pub fn usage() -> Usage {
    let mut usage = Usage { slabs: 0, slots: 0, in_use: 0, free: 0, guards: Guards::of_process().kind() };
    for store in all() {
        let count = store.pool.count();
        usage.slabs += count.slabs;
        usage.slots += count.slots;
        usage.in_use += count.out - store.bin.map_or(0, cache::length);
    }
    usage.free = usage.slots - usage.in_use;
    usage
}

/// Gives the memory of all free stacks and linear memories back to the system, and answers how many bytes that was. What is
/// taken is never touched.
///
/// The next tasks and fibers fault these pages in again: call it after a peak, not every few seconds.
///
/// Each thread has up to 64 free stacks of each standard size for itself, which only it gives back: the calling thread at
/// once, workers of a scheduler before they next sleep, for which those that sleep are woken. These bytes are not in the
/// answer. Any other thread keeps its own until it ends or calls this.
///
/// Page tables go as well where no stack of a slab, of up to 4,096, is taken.
pub fn trim() -> usize {
    cache::ask();
    TELL.get().into_iter().for_each(|tell| tell());
    let own = cache::empty();
    own + all().into_iter().map(|store| store.pool.trim()).sum::<usize>()
}

/// Has [`trim`] call `tell`, which wakes the threads that [empty](cache::empty) their caches when they have nothing else to
/// do; the first that is set stays.
pub fn tell_of_trims_by(tell: fn()) {
    let _ = TELL.set(tell);
}

static TELL: OnceLock<fn()> = OnceLock::new();

/// Gives the memory of stacks back that nobody has needed for `idle_time`, some at a time: to be called now and then, by
/// anyone; `now` is a time of one clock for the whole process. Says when there may be more to do.
pub fn trim_idle(now: Instant, idle_time: Duration) -> Idle {
    static IDLING: Mutex<Idling> = Mutex::new(Idling::new());
    let mut idling = IDLING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match idling.not_due(now, idle_time) {
        Some(idle) => idle,
        None => {
            let stores = all();
            let pools: Vec<&Pool<Mapped>> = stores.iter().map(|store| &store.pool).collect();
            idling.trim(&pools, now, idle_time)
        }
    }
}
