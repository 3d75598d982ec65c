//! WASM actors: guests that block like threads, beside native actors.
//!
//! A guest is an instance of a WebAssembly module that runs as an actor: it has an id, a mailbox, a name
//! and a supervisor like any other. Its author writes straight-line code: a host call that waits, such as
//! `mk_sleep_ms` or `mk_recv`, suspends the guest and never a worker thread. A guest that computes is
//! interrupted after its slice. A trap, an endless loop or a stack overflow ends that guest and disturbs
//! nobody else.
//!
//! [`Engine`] compiles a [`Module`], a [`Guest`] is a module with its options, and [`WasmNode::wasm`]
//! starts one.
//!
//! `docs/abi.md` in the repository lists the calls that a guest can import.

#![cfg_attr(any(loom, shuttle), allow(dead_code, reason = "models run the ticker alone"))]

mod ticker;

/// What is not built for a model checker.
macro_rules! unless_model {
    ($($item:item)*) => { $(#[cfg(not(any(loom, shuttle)))] $item)* };
}

unless_model! {
    mod cache;
    mod class;
    mod cpu;
    mod cpu_times;
    mod debug_info;
    mod engine;
    mod error;
    mod failure;
mod fds;
    mod grants;
    mod guest;
    mod host;
    mod limits;
    mod log_lines;
    mod memory_budget;
    mod module;
    mod profile;
    mod run;
    mod slabs;
    mod spawn;
    mod state;

    pub use cache::CacheStats;
    pub use class::StackClass;
    pub use engine::{Engine, EngineBuilder};
    pub use error::{CacheFolderError, EngineError, LoadError};
    pub use grants::Grants;
    pub use guest::Guest;
    pub use limits::Limits;
    pub use module::Module;
pub use sinew_fd::Access;
    pub use spawn::{GuestBuilder, GuestSpawnError, WasmChild, WasmNode};
}
