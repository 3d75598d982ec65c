//! Stacks: one slot, from its guard to its top.
//!
//! A [`Stack`] owns its slot from the take to the drop, so the bytes between limit and top are its own and
//! mapped, and the guard below is installed. Nothing here is shared: the cache and the pool pass slots
//! between threads, and their models (`cache_bins_share_a_pool`, `pool_take_give_trim`) cover the passing.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use super::cache;
use super::error::StackError;
use super::registry::{self, Store};
use super::slab::{Shape, Slot};
use super::sys;

/// Usable bytes of a stack; the guard is apart from them.
///
/// A stack takes memory for the pages that are touched, not for its size; but the address space and, in
/// large numbers, the page tables grow with the size (a million bytes of it cost some two thousand).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StackSize {
    /// 16 KiB: leaves that call no formatting, no TLS, no C library.
    KiB16,
    /// 32 KiB.
    KiB32,
    /// 64 KiB.
    KiB64,
    /// 128 KiB.
    KiB128,
    /// 256 KiB: enough for ordinary code.
    #[default]
    KiB256,
    /// 1 MiB: deep recursion, large frames in C code.
    MiB1,
    /// Any other size, rounded up to whole pages; from [`StackSize::LEAST`] to [`StackSize::MOST`].
    ///
    /// Such stacks skip the cache of the thread, and every size has slabs of its own that are never
    /// unmapped: use a few sizes, not one for each fiber.
    Custom(usize),
}

/// The sizes that threads cache, in the order of the variants.
pub(crate) const STANDARD_SIZES: [usize; 6] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];

impl StackSize {
    /// The smallest stack, in bytes.
    pub const LEAST: usize = 16 << 10;

    /// The largest stack, in bytes.
    pub const MOST: usize = 1 << 30;

    /// Usable bytes of a stack of this size: whole pages.
    pub fn bytes(self) -> usize {
        let bytes = match self {
            StackSize::Custom(bytes) => bytes,
            standard => standard.index().map_or(0, |index| STANDARD_SIZES[index]),
        };
        bytes.checked_next_multiple_of(sys::page_size()).unwrap_or(bytes)
    }

    /// Position among the standard sizes.
    #[inline]
    fn index(self) -> Option<usize> {
        match self {
            StackSize::KiB16 => Some(0),
            StackSize::KiB32 => Some(1),
            StackSize::KiB64 => Some(2),
            StackSize::KiB128 => Some(3),
            StackSize::KiB256 => Some(4),
            StackSize::MiB1 => Some(5),
            StackSize::Custom(_) => None,
        }
    }
}

/// A stack of its own: usable bytes, and below them a guard that faults when touched.
///
/// Dropping it gives it back: to the thread that drops it first, to all when that one has plenty. Its
/// memory stays as it is until [`trim`](crate::trim) finds it idle, so the next owner finds what the last
/// one left. Forgetting it ([`std::mem::forget`]) quarantines it: it is never reused and never unmapped.
///
/// ```
/// use sinew_fiber::{Stack, StackSize};
///
/// let stack = Stack::take(StackSize::KiB64)?;
/// assert_eq!(stack.size(), 64 * 1024);
/// assert_eq!(stack.top().addr().get() - stack.limit().addr().get(), stack.size());
/// assert_eq!(stack.guard().end, stack.limit().addr().get());
/// # Ok::<(), sinew_fiber::StackError>(())
/// ```
#[must_use = "a stack that is not used goes straight back"]
pub struct Stack {
    slot: ManuallyDrop<Slot>,
    store: &'static Store,
}

impl Stack {
    /// Takes a stack: the one of this size that was given back last, or a new one.
    ///
    /// # Errors
    ///
    /// [`StackError::InvalidSize`] for a custom size out of range; [`StackError::OutOfMemory`] and
    /// [`StackError::MapLimit`] when the system grants no more.
    #[inline]
    pub fn take(size: StackSize) -> Result<Stack, StackError> {
        let Some(index) = size.index() else { return take_custom(size) };
        let store = registry::standard(index);
        let slot = match cache::pop(index) {
            Some(slot) => slot,
            None => store.take()?,
        };
        Ok(Stack::of(slot, store))
    }

    #[inline]
    fn of(slot: Slot, store: &'static Store) -> Stack {
        #[cfg(valgrind)]
        super::valgrind::taken(&store.shape().usable_of(&slot));
        Stack { slot: ManuallyDrop::new(slot), store }
    }

    /// One past the highest usable byte; page aligned.
    #[inline]
    pub fn top(&self) -> NonNull<u8> {
        // SAFETY: a slot's usable bytes lie within its slab's mapping, so their end is in or one past it.
        unsafe { self.limit().add(self.size()) }
    }

    /// The lowest usable byte; page aligned.
    #[inline]
    pub fn limit(&self) -> NonNull<u8> {
        self.slot.start()
    }

    /// Usable bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.store.shape().usable()
    }

    /// Addresses of the guard: whoever touches them dies of SIGSEGV.
    pub fn guard(&self) -> Range<usize> {
        self.store.shape().guard_of(&self.slot)
    }

    /// How deep the stack has been since it was last decommitted: bytes from the top down to the lowest
    /// page that was touched, by this owner or an earlier one. Pages that were swapped out do not count.
    pub fn high_water(&self) -> usize {
        let usable = self.store.shape().usable_of(&self.slot);
        sys::lowest_resident(usable.clone()).map_or(0, |lowest| usable.end - lowest)
    }

    /// Gives the memory of all whole pages below the page of `sp` back to the system; they read as zero
    /// afterwards. Nothing happens when `sp` is not within the stack.
    ///
    /// # Safety
    ///
    /// Nobody runs on the stack below `sp`, and nobody needs what is there: the caller is the thread that
    /// suspended what runs here, `sp` is its saved stack pointer less what the ABI lets leaf functions keep
    /// below it (128 bytes on x86_64), and no other thread resumes it meanwhile.
    pub unsafe fn decommit_below(&self, sp: *mut u8) {
        let usable = self.store.shape().usable_of(&self.slot);
        let end = sp.addr() & !(sys::page_size() - 1);
        if end > usable.start && end <= usable.end {
            // SAFETY: from the limit, a page boundary, up to a page boundary within the usable bytes that
            // the slot owns; the caller says that nobody needs what is below `sp`.
            unsafe { sys::decommit(self.limit(), end - usable.start) };
        }
    }
}

#[cold]
fn take_custom(size: StackSize) -> Result<Stack, StackError> {
    let (least, most) = (StackSize::LEAST, StackSize::MOST);
    if let StackSize::Custom(bytes) = size
        && !(least..=most).contains(&bytes)
    {
        return Err(StackError::InvalidSize { bytes, least, most });
    }
    let store = registry::of_shape(Shape::stack(size.bytes()));
    Ok(Stack::of(store.take()?, store))
}

impl Drop for Stack {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: drop runs once, and nothing reads the slot after it.
        let slot = unsafe { ManuallyDrop::take(&mut self.slot) };
        #[cfg(valgrind)]
        super::valgrind::given_back(&self.store.shape().usable_of(&slot));
        self.store.give(slot);
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stack").field("top", &self.top()).field("size", &self.size()).finish()
    }
}
