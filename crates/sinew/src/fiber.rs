//! Fibers: functions with a stack of their own, which stop with a signal and can be resumed.
//!
//! Actors and tasks run on fibers, and may use the short forms anywhere:
//!
//! - Produce items one by one: [`Generator`].
//! - Catch errors and panics, and clean up: [`protect`], [`try_`], [`defer`], [`with`].
//! - Keep a cleanup from being cancelled: [`shield`].
//! - Leave a deep computation at once: [`prompt`].
//! - Bind values to the running code instead of to a thread: [`Key`].
//! - Everything else: [`Fiber`], [`yield_`], [`signal`], [`error`].
//!
//! ```
//! use sinew::fiber::{Generator, error, protect};
//!
//! let squares = Generator::new(|out| (1..).for_each(|n| out.yield_(n * n)))?;
//! assert_eq!(squares.take(4).collect::<Vec<u32>>(), [1, 4, 9, 16]);
//!
//! let raised = protect(|| error("no luck")).unwrap_err();
//! assert_eq!(raised.value.downcast::<&str>()?, "no luck");
//! # Ok::<(), sinew::fiber::Error>(())
//! ```
//!
//! `docs/fibers.md` in the repository is the contract.

#[doc(inline)]
pub use sinew_core::UnknownSignal;
#[doc(inline)]
pub use sinew_fiber::{
    Binding, Bindings, BodyResult, Builder, CancelLevel, Cancelled, Control, DowncastError, Error, Fiber,
    FiberRef, Flags, Generator, GuardKind, Hook, IntoValue, Key, Link, LinkKind, MAX_DEPTH, Mask, MaskError,
    Memory, Operation, Panic, Prompt, Quarantined, Raised, Reason, Refused, Root, Signal, Stack, StackError,
    StackSize, Status, Stop, Trace, Value, Yielder, await_, capture_backtraces, checkpoint, control, current,
    debug, defer, edefer, error, ffi_scope, generate, prompt, propagate, protect, quarantined, return_to,
    root, run_as_root, shield, signal, try_, with, with_bindings, yield_, yield_as,
};
