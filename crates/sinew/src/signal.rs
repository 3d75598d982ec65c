//! Signals of the operating system: Ctrl-C and others.
//!
//! ```
//! use sinew::process::Command;
//! use sinew::signal::{SIGUSR1, Signals};
//! use sinew::task::Runtime;
//!
//! let received = Runtime::new().run(|| {
//!     let signals = Signals::new([SIGUSR1]).unwrap();
//!     let itself = std::process::id().to_string();
//!     Command::new("kill").args(["-USR1", &itself]).status().unwrap();
//!     signals.recv().unwrap()
//! });
//! assert_eq!(received.unwrap(), SIGUSR1);
//! ```

#[doc(inline)]
pub use sinew_io::signal::*;
