//! Starting actors.

use std::panic::Location;

use sinew_core::{ActorId, ExitReason};
use sinew_sync::Arc;

use crate::actor::{Actor, Behaviour, Body, Flow, Typed};
use crate::actor_ref::ActorRef;
use crate::cell::{Cell, Life, Phase};
use crate::ctx::Ctx;
use crate::end;
use crate::error::SpawnError;
use crate::mailbox::{Mail, Policy};
use crate::message::Message;
use crate::patience::Patience;
use crate::polled::{Inbox, PolledRun};
use crate::process::{Process, ProcessRun};
use crate::run::Run;
use crate::shared::{Inner, NodeRef};
use sinew_sched::turn::Turn;

/// The options of an actor that is about to be started: see [`NodeRef::actor`] and [`Ctx::child`].
///
/// ```
/// use sinew_kernel::{Actor, Ctx, Flow, Node, Policy};
///
/// struct Echo;
/// impl Actor for Echo {
///     type Msg = String;
///     fn handle(&mut self, msg: String, _: &mut Ctx<String>) -> Flow {
///         println!("{msg}");
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let echo = node.actor().mailbox(16).policy(Policy::Refuse).spawn(Echo).unwrap();
/// echo.tell("hello".to_owned()).unwrap();
/// echo.drain(); // it ends when it has handled what is in its mailbox
/// echo.join().unwrap();
/// ```
#[must_use = "options do nothing until `spawn`"]
#[derive(Debug)]
pub struct ActorBuilder {
    node: NodeRef,
    capacity: u32,
    policy: Policy,
    rare: Option<Box<Rare>>,
}

/// The options that few actors have.
#[derive(Debug, Default)]
struct Rare {
    name: Option<Box<str>>,
    parent: Option<ActorId>,
    announces: bool,
    restarts: u32,
    last_error: Option<ExitReason>,
    patience: Patience,
    /// Where it is said to be spawned, if not where it is.
    at: Option<&'static Location<'static>>,
}

impl ActorBuilder {
    pub(crate) fn new(node: NodeRef) -> ActorBuilder {
        ActorBuilder { node, capacity: 1024, policy: Policy::Park, rare: None }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// A name, under which it is registered before it starts.
    pub fn name(mut self, name: impl Into<Box<str>>) -> ActorBuilder {
        self.rare().name = Some(name.into());
        self
    }

    /// How many messages its mailbox holds; 1,024 if not said.
    pub fn mailbox(mut self, capacity: u32) -> ActorBuilder {
        self.capacity = capacity;
        self
    }

    /// What becomes of messages when the mailbox is full; if not said, their senders wait.
    pub fn policy(mut self, policy: Policy) -> ActorBuilder {
        self.policy = policy;
        self
    }

    pub(crate) fn child_of(mut self, parent: ActorId) -> ActorBuilder {
        self.rare().parent = Some(parent);
        self
    }

    /// Its parent is told when it has started; how often it was restarted before, and where the code is that describes it.
    pub(crate) fn supervised(mut self, restarts: u32, at: &'static Location<'static>) -> ActorBuilder {
        let rare = self.rare();
        (rare.announces, rare.restarts, rare.at) = (true, restarts, Some(at));
        self
    }

    pub(crate) fn patience(mut self, patience: Patience) -> ActorBuilder {
        self.rare().patience = patience;
        self
    }

    /// Why the one ended whose place it takes, for onlookers, if that was a failure.
    pub(crate) fn instead_of(mut self, ended: Option<ExitReason>) -> ActorBuilder {
        self.rare().last_error = ended.filter(ExitReason::is_abnormal);
        self
    }

    /// Starts an actor.
    ///
    /// # Errors
    ///
    /// If the name is none or is taken, if the mailbox would hold nothing, if the node has as many actors as it may, or
    /// shuts down.
    #[track_caller]
    pub fn spawn<A: Actor>(self, actor: A) -> Result<ActorRef<A::Msg>, SpawnError> {
        self.start_body(Typed(actor))
    }

    /// Starts a raw behaviour: `handle` is called with `state` and each message, those of the system included, as bytes.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](ActorBuilder::spawn).
    #[track_caller]
    pub fn spawn_raw<S, F>(self, state: S, handle: F) -> Result<ActorRef<Message>, SpawnError>
    where
        S: Send + 'static,
        F: FnMut(&mut S, &Message, &mut Ctx) -> Flow + Send + 'static,
    {
        self.start_body(Behaviour(state, handle))
    }

    /// Starts a process: `body` runs once, and receives its messages where it likes.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](ActorBuilder::spawn).
    #[track_caller]
    pub fn spawn_process<M, F>(self, body: F) -> Result<ActorRef<M>, SpawnError>
    where
        M: Send + 'static,
        F: FnOnce(&mut Process<'_, M>) -> Flow + Send + 'static,
    {
        self.start(move |cell, refused| {
            let body = wanted(&cell, refused, body);
            ProcessRun::new(cell, body)
        })
    }

    /// Starts an actor that is the future which `make` returns. It has started when it says so
    /// ([`Inbox::started`]).
    ///
    /// # Errors
    ///
    /// As for [`spawn`](ActorBuilder::spawn).
    #[doc(hidden)]
    #[track_caller]
    pub fn spawn_polled<F>(self, make: impl FnOnce(Inbox) -> F) -> Result<ActorRef<Message>, SpawnError>
    where
        F: Future<Output = Flow> + Send + 'static,
    {
        self.start(move |cell, refused| PolledRun::new(cell, refused, make))
    }

    #[track_caller]
    pub(crate) fn start_body<B: Body>(self, body: B) -> Result<ActorRef<B::Msg>, SpawnError> {
        self.start(move |cell, refused| {
            let body = wanted(&cell, refused, body);
            Run::new(cell, body)
        })
    }

    #[track_caller]
    fn start<M, T>(self, make: impl FnOnce(Arc<Cell<M>>, bool) -> T) -> Result<ActorRef<M>, SpawnError>
    where
        M: Send + 'static,
        T: Turn,
    {
        let node = self.node.0;
        if self.capacity == 0 {
            return Err(SpawnError::NoCapacity);
        }
        node.admit()?;
        let spawned_at = Location::caller();
        let (mut made, mut refused) = (None, None);
        let task = node.handle.spawn_turn(|waker| {
            let mail = Mail::new(self.capacity, self.policy);
            let mut cell = Arc::new(Cell::<M>::new(node, waker, mail));
            node.table.insert(|id| {
                Arc::get_mut(&mut cell).expect("nobody else has it").head.id = id;
                cell.clone()
            });
            if let Err(error) = self.prepare(&cell, spawned_at) {
                end::refuse(&*cell);
                refused = Some(error);
            }
            made = Some(cell.clone());
            make(cell, refused.is_some())
        });
        let cell = made.expect("the body was made");
        cell.set_task(task);
        let actor = ActorRef(cell);
        if node.is_closed() {
            actor.stop(); // whoever closes the node may have looked before it was there
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(actor),
        }
    }

    /// What has to be there before the actor runs.
    fn prepare<M: Send + 'static>(
        self,
        cell: &Arc<Cell<M>>,
        spawned_at: &'static Location<'static>,
    ) -> Result<(), SpawnError> {
        let node = self.node.0;
        if self.rare.is_none() {
            return Ok(());
        }
        let Rare { name, parent, announces, restarts, last_error, patience, at } =
            *self.rare.unwrap_or_default();
        {
            let mut state = cell.lock();
            let more = state.life.more();
            (more.announces, more.restarts) = (announces, restarts);
            (more.spawned_at, more.patience) = (Some(at.unwrap_or(spawned_at)), patience);
            more.last_error = last_error;
        }
        if let Some(parent) = parent {
            adopt(node, parent, cell)?;
        }
        if let Some(name) = name
            && let Err(error) = node.names.register(&name, &**cell)
        {
            abandon(node, cell);
            return Err(error.into());
        }
        Ok(())
    }
}

/// # Actors
impl NodeRef {
    /// The options of an actor.
    pub fn actor(self) -> ActorBuilder {
        ActorBuilder::new(self)
    }

