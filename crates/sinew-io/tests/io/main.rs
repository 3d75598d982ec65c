//! Descriptors, files and sockets, and the adapters for `futures-io` and hyper.
#![cfg(not(any(loom, shuttle)))]

mod blocking;
mod fd_wait;
mod fs;
mod net_descriptors;
#[cfg(feature = "futures-io")]
mod net_futures_io;
mod net_given_up;
#[cfg(feature = "hyper")]
mod net_hyper;
mod net_tcp;
mod net_together;
mod net_udp;
mod net_unix;
#[path = "../support/sockets.rs"]
mod sockets;
mod stress_blocking;

use sinew_test_kit::runtimes as support;
