//! What a task asks of its fibers: awaits, cancellation, interrupts, trips, and what they may not cross.
#![cfg(not(any(loom, shuttle)))]

mod awaits;
mod cancel;
mod cancel_levels;
mod cancelled_io;
#[path = "../drop_support/mod.rs"]
mod drop_support;
mod ffi;
mod interrupts;
mod may_await;
mod open_scopes;
mod other_task;
mod polls;
#[path = "../stack_support/mod.rs"]
mod stack_support;
#[path = "../support/mod.rs"]
mod support;
mod task_control;
#[path = "../task_support/mod.rs"]
mod task_support;
mod threads;
mod trips;
mod unsupervised;
