//! x

mod memory;

pub use memory::{GuardKind, Memory, Stack, StackError, StackSize, Usage, trim, usage};

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/stack_support/mod.rs"]
mod stack_support;
