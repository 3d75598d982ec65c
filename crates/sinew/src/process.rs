//! Child processes with std's names, which suspend the task and not its thread.
//!
//! ```
//! use sinew::process::Command;
//! use sinew::task::Runtime;
//!
//! let output = Runtime::new().run(|| Command::new("echo").arg("hello").output());
//! assert_eq!(output.unwrap()?.stdout, b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```

#[doc(inline)]
pub use sinew_io::process::*;
