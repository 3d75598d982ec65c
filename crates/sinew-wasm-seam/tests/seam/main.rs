//! WASM guests as tasks: see the documentation of this crate.
#![cfg(not(any(loom, shuttle)))]

mod ended;
mod faults;
mod guests;
mod host_functions;
mod interleaved;
mod many;
mod memories;
mod moved;
mod preempted;
mod slabs;
mod ticker;

#[path = "../../../sinew-fiber/tests/stack_support/mod.rs"]
mod stack_support;

use sinew_test_kit::runtimes as support;
