//! One mapping cut into equal slots, and the guard beside each.
//!
//! A [`Shape`] says how a slot looks: usable bytes, guard bytes, on which side the guard is. The distance
//! from one slot to the next (the stride) is an odd number of pages: with a power of two, the tops of all
//! stacks fall into the same few sets of the processor's caches.
//!
//! ```text
//! stacks     | guard | usable      | guard | usable      |   a stack grows down into its guard
//! memories   | usable      | guard | usable      | guard |   an index runs up into its guard
//! ```
//!
//! # Ownership
//!
//! A [`Slot`] is the only name of its usable bytes and its guard: it cannot be copied, a [`Slab`] makes each
//! once, and whoever has it may do anything with these bytes. Slots of a slab do not overlap (each lies
//! within one stride of its own), so two slots never concern the same memory. A slab is never unmapped, at most mapped anew: a
//! quarantined stack stays where it is for as long as the process lives, and a handle that outlives its
//! fiber still points to mapped memory. What is idle is decommitted, so an old slab costs addresses only.
//!
//! # Guards
//!
//! A guard is installed when its slot is first used, not when the slab is mapped (0.7 µs each, and most
//! slots of a slab may never be used); a thread that needs one gets those of its next few stacks with it, which is half as
//! dear for each. Markers in the page tables are tried first; they leave the slab one
//! mapping. A kernel that does not know them (before 6.13), or that refuses them on locked memory, answers
//! with an error, and from then on the process makes its guards with `mprotect`, which splits the slab: two
//! mappings for each slot. An emulator of the kernel (qemu's user mode) may answer zero to any advice and do nothing, so
//! the answer is not enough: before the first guard of the process, [`sys::guard_faults`] has the kernel read a page
//! with a marker. If that does not fail, the process makes all of its guards with `mprotect`. [`Guards`] counts these, and refuses at four fifths of `vm.max_map_count`,
//! because at the limit itself `malloc` fails.
//!
//! Its atomics are statistics of their own, ordered with nothing: a thread that reads an old kind
//! tries markers once more and is refused once more, and so with the call for many; the count is reserved by one read-modify-write before
//! the `mprotect` and returned by another when that fails, so that it never falls below what is held. There
//! is nothing between them to model; who owns a slot is modelled in the pool.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;

use sinew_sync::statics::{AtomicBool, AtomicUsize, OnceLock, Ordering};

use super::pool::{Backing, Refused};
use super::sys;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// How the guards beside stacks and memories are made in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardKind {
    /// By markers in the page tables, at no cost in mappings (Linux 6.13 or newer).
    Markers,
    /// By `mprotect`, at two mappings for each slot.
    Protected,
}

/// On which side of the usable bytes the guard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

/// How the slots of a slab look. All sizes are whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    usable: usize,
    guard: usize,
    stride: usize,
    side: Side,
}

/// Guard of a small stack: whatever rounds up to one page.
const SMALL_GUARD: usize = 1;

/// Guard from [`WIDE_GUARD_FROM`] up: C code with large frames and no probes skips a single page.
const WIDE_GUARD: usize = 64 << 10;
const WIDE_GUARD_FROM: usize = 256 << 10;

/// The first slab of a shape has as many slots as fit, within a small count; later ones double up to the
/// larger limits. At least one slot always.
const FIRST_SLOTS: usize = 16;
const FIRST_BYTES: usize = 4 << 20;
const MOST_SLOTS: usize = 4096;
const MOST_BYTES: usize = 1536 << 20;

impl Shape {
    /// Stacks of `usable` bytes.
    pub(crate) fn stack(usable: usize) -> Shape {
        let guard = if usable < WIDE_GUARD_FROM { SMALL_GUARD } else { WIDE_GUARD };
        Shape::new(usable, guard, Side::Below)
    }

    /// Memories of `usable` bytes with at least `guard` bytes above, or none at all when that is zero.
    pub(crate) fn memory(usable: usize, guard: usize) -> Shape {
        Shape::new(usable, guard, Side::Above)
    }

    fn new(usable: usize, guard: usize, side: Side) -> Shape {
        let page = sys::page_size();
        let usable = usable.next_multiple_of(page);
        let pages = (usable + guard.next_multiple_of(page)) / page;
        let stride = (pages | 1) * page;
        // The page that makes the stride odd joins the guard, unless there is none to join.
        let guard = if guard == 0 { 0 } else { stride - usable };
        Shape { usable, guard, stride, side }
    }

    /// Usable bytes of a slot.
    #[inline]
    pub(crate) fn usable(&self) -> usize {
        self.usable
    }

    /// Addresses of the guard of `slot`.
    pub(crate) fn guard_of(&self, slot: &Slot) -> Range<usize> {
        let start = slot.start().addr().get();
        match self.side {
            Side::Below => start - self.guard..start,
            Side::Above => start + self.usable..start + self.usable + self.guard,
        }
    }

    /// The lowest byte of the guard of `slot`.
    fn guard_start(&self, slot: &Slot) -> NonNull<u8> {
        let start = NonZero::new(self.guard_of(slot).start).expect("no mapping starts at address zero");
        slot.start().with_addr(start)
    }

