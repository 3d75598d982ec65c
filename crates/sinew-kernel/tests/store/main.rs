//! The store of states, whole, damaged and killed.

mod store;
mod store_damaged;
mod store_killed;
#[path = "../store_support/mod.rs"]
mod store_support;
