//! What a thread knows of its fibers: which one runs, and the root that it has without being asked.
//!
//! The cell with the running fiber is read and written through [`slot`], which is never inlined: a
//! compiler may keep the address of a thread-local in a register for as long as it likes, which is wrong
//! in a body that was continued by another thread (which a scheduler may offer to code that vouches for
//! it). A caller uses the slot only up to its next switch.

use std::cell::Cell;
use std::panic::Location;
use std::ptr;

use sinew_core::{Mask, Status};
use sinew_sync::statics::{AtomicU64, Ordering};

use crate::record::Record;

/// The thread's cell with the running fiber.
#[derive(Clone, Copy)]
pub(crate) struct Slot(*const Cell<*const Record>);

impl Slot {
    /// The running fiber.
    #[inline]
    pub(crate) fn get<'a>(self) -> &'a Record {
        // SAFETY: `slot` made sure that the cell points to a record. The record of the running fiber is
        // valid for as long as that fiber runs, and its callers are code that it runs.
        unsafe { &*(*self.0).get() }
    }

    #[inline]
    pub(crate) fn set(self, record: *const Record) {
        // SAFETY: the cell is this thread's and has no destructor, so it lives as long as the thread.
        unsafe { (*self.0).set(record) };
    }
}

thread_local! {
    static RUNNING: Cell<*const Record> = const { Cell::new(ptr::null()) };
    static IDS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static ROOT: OwnRoot = const { OwnRoot(Cell::new(ptr::null())) };
}

/// The cell with the running fiber; on a thread's first call its own root becomes the running one.
#[inline(never)]
pub(crate) fn slot() -> Slot {
    RUNNING.with(|running| {
        if running.get().is_null() {
            make_root(running);
        }
        Slot(running)
    })
}

/// The running fiber, or a null pointer on a thread that never had one. For signal handlers and panic
/// hooks: touches one thread-local without initialiser or destructor.
pub(crate) fn running() -> *const Record {
    RUNNING.with(Cell::get)
}

#[cold]
fn make_root(running: &Cell<*const Record>) {
    let name = sinew_sync::thread::current().name().map(|name| name.to_owned().into());
    let root = Record::new_root(next_id(), name, Mask::NONE, Location::caller());
    // SAFETY: just made.
    unsafe {
        (*root).own_status.set(Status::Alive);
        (*root).of_thread.set(true);
    }
    running.set(root);
    // A thread that uses fibers again while its thread-locals are being destroyed leaks this one record.
    let _ = ROOT.try_with(|own| own.0.set(root));
}

/// Makes the thread's own root the running fiber.
pub(crate) fn reset() {
    let own = ROOT.try_with(|own| own.0.get()).unwrap_or(ptr::null());
    RUNNING.with(|running| running.set(own));
}

/// Frees a thread's own root when the thread exits.
struct OwnRoot(Cell<*const Record>);

impl Drop for OwnRoot {
    fn drop(&mut self) {
        let root = self.0.get();
        if !root.is_null() {
            RUNNING.with(|running| running.set(ptr::null()));
            // SAFETY: the reference that `make_root` got; a root has no body.
            unsafe { Record::release(root) };
        }
    }
}

/// A number for a new fiber, unique in the process, taken in blocks so that threads do not contend.
#[inline]
pub(crate) fn next_id() -> u64 {
    IDS.with(|ids| {
        let (next, end) = ids.get();
        if next == end {
            return next_block(ids);
        }
        ids.set((next + 1, end));
        next
    })
}

/// The number after `last`, for whoever takes one after the other: from the same block, or the first of another.
#[inline]
pub(crate) fn next_id_after(last: u64) -> u64 {
    let next = last + 1;
    if next % BLOCK == FIRST { take_block() } else { next }
}

/// How many numbers are taken at a time, and the first of all.
const BLOCK: u64 = 1024;
const FIRST: u64 = 1;

#[cold]
fn next_block(ids: &Cell<(u64, u64)>) -> u64 {
    let first = take_block();
    ids.set((first + 1, first + BLOCK));
    first
}

/// The first number of a block that is the caller's alone.
#[cold]
fn take_block() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST);
    NEXT.fetch_add(BLOCK, Ordering::Relaxed)
}
