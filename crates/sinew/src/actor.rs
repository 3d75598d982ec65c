//! Actors: state that handles one message at a time, under supervision.
//!
//! - Start actors: [`Node`], [`ActorBuilder`]; as one function that receives messages: [`Process`].
//! - Send and ask: [`ActorRef`], [`Reply`]; to many: [`Group`]; by id, as bytes: [`Kind`],
//!   [`Payload`], and the layouts of the system's own messages in [`payload`].
//! - Restart actors that fail: [`Supervisor`], [`ChildSpec`], [`Strategy`], [`Backoff`].
//! - Follow the end of other actors: [`Ctx::link`], [`Ctx::monitor`], [`Exit`], [`ExitReason`].
//! - Timers and file descriptors: [`Ctx::send_after`], [`Ctx::watch_fd`].
//! - Keep state across restarts: [`Ctx::state`] and [`store`](crate::store).
//!
//! ```
//! use sinew::actor::{Actor, AskError, ChildSpec, Ctx, Flow, Node, Reply, Strategy};
//!
//! struct Divider;
//!
//! impl Actor for Divider {
//!     type Msg = (u32, u32, Reply<u32>);
//!
//!     fn handle(&mut self, (a, b, reply): Self::Msg, _: &mut Ctx<Self::Msg>) -> Flow {
//!         reply.send(a / b); // panics if `b` is zero
//!         Flow::Continue
//!     }
//! }
//!
//! # std::panic::set_hook(Box::new(|_| ()));
//! let node = Node::builder().log_off().build()?;
//! let child = ChildSpec::new("divider", || Divider);
//! let supervisor = node.supervisor(Strategy::OneForOne).child(child).spawn()?;
//! supervisor.wait_started()?;
//!
//! let divider = || supervisor.child_ref::<(u32, u32, Reply<u32>)>("divider");
//! let failed = divider()?.ask(|reply| (1, 0, reply));
//! assert!(matches!(failed, Err(AskError::Stopped(_))));
//! assert_eq!(divider()?.ask(|reply| (84, 2, reply))?, 42); // the restarted actor answers
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/actors.md` in the repository is the guide, and `docs/semantics.md` the contract.

#[doc(inline)]
pub use sinew_core::{
    ActorId, Backoff, ExitReason, Failure, Identity, Kind, NameError, NodeId, NotAnActorId, Resolved,
    Restart, Strategy,
};
#[doc(inline)]
pub use sinew_kernel::{
    Actor, ActorBuilder, ActorRef, AskError, Builder as NodeBuilder, ChildCounts, ChildInfo, ChildSpec,
    ChildState, Ctx, DeadLetter, DeadLetterReason, Exit, Flow, Group, HandlerError, JoinError, Lifecycle,
    LocalNode, LookupError, Message, MonitorId, NamedRef, Node, NodeRef, Payload, Policy, Process, Received,
    RegisterError, Relation, Reply, SendCounts, SendError, SpawnError, Supervisor, SupervisorError,
    SupervisorRef, TimerError, TimerId, Unsent, WatchError,
};

pub mod payload {
    //! Layouts of the messages that the system sends and takes, as bytes.
    //!
    //! Typed actors rarely need them: their hooks deliver typed values. A raw behaviour, and the
    //! hook [`Actor::raw`](super::Actor::raw), gets a message as bytes and decodes it by its
    //! [`Kind`](super::Kind).
    //!
    //! ```
    //! use sinew::actor::payload::{FdEvent, SystemPayload, Timer};
    //!
    //! let bytes = Timer { id: 7, expirations: 2 }.encode();
    //! assert_eq!(Timer::decode(&bytes)?.expirations, 2);
    //! assert!(FdEvent::decode(&bytes).is_err()); // of another size
    //! # Ok::<(), sinew::actor::payload::DecodeError>(())
    //! ```

    #[doc(inline)]
    pub use sinew_core::payload::*;
    #[doc(inline)]
    pub use sinew_core::{Name, Path};
}
