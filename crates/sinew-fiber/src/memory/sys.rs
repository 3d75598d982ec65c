//! The Linux calls under slabs: nothing above this file maps, advises, protects or probes memory.
//!
//! Safe functions here cannot break memory that they are not given: [`reserve`] and [`guard_faults`] make mappings of
//! their own and `mincore` only writes to our buffer. The others say what their caller has to own.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use sinew_sync::statics::OnceLock;

/// Makes every access to the range fault, without a mapping of its own (Linux 6.13).
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// `MADV_DONTNEED` for locked memory (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// Linux's own default, for when the file cannot be read.
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;

/// Guards that one call installs.
const GUARDED_AT_ONCE: usize = 64;

/// Pages that one `mincore` call reports on.
const PROBED_AT_ONCE: usize = 1024;

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    static PAGE_SIZE: OnceLock<usize> = OnceLock::new();
    *PAGE_SIZE.get_or_init(|| {
        // SAFETY: sysconf reads no memory of ours.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).expect("Linux always knows its page size")
    })
}

/// `vm.max_map_count` as it was when first asked: how many mappings the kernel grants this process.
pub(crate) fn max_map_count() -> usize {
    static MAX_MAP_COUNT: OnceLock<usize> = OnceLock::new();
    *MAX_MAP_COUNT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/vm/max_map_count")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(DEFAULT_MAX_MAP_COUNT)
    })
}

/// Maps `bytes` of zeroed, readable and writable memory, page aligned, of which nothing is backed until it
/// is touched, and never by huge pages (one touched byte would cost 2 MiB).
pub(crate) fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel picks addresses that nothing uses.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was mapped just above and this advice changes no content. A kernel built without
    // huge pages refuses it, and then there is nothing to refuse.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    Ok(NonNull::new(start.cast()).expect("the kernel maps nothing at address zero unasked"))
}

/// Maps what [`reserve`] mapped once more, at the same place: pages, page tables and guards are gone. False if the system
/// refused, and then nothing may be mapped there.
///
/// # Safety
///
/// `start` and `bytes` are those of one `reserve`, and nobody needs what is there.
pub(crate) unsafe fn reserve_again(start: NonNull<u8>, bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let address = start.as_ptr().cast();
    // SAFETY: the caller owns exactly this mapping and gives its content up.
    let mapped = unsafe { libc::mmap(address, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: as in `reserve`.
    unsafe { libc::madvise(address, bytes, libc::MADV_NOHUGEPAGE) };
    true
}

/// Unmaps what [`reserve`] mapped.
///
/// # Safety
///
/// `start` and `bytes` are those of one `reserve`, and nothing uses the memory any more.
pub(crate) unsafe fn release(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller owns exactly this mapping and gives it up.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// Makes every access to the range fault, by markers in the page tables.
///
/// # Safety
///
/// The range is whole pages of a reserved mapping, and nobody else uses them: their content is lost.
pub(crate) unsafe fn install_guard(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller owns these pages and has nothing in them.
    succeeded(unsafe { libc::madvise(start.as_ptr().cast(), bytes, MADV_GUARD_INSTALL) })
}

/// True if an access to a page faults after `install` has made it a guard. The result of `install` alone does not show that:
/// an emulator may answer zero to advice that it does not know.
///
/// The kernel makes the access: to write a byte of the guard into a pipe, it has to read the byte, and answers `EFAULT` if
/// it cannot. Where there is no page or no descriptor for that, nothing is shown, and the answer is false.
pub(crate) fn guard_faults(install: impl FnOnce(NonNull<u8>, usize) -> io::Result<()>) -> bool {
    let bytes = page_size();
    let Ok(page) = reserve(bytes) else { return false };
    let faults = install(page, bytes).is_ok()
        && io::pipe().is_ok_and(|(_reader, writer)| {
            // SAFETY: the descriptor is open, and the kernel, not this process, reads the byte, which is in our page.
            let written = unsafe { libc::write(writer.as_raw_fd(), page.as_ptr().cast(), 1) };
            written < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
        });
    // SAFETY: the page was reserved above, and nobody else knows it.
    unsafe { release(page, bytes) };
    faults
}

/// Installs guards of `bytes` at many places, by one call into the kernel. Says at how many of them, from the first on.
/// None on a kernel that does not do that.
///
/// # Safety
///
/// As for [`install_guard`], for each of the ranges.
pub(crate) unsafe fn install_guards(starts: &[NonNull<u8>], bytes: usize) -> usize {
    /// The calls that libc has no functions for.
    fn this_process() -> libc::c_long {
        static DESCRIPTOR: OnceLock<libc::c_long> = OnceLock::new();
        // SAFETY: neither call reads memory of ours. The descriptor is kept for the life of the process, and is not handed
        // to programs that it starts.
        *DESCRIPTOR.get_or_init(|| unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) })
    }
    let mut done = 0;
    for batch in starts.chunks(GUARDED_AT_ONCE) {
        let mut ranges = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; GUARDED_AT_ONCE];
        for (range, start) in ranges.iter_mut().zip(batch) {
            *range = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: bytes };
        }
        // SAFETY: the caller owns these pages and has nothing in them; the kernel reads as many ranges as it is told.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                this_process(),
                ranges.as_ptr(),
                batch.len(),
                MADV_GUARD_INSTALL,
                0,
            )
        };
        let whole = usize::try_from(advised).unwrap_or(0) / bytes;
        done += whole;
        if whole < batch.len() {
            break;
        }
    }
    done
}

