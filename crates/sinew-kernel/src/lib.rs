//! Sinew's actor kernel: a node of actors that block, crash and are restarted.

#![forbid(unsafe_code)]

pub mod store;
