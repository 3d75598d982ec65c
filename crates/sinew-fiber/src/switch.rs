//! The context switch, one file per architecture.
//!
//! A stack that is not running is one address: its stack pointer, below which nothing lives and at which
//! the place to go on from and the few registers that a compiler will not save for us are stored. A few
//! functions and one layout make up the interface:
//!
//! - [`prepare`] lays the first frame of a new stack out;
//! - [`switch`] saves the running stack's address and goes on with another;
//! - [`leave`] goes on with another stack and never comes back;
//! - [`is_switching`] tells whether an instruction is in the middle of one of those;
//! - [`call_above`] shows the frames of another stack to whoever walks them up.
//!
//! Switching is symmetric: any stack may go on with any other. Which one may go on with which is decided
//! by the fibers above; here nobody is anybody's parent.
//!
//! We own the switch instead of taking a crate's because of return-address prediction: a switch that
//! resumes by `call` and suspends by `ret` unbalances the processor's return stack for every frame that
//! the compiler did not inline, and each of those mispredicts. Ours leaves by an indirect jump, which is
//! predicted by its own history. `sinew-bench fiber_yield` prints the difference.

#[cfg(target_arch = "x86_64")]
#[path = "switch/x86_64.rs"]
mod arch;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "sinew-fiber has no context switch for this architecture yet: add crates/sinew-fiber/src/switch/<arch>.rs"
);

pub(crate) use arch::{call_above, leave};
pub use arch::{is_switching, prepare, switch};

/// Where a stack that is not running goes on: its stack pointer.
pub type StackPointer = *mut u8;

/// The first function of a stack. It gets the word that was given to [`prepare`] and must not return.
pub type Entry = unsafe extern "C" fn(*mut ()) -> !;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
