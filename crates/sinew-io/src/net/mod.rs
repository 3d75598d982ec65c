//! Sockets that suspend the task and not its worker: std's types, with std's names.
//!
//! ```
//! use std::io::{self, Read, Write};
//!
//! use sinew_io::net::{TcpListener, TcpStream};
//! use sinew_sched::{Runtime, spawn};
//!
//! let echoed = Runtime::new().run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     spawn(move || {
//!         for stream in listener.incoming() {
//!             let stream = stream?;
//!             spawn(move || io::copy(&mut &stream, &mut &stream)).detach();
//!         }
//!         Ok::<_, io::Error>(())
//!     })
//!     .detach();
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"hello")?;
//!     stream.shutdown(std::net::Shutdown::Write)?;
//!     let mut echoed = String::new();
//!     stream.read_to_string(&mut echoed)?;
//!     Ok::<_, io::Error>(echoed)
//! });
//! assert_eq!(echoed.unwrap()?, "hello");
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Where they differ from std's
//!
//! - A call that has to wait suspends the task. On a thread that is no worker it blocks the thread.
//! - It ends when the task is cancelled, with an error of the kind `Other` that wraps [`Cancelled`](sinew_fiber::Cancelled).
//!   A [`timeout`](sinew_sched::timeout) around it unwinds, as it does everywhere.
//! - A read or write that has taken its timeout fails with `TimedOut`. A timeout belongs to the value that it is set
//!   for: a clone starts with the timeouts of its original, and has its own from then on.
//! - `accept` does not fail for a lack of descriptors or memory: it says so on stderr, and tries again ever more
//!   seldom, up to a second.
//! - The sockets are in non-blocking mode, also after they became std's: the mode is shared with all clones.
//! - What ends in `_async` is for futures, which tasks of a runtime poll; any number may wait at one value. The timeouts of
//!   the value do not count.
//!
//! # How it works
//!
//! Each value is a socket of std's in non-blocking mode, with a place in the reactor from its first wait on. A call is
//! tried, and if it would block the task waits until the reactor says that it is worth another try.

mod accept;
mod addr;
pub mod compat;
mod connect;
mod pause;
mod socket;
mod split;
mod stream;
mod tcp;
mod udp;
mod unix;

pub use addr::ToSocketAddrs;
pub use split::{ReadHalf, ReuniteError, WriteHalf};
pub use stream::Stream;
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixIncoming, UnixListener, UnixStream};
