//! Who keeps the memory of a runtime, and who only knows it by its id.
//!
//! # References and ids
//!
//! A [`SharedRef`] is counted, and the last one that is dropped frees the [`Shared`]. One is held by the `Runtime`, by the
//! thread of each worker, of sysmon and of each blocking call, by each dumper and by each hold of a clock. None is held by a
//! task or for one: to spawn, to wake and to join on the runtime's own workers counts nothing.
//!
//! A [`RuntimeId`] is a number that may outlive the runtime: `Handle`, `JoinHandle` and `TaskBuilder` have one. It leads to a
//! [`Record`] of a few words, which is never freed but serves later runtimes, and to the generation that the runtime has
//! there. [`RuntimeId::upgrade`] counts a reference if the generation is still that one and there is a reference to begin
//! with, by one exchange of the word that holds both. A record has a generation once, and retires when it has no more.
//!
//! # Who may touch a `Shared`
//!
//! - A thread that holds a reference, for as long as it does. What runs on a worker does not count by itself: the reference
//!   of the worker's thread is dropped after the worker.
//! - A thread that has just taken a task out of its parked state, until it has queued that task. The task is not queued, so
//!   it does not run and has not ended, and the workers, whose references count, stay until it has. But what the thread does
//!   after the push, waking a worker, may come after the end of the task and of the runtime. So a thread that is no worker of
//!   the runtime counts a reference before it pushes, and drops it when it has woken a worker ([`Shared::keep`]).
//! - Nobody else. Lists of runtimes (those that a clock drives, those that a signal dumps) hold ids.
//!
//! What futures, wakers and descriptors hold on to beyond the end of their runtime is not in the `Shared`, is never freed,
//! and serves later runtimes: slots of tasks ([`crate::slots`]), timers ([`crate::timers`]), reactors ([`crate::reactor`]).
//!
//! # Orderings
//!
//! A reference is dropped by a release, and the last one passes an acquire fence before it frees: all uses come before that.
//! A new reference is made from an existing one, or by an exchange that acquires the word and a load that acquires the address:
//! the runtime was complete when that was stored.
//!
//! Models: `reference_wake_or_free`, `reference_upgrade_or_free`.

use std::ops::Deref;
use std::ptr::{self, NonNull};

use sinew_core::Instant;
use sinew_sync::MODEL;
use sinew_sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use sinew_sync::statics::{Mutex, MutexGuard};

use super::Shared;

/// What is left of a runtime when it is gone, until another has it.
struct Record {
    /// The generation in the upper half, and how many references there are.
    word: AtomicU64,
    shared: AtomicPtr<Shared>,
    /// What its clock said when the last runtime was freed.
    ended_at: AtomicU64,
}

/// All records, and those that no runtime has.
struct Records {
    all: Vec<&'static Record>,
    free: Vec<&'static Record>,
}

fn records() -> MutexGuard<'static, Records> {
    static RECORDS: Mutex<Records> = Mutex::new(Records { all: Vec::new(), free: Vec::new() });
    RECORDS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The number of a runtime: the address of its record, and above that the generation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuntimeId(u64);

/// Where the generation is in an id; below it is the record's address.
const GENERATION: u32 = 48;

impl RuntimeId {
    /// Of tasks that never had a runtime.
    pub(crate) const NONE: RuntimeId = RuntimeId(0);

    /// The id of a new runtime, with one reference.
    pub(super) fn new() -> RuntimeId {
        let recycled = if MODEL { None } else { records().free.pop() };
        let record = recycled.unwrap_or_else(|| {
            let (shared, ended_at) = (AtomicPtr::new(ptr::null_mut()), AtomicU64::new(0));
            let record: &Record = Box::leak(Box::new(Record { word: AtomicU64::new(0), shared, ended_at }));
            if !MODEL {
                records().all.push(record);
            }
            record
        });
        // Nobody else writes the word of a record without references.
        let word = record.word.load(Ordering::Relaxed);
        record.word.store(word + 1, Ordering::Release);
        let address = ptr::from_ref(record).expose_provenance() as u64;
        assert_eq!(address >> GENERATION, 0, "addresses of a process have 47 bits");
        RuntimeId(address | (word >> 32) << GENERATION)
    }

