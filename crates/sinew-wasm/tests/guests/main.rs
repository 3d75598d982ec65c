//! WASM actors as their users see them.
#![cfg(not(any(loom, shuttle)))]

mod blocking;
mod contract;
mod kit;
mod loading;
