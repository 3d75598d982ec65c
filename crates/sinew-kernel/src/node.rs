//! A node: actors, and the runtime that runs them.
//!
//! Models of its end: `shutdown_against_spawn`, `shutdown_against_end`.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_core::{ExitReason, Identity, NodeId};
use sinew_sched::{CurrentThread, Handle, Report, Runtime};
use sinew_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sinew_sync::{Mutex, thread};

use crate::books::Books;
use crate::bus::Bus;
use crate::cell::Children;
use crate::clock;
use crate::dead::DeadLetters;
use crate::end;
use crate::identity;
use crate::inspect::tasks;
use crate::limits::Budget;
use crate::log::{self, Log};
use crate::membership::Groups;
use crate::registry::Names;
use crate::router::Routers;
use crate::shared::{Inner, NodeRef};
use crate::stop;
use crate::store::Store;
use crate::table::Table;
use crate::timers::Timers;
use crate::waits;
use crate::zombies::Zombies;

/// How long the drop of a node waits for each of its steps.
const PATIENCE: Duration = Duration::from_secs(5);

/// The options of a node.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    runtime: sinew_sched::Builder,
    id: NodeId,
    identity: Option<Box<str>>,
    max_actors: usize,
    max_queued_bytes: Option<usize>,
    stop_timeout: Duration,
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

    /// Sets the node's identity, by which paths name it: `/node/<identity>`. Up to 31 bytes, without a slash. Defaults to
    /// `linux-` and four hexadecimal digits of a hash of the host's name. Nodes that are to know of each other need
    /// different identities.
    ///
    /// ```
    /// use sinew_kernel::{Flow, Node};
    ///
    /// let node = Node::builder().identity("alpha").build().unwrap();
    /// let counter = node.actor().name("counter").spawn_raw((), |_, _, _| Flow::Continue).unwrap();
    /// assert_eq!(node.lookup("/node/alpha/counter"), Some(counter.id()));
    /// ```
    pub fn identity(mut self, identity: impl Into<Box<str>>) -> Builder {
        self.identity = Some(identity.into());
        self
    }

    /// The options of the runtime that runs the actors.
    pub fn runtime(mut self, runtime: sinew_sched::Builder) -> Builder {
        self.runtime = runtime;
        self
    }

    /// Where [states](crate::Ctx::state) of actors are kept. Defaults to memory, until the node ends.
    ///
    /// The end of the node closes the store, and waits until its file is closed, unless there are other handles to the
    /// store, such as a clone or a [`State`](crate::store::State) of one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use sinew_kernel::Node;
    /// use sinew_kernel::store::Store;
    ///
    /// # let path = std::env::temp_dir().join(format!("sinew-node-{}", std::process::id()));
    /// let node = Node::builder().store(Store::open(&path).unwrap()).build().unwrap();
    /// node.shutdown(Duration::from_secs(5));
    /// let store = Store::open(&path).unwrap(); // nobody has the file open any more
    /// # store.close().unwrap();
    /// # std::fs::remove_file(path).unwrap();
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
    /// If the runtime cannot be started, or the [identity](Builder::identity) cannot be one.
    pub fn build(self) -> std::io::Result<Node> {
        let identity = identity::choose(self.identity.as_deref())?;
        let runtime = self.runtime.clone().build()?;
        let inner = self.inner(identity, runtime.handle());
        Ok(Node { node: NodeRef(inner), runtime: Some(runtime) })
    }

    /// A node on the thread of whoever has it, which runs when that says so.
    ///
    /// # Errors
    ///
    /// If the runtime cannot be started, or the [identity](Builder::identity) cannot be one.
    pub fn build_current_thread(self) -> std::io::Result<LocalNode> {
        let identity = identity::choose(self.identity.as_deref())?;
        let runtime = self.runtime.clone().build_current_thread()?;
        let inner = self.inner(identity, runtime.handle());
        Ok(LocalNode { node: NodeRef(inner), runtime: Some(runtime) })
    }

    fn inner(self, identity: Identity, handle: Handle) -> &'static Inner {
        waits::register();
        let inner: &'static Inner = Box::leak(Box::new(Inner {
            id: self.id,
            handle,
            table: Table::new(self.id, self.max_actors),
            names: Names::new(self.id, &identity),
            identity,
            groups: Groups::default(),
            routers: Routers::new(),
            budget: Budget::new(self.max_queued_bytes),
            timers: Timers::new(),
            dead_letters: DeadLetters::default(),
            zombies: Zombies::default(),
            books: Books::default(),
            log: Log::new(self.id, handle, self.log),
            store: Mutex::new(self.store.unwrap_or_else(Store::in_memory)),
            stop_timeout: self.stop_timeout,
            events: Bus::default(),
            numbers: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            emptied: Mutex::new(Vec::new()),
        }));
        handle.name_turns_by(|tasks| tasks::names(inner, tasks));
        inner.log.name_by(|actor| inner.table.get(actor)?.life(|life| life.more.as_ref()?.name.clone()));
        clock::start(inner);
        inner.log.start();
        inner
    }
}

/// A node with a runtime of its own. Dropping it shuts it down.
///
/// Its actors are stopped: what is in their mailboxes becomes dead letters. To have it handled, [drain](crate::ActorRef::drain) and
/// [join](crate::ActorRef::join) them first. The drop waits up to 5 seconds for actors that are in the middle of a message, then cancels and
/// kills them; [`shutdown`](Node::shutdown) chooses how long, and says what is left. Then it closes the
/// [store](Builder::store): its file can be opened again.
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
        Node::builder().build().expect("a node with default options can be built")
    }

    /// The options of a node.
    pub fn builder() -> Builder {
        Builder {
            runtime: Runtime::builder(),
            id: NodeId(1),
            identity: None,
            max_actors: usize::MAX,
            max_queued_bytes: None,
            stop_timeout: Duration::from_secs(5),
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
    /// left behind are dropped, for which it waits as long again. At last it closes the [store](Builder::store), and waits until what
    /// is queued there is on the disk and the file is closed, however long the disk takes.
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

impl NodeRef {
    /// Asks all actors to stop that have no parent to do so. From now on none is started.
    pub(crate) fn ask_all(self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.names.wake_all();
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
        self.bury_actors(grace);
        let closed = Store::in_memory();
        closed.close().expect("nobody waits for a store in memory");
        let store = std::mem::replace(&mut *self.0.store.lock(), closed);
        store.release(); // the node is never freed
    }

    fn bury_actors(self, grace: Duration) {
        let left: Vec<_> =
            self.0.table.all().iter().flat_map(|cell| end::end_without(cell, Children::Leave).1).collect();
        self.shrink();
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

    /// Gives back the memory that the node has on the heap. All actors have ended: those that still run, and references, find everything
    /// empty.
    fn shrink(self) {
        let node = self.0;
        node.table.shrink();
        node.names.shrink();
        node.groups.shrink();
        node.timers.shrink(&node.table);
        node.zombies.shrink();
        node.dead_letters.bus.close();
        node.events.close();
        let emptied = std::mem::take(&mut *node.emptied.lock());
        drop(emptied); // without the lock
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
