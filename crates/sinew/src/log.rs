//! The log of a node.
//!
//! An actor logs by [`Ctx::log`](crate::actor::Ctx::log), other code by
//! [`Node::log`](crate::actor::NodeRef::log). Neither waits for the output.
//!
//! ```
//! use sinew::actor::Node;
//! use sinew::log::{Level, LevelFilter};
//!
//! let node = Node::builder().log_to(std::io::sink()).log_level(LevelFilter::Warn).build()?;
//! node.log(Level::Info, "not logged");
//! node.log(Level::Warn, "logged");
//! node.logger().flush();
//! assert_eq!(node.logger().lost(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(inline)]
pub use sinew_core::{Level, UnknownLevel};
#[cfg(feature = "tracing")]
#[doc(inline)]
pub use sinew_kernel::LogSubscriber;
#[doc(inline)]
pub use sinew_kernel::{LevelFilter, Logger};
