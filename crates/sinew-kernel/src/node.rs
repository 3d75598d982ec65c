//! A node: actors, and the runtime that runs them.
//!
//! Models of its end: `shutdown_against_spawn`, `shutdown_against_end`.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use sinew_core::{ActorId, ExitReason, Instant, Kind, Level, NodeId, Strategy};
use sinew_sched::chan::{Receiver, oneshot};
use sinew_sched::{CurrentThread, Handle, Report, Runtime};
use sinew_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sinew_sync::{Mutex, thread};

use crate::actor::Actor;
use crate::actor_ref::ActorRef;
use crate::books::Books;
use crate::bus::Bus;
use crate::dead::{DeadLetter, DeadLetters};
use crate::end;
use crate::error::{SendError, SpawnError, Unsent};
use crate::event::Event;
use crate::groups::Groups;
use crate::inspect::tasks;
use crate::limits::Budget;
use crate::log::{self, Log};
use crate::message::{Message, Payload};
use crate::names::Names;
use crate::router::Routers;
use crate::spawn::Spawn;
use crate::stop;
use crate::store::{State, Store};
use crate::supervisor::Supervisor;
use crate::table::Table;
use crate::timers::{Fire, Timers};
use crate::zombies::Zombies;

/// How long the drop of a node waits for each of its steps.
const PATIENCE: Duration = Duration::from_secs(5);

/// What all parts of a node share. It is never freed, so that references to actors need not count it.
pub(crate) struct Inner {
    pub(crate) id: NodeId,
    pub(crate) handle: Handle,
    pub(crate) table: Table,
    pub(crate) names: Names,
    pub(crate) groups: Groups,
    pub(crate) routers: Routers,
    pub(crate) budget: Budget,
    pub(crate) timers: Timers,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) zombies: Zombies,
    pub(crate) books: Books,
    pub(crate) log: Log,
    store: Mutex<Store>,
    pub(crate) stop_timeout: Duration,
    /// Every actor knows where it was spawned.
    pub(crate) keeps_sites: bool,
    pub(crate) events: Bus<Lifecycle>,
    numbers: AtomicU64,
    closed: AtomicBool,
    /// Whoever waits until there are no actors.
    emptied: Mutex<Vec<oneshot::Sender<()>>>,
}

/// Something in the life of an actor.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Lifecycle {
    /// It has started.
    Started(ActorId),
    /// It has started in the place of one that ended; told after [`Started`](Lifecycle::Started).
    Restarted {
        /// Which.
        actor: ActorId,
        /// Its name, if it has one.
        name: Option<Box<str>>,
        /// How often that has happened.
        restarts: u32,
        /// Why the one before it ended, if that is known.
        after: Option<ExitReason>,
    },
    /// It is called so from now on.
    NameRegistered {
        /// Who.
        actor: ActorId,
        /// The name.
        name: Box<str>,
    },
    /// It is not called so any more.
    NameUnregistered {
        /// Who.
        actor: ActorId,
        /// The name.
        name: Box<str>,
    },
    /// It was killed and does not end: it counts as ended, and is listed with the [zombies](NodeRef::zombies).
    GivenUp(ActorId),
    /// It has ended.
    Ended {
        /// Which.
        actor: ActorId,
        /// Its name, if it had one.
        name: Option<Box<str>>,
        /// Why.
        reason: ExitReason,
    },
}

impl Inner {
    /// The state of the actor with this name.
    pub(crate) fn state_of(&self, name: &str) -> State {
        self.store.lock().of(name)
    }

    /// A number that no other call gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// There is room for one more actor.
    pub(crate) fn admit(&self) -> Result<(), SpawnError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(SpawnError::ShuttingDown);
        }
        if self.table.reserve() { Ok(()) } else { Err(SpawnError::TooMany(self.table.len())) }
    }

    pub(crate) fn lifecycle(&self, event: impl FnOnce() -> Lifecycle) {
        self.events.tell(event);
    }

    /// What subscribers have missed, because they were behind.
    pub(crate) fn missed(&self) -> u64 {
        self.events.lost() + self.dead_letters.bus.lost()
    }

    /// True if no more actors are started.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// An actor is gone. Either this sees that the node is closed, or whoever has closed it sees that the actor is gone.
    pub(crate) fn gone(&self) {
        if self.is_closed() && self.table.len() == 0 {
            let emptied = std::mem::take(&mut *self.emptied.lock());
            emptied.into_iter().for_each(|waiting| drop(waiting.send(())));
        }
    }

    pub(crate) fn fire(&self, _at: Instant, fire: Fire) {
        match fire {
            Fire::Step(id, step) => {
                if let Some(cell) = self.table.get(id) {
                    stop::step(&*cell, step);
                }
            }
            Fire::Tick(id, ticket) => {
                if let Some(cell) = self.table.get(id) {
                    let _ = cell.push_event(Event::Tick(ticket)); // it may have ended
                }
            }
            Fire::Timer(timer) => timer.expire(),
        }
    }

    /// Says something that nobody was there to be told.
    pub(crate) fn complain(&self, text: &str) {
        self.log.say_own(self, Level::Warn, text);
    }
}

