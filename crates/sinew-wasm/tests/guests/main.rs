//! WASM actors as their users see them.
#![cfg(not(any(loom, shuttle)))]

mod blocking;
mod caching;
mod contract;
mod files;
mod files_confined;
mod folder;
mod kit;
mod loading;
mod pointers;
mod programs;
mod wasi_guest;
mod without_stack;
