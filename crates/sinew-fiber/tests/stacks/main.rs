//! Stacks and memories: their sizes, guards and limits, and what becomes of one that overflows or is given up.
#![cfg(not(any(loom, shuttle)))]

#[path = "../drop_support/mod.rs"]
mod drop_support;
mod memory_limits;
mod overflow_names_the_fiber;
mod quarantine;
mod stack_guards;
mod stack_limits;
mod stack_memory;
mod stack_sizes;
#[path = "../stack_support/mod.rs"]
mod stack_support;