/// The options of a node.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    runtime: sinew_sched::Builder,
    id: NodeId,
    max_actors: usize,
    max_queued_bytes: Option<usize>,
    stop_timeout: Duration,
    keeps_sites: bool,
    pub(crate) log: log::Options,
    store: Option<Store>,
}

impl Builder {
    /// The node's id; 1 if not said. Nodes that are to know of each other need ids of their own, also within a program: an
    /// actor's id means one of the node that has the number in it.
    pub fn id(mut self, id: u32) -> Builder {
        self.id = NodeId(id);
        self
    }

    /// The options of the runtime that runs the actors.
    pub fn runtime(mut self, runtime: sinew_sched::Builder) -> Builder {
        self.runtime = runtime;
        self
    }

    /// Where [states](crate::Ctx::state) of actors are kept; if not said, in memory until the node ends.
    ///
    /// ```no_run
    /// use sinew_kernel::Node;
    /// use sinew_kernel::store::Store;
    ///
    /// let node = Node::builder().store(Store::open("shop.redb").unwrap()).build().unwrap();
    /// ```
    pub fn store(mut self, store: Store) -> Builder {
        self.store = Some(store);
        self
    }

    /// How many actors there may be at once; if not said, as many as there is memory for.
    pub fn max_actors(mut self, most: usize) -> Builder {
        self.max_actors = most;
        self
    }

    /// How many bytes may wait in all mailboxes together; if not said, as many as there is memory for. Counted are payloads of
    /// bytes of more than 22, from when they are sent until their actor begins to handle them. Typed values are not
    /// counted: mailboxes bound their number only.
    pub fn max_queued_bytes(mut self, most: usize) -> Builder {
        self.max_queued_bytes = Some(most);
        self
    }

    /// How long an actor that is to stop may take for the message that it is at before it is cancelled, then before it is killed,
    /// then before it is given up; 5 seconds each if not said. It is not given up before 100 ms after it was killed.
    pub fn stop_timeout(mut self, timeout: Duration) -> Builder {
        self.stop_timeout = timeout;
        self
    }

    /// Starts a node.
    ///
    /// # Errors
    ///
    /// If the runtime cannot be started.
    pub fn build(self) -> std::io::Result<Node> {
        let runtime = self.runtime.clone().build()?;
        let inner = self.inner(runtime.handle());
        Ok(Node { node: NodeRef(inner), runtime: Some(runtime) })
    }

    /// A node on the thread of whoever has it, which runs when that says so.
    ///
    /// # Errors
    ///
    /// If the runtime cannot be started.
    pub fn build_current_thread(self) -> std::io::Result<LocalNode> {
        let runtime = self.runtime.clone().build_current_thread()?;
        let inner = self.inner(runtime.handle());
        Ok(LocalNode { node: NodeRef(inner), runtime: Some(runtime) })
    }

    fn inner(self, handle: Handle) -> &'static Inner {
        let inner: &'static Inner = Box::leak(Box::new(Inner {
            id: self.id,
            handle,
            table: Table::new(self.id, self.max_actors),
            names: Names::new(),
            groups: Groups::default(),
            routers: Routers::new(),
            budget: Budget::new(self.max_queued_bytes),
            timers: Timers::new(),
            dead_letters: DeadLetters::default(),
            zombies: Zombies::default(),
            books: Books::default(),
            log: Log::new(self.log),
            store: Mutex::new(self.store.unwrap_or_else(Store::in_memory)),
            stop_timeout: self.stop_timeout,
            keeps_sites: self.keeps_sites,
            events: Bus::default(),
            numbers: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            emptied: Mutex::new(Vec::new()),
        }));
        handle.name_turns_by(|tasks| tasks::names(inner, tasks));
        Timers::start(inner).detach();
        Log::start(inner);
        inner
    }
}

