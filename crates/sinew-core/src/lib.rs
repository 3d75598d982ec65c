//! Sinew's vocabulary: every rule that can be written without I/O, threads or clocks.
//!
//! Plain values and functions, `no_std` and `alloc` only, so that each rule is tested exhaustively and
//! reused on small targets:
//!
//! Of fibers:
//!
//! - [`Signal`]: the fourteen reasons for which control leaves a fiber;
//! - [`Status`]: what a fiber is doing, which is the number of its last signal;
//! - [`Mask`]: the signals of a fiber that its resumer catches, and [`Flags`], the letters that spell it.
//!
//! Of actors:
//!
//! - [`ActorId`]: who an actor is, on which node;
//! - [`Kind`]: what kind of message it is sent, and the kinds that are the system's own;
//! - [`payload`]: what those carry, as bytes;
//! - [`wire`]: messages between nodes, as bytes;
//! - [`ExitReason`]: why it ended;
//! - [`Restart`], [`Strategy`], [`Intensity`] and [`Backoff`]: how its supervisor goes on then;
//! - [`Name`] and [`Path`]: what it is called; [`NameTable`] and [`PathTable`]: who is called what;
//! - [`Identity`]: what its node is called;
//! - [`Level`]: how important a line of its log is.
//!
//! Of both:
//!
//! - [`Errno`]: the error numbers of host calls;
//! - [`Instant`]: time as a number, so that a test's clock can tell any;
//! - [`json`]: what is seen of both, for tools.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod errno;
mod exit;
mod id;
pub mod json;
mod kind;
mod level;
mod mask;
mod name;
pub mod payload;
mod restart;
mod signal;
mod status;
#[cfg(test)]
mod tests;
mod time;
pub mod wire;

pub use errno::Errno;
pub use exit::{ExitReason, Failure};
pub use id::{ActorId, NodeId, NotAnActorId};
pub use kind::Kind;
pub use level::{Level, UnknownLevel};
pub use mask::{Bindings, Flags, Mask, MaskError};
pub use name::identity::Identity;
pub use name::paths::{PathTable, Resolved};
pub use name::table::{NameTable, NameTaken};
pub use name::{Name, NameError, Path};
pub use restart::backoff::{Backoff, RestartDelay};
pub use restart::intensity::{Intensity, RestartHistory};
pub use restart::{Restart, Strategy};
pub use signal::{Signal, UnknownSignal};
pub use status::Status;
pub use time::Instant;
