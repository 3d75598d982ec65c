//! What the scheduler reports of the tasks of actors.

mod deadlocks;
#[path = "../kit/mod.rs"]
mod kit;
mod reported;
