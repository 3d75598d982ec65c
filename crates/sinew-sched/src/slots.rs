//! Where tasks live: slots that are never returned to the system.
//!
//! A slot has a number, its place in a table of buckets that double in size, and each task in it has a generation.
//! Both together are a [`TaskId`]: 60 bits that a waker carries instead of a reference, so a waker costs nothing to
//! clone and may outlive everything. Whoever looks an id up finds the slot, valid for ever, and learns from its state
//! word whether the task is still the one that is meant.
//!
//! Buckets of 2 MiB and more are in huge pages, if the system has some: to fault in the small pages of a million slots takes
//! as long as to run that many small tasks. The first 15,360 slots are in small pages, so few tasks stay small.
//!
//! Slots are handed out in chunks; a runtime keeps its chunks until it is gone, so it can reach all of its tasks. Slots that are
//! free then are *loose*, those that handles still have become so later, and a chunk whose slots are all loose is handed out
//! again. A task that its runtime could not start any more has a loose slot.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::collections::BTreeMap;

use sinew_sync::capacity;
use sinew_sync::statics::{AtomicPtr, Mutex, MutexGuard, Ordering};

use crate::task::Task;
use crate::task_id::{INDEX_BITS, TaskId};

/// Slots of a chunk.
pub(crate) const CHUNK: usize = capacity(256, 16);
/// Slots of the first bucket; each further one has twice as many as the one before.
const FIRST: usize = 4 * CHUNK;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Buckets of so many bytes and more lie in huge pages. Smaller ones do not: in a virtual machine a huge page that was free
/// for some seconds has to come from the host again, which takes milliseconds.
const HUGE_FROM: usize = 64 << 20;
/// Bytes of a page; where pages are larger, the advice of a part of one is refused.
const PAGE: usize = 4096;
/// Bytes of a smaller bucket whose pages are faulted in at once.
const FAULTED: usize = 256 << 10;
const BUCKETS: usize = INDEX_BITS as usize - FIRST.ilog2() as usize;

static TABLE: [AtomicPtr<Task>; BUCKETS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BUCKETS];
static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks { made: 0, free: Vec::new() });

struct Chunks {
    /// Slots that were ever handed out: the number of the next new one.
    made: usize,
    free: Vec<&'static [Task]>,
}

impl TaskId {
    /// The number of the chunk that the slot is in.
    pub(crate) fn chunk(self) -> usize {
        self.index() / CHUNK
    }

    /// The slot. The id must have come from a task.
    pub(crate) fn slot(self) -> &'static Task {
        let (bucket, offset) = place(self.index());
        let first = TABLE[bucket].load(Ordering::Acquire);
        // SAFETY: a task has had this number, so the bucket was made, for ever, and this slot of it written.
        unsafe { &*first.add(offset) }
    }
}

/// The bucket of a number, and the place in it.
fn place(index: usize) -> (usize, usize) {
    let bucket = (index / FIRST + 1).ilog2() as usize;
    (bucket, index - FIRST * ((1 << bucket) - 1))
}