/// A node with a runtime of its own. Dropping it shuts it down.
///
/// Its actors are stopped: what is in their mailboxes becomes dead letters. To have it handled, [drain](ActorRef::drain) and
/// [join](ActorRef::join) them first. The drop waits up to 5 seconds for actors that are in the middle of a message, then cancels and
/// kills them; [`shutdown`](Node::shutdown) chooses how long, and says what is left.
///
/// A [stack overflow](sinew_sched::Builder::stack) ends the process, whatever supervisors there are.
pub struct Node {
    node: NodeRef,
    runtime: Option<Runtime>,
}

impl Node {
    /// A node with default options.
    ///
    /// # Panics
    ///
    /// If the system cannot start a thread; [`Builder::build`] returns that as an error.
    #[allow(clippy::new_without_default, reason = "it starts threads")]
    pub fn new() -> Node {
        Node::builder().build().expect("the system can start a thread")
    }

    /// The options of a node.
    pub fn builder() -> Builder {
        Builder {
            runtime: Runtime::builder(),
            id: NodeId(1),
            max_actors: usize::MAX,
            max_queued_bytes: None,
            stop_timeout: Duration::from_secs(5),
            keeps_sites: false,
            log: log::Options::default(),
            store: None,
        }
    }

    /// The runtime that runs the actors.
    pub fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the node is shut down")
    }

    /// Runs `body` as a task of the node, and waits for it.
    ///
    /// # Errors
    ///
    /// What it ended with instead of returning.
    #[track_caller]
    pub fn run<F, T>(&self, body: F) -> Result<T, sinew_sched::Raised>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.runtime().run(body)
    }

    /// Stops all actors and waits for them up to `grace`, then shuts the runtime down, which cancels and kills what is left, and
    /// waits as long again for each. Then whoever waits for an actor is told of its end, whatever still runs on, and messages that were
    /// left behind are dropped, for which it waits as long again.
    pub fn shutdown(mut self, grace: Duration) -> Report {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> Report {
        self.node.stop_all(grace);
        let report = self.runtime.take().expect("it ends once").shutdown(grace);
        self.node.bury_all(grace);
        report
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.runtime.is_some() {
            let _ = self.end(PATIENCE); // nobody is there to be told
        }
    }
}

impl Deref for Node {
    type Target = NodeRef;

    fn deref(&self) -> &NodeRef {
        &self.node
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// A node on the thread of whoever has it: see [`CurrentThread`]. Dropping it ends its actors.
pub struct LocalNode {
    node: NodeRef,
    runtime: Option<CurrentThread>,
}

impl LocalNode {
    /// Runs one turn of something that is ready. False if there is nothing.
    pub fn step(&self) -> bool {
        self.runtime().step()
    }

    /// Runs until nothing is ready.
    pub fn run_until_idle(&self) {
        self.runtime().run_until_idle();
    }

    /// The runtime.
    pub fn runtime(&self) -> &CurrentThread {
        self.runtime.as_ref().expect("it is there until the node is shut down")
    }

    /// Stops all actors and runs them up to `grace`, then ends the runtime: see [`CurrentThread::shutdown`].
    pub fn shutdown(mut self, grace: Duration) -> Report {
        let node = self.node;
        let _ = self.runtime().run(move || node.stop_all(grace)); // it is refused on a thread that unwinds
        let report = self.runtime.take().expect("it ends once").shutdown(grace);
        node.bury_all(grace);
        report
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            self.node.ask_all();
            drop(runtime);
            self.node.bury_all(PATIENCE);
        }
    }
}

impl Deref for LocalNode {
    type Target = NodeRef;

