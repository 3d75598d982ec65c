//! State of actors that survives restarts of the process.
//!
//! [`Ctx::state`](crate::actor::Ctx::state) saves and loads values by key, for all actors of one
//! name in turn. With a [`Store`] they are in a file, and on the disk when `save` returns.
//!
//! ```
//! use sinew::actor::{Actor, Ctx, Flow, Node, Reply};
//! use sinew::store::Store;
//!
//! struct Visits;
//!
//! impl Actor for Visits {
//!     type Msg = Reply<u8>;
//!
//!     fn handle(&mut self, reply: Reply<u8>, ctx: &mut Ctx<Reply<u8>>) -> Flow {
//!         let visits = ctx.state().load("visits").unwrap().map_or(1, |saved| saved[0] + 1);
//!         ctx.state().save("visits", [visits]).unwrap();
//!         reply.send(visits);
//!         Flow::Continue
//!     }
//! }
//!
//! let path = std::env::temp_dir().join(format!("sinew-store-{}", std::process::id()));
//! for visits in [1, 2] {
//!     let node = Node::builder().store(Store::open(&path)?).build()?; // as after a restart
//!     let actor = node.actor().name("visits").spawn(Visits)?;
//!     assert_eq!(actor.ask(|reply| reply)?, visits);
//! }
//! std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(inline)]
pub use sinew_kernel::store::*;