/// Memory for so many slots, of which no page is touched before slots close by are handed out.
fn reserve(slots: usize) -> *mut Task {
    let layout = Layout::array::<Task>(slots).expect("a bucket is no larger than memory");
    let huge = layout.size() >= HUGE_FROM;
    let layout = if huge { layout.align_to(HUGE).expect("a power of two") } else { layout };
    // SAFETY: the size is not zero.
    let first = unsafe { alloc(layout) };
    if first.is_null() {
        handle_alloc_error(layout);
    }
    if huge {
        // SAFETY: the memory is ours, and the advice changes no content. A system without huge pages refuses it.
        unsafe { libc::madvise(first.cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    first.cast()
}

/// Has the pages of the next [`FAULTED`] bytes there before they are touched: one call instead of a fault for each. A system
/// that does not know the call refuses it.
///
/// # Safety
///
/// The bytes are ours.
unsafe fn fault_in(first: *mut u8) {
    let in_page = first.addr() % PAGE;
    // SAFETY: the caller's promise; what lies before the first byte in its page is mapped with it, and no content changes.
    unsafe { libc::madvise(first.sub(in_page).cast(), FAULTED, libc::MADV_POPULATE_WRITE) };
}

/// A chunk whose slots are all free.
///
/// # Panics
///
/// If there were 2^28 tasks at once.
pub(crate) fn take_chunk() -> &'static [Task] {
    let mut chunks = CHUNKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(chunk) = chunks.free.pop() {
        return chunk;
    }
    let index = chunks.made;
    let (bucket, offset) = place(index);
    assert!(bucket < BUCKETS, "fewer than 2^{INDEX_BITS} tasks at once");
    let mut first = TABLE[bucket].load(Ordering::Relaxed);
    if first.is_null() {
        first = reserve(FIRST << bucket);
        TABLE[bucket].store(first, Ordering::Release);
    }
    chunks.made += CHUNK;
    let (from, size) = (offset * size_of::<Task>(), (FIRST << bucket) * size_of::<Task>());
    if from.is_multiple_of(FAULTED) && from + FAULTED <= size && size < HUGE_FROM {
        // SAFETY: the bytes are within the bucket.
        unsafe { fault_in(first.cast::<u8>().add(from)) };
    }
    // SAFETY: a bucket is a whole number of chunks, and these slots of it are handed out for the first time.
    unsafe {
        let chunk = first.add(offset);
        for at in 0..CHUNK {
            chunk.add(at).write(Task::new((index + at) as u32));
        }
        std::slice::from_raw_parts(chunk, CHUNK)
    }
}

/// Takes a chunk back whose slots are all free and in nobody's hands.
fn give_chunk(chunk: &'static [Task]) {
    CHUNKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).free.push(chunk);
}

/// Free slots that no runtime has, by the numbers of their chunks.
fn loose() -> MutexGuard<'static, BTreeMap<usize, Vec<&'static Task>>> {
    static LOOSE: Mutex<BTreeMap<usize, Vec<&'static Task>>> = Mutex::new(BTreeMap::new());
    LOOSE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A free slot that no runtime has.
pub(crate) fn take_loose() -> &'static Task {
    let mut loose = loose();
    if loose.is_empty() {
        let chunk = take_chunk();
        loose.insert(chunk[0].id().chunk(), chunk.iter().collect());
    }
    let mut chunk = loose.first_entry().expect("there is at least one");
    let slot = chunk.get_mut().pop().expect("a chunk without loose slots is not in the table");
    if chunk.get().is_empty() {
        chunk.remove();
    }
    slot
}

/// Takes free slots back whose runtime is gone.
pub(crate) fn give_loose(slots: impl IntoIterator<Item = &'static Task>) {
    let mut loose = loose();
    for slot in slots {
        let number = slot.id().chunk();
        let chunk = loose.entry(number).or_default();
        chunk.push(slot);
        if chunk.len() == CHUNK {
            loose.remove(&number);
            let first = TaskId::new((number * CHUNK) as u32, 0).slot();
            // SAFETY: the slots of a chunk lie one after the other in one bucket, and all of them were written.
            give_chunk(unsafe { std::slice::from_raw_parts(first, CHUNK) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own_in_a_bucket_that_is_large_enough() {
        let mut next = (0, 0);
        for index in 0..(1 << 20) {
            assert_eq!(place(index), next);
            next.1 += 1;
            if next.1 == FIRST << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        let last = place((1 << INDEX_BITS) - FIRST - 1);
        assert_eq!(last, (BUCKETS - 1, (FIRST << (BUCKETS - 1)) - 1), "the last one that is handed out");
    }

    #[test]
    fn an_id_leads_back_to_its_slot() {
        for _ in 0..20 {
            for slot in take_chunk() {
                let id = slot.id();
                assert!(std::ptr::eq(id.slot(), slot));
                assert_eq!(id.generation(), 0);
                assert_eq!(TaskId::from_u64(id.as_u64()), id);
            }
        }
    }
}
