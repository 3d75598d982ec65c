//! The Rust code blocks of README.md and of the pages in this folder, compiled and run as doctests.
//!
//! A page becomes the documentation of an item here, which is all that rustdoc needs to test it. The items
//! exist only while it does so: nothing depends on this crate. A new page with Rust code is added below;
//! `cargo xtask ci snippets` fails until it is.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("actors.md")]
mod actors {}

#[cfg(doctest)]
#[doc = include_str!("channels.md")]
mod channels {}

#[cfg(doctest)]
#[doc = include_str!("network.md")]
mod network {}

#[cfg(doctest)]
#[doc = include_str!("operations.md")]
mod operations {}

#[cfg(doctest)]
#[doc = include_str!("scheduler.md")]
mod scheduler {}
