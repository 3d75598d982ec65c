//! Sockets, files, processes, signals and any file descriptor, as blocking calls that suspend the task and not its
//! worker thread.
//!
//! - [`net`]: TCP, UDP and Unix sockets by std's names; adapters for futures-io and hyper.
//! - [`fs`]: files, by std's names.
//! - [`process`]: other programs.
//! - [`signal`]: Ctrl-C and other signals of the system.
//! - [`stdin()`]: the standard input.
//! - [`fd`]: waits until any file descriptor is ready.
//! - [`blocking()`]: calls that block their thread.
//!
//! `docs/network.md` in the repository explains sockets and descriptors.
//!
//! # Layers
//!
//! From the bottom: `blocking` and `fd`; `source`, a descriptor with its place in the reactor; `net`, `fs`, `process`,
//! `signal` and `stdin`, which do not know of each other.

mod blocking;
pub mod fd;
pub mod fs;
pub mod net;
pub mod process;
pub mod signal;
mod source;
mod stdin;

pub use blocking::{BlockingError, blocking, blocking_async};
pub use stdin::{Lines, Stdin, stdin};