    fn record(self) -> Option<&'static Record> {
        let address = self.0 & ((1 << GENERATION) - 1);
        // SAFETY: the address of a record, which is never freed and was exposed, or null.
        unsafe { ptr::with_exposed_provenance::<Record>(address as usize).as_ref() }
    }

    /// A reference to the runtime, unless it is gone.
    pub(crate) fn upgrade(self) -> Option<SharedRef> {
        let (record, generation) = (self.record()?, self.0 >> GENERATION);
        let one_more = |word: u64| (word >> 32 == generation && word as u32 != 0).then_some(word + 1);
        record.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        // A runtime that is being built has a reference before it has an address.
        let shared = NonNull::new(record.shared.load(Ordering::Acquire));
        if shared.is_none() {
            release(record);
        }
        shared.map(SharedRef)
    }

    /// What the clock said when the runtime, which is gone, was freed; or a later one that had its record.
    pub(crate) fn ended_at(self) -> Instant {
        let nanoseconds = self.record().map_or(0, |record| record.ended_at.load(Ordering::Relaxed));
        Instant::from_nanos(nanoseconds)
    }
}

/// References to all runtimes that there are.
pub(crate) fn all() -> Vec<SharedRef> {
    let records = records().all.clone();
    let id = |record: &&'static Record| {
        let generation = record.word.load(Ordering::Relaxed) >> 32;
        RuntimeId(ptr::from_ref(*record).addr() as u64 | generation << GENERATION)
    };
    records.iter().map(id).filter_map(RuntimeId::upgrade).collect()
}

/// A reference that keeps the memory of a runtime.
pub(crate) struct SharedRef(NonNull<Shared>);

// SAFETY: it is used as a reference, and freed by whichever thread drops the last.
unsafe impl Send for SharedRef where Shared: Send + Sync {}
// SAFETY: as above.
unsafe impl Sync for SharedRef where Shared: Send + Sync {}

impl SharedRef {
    /// The first reference to a runtime.
    pub(crate) fn new(shared: Shared) -> SharedRef {
        let record = shared.id.record().expect("every runtime has a record");
        let shared = Box::into_raw(Box::new(shared));
        record.shared.store(shared, Ordering::Release);
        SharedRef(NonNull::new(shared).expect("a box has an address"))
    }

    /// What it refers to. The result is not counted: it is for as long as the caller has a reference.
    pub(crate) fn get(&self) -> &'static Shared {
        // SAFETY: it is freed with the last reference, and the caller has this one.
        unsafe { self.0.as_ref() }
    }
}

impl Deref for SharedRef {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.get()
    }
}

impl Shared {
    /// A further reference, for a thread that may touch the runtime now and will when it might be gone.
    #[inline]
    pub(crate) fn keep(&'static self) -> SharedRef {
        let record = self.id.record().expect("every runtime has a record");
        let word = record.word.fetch_add(1, Ordering::Relaxed);
        if word as u32 > u32::MAX / 2 {
            std::process::abort(); // somebody forgets references: as for `Arc`, before the count overflows
        }
        SharedRef(NonNull::from(self))
    }
}

impl Clone for SharedRef {
    fn clone(&self) -> SharedRef {
        self.get().keep()
    }
}

impl Drop for SharedRef {
    #[inline]
    fn drop(&mut self) {
        release(self.id.record().expect("every runtime has a record"));
    }
}

/// Gives a reference back.
#[inline]
fn release(record: &'static Record) {
    if record.word.fetch_sub(1, Ordering::Release) as u32 == 1 {
        free(record);
    }
}

/// Frees a runtime whose last reference is gone, and lets another have its record.
#[cold]
fn free(record: &'static Record) {
    fence(Ordering::Acquire);
    let shared = record.shared.swap(ptr::null_mut(), Ordering::Relaxed);
    if !shared.is_null() {
        // SAFETY: it came from `SharedRef::new`. There is no reference, and no id makes one as long as the count is zero.
        let shared = unsafe { Box::from_raw(shared) };
        record.ended_at.store(shared.clock.now().as_nanos(), Ordering::Relaxed);
        drop(shared);
    }
    let generation = (record.word.load(Ordering::Relaxed) >> 32) + 1;
    record.word.store(generation << 32, Ordering::Release);
    if !MODEL && generation < 1 << (u64::BITS - GENERATION) {
        records().free.push(record);
    }
}

#[cfg(test)]
mod tests;
