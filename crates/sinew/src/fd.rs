//! Readiness of any file descriptor: pipes, devices, sockets of other libraries.
//!
//! ```
//! use std::io::{Write, pipe};
//!
//! use sinew::fd::{self, Interest};
//! use sinew::task::{Runtime, spawn};
//!
//! let readable = Runtime::new().run(|| {
//!     let (reader, mut writer) = pipe()?;
//!     spawn(move || writer.write_all(b"!")).detach();
//!     fd::wait(&reader, Interest::READ, None).map(|ready| ready.is_readable())
//! });
//! assert!(readable.unwrap()?);
//! # Ok::<(), std::io::Error>(())
//! ```

#[doc(inline)]
pub use sinew_io::fd::{DescriptorReady, Interest, Ready, close, look, readiness, wait, wait_async};
