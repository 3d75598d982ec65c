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
//! - to tell an I/O call that was cancelled from one that failed: [`IoErrorExt`];
//! - for values that belong to the running code rather than to a thread: [`Key`];
//! - for all the rest: [`Fiber`], [`yield_as`], [`yield_`], [`signal`], [`error`](error()),
//!   [`propagate`], [`debug`].
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
//! The modules form layers, which ARCHITECTURE.md lists; each names only modules below it. Bottom up:
//!
//! - What a fiber is made of: `memory/` has the stacks, `switch.rs` changes between them, `control.rs`
//!   is how other threads reach a task, `value.rs` and `raised.rs` are what a signal carries,
//!   `trace.rs`, `refused.rs` and `unwind.rs` (panics) what messages say.
//! - What a fiber is: `record.rs`; `thread.rs` knows which one runs.
//! - How a signal leaves a fiber: `terminal.rs` unwinds, `way.rs` decides who catches a resumable
//!   one, `suspend.rs` stops the fibers on the way, `outside.rs` hands it to the root's hook and looks
//!   for interrupts and cancellation; `faults.rs` attributes panics and overflows.
//! - The operations: `fiber/` (body, resume, propagate, end), `raise.rs`, `wait.rs`, `scopes.rs`,
//!   `root.rs`.
//! - What is built on top: `generator.rs` and `sugar.rs`; `task.rs`, `inside.rs` and `raw.rs` for a
//!   scheduler.

#[cfg(panic = "abort")]
compile_error!("sinew-fiber ends fibers by unwinding them: build with panic = \"unwind\"");

#[cfg(not(target_os = "linux"))]
compile_error!("sinew-fiber runs on Linux only");

mod binding_table;
mod bindings;
mod builder;
mod control;
mod error;
mod faults;
mod fiber;
mod generator;
mod hook;
mod inside;
mod io_error;
mod memory;
mod outside;
mod overflow;
mod quarantine;
mod raise;
mod raised;
#[doc(hidden)]
pub mod raw;
mod record;
mod refused;
mod report;
mod root;
mod scopes;
mod sugar;
mod suspend;
mod switch;
mod task;
mod terminal;
mod thread;
mod trace;
mod unwind;
mod value;
mod view;
mod wait;
mod way;

pub use binding_table::Binding;
pub use bindings::Key;
pub use builder::Builder;
pub use control::{CancelLevel, Cancelled, Control};
pub use error::Error;
pub use fiber::{BodyResult, Fiber, Stop, propagate};
pub use generator::{Generator, Yielder, generate};
pub use hook::Hook;
pub use io_error::IoErrorExt;
pub use memory::{GuardKind, Memory, Stack, StackError, StackSize, Usage, trim, usage};
pub use quarantine::{Quarantined, quarantined};
pub use raise::{debug, error, signal, yield_, yield_as};
pub use raised::Raised;
pub use refused::{MAX_DEPTH, Operation, Reason, Refused};
pub use report::lost_reports;
pub use root::{Root, control, current, root, run_as_root};
pub use scopes::{ffi_scope, shield};
pub use sinew_core::{Bindings, Flags, Mask, MaskError, Signal, Status};
pub use sugar::{Prompt, defer, edefer, prompt, protect, return_to, try_, with, with_bindings};
pub use trace::{Link, LinkKind, Trace, capture_backtraces};
pub use unwind::Panic;
pub use value::{DowncastError, IntoValue, Value};
pub use view::FiberRef;
pub use wait::{await_, checkpoint};

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/stack_support/mod.rs"]
mod stack_support;
