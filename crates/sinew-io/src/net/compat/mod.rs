//! Our streams, timers and tasks behind the traits of others, for libraries that are written against those.
//!
//! - Feature `futures-io`: [`TcpStream`](super::TcpStream), [`UnixStream`](super::UnixStream) and their halves are `AsyncRead` and `AsyncWrite` of the crate
//!   `futures-io`.
//! - Feature `hyper`: `HyperIo`, `HyperTimer` and `HyperExecutor` are what hyper 1 needs of a runtime.

#[cfg(feature = "futures-io")]
mod futures_io;
#[cfg(feature = "hyper")]
mod hyper;

#[cfg(feature = "hyper")]
pub use hyper::{HyperExecutor, HyperIo, HyperTimer};
