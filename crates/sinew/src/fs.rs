//! Files and directories with std's names, which suspend the task and not its thread.
//!
//! ```
//! use sinew::fs;
//! use sinew::task::Runtime;
//!
//! let path = std::env::temp_dir().join(format!("sinew-fs-{}", std::process::id()));
//! let text = Runtime::new().run(move || {
//!     fs::write(&path, "hello")?;
//!     let text = fs::read_to_string(&path)?;
//!     fs::remove_file(&path)?;
//!     Ok::<_, std::io::Error>(text)
//! });
//! assert_eq!(text.unwrap()?, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```

#[doc(inline)]
pub use sinew_io::fs::*;