    fn deref(&self) -> &NodeRef {
        &self.node
    }
}

/// A node by reference, for as long as it lives; afterwards nothing starts on it.
#[derive(Clone, Copy)]
pub struct NodeRef(pub(crate) &'static Inner);

impl NodeRef {
    /// The node's id.
    pub fn id(self) -> NodeId {
        self.0.id
    }

    /// How many actors there are.
    pub fn actor_count(self) -> usize {
        self.0.table.len()
    }

    /// The runtime that runs the actors, by reference.
    pub fn handle(self) -> Handle {
        self.0.handle
    }

    /// The options of an actor.
    pub fn actor(self) -> Spawn {
        Spawn::new(self)
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

    /// The options of a supervisor that restarts its children with this strategy.
    pub fn supervisor(self, strategy: Strategy) -> Supervisor {
        Supervisor::new(self.actor(), strategy)
    }

    /// Sends bytes or a value to the actor with this id, from nobody. Never waits.
    ///
    /// # Errors
    ///
    /// With the message: if there is no such actor, or its mailbox is full and it drops none.
    pub fn send(
        self,
        dest: ActorId,
        kind: Kind,
        payload: impl Into<Payload>,
    ) -> Result<(), SendError<Message>> {
        self.route(Message::new(dest, kind, payload.into()))
    }

    /// Sends a message to wherever its destination is.
    pub(crate) fn route(self, message: Message) -> Result<(), SendError<Message>> {
        let dest = message.dest;
        if message.kind.is_event() {
            let why = Unsent::SystemKind(message.kind);
            return Err(SendError::new(message, why));
        }
        if dest.node() != self.0.id && !dest.is_nobody() {
            return self.0.routers.send(message);
        }
        match self.0.table.get(dest) {
            Some(cell) => cell.deliver(message),
            None => Err(SendError::new(message, Unsent::Unknown(dest))),
        }
    }

    /// Stops the actor with this id as [`ActorRef::stop`] does. False if there is none.
    pub fn stop(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::stop(&*cell, ExitReason::Shutdown)).is_some()
    }

    /// Cancels the actor with this id as [`ActorRef::cancel`] does. False if there is none.
    pub fn cancel(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::cancel(&*cell)).is_some()
    }

    /// Kills the actor with this id as [`ActorRef::kill`] does. False if there is none.
    pub fn kill(self, id: ActorId) -> bool {
        self.0.table.get(id).map(|cell| stop::kill(&*cell)).is_some()
    }

    /// How many messages were accepted and will not be handled.
    pub fn dead_letter_count(self) -> u64 {
        self.0.dead_letters.count()
    }

    /// Dead letters from now on. Who is behind by more than 1,024 misses some.
    pub fn dead_letters(self) -> Receiver<DeadLetter> {
        self.0.dead_letters.bus.subscribe()
    }

    /// How many [dead letters](NodeRef::dead_letters) and [events](NodeRef::lifecycle) subscribers have missed.
    pub fn missed(self) -> u64 {
        self.0.dead_letters.bus.lost() + self.0.events.lost()
    }

    /// What becomes of actors from now on. Who is behind by more than 1,024 misses some. It is told in its own time: an
    /// [`Ended`](Lifecycle::Ended) may come a moment after [`join`](ActorRef::join) has returned.
    pub fn lifecycle(self) -> Receiver<Lifecycle> {
        self.0.events.subscribe()
    }

    /// Actors whose end was published although they run on: they were killed, and never block.
    pub fn zombies(self) -> Vec<ActorId> {
        self.0.zombies.ids()
    }

    /// Asks all actors to stop that have no parent to do so. From now on none is started.
    pub(crate) fn ask_all(self) {
        self.0.closed.store(true, Ordering::SeqCst);
        let roots = self.0.table.all().into_iter().rev();
        for cell in
            roots.filter(|cell| cell.life(|life| life.more.as_ref().is_none_or(|more| more.parent.is_none())))
        {
            stop::stop(&*cell, ExitReason::Shutdown);
        }
    }

    /// The runtime has ended: so have all actors, and those who wait for them are told, whatever still runs on. Messages that they
    /// leave behind run foreign code when they are dropped: a thread of its own does that, and is waited for up to `grace`.
    fn bury_all(self, grace: Duration) {
        let store = std::mem::replace(&mut *self.0.store.lock(), Store::in_memory());
        drop(store); // the node is never freed, and the file is to be closed
        let left: Vec<_> = self.0.table.all().iter().flat_map(|cell| end::end_without(cell).1).collect();
        if left.is_empty() {
            return;
        }
        let (done, mut is_done) = oneshot::channel();
        let drops = thread::Builder::new().name("sinew-left".to_owned()).spawn(move || {
            drop(left);
            let _ = done.send(()); // nobody may wait any more
        });
        if drops.is_ok() {
            let _ = is_done.recv_timeout(grace);
        }
    }

    /// Stops all actors and waits until there are none, up to `grace`.
    pub(crate) fn stop_all(self, grace: Duration) {
        let (sender, mut receiver) = oneshot::channel();
        self.0.emptied.lock().push(sender);
        self.ask_all();
        if self.0.table.len() > 0 {
            let _ = receiver.recv_timeout(grace);
        }
    }
}

impl fmt::Debug for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.0.id.0).field("actors", &self.actor_count()).finish()
    }
}
