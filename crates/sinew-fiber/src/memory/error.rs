//! Why a stack or a linear memory could not be had.

/// Why [`Stack::take`](crate::Stack::take) or [`Memory::take`](crate::Memory::take) gave nothing.
///
/// None of these leaves anything half done: the process goes on, and the same call may succeed later.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The size is outside what this kind of memory comes in.
    #[error("a size of {bytes} bytes is not between {least} and {most}: ask for one in that range")]
    InvalidSize {
        /// What was asked for.
        bytes: usize,
        /// The smallest size that is served.
        least: usize,
        /// The largest size that is served.
        most: usize,
    },

    /// The system refused the memory: an address-space limit, a container's limit, a full swap.
    #[error(
        "the system has no memory for one more slot of {bytes} bytes ({live} of that size are live): \
         drop some, take smaller ones, or raise the limit (ulimit -v, ulimit -l, the container's memory)"
    )]
    OutOfMemory {
        /// Usable bytes of the slot that was asked for.
        bytes: usize,
        /// How many slots of that size were out at that moment, the threads' caches included.
        live: usize,
    },

    /// Guards made by `mprotect` hold as many mappings as may be taken without starving `malloc`.
    #[error(
        "guard pages hold {mappings} memory mappings, the share that is safe under a vm.max_map_count of \
         {limit}: raise it (sysctl -w vm.max_map_count=1048576), or run Linux 6.13 or newer without locked \
         memory, where guards cost no mapping"
    )]
    MapLimit {
        /// Mappings that guards hold now.
        mappings: usize,
        /// `vm.max_map_count`, of which guards may hold four fifths.
        limit: usize,
    },
}

/// The message, as `Display` has it: it is what `unwrap` and `main` print.
impl std::fmt::Debug for StackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
