//! What fibers leave behind. A program of its own, because its tests count stacks and given-up fibers of the process.
#![cfg(not(any(loom, shuttle)))]

mod abandon;
mod bodies;
mod given_up_fibers;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Mutex;

/// The tests count what is quarantined in the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
