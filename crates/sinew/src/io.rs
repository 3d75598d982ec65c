//! Standard input, and a test for I/O errors that mean that the task was cancelled.
//!
//! ```
//! use std::io::Read;
//!
//! use sinew::io::{IoErrorExt, stdin};
//! use sinew::net::UdpSocket;
//! use sinew::task::{Runtime, spawn};
//!
//! let cancelled = Runtime::new().run(|| {
//!     let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
//!     let waiting = spawn(move || socket.recv(&mut [0; 8]));
//!     waiting.cancel();
//!     waiting.join().unwrap().unwrap_err().is_cancelled()
//! });
//! assert!(cancelled.unwrap());
//!
//! // Reads a line, as `std::io::stdin` does, and suspends only the task.
//! fn ask(question: &str) -> std::io::Result<Option<String>> {
//!     println!("{question}");
//!     stdin().lines().next().transpose()
//! }
//! ```

#[doc(inline)]
pub use sinew_fiber::IoErrorExt;
#[doc(inline)]
pub use sinew_io::{Lines, Stdin, stdin};
