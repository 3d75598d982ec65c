//! TCP, UDP and Unix sockets with std's names, which suspend the task and not its thread.
//!
//! A call in a cancelled task fails with an error that
//! [`is_cancelled`](crate::io::IoErrorExt::is_cancelled).
//!
//! ```
//! use std::io::{self, Read, Write};
//!
//! use sinew::net::{TcpListener, TcpStream};
//! use sinew::task::{Runtime, spawn};
//!
//! let answer = Runtime::new().run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     spawn(move || listener.accept()?.0.write_all(b"hello")).detach();
//!     let mut answer = String::new();
//!     TcpStream::connect(address)?.read_to_string(&mut answer)?;
//!     Ok::<_, io::Error>(answer)
//! });
//! assert_eq!(answer.unwrap()?, "hello");
//! # Ok::<(), io::Error>(())
//! ```
//!
//! `docs/network.md` in the repository is the guide.

#[doc(inline)]
pub use sinew_io::net::*;
