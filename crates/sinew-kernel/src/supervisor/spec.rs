//! How a child is started: by a factory, each time anew.
//!
//! The factory is the user's code: it may block, or panic. So it runs in the child's own task, as the first thing that it does, and
//! the supervisor is told how that went as it is told of any start or end. In between it lies in a [`Slot`], from which the
//! child that starts takes it, and into which it puts it back when the state is made, or when the factory has panicked.
//! If it is not there, a child that was given up still runs it: then the start fails.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use sinew_core::{ActorId, Backoff, ExitReason, Failure, Restart};
use sinew_sync::{Arc, Mutex};

use super::Supervisor;
use super::machine::Machine;
use crate::actor::{Actor, Behaviour, Body, Flow, Typed};
use crate::ctx::Ctx;
use crate::error::SpawnError;
use crate::event::Exit;
use crate::mailbox::Policy;
use crate::message::Message;
use crate::names;
use crate::patience::Patience;
use crate::polled::Inbox;
use crate::process::Process;
use crate::spawn::ActorBuilder;

/// A child of a supervisor: how it is made, each time that it is started, and when it is restarted.
///
/// ```
/// use std::time::Duration;
/// use sinew_kernel::{Actor, Backoff, ChildSpec, Ctx, Flow, Restart};
///
/// struct Db;
/// impl Actor for Db {
///     type Msg = String;
///     fn handle(&mut self, _: String, _: &mut Ctx<String>) -> Flow {
///         Flow::Continue
///     }
/// }
///
/// ChildSpec::new("db", || Db)
///     .name("db")
///     .restart(Restart::Transient)
///     .shutdown(Duration::from_secs(2))
///     .backoff(Backoff { initial: Duration::from_millis(100), ..Backoff::default() });
/// ```
#[must_use = "a child is started by a supervisor"]
pub struct ChildSpec {
    pub(super) key: Box<str>,
    pub(super) restart: Restart,
    pub(super) backoff: Backoff,
    pub(super) is_supervisor: bool,
    name: Option<Box<str>>,
    mailbox: Option<u32>,
    policy: Policy,
    patience: Patience,
    at: &'static Location<'static>,
    start: Box<dyn Start>,
}

impl ChildSpec {
    /// A child that is the actor which `factory` makes. Its supervisor knows it by this key.
    ///
    /// The factory runs in the child: it may block, and one that panics is a start that failed.
    #[track_caller]
    pub fn new<A, F>(key: impl Into<Box<str>>, mut factory: F) -> ChildSpec
    where
        A: Actor,
        F: FnMut() -> A + Send + 'static,
    {
        ChildSpec::of(key.into(), Bodies::new(move || Typed(factory())))
    }

    /// A child that is a raw behaviour: `handle` is called with the state that `factory` makes, and each message.
    ///
    /// ```
    /// use sinew_kernel::{ChildSpec, Flow};
    ///
    /// ChildSpec::raw("counter", || 0u64, |count, message, ctx| {
    ///     *count += 1;
    ///     println!("{} has had {count} messages, the last of kind {}", ctx.id(), message.kind);
    ///     Flow::Continue
    /// });
    /// ```
    #[track_caller]
    pub fn raw<S, F, H>(key: impl Into<Box<str>>, mut factory: F, handle: H) -> ChildSpec
    where
        S: Send + 'static,
        F: FnMut() -> S + Send + 'static,
        H: FnMut(&mut S, &Message, &mut Ctx) -> Flow + Clone + Send + 'static,
    {
        ChildSpec::of(key.into(), Bodies::new(move || Behaviour(factory(), handle.clone())))
    }

