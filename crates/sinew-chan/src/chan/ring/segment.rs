//! The memory of a ring.
//!
//! A ring whose places fit into one segment has just that one, which both ends go round in; it is allocated with the ring.
//! A larger one is a chain of segments, from the one that the head is in to the one that the tail is in, so it takes
//! memory for the items that are inside and not for its capacity:
//!
//! - Who fills the last place of a segment links the next one, under the lock of the tail and before the count that says
//!   that the item is there. Who takes the item out of that place has acquired the count, so it finds the link.
//! - Who empties the last place of a segment goes on to the next one, under the lock of the head. Nobody is in the old one
//!   any more: the tail has left it, and all of its items were taken. It becomes the **spare**, if there is none, and is
//!   freed otherwise.
//! - Who needs a segment takes the spare, if there is one. `spare` is swapped, released by the head and acquired by the
//!   tail: so the tail writes to places only after the head has read them.
//!
//! Both ends go on after the same numbers of items, so they are in the same segment when the ring is empty: an empty ring
//! keeps that one and the spare.
//!
//! Models: `ring_grows`, `ring_grows_into_the_spare`.

use std::mem::MaybeUninit;
use std::ptr;

use sinew_sync::atomic::{AtomicPtr, Ordering};
use sinew_sync::cell::UnsafeCell;

pub(super) type Place<T> = UnsafeCell<MaybeUninit<T>>;

/// The most that the places of a segment take; a larger item has a segment for itself.
const SEGMENT_BYTES: usize = 64 * 1024;

/// Items in a segment of a ring under a model.
const MODELLED_LENGTH: usize = 2;

/// How many places the segments of a ring of `capacity` places have.
pub(super) fn segment_length<T>(capacity: usize) -> usize {
    let most = if sinew_sync::MODEL { MODELLED_LENGTH } else { SEGMENT_BYTES / size_of::<T>().max(1) };
    capacity.min(most.max(1))
}

pub(super) struct Segment<T> {
    places: Box<[Place<T>]>,
    /// Written under the lock of the tail, read under that of the head.
    next: UnsafeCell<*mut Segment<T>>,
}

impl<T> Segment<T> {
    /// A segment of `length` free places, which the caller frees.
    pub(super) fn new(length: usize) -> *mut Segment<T> {
        let places = (0..length).map(|_| Place::new(MaybeUninit::uninit())).collect();
        Box::into_raw(Box::new(Segment { places, next: UnsafeCell::new(ptr::null_mut()) }))
    }

    /// # Safety
    ///
    /// Nobody uses `segment` any more. It may be null.
    pub(super) unsafe fn free(segment: *mut Segment<T>) {
        if !segment.is_null() {
            // SAFETY: it came from `Segment::new`, and the caller's promise.
            drop(unsafe { Box::from_raw(segment) });
        }
    }
}

/// Where an end of a ring is.
pub(super) struct Cursor<T> {
    /// The first place of `segment`.
    places: *const Place<T>,
    /// The index of the place that is written or read next.
    index: usize,
    segment: *mut Segment<T>,
}

impl<T> Cursor<T> {
    /// # Safety
    ///
    /// The segment stays as long as the cursor is in it.
    pub(super) unsafe fn new(segment: *mut Segment<T>) -> Cursor<T> {
        // SAFETY: the caller's promise.
        let places = unsafe { &(*segment).places }.as_ptr();
        Cursor { places, index: 0, segment }
    }

    /// The place that is written or read next.
    ///
    /// # Safety
    ///
    /// The cursor is in a segment of the ring, as all are but while they move.
    #[inline(always)]
    pub(super) unsafe fn place(&self) -> &Place<T> {
        // SAFETY: the index is smaller than the length of the segment: `Segments::advance_tail` and `advance_head` see to that.
        unsafe { &*self.places.add(self.index) }
    }
}

/// What is the same for all segments of a ring, and the spare one.
pub(super) struct Segments<T> {
    capacity: usize,
    /// How many places each segment has: all of them, if there is only one.
    length: usize,
    spare: AtomicPtr<Segment<T>>,
}

impl<T> Segments<T> {
    pub(super) fn new(capacity: usize) -> Segments<T> {
        let length = segment_length::<T>(capacity);
        Segments { capacity, length, spare: AtomicPtr::new(ptr::null_mut()) }
    }

    /// How many items the ring holds.
    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// A segment for both ends to begin in, which the ring frees.
    pub(super) fn first(&self) -> *mut Segment<T> {
        Segment::new(self.length)
    }

    /// Moves the tail behind the place that was filled just now. The caller has its lock, and publishes the item after this.
    #[inline(always)]
    pub(super) fn advance_tail(&self, tail: &mut Cursor<T>) {
        tail.index += 1;
        if tail.index == self.length {
            tail.index = 0;
            if self.length != self.capacity {
                self.link(tail);
            }
        }
    }

    /// Moves the head behind the place that was emptied just now. The caller has its lock.
    #[inline(always)]
    pub(super) fn advance_head(&self, head: &mut Cursor<T>) {
        head.index += 1;
        if head.index == self.length {
            head.index = 0;
            if self.length != self.capacity {
                self.unlink(head);
            }
        }
    }

    #[cold]
    fn link(&self, tail: &mut Cursor<T>) {
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        let next = if spare.is_null() { Segment::new(self.length) } else { spare };
        // SAFETY: the segment is there until the head has left it, which reads the link when it has acquired the item that
        // the caller publishes. The next one is nobody else's.
        unsafe {
            (*tail.segment).next.with_mut(|link| *link = next);
            *tail = Cursor::new(next);
        }
    }

    #[cold]
    fn unlink(&self, head: &mut Cursor<T>) {
        let old = head.segment;
        // SAFETY: the item that was in the last place was published after the link was written, and acquired.
        unsafe { *head = Cursor::new((*old).next.with(|link| *link)) };
        let unused = self.spare.swap(old, Ordering::AcqRel);
        // SAFETY: it was the spare, and is not any more.
        unsafe { Segment::free(unused) };
    }

    /// Frees what the ring has left.
    ///
    /// # Safety
    ///
    /// The ring is empty and nobody uses it any more.
    pub(super) unsafe fn free(&self, head: &Cursor<T>) {
        // SAFETY: the caller's promise; the tail is in the same segment as the head.
        unsafe {
            Segment::free(head.segment);
            Segment::free(self.spare.swap(ptr::null_mut(), Ordering::Acquire));
        }
    }
}
