//! x

mod memory;
#[allow(dead_code, reason = "the first fiber installs it")]
mod overflow;

pub use memory::{GuardKind, Memory, Stack, StackError, StackSize, Usage, trim, usage};

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/stack_support/mod.rs"]
mod stack_support;
