//! Fibers: what they run, how they stop and end, and who is told.
#![cfg(not(any(loom, shuttle)))]

mod bindings;
mod body_results;
mod catching;
mod chains;
mod cleanup;
mod debugger;
#[path = "../drop_support/mod.rs"]
mod drop_support;
mod ends;
mod errors;
mod generators;
mod iteration;
mod last_value;
mod operations;
mod propagate;
mod refusals;
mod root_signals;
mod roots;
mod shields;
mod signals;
#[path = "../stack_support/mod.rs"]
mod stack_support;
mod stops;
#[path = "../support/mod.rs"]
mod support;
mod terminal_signals;
mod thread_root;
mod traces;
mod uncaught;
mod unwinding;
mod unwinding_fibers;
