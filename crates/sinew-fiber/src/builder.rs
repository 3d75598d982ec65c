//! The options of a new fiber.
//!
//! `Builder::build`, which makes the fiber, is beside the fiber's first frame in `fiber/body.rs`.

use std::borrow::Cow;

use sinew_core::{Bindings, Flags, Mask};

use crate::memory::StackSize;

/// The options of a new fiber; [`Fiber::builder`](crate::Fiber::builder) makes one. Clone it to make
/// several fibers alike.
///
/// ```
/// use sinew_fiber::{Fiber, Mask, StackSize};
///
/// let fiber = Fiber::builder()
///     .name("parser")
///     .mask(Mask::YIELD | Mask::ERROR)
///     .stack(StackSize::KiB64)
///     .build(|_| ())?;
/// assert_eq!(fiber.view().name().as_deref(), Some("parser"));
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) mask: Mask,
    pub(crate) bindings: Bindings,
    pub(crate) stack: StackSize,
}

impl Builder {
    /// A name for traces and messages.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Which signals the resumer catches; [`Mask::YIELD`] if not said.
    #[inline]
    pub fn mask(mut self, mask: Mask) -> Builder {
        self.mask = mask;
        self
    }

    /// Where the dynamic bindings come from; none if not said.
    #[inline]
    pub fn bindings(mut self, bindings: Bindings) -> Builder {
        self.bindings = bindings;
        self
    }

    /// Mask and bindings at once, from letters: `"yi".parse()?`.
    pub fn flags(self, flags: Flags) -> Builder {
        self.mask(flags.mask).bindings(flags.bindings)
    }

    /// How large the stack is; 256 KiB if not said.
    #[inline]
    pub fn stack(mut self, stack: StackSize) -> Builder {
        self.stack = stack;
        self
    }
}
