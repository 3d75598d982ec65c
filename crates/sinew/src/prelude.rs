//! The names that most programs of actors or tasks use.
//!
//! ```
//! use sinew::prelude::*;
//!
//! let doubled = Runtime::new().run(|| spawn(|| 21 * 2).join().unwrap());
//! assert_eq!(doubled.unwrap(), 42);
//! ```

#[doc(inline)]
pub use crate::actor::{Actor, ActorRef, ChildSpec, Ctx, Flow, Node, Reply, Restart, Strategy};
#[doc(inline)]
pub use crate::io::IoErrorExt;
#[doc(inline)]
pub use crate::task::{JoinHandle, Runtime, scope, spawn};
#[doc(inline)]
pub use crate::time::{sleep, timeout};
