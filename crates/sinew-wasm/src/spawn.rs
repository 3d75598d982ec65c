//! Starting guests as actors.

use std::fmt;
use std::sync::Arc;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ActorBuilder, ActorRef, ChildSpec, Ctx, Message, NodeRef, Policy, SpawnError};

use crate::error::LoadError;
use crate::guest::Guest;
use crate::module::Module;
use crate::profile::{ChildModule, Profile, Spawner, Spawning};
use crate::run::{Linked, run_guest};

/// Starts guests on a node, or as children of an actor.
pub trait WasmNode {
    /// Returns the options of an actor that is a new instance of `guest`.
    fn wasm(&self, guest: impl Into<Guest>) -> GuestBuilder;
}

impl WasmNode for NodeRef {
    fn wasm(&self, guest: impl Into<Guest>) -> GuestBuilder {
        GuestBuilder { actor: self.actor(), guest: guest.into() }
    }
}

impl<M: Send + 'static> WasmNode for Ctx<'_, M> {
    fn wasm(&self, guest: impl Into<Guest>) -> GuestBuilder {
        GuestBuilder { actor: self.child(), guest: guest.into() }
    }
}

/// Describes guests as children of supervisors.
pub trait WasmChild: Sized {
    /// Returns a child that is an instance of `guest`, a new one at each start. The module is not compiled again.
    ///
    /// ```
    /// use sinew_kernel::{ChildSpec, Node, Strategy};
    /// use sinew_wasm::{Engine, WasmChild};
    ///
    /// let engine = Engine::new()?;
    /// let module = engine.module("stays", r#"(module
    ///     (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
    ///         i32.const 1))"#)?;
    /// let node = Node::new();
    /// node.supervisor(Strategy::OneForOne).child(ChildSpec::wasm("stays", &module)?.name("stays")).spawn()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the module cannot be linked for its stack class.
    fn wasm(key: impl Into<Box<str>>, guest: impl Into<Guest>) -> Result<Self, LoadError>;
}

impl WasmChild for ChildSpec {
    #[track_caller]
    fn wasm(key: impl Into<Box<str>>, guest: impl Into<Guest>) -> Result<ChildSpec, LoadError> {
        let linked = link(guest.into())?;
        Ok(ChildSpec::polled(key, move |inbox| run_guest(linked.clone(), inbox)))
    }
}

/// The options of an actor that is a guest: see [`WasmNode::wasm`].
#[must_use = "options do nothing until `spawn`"]
pub struct GuestBuilder {
    actor: ActorBuilder,
    guest: Guest,
}

impl GuestBuilder {
    /// Sets the name under which it is registered before it starts.
    pub fn name(mut self, name: impl Into<Box<str>>) -> GuestBuilder {
        self.actor = self.actor.name(name);
        self
    }

    /// Sets the number of messages that its mailbox holds. Defaults to 1,024.
    pub fn mailbox(mut self, capacity: u32) -> GuestBuilder {
        self.actor = self.actor.mailbox(capacity);
        self
    }

    /// Sets what becomes of messages when the mailbox is full. By default their senders wait.
    pub fn policy(mut self, policy: Policy) -> GuestBuilder {
        self.actor = self.actor.policy(policy);
        self
    }

    /// Starts the guest. It is instantiated in its first turn: a failure there is how the actor ends.
    ///
    /// # Errors
    ///
    /// If the module cannot be linked for its stack class, or the actor cannot be spawned.
    #[track_caller]
    pub fn spawn(self) -> Result<ActorRef<Message>, GuestSpawnError> {
        let linked = link(self.guest)?;
        Ok(self.actor.spawn_polled(move |inbox| run_guest(linked, inbox))?)
    }
}

impl fmt::Debug for GuestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestBuilder").field("actor", &self.actor).field("guest", &self.guest).finish()
    }
}

/// Links a guest for its class.
fn link(guest: Guest) -> Result<Arc<Linked>, LoadError> {
    let Guest { module, options } = guest;
    let instance = module.link(options.class)?;
    let (memory, spawner) = (module.engine().memory.clone(), Box::new(Children(module.clone())));
    let cpu_times = module.engine().cpu_times.clone();
    let profile = Arc::new(Profile { options, memory, cpu_times, spawner });
    Ok(Arc::new(Linked { module, profile, instance }))
}

/// Starts the children of guests of a module.
struct Children(Module);

impl Spawner for Children {
    fn spawn(&self, parent: Inbox, child: ChildModule) -> Spawning {
        let (engine, name) = (self.0.engine_handle().clone(), format!("child of {}", self.0.name()));
        Box::pin(async move {
            let ChildModule { source, mailbox, limits, grants } = child;
            let module = engine.module_async(name.into(), source).await.map_err(|error| error.to_string())?;
            let guest = Guest::new(&module).limits(limits).grants(grants);
            let child = parent.ctx().wasm(guest).mailbox(mailbox).spawn();
            child.map(|child| child.id()).map_err(|error| error.to_string())
        })
    }
}

/// Why a guest was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestSpawnError {
    /// The module cannot be linked for the guest's stack class.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The actor cannot be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}
