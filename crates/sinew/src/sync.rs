//! Locks that suspend the waiting task and may be held across blocking calls.
//!
//! **Locks of std may not**: a task that blocks while it holds one blocks every thread that wants
//! it.
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew::sync::Mutex;
//! use sinew::task::{Refused, Runtime, scope};
//! use sinew::time::sleep;
//!
//! let total = Runtime::new().run(|| {
//!     let total = Mutex::new(0);
//!     scope(|tasks| {
//!         for n in 1..=3 {
//!             let total = &total;
//!             drop(tasks.spawn(move || {
//!                 let mut total = total.lock()?;
//!                 sleep(Duration::from_millis(1)); // with the lock held
//!                 *total += n;
//!                 Ok::<_, Refused>(())
//!             }));
//!         }
//!     })
//!     .unwrap();
//!     total.into_inner()
//! });
//! assert_eq!(total.unwrap(), 6);
//! ```

#[doc(inline)]
pub use sinew_chan::sync::*;
