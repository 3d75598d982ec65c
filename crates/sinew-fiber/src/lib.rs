//! Stackful fibers with one control-flow primitive, the signal.
//!
//! A fiber is a body with a stack of its own. Whatever makes control leave it is a [`Signal`]: it returned,
//! it failed, it yielded, it hit a breakpoint, it was interrupted, it waits. Whoever [resumes](Fiber::resume)
//! the fiber is told which, and the fiber's [`Mask`] says which signals stop there; any other stops the
//! resumer as well and travels on up. Generators, errors that can be caught, cleanup, cancellation and
//! debuggers are short programs over this.
//!
//! # Where to start
//!
//! - to produce items one by one: [`Generator`];
//! - to catch errors and panics, and to clean up: [`protect`], [`try_`], [`defer`], [`with`];
//! - to leave a deep computation at once: [`prompt`];
//! - for values that belong to the running code rather than to a thread: [`Key`];
//! - for all the rest: [`Fiber`], [`yield_`], [`signal`], [`error`], [`propagate`], [`debug`].
//!
//! ```
//! use sinew_fiber::{Generator, defer, error, protect};
//!
//! let squares = Generator::new(|out| for n in 1.. { out.yield_(n * n) })?;
//! assert_eq!(squares.take(4).collect::<Vec<u32>>(), [1, 4, 9, 16]);
//!
//! let mut cleaned_up = false;
//! let result = protect(|| defer(|| cleaned_up = true, || error("no luck")));
//! assert_eq!(result.unwrap_err().value.downcast::<&str>()?, "no luck");
//! assert!(cleaned_up);
//! # Ok::<(), sinew_fiber::Error>(())
//! ```
//!
//! # The rules in short
//!
//! - Status is the number of the last signal. A fiber that returned, failed, or raised user0 to user4 has
//!   ended; when its resumer sees that, its stack has been unwound and all destructors have run.
//! - The mask belongs to the fiber that is resumed. A signal that it does not catch stops the resumer too,
//!   with the same status, and so on up; resuming the outermost continues the innermost.
//! - A resumable signal that nobody in the chain catches is refused where it is raised, as a Rust error.
//!   Await, interrupt and debug reach the root instead (see [`run_as_root`]).
//! - A panic in a fiber is an error signal with message and place ([`Panic`]), and prints nothing.
//! - Cancelling is raising an error inside: [`Fiber::cancel`] once, [`Control`] at two levels that stay.
//!   Dropping a suspended fiber cancels it until it has ended. [`shield`] defers all of them.
//! - A stack that is being unwound never suspends: a destructor that yields while the thread is unwinding is
//!   refused. [`defer`] and [`with`] clean up outside the unwind, and may.
//! - Fibers stay on their thread.
//!
//! # Reading the code
//!
//! `record.rs` (what a fiber is), `switch.rs` (how stacks change), `fiber/` (its body, resume, end), `raise.rs`
//! (signals), `wait.rs` (the world outside), `unwind.rs` (errors and panics), `root.rs`, `task.rs`; `memory/` for the stacks; `sugar.rs` and
//! `generator.rs` for what is built on top.

#[cfg(panic = "abort")]
compile_error!("sinew-fiber ends fibers by unwinding them: build with panic = \"unwind\"");

#[cfg(not(target_os = "linux"))]
compile_error!("sinew-fiber runs on Linux only");

mod bindings;
mod builder;
mod control;
mod error;
mod fiber;
mod generator;
mod inside;
mod memory;
mod overflow;
mod quarantine;
mod raise;
#[doc(hidden)]
pub mod raw;
mod record;
mod root;
mod scopes;
mod sugar;
mod switch;
mod task;
mod thread;
mod trace;
mod unwind;
mod value;
mod view;
mod wait;

pub use bindings::{Binding, Key};
pub use builder::Builder;
pub use control::{Cancelled, Control, Level};
pub use error::{Error, Operation, Reason, Refused};
pub use fiber::{Fiber, MAX_DEPTH};
pub use generator::{Generator, Yielder, generate};
pub use memory::{GuardKind, Memory, Stack, StackError, StackSize, Usage, trim, usage};
pub use quarantine::{Quarantined, quarantined};
pub use raise::{debug, error, propagate, signal, yield_};
pub use root::{Hook, Root, control, current, root, run_as_root};
pub use scopes::{ffi_scope, shield};
pub use sinew_core::{Bindings, Flags, Mask, MaskError, Signal, Status};
pub use sugar::{Prompt, defer, edefer, prompt, protect, return_to, try_, with, with_bindings};
pub use trace::{Link, LinkKind, Trace, capture_backtraces};
pub use unwind::{Panic, Raised};
pub use value::{DowncastError, IntoValue, Value};
pub use view::FiberRef;
pub use wait::{await_, checkpoint};

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/stack_support/mod.rs"]
mod stack_support;