/// Makes every access to the range fault, by a mapping of its own.
///
/// # Safety
///
/// As for [`install_guard`].
pub(crate) unsafe fn protect(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller owns these pages and has nothing in them.
    succeeded(unsafe { libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_NONE) })
}

/// Gives the pages of the range back to the system; they read as zero from now on. False when the system
/// keeps them (locked memory before Linux 5.18), contents and all.
///
/// # Safety
///
/// The range is whole pages of a reserved mapping, and nobody needs what is in them.
pub(crate) unsafe fn decommit(start: NonNull<u8>, bytes: usize) -> bool {
    let advise = |advice| {
        // SAFETY: the caller owns these pages and gives their content up.
        succeeded(unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) })
    };
    advise(libc::MADV_DONTNEED).or_else(|_| advise(MADV_DONTNEED_LOCKED)).is_ok()
}

/// Address of the lowest page in the range that is backed by memory.
pub(crate) fn lowest_resident(range: Range<usize>) -> Option<usize> {
    let mut lowest = None;
    probe(range, |page| {
        lowest = Some(page);
        false
    });
    lowest
}

/// Bytes of the range that are backed by memory.
pub(crate) fn resident(range: Range<usize>) -> usize {
    let mut pages = 0;
    probe(range, |_| {
        pages += 1;
        true
    });
    pages * page_size()
}

/// Calls `each` with every backed page of the range, lowest first, until it says false.
fn probe(range: Range<usize>, mut each: impl FnMut(usize) -> bool) {
    let page = page_size();
    let mut backed = [0u8; PROBED_AT_ONCE];
    for start in range.clone().step_by(PROBED_AT_ONCE * page) {
        let bytes = (range.end - start).min(PROBED_AT_ONCE * page);
        let address = ptr::without_provenance_mut::<libc::c_void>(start);
        // SAFETY: mincore reads no memory at the address, and writes one byte for each of at most
        // PROBED_AT_ONCE pages, which is what `backed` holds.
        if unsafe { libc::mincore(address, bytes, backed.as_mut_ptr()) } != 0 {
            return;
        }
        for (index, state) in backed[..bytes.div_ceil(page)].iter().enumerate() {
            if state & 1 == 1 && !each(start + index * page) {
                return;
            }
        }
    }
}

/// The result of a call that answers zero or sets errno.
fn succeeded(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::stack_support::pass_in_child;

    #[test]
    fn a_guard_is_believed_only_if_the_kernel_cannot_read_it() {
        assert!(!guard_faults(|_, _| Ok(())), "an emulator that answers zero to any advice");
        assert!(!guard_faults(|_, _| Err(io::ErrorKind::InvalidInput.into())));
        // SAFETY: the probe owns the page and has nothing in it.
        assert!(guard_faults(|start, bytes| unsafe { protect(start, bytes) }));
    }

    #[test]
    fn probing_a_guard_leaves_no_descriptor_and_no_mapping_behind() {
        pass_in_child(module_path!(), "probing_a_guard_leaves_no_descriptor_and_no_mapping_behind", || {
            let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            let mapped =
                || std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().map(str::to_owned);
            let before = (descriptors(), mapped());
            for _ in 0..1000 {
                assert!(!guard_faults(|_, _| Ok(())));
            }
            assert_eq!((descriptors(), mapped()), before);
        });
    }
}