    /// Starts an actor.
    ///
    /// # Errors
    ///
    /// If the node has as many as it may, or shuts down.
    #[track_caller]
    pub fn spawn<A: Actor>(self, actor: A) -> Result<ActorRef<A::Msg>, SpawnError> {
        self.actor().spawn(actor)
    }
}

/// # Actors
impl<M: Send + 'static> Ctx<'_, M> {
    /// Starts another actor, which has nothing more to do with this one.
    ///
    /// # Errors
    ///
    /// If the node has as many as it may, or shuts down.
    #[track_caller]
    pub fn spawn<A: Actor>(&self, actor: A) -> Result<ActorRef<A::Msg>, SpawnError> {
        self.node().spawn(actor)
    }

    /// The options of a child: an actor that is stopped when this one ends, and of whose end this one is told
    /// ([`exit_of`](Actor::exit_of)).
    pub fn child(&self) -> ActorBuilder {
        self.node().actor().child_of(self.id())
    }
}

/// Makes an actor the child of another.
fn adopt<M: Send + 'static>(node: &Inner, id: ActorId, cell: &Cell<M>) -> Result<(), SpawnError> {
    cell.lock().life.more().parent = Some(id); // before the parent may wait for it
    let adopts = |life: &mut Life| life.phase < Phase::Ending && life.more().children.insert(cell.head.id);
    if !node.table.get(id).is_some_and(|parent| parent.life(adopts)) {
        cell.lock().life.more().parent = None; // which is not told of its end
        return Err(SpawnError::ParentEnded(id));
    }
    if cell.lock().life.phase >= Phase::Leaving {
        abandon(node, cell); // it has ended, and its parent did not know it then
    }
    Ok(())
}

/// An actor is the child of nobody any more.
fn abandon<M: Send + 'static>(node: &Inner, cell: &Cell<M>) {
    let parent = cell.lock().life.more().parent.take();
    let parent = parent.and_then(|parent| node.table.get(parent));
    let childless = parent.and_then(|parent| parent.life(|life| life.lose(cell.head.id)));
    childless.map(|childless| childless.send(())); // it may have been given up
}

/// The body of an actor, unless it must not start. Then it is dropped, which is code of the user's.
fn wanted<M: Send + 'static, B>(cell: &Cell<M>, refused: bool, body: B) -> Option<B> {
    if refused {
        cell.head.contain("the destructor", || drop(body));
        return None;
    }
    Some(body)
}