    /// A child that is a process: `body` runs once per start. It has started when `body` begins.
    #[track_caller]
    pub fn process<M, F>(key: impl Into<Box<str>>, body: F) -> ChildSpec
    where
        M: Send + 'static,
        F: FnMut(&mut Process<'_, M>) -> Flow + Send + 'static,
    {
        ChildSpec::of(key.into(), Processes(Slot::new(body), PhantomData))
    }

    /// A child that is the future which `factory` returns: see [`ActorBuilder::spawn_polled`].
    #[doc(hidden)]
    #[track_caller]
    pub fn polled<T, F>(key: impl Into<Box<str>>, factory: F) -> ChildSpec
    where
        T: Future<Output = Flow> + Send + 'static,
        F: FnMut(Inbox) -> T + Send + 'static,
    {
        ChildSpec::of(key.into(), Futures(Slot::new(factory)))
    }

    /// A child that is a supervisor. It has all the time that it needs to stop its children, unless
    /// [something else](ChildSpec::shutdown) is said.
    ///
    /// ```
    /// # use sinew_kernel::{Actor, ChildSpec, Ctx, Flow, Node, Strategy};
    /// # struct Worker;
    /// # impl Actor for Worker {
    /// #     type Msg = ();
    /// #     fn handle(&mut self, _: (), _: &mut Ctx<()>) -> Flow { Flow::Continue }
    /// # }
    /// let node = Node::new();
    /// let this = *node;
    /// let pool = move || this.supervisor(Strategy::OneForOne).child(ChildSpec::new("worker", || Worker));
    /// node.supervisor(Strategy::OneForAll).child(ChildSpec::supervisor("pool", pool)).spawn().unwrap();
    /// ```
    #[track_caller]
    pub fn supervisor<F>(key: impl Into<Box<str>>, mut factory: F) -> ChildSpec
    where
        F: FnMut() -> Supervisor + Send + 'static,
    {
        let spec = ChildSpec::of(key.into(), Bodies::new(move || -> Machine { factory().into_machine() }));
        ChildSpec { is_supervisor: true, patience: Patience::Forever, ..spec }
    }

    #[track_caller]
    fn of(key: Box<str>, start: impl Start + 'static) -> ChildSpec {
        ChildSpec {
            key,
            restart: Restart::default(),
            backoff: Backoff::default(),
            is_supervisor: false,
            name: None,
            mailbox: None,
            policy: Policy::default(),
            patience: Patience::default(),
            at: Location::caller(),
            start: Box::new(start),
        }
    }

    /// A name on the node. Whoever is started next has it again: refs do not outlive a restart, the name does.
    pub fn name(mut self, name: impl Into<Box<str>>) -> ChildSpec {
        self.name = Some(name.into());
        self
    }

    /// When it is restarted; whenever it ends, if not said.
    pub fn restart(mut self, restart: Restart) -> ChildSpec {
        self.restart = restart;
        self
    }

    /// How long it may take to end when its supervisor stops it; then it is killed. With zero it is killed at once. If
    /// not said, it is as with any [actor that is stopped](crate::Builder::stop_timeout).
    pub fn shutdown(mut self, timeout: Duration) -> ChildSpec {
        self.patience = Patience::Kill(timeout);
        self
    }

    /// How long the supervisor waits before it restarts it; not at all, if not said.
    pub fn backoff(mut self, backoff: Backoff) -> ChildSpec {
        self.backoff = backoff;
        self
    }

    /// How many messages its mailbox holds; 1,024 if not said.
    pub fn mailbox(mut self, capacity: u32) -> ChildSpec {
        self.mailbox = Some(capacity);
        self
    }

    /// What becomes of messages when the mailbox is full; if not said, their senders wait.
    pub fn policy(mut self, policy: Policy) -> ChildSpec {
        self.policy = policy;
        self
    }

    /// That it could be started.
    pub(super) fn check(&self) -> Result<(), SpawnError> {
        if self.mailbox == Some(0) {
            return Err(SpawnError::NoCapacity);
        }
        Ok(self.name.as_deref().map_or(Ok(()), names::check)?)
    }

    /// Spawns the child.
    pub(super) fn start(&self, spawn: ActorBuilder, restarts: u32) -> Result<ActorId, SpawnError> {
        let mut spawn = spawn.supervised(restarts, self.at).patience(self.patience).policy(self.policy);
        if let Some(name) = &self.name {
            spawn = spawn.name(name.clone());
        }
        if let Some(capacity) = self.mailbox {
            spawn = spawn.mailbox(capacity);
        }
        self.start.start(spawn)
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("key", &self.key)
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// A form of actor that can be started again and again.
trait Start: Send {
    fn start(&self, spawn: ActorBuilder) -> Result<ActorId, SpawnError>;
}

/// Where a factory lies while it does not run.
struct Slot<F>(Arc<Mutex<Option<F>>>);

/// A factory that is out of its slot.
struct Taken<F> {
    factory: Option<F>,
    slot: Slot<F>,
}

impl<F> Slot<F> {
    fn new(factory: F) -> Slot<F> {
        Slot(Arc::new(Mutex::new(Some(factory))))
    }

    fn share(&self) -> Slot<F> {
        Slot(self.0.clone())
    }

    /// Calls `what` with the factory. The reason why there can be no start, if it is not there.
    fn with<T>(self, what: impl FnOnce(&mut F) -> T) -> Result<T, ExitReason> {
        let factory = self.0.lock().take();
        let mut taken = Taken { factory, slot: self };
        match &mut taken.factory {
            Some(factory) => Ok(what(factory)),
            None => Err(Failure::new(
                "the factory still runs, in a child that was killed and does not end: have it block or return",
            )
            .into()),
        }
    }
}

impl<F> Drop for Taken<F> {
    fn drop(&mut self) {
        if let Some(factory) = self.factory.take() {
            *self.slot.0.lock() = Some(factory);
        }
    }
}

/// Actors with a body that a factory makes.
struct Bodies<F>(Slot<F>);

impl<F> Bodies<F> {
    fn new<B: Body>(factory: F) -> Bodies<F>
    where
        F: FnMut() -> B + Send + 'static,
    {
        Bodies(Slot::new(factory))
    }
}

impl<F, B> Start for Bodies<F>
where
    F: FnMut() -> B + Send + 'static,
    B: Body,
{
    fn start(&self, spawn: ActorBuilder) -> Result<ActorId, SpawnError> {
        spawn.start_body(Lazy::New(self.0.share())).map(|actor| actor.id())
    }
}

/// Processes, with the closure that each of them runs.
struct Processes<F, M>(Slot<F>, PhantomData<fn(M)>);

impl<F, M> Start for Processes<F, M>
where
    F: FnMut(&mut Process<'_, M>) -> Flow + Send + 'static,
    M: Send + 'static,
{
    fn start(&self, spawn: ActorBuilder) -> Result<ActorId, SpawnError> {
        let slot = self.0.share();
        let run = |own: &mut Process<'_, M>| slot.with(|body| body(own)).unwrap_or_else(Flow::Exit);
        spawn.spawn_process(run).map(|actor| actor.id())
    }
}

/// Actors that are futures, each made by a factory when it is spawned.
struct Futures<F>(Slot<F>);

impl<F, T> Start for Futures<F>
where
    F: FnMut(Inbox) -> T + Send + 'static,
    T: Future<Output = Flow> + Send + 'static,
{
    fn start(&self, spawn: ActorBuilder) -> Result<ActorId, SpawnError> {
        let slot = self.0.share();
        let make = |inbox| {
            let made = slot.with(|factory| factory(inbox));
            async {
                match made {
                    Ok(future) => future.await,
                    Err(reason) => Flow::Exit(reason),
                }
            }
        };
        spawn.spawn_polled(make).map(|actor| actor.id())
    }
}

/// A body that is made when the actor starts.
enum Lazy<F, B> {
    New(Slot<F>),
    /// The factory runs, or has failed.
    Unmade,
    Body(B),
}

impl<F, B> Lazy<F, B> {
    #[inline]
    fn body(&mut self) -> &mut B {
        match self {
            Lazy::Body(body) => body,
            Lazy::New(_) | Lazy::Unmade => unreachable!("an actor that has no state has not started"),
        }
    }
}

impl<F, B> Body for Lazy<F, B>
where
    F: FnMut() -> B + Send + 'static,
    B: Body,
{
    type Msg = B::Msg;

    const STARTS_LATER: bool = B::STARTS_LATER;

    fn type_name() -> &'static str {
        B::type_name()
    }

    fn started(&mut self, ctx: &mut Ctx<B::Msg>) -> Flow {
        if let Lazy::New(slot) = std::mem::replace(self, Lazy::Unmade) {
            match slot.with(|factory| factory()) {
                Ok(body) => *self = Lazy::Body(body),
                Err(reason) => return Flow::Exit(reason),
            }
        }
        self.body().started(ctx)
    }

    #[inline]
    fn message(&mut self, msg: B::Msg, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().message(msg, ctx)
    }

    fn raw(&mut self, message: Message, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().raw(message, ctx)
    }

    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().exit_of(exit, ctx)
    }

    fn child_started(&mut self, child: ActorId, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().child_started(child, ctx)
    }

    fn tick(&mut self, ticket: u64, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().tick(ticket, ctx)
    }

    fn stop(&mut self, reason: ExitReason, drain: bool, ctx: &mut Ctx<B::Msg>) -> Flow {
        self.body().stop(reason, drain, ctx)
    }

    fn stopping(&mut self, reason: &ExitReason, ctx: &mut Ctx<B::Msg>) {
        if let Lazy::Body(body) = self {
            body.stopping(reason, ctx);
        }
    }
}