    /// Addresses of the usable bytes of `slot`.
    pub(crate) fn usable_of(&self, slot: &Slot) -> Range<usize> {
        let start = slot.start().addr().get();
        start..start + self.usable
    }
}

/// One slot of a slab: the address of its lowest usable byte, and the right to use it.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a slot that is dropped is lost to the pool"]
#[repr(transparent)]
pub(crate) struct Slot(NonNull<u8>);

// SAFETY: a slot is the sole owner of plain bytes that belong to no thread.
unsafe impl Send for Slot {}
// SAFETY: a shared reference gives out an address and nothing else.
unsafe impl Sync for Slot {}

impl Slot {
    /// The lowest usable byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0
    }
}

/// One mapping, and how many of its slots have been made. Forgetting it unmaps nothing.
#[derive(Debug)]
pub(crate) struct Slab {
    first: NonNull<u8>,
    stride: usize,
    slots: usize,
    made: usize,
}

// SAFETY: a slab is the sole owner of those of its slots that it has not made yet.
unsafe impl Send for Slab {}

impl Slab {
    /// Maps `slots` slots of `shape`, none of them guarded or touched.
    fn map(shape: &Shape, slots: usize) -> Result<Slab, Refused> {
        let bytes = shape.stride.checked_mul(slots).ok_or(Refused::OutOfMemory)?;
        let start = sys::reserve(bytes).map_err(|_| Refused::OutOfMemory)?;
        let offset = match shape.side {
            Side::Below => shape.guard,
            Side::Above => 0,
        };
        // SAFETY: a stride is at least the guard and the mapping at least one stride.
        let first = unsafe { start.add(offset) };
        Ok(Slab { first, stride: shape.stride, slots, made: 0 })
    }

    /// A slab of addresses without memory, for models that never touch any.
    #[cfg(test)]
    pub(crate) fn imaginary(first: std::num::NonZero<usize>, slots: usize) -> Slab {
        Slab { first: NonNull::without_provenance(first), stride: 1, slots, made: 0 }
    }

    /// The same slab, with no slot made. Only whoever has all of its slots, or makes none, may have both.
    pub(crate) fn anew(&self) -> Slab {
        Slab { first: self.first, stride: self.stride, slots: self.slots, made: 0 }
    }

    /// The address of the first slot.
    pub(crate) fn first_address(&self) -> usize {
        self.first.addr().get()
    }

    /// How many slots the slab has, made or not.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// How many slots are still to be made.
    pub(crate) fn left(&self) -> usize {
        self.slots - self.made
    }

    /// Makes the next slot, lowest address first. Its guard is not installed yet.
    pub(crate) fn make(&mut self) -> Option<Slot> {
        if self.left() == 0 {
            return None;
        }
        // Wrapping, because an imaginary slab has no object to stay within; a mapped one ends after
        // `slots` strides, so nothing wraps there.
        let start = self.first.as_ptr().wrapping_add(self.made * self.stride);
        self.made += 1;
        NonNull::new(start).map(Slot)
    }
}

/// Makes the guards of a process, one kind at a time, and counts what they cost.
#[derive(Debug)]
pub(crate) struct Guards {
    protected: AtomicBool,
    /// The kernel installs markers, but not many by one call.
    one_by_one: AtomicBool,
    mappings: AtomicUsize,
}

/// Mappings that a slot with a protected guard costs: the guard, and what is left of the slab above it.
const MAPPINGS_FOR_EACH: usize = 2;

impl Guards {
    /// The guards of this process.
    pub(crate) fn of_process() -> &'static Guards {
        static GUARDS: OnceLock<Guards> = OnceLock::new();
        // SAFETY: the probe passes a page of its own that has nothing in it.
        GUARDS.get_or_init(|| Guards::probed(|start, bytes| unsafe { sys::install_guard(start, bytes) }))
    }

    /// Guards that begin with markers if those that `install_marker` installs work in this process.
    fn probed(install_marker: impl FnOnce(NonNull<u8>, usize) -> io::Result<()>) -> Guards {
        let markers = sys::guard_faults(install_marker);
        Guards::new(if markers { GuardKind::Markers } else { GuardKind::Protected })
    }

    /// Guards that begin with `kind`.
    fn new(kind: GuardKind) -> Guards {
        Guards {
            protected: AtomicBool::new(matches!(kind, GuardKind::Protected)),
            one_by_one: AtomicBool::new(cfg!(valgrind)), // which does not know the call
            mappings: AtomicUsize::new(0),
        }
    }

    /// The kind of the next guard: markers, if they work in this process and the kernel has refused none.
    pub(crate) fn kind(&self) -> GuardKind {
        if self.protected.load(Ordering::Relaxed) { GuardKind::Protected } else { GuardKind::Markers }
    }

    /// Makes the guard of a slot that the caller owns.
    fn install(&self, shape: &Shape, slot: &Slot) -> Result<(), Refused> {
        if shape.guard == 0 {
            return Ok(());
        }
        let start = shape.guard_start(slot);
        if self.kind() == GuardKind::Markers {
            // SAFETY: a slot owns its guard (module comment), and nothing is kept in a guard.
            match unsafe { sys::install_guard(start, shape.guard) } {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Err(Refused::OutOfMemory),
                Err(_) => self.protected.store(true, Ordering::Relaxed),
            }
        }
        let limit = sys::max_map_count();
        let before = self.mappings.fetch_add(MAPPINGS_FOR_EACH, Ordering::Relaxed);
        let refused = if before + MAPPINGS_FOR_EACH > limit / 5 * 4 {
            Refused::MapLimit { mappings: before, limit }
        } else {
            // SAFETY: as for install_guard above.
            match unsafe { sys::protect(start, shape.guard) } {
                Ok(()) => return Ok(()),
                Err(_) => Refused::OutOfMemory,
            }
        };
        self.mappings.fetch_sub(MAPPINGS_FOR_EACH, Ordering::Relaxed);
        Err(refused)
    }
}

