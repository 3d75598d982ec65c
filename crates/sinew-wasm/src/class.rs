//! Stack classes: how much stack a guest has for its own code, and whether it may block.

use std::fmt;

/// The stack of a guest.
///
/// The size is the guest's share. The host's share, for the functions that the guest calls, is added
/// to it. A stack takes memory only as far as it was used, and only while a call runs or blocks.
///
/// ```
/// use sinew_wasm::StackClass;
///
/// assert_eq!(StackClass::holding(512), Some(StackClass::Small)); // sizes are rounded up
/// assert_eq!(StackClass::holding(100 << 10), Some(StackClass::Large));
/// assert_eq!(StackClass::holding(2 << 20), None); // there is none so large
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StackClass {
    /// No stack: the guest runs on the worker's, and no call of it may block.
    None,
    /// 32 KiB.
    Small,
    /// 64 KiB.
    Medium,
    /// 128 KiB.
    Large,
    /// 1 MiB.
    Huge,
}

/// The host's share of a stack. Frames are larger without optimisation.
const HOST_SHARE: usize = if cfg!(debug_assertions) { 128 << 10 } else { 32 << 10 };

impl StackClass {
    /// All classes, by size.
    pub const ALL: [StackClass; 5] =
        [StackClass::None, StackClass::Small, StackClass::Medium, StackClass::Large, StackClass::Huge];

    /// Returns the smallest class with at least this many bytes for the guest; `None` for zero bytes.
    pub fn holding(bytes: usize) -> Option<StackClass> {
        StackClass::ALL.into_iter().find(|class| class.guest_bytes() >= bytes)
    }

    /// Returns the bytes that the guest's own code may use. Zero for [`StackClass::None`], which
    /// runs on the worker's stack.
    pub const fn guest_bytes(self) -> usize {
        match self {
            StackClass::None => 0,
            StackClass::Small => 32 << 10,
            StackClass::Medium => 64 << 10,
            StackClass::Large => 128 << 10,
            StackClass::Huge => 1 << 20,
        }
    }

    /// The bytes that the engine lets the code of a guest use. Without a stack of its own, a guest has
    /// a part of the worker's.
    pub(crate) const fn wasm_bytes(self) -> usize {
        match self {
            StackClass::None => 64 << 10,
            class => class.guest_bytes(),
        }
    }

    /// The bytes of a whole stack.
    pub(crate) const fn stack_bytes(self) -> usize {
        self.wasm_bytes() + HOST_SHARE
    }

    /// Whether a guest of this class may block.
    pub const fn can_block(self) -> bool {
        !matches!(self, StackClass::None)
    }
}

impl fmt::Display for StackClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StackClass::None => "NONE",
            StackClass::Small => "SMALL",
            StackClass::Medium => "MEDIUM",
            StackClass::Large => "LARGE",
            StackClass::Huge => "HUGE",
        })
    }
}
