//! The log, and its adapter for `tracing`.

#[path = "../kit/kept.rs"]
mod kept;
mod log;
#[cfg(feature = "tracing")]
mod log_tracing;