impl Guards {
    /// Makes the guards of slots that the caller owns, by one call if the kernel lets us; says of how many, from the first
    /// on.
    fn install_all(&self, shape: &Shape, slots: &[Slot]) -> usize {
        let alone =
            |slots: &[Slot]| slots.iter().take_while(|slot| self.install(shape, slot).is_ok()).count();
        let [first, rest @ ..] = slots else { return 0 };
        // The first one by itself: it says what kind of guards the kernel makes.
        if self.install(shape, first).is_err() {
            return 0;
        }
        let by_one_call = shape.guard > 0 && self.kind() == GuardKind::Markers;
        if rest.is_empty() || !by_one_call || self.one_by_one.load(Ordering::Relaxed) {
            return 1 + alone(rest);
        }
        let starts: Vec<NonNull<u8>> = rest.iter().map(|slot| shape.guard_start(slot)).collect();
        // SAFETY: as in `install`.
        let done = unsafe { sys::install_guards(&starts, shape.guard) };
        if done == 0 {
            self.one_by_one.store(true, Ordering::Relaxed);
        }
        1 + done + alone(&rest[done..])
    }
}

/// The production backing of a pool: slabs of one shape.
#[derive(Debug)]
pub(crate) struct Mapped {
    shape: Shape,
    guards: &'static Guards,
}

impl Mapped {
    /// Slabs of `shape` with the process's guards.
    pub(crate) fn new(shape: Shape) -> Mapped {
        Mapped { shape, guards: Guards::of_process() }
    }

    /// How the slots look.
    #[inline]
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Makes every usable byte of `slot` zero, by giving its pages back where the system takes them.
    pub(crate) fn clear(&self, slot: &Slot) {
        // SAFETY: the slot owns its usable bytes, whole pages of its slab, and its owner wants them empty.
        unsafe {
            if !sys::decommit(slot.start(), self.shape.usable) {
                slot.start().write_bytes(0, self.shape.usable);
            }
        }
    }
}

impl Backing for Mapped {
    fn bytes(&self) -> usize {
        self.shape.usable
    }

    fn first_slots(&self) -> usize {
        (FIRST_BYTES / self.shape.stride).clamp(1, FIRST_SLOTS)
    }

    fn most_slots(&self) -> usize {
        (MOST_BYTES / self.shape.stride).clamp(1, MOST_SLOTS)
    }

    fn map(&self, slots: usize) -> Result<Slab, Refused> {
        Slab::map(&self.shape, slots)
    }

    fn guard(&self, slot: &Slot) -> Result<(), Refused> {
        self.guards.install(&self.shape, slot)?;
        #[cfg(valgrind)]
        if self.shape.side == Side::Below {
            super::valgrind::register(self.shape.usable_of(slot));
        }
        Ok(())
    }

    fn guard_all(&self, slots: &[Slot]) -> usize {
        let guarded = self.guards.install_all(&self.shape, slots);
        #[cfg(valgrind)]
        if self.shape.side == Side::Below {
            slots[..guarded].iter().for_each(|slot| super::valgrind::register(self.shape.usable_of(slot)));
        }
        guarded
    }

    fn decommit(&self, slot: &Slot) -> usize {
        let bytes = sys::resident(self.shape.usable_of(slot));
        // SAFETY: the slot owns its usable bytes, whole pages of its slab; a pool decommits only slots that
        // it has taken out of its lists, of which nobody needs the content.
        if bytes > 0 && unsafe { sys::decommit(slot.start(), self.shape.usable) } { bytes } else { 0 }
    }

    fn renews(&self) -> bool {
        // Guards of the other kind are counted, for each slot once. Valgrind knows where stacks lie from their first use.
        self.guards.kind() == GuardKind::Markers && !cfg!(valgrind)
    }

    fn renew(&self, slab: &Slab) -> bool {
        let offset = match self.shape.side {
            Side::Below => self.shape.guard,
            Side::Above => 0,
        };
        // SAFETY: the mapping begins that far below the first slot, as `Slab::map` has put it, and the caller has all slots.
        unsafe { sys::reserve_again(slab.first.sub(offset), slab.stride * slab.slots) }
    }
}
