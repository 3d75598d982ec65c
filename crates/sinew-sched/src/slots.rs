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
//! Slots are handed out in chunks; a runtime keeps its chunks until it has ended, so it can reach all of its tasks.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::fmt;

use sinew_sync::capacity;
use sinew_sync::statics::{AtomicPtr, Mutex, Ordering};

use crate::task::Task;

/// Slots of a chunk.
pub(crate) const CHUNK: usize = capacity(256, 16);
/// Bits of a slot's number.
pub(crate) const INDEX_BITS: u32 = 28;
/// Slots of the first bucket; each further one has twice as many as the one before.
const FIRST: usize = 4 * CHUNK;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
const BUCKETS: usize = INDEX_BITS as usize - FIRST.ilog2() as usize;

static TABLE: [AtomicPtr<Task>; BUCKETS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BUCKETS];
static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks { made: 0, free: Vec::new() });

struct Chunks {
    /// Slots that were ever handed out: the number of the next new one.
    made: usize,
    free: Vec<&'static [Task]>,
}

/// The number of a task: unique among all that this process ever had, until one slot has been used 2^32 times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    pub(crate) fn new(index: u32, generation: u32) -> TaskId {
        TaskId(u64::from(generation) << INDEX_BITS | u64::from(index))
    }

    /// The id as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    pub(crate) fn from_u64(id: u64) -> TaskId {
        TaskId(id)
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }

    /// Another task of the same slot.
    pub(crate) fn with_generation(self, generation: u32) -> TaskId {
        TaskId::new(self.index() as u32, generation)
    }

    /// The number of the slot.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0 as usize & ((1 << INDEX_BITS) - 1)
    }

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

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

/// The bucket of a number, and the place in it.
fn place(index: usize) -> (usize, usize) {
    let bucket = (index / FIRST + 1).ilog2() as usize;
    (bucket, index - FIRST * ((1 << bucket) - 1))
}

/// Memory for so many slots, of which no page is touched before its slots are handed out.
fn reserve(slots: usize) -> *mut Task {
    let layout = Layout::array::<Task>(slots).expect("a bucket is no larger than memory");
    let huge = layout.size() >= HUGE;
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
pub(crate) fn give_chunk(chunk: &'static [Task]) {
    CHUNKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).free.push(chunk);
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
