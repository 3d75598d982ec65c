//! The log of a node: lines of its actors and of the node itself, for people.
//!
//! # A line's way
//!
//! Whoever logs makes a [`Line`], if a [filter](filters) lets it, puts it into a bounded ring, and goes on. One task of the node
//! takes lines out and writes them to the [sink](sink), on a thread for blocking calls: so neither a slow terminal nor a full
//! disk stops an actor or a worker. When the ring is full, new lines are lost; they are counted, and the log says how
//! many, where they are missing.
//!
//! # Who writes
//!
//! Whoever has the sink's lock takes lines out of the ring and writes them, until there are none. So lines come out in the order in
//! which they went in, also if a flush and the task meet. Who does not get the lock leaves its lines to who has it, and that one
//! looks for lines again when it has given it back ([`Log::drain`]): so none stay behind. The task leaves its waker
//! in the ring when it has seen that empty, under the ring's lock, and whoever puts something in takes it out and wakes it. Once the runtime has ended, whoever logs
//! drains.
//!
//! # No echo
//!
//! While a thread writes lines it logs nothing: what the sink or a subscriber of `tracing` say about what they are told
//! would have them say it again.

mod failures;
mod filters;
mod line;
mod options;
mod sink;
#[cfg(feature = "tracing")]
mod tracing;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll, Waker};

use sinew_core::{ActorId, ExitReason, Level, NodeId};
use sinew_io::{BlockingError, blocking_async};
use sinew_sched::{Handle, turn};
use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::statics::OnceLock;
use sinew_sync::{Mutex, ShortLock};

use crate::error::SpawnError;
use failures::Failures;
use filters::Filters;
pub use filters::LevelFilter;
use line::Line;
pub(crate) use options::Options;
pub(crate) use sink::Sink;
#[cfg(feature = "tracing")]
pub use tracing::LogSubscriber;

/// What lines of the node itself have as their target.
pub(crate) const OWN_TARGET: &str = "sinew";

thread_local! {
    /// This thread writes lines.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// The log of a node. Like the node, it is never freed.
pub(crate) struct Log {
    node: NodeId,
    handle: Handle,
    pub(crate) filters: Filters,
    ring: ShortLock<Ring>,
    capacity: usize,
    sink: Sink,
    /// Lines that were lost, in all.
    pub(crate) lost: AtomicU64,
    /// The actor that takes lines as messages.
    pub(crate) actor: Mutex<Option<ActorId>>,
    failures: Failures,
    namer: OnceLock<Box<Namer>>,
}

/// Returns the first name of an actor of the node.
type Namer = dyn Fn(ActorId) -> Option<Box<str>> + Send + Sync;

#[derive(Default)]
struct Ring {
    lines: VecDeque<Line>,
    /// Lines that were lost after those. None gets in before that is said.
    lost: u64,
    /// The task that writes has seen an empty ring.
    waker: Option<Waker>,
    /// The runtime has ended: there is no task that writes.
    orphaned: bool,
}

/// What has to be done when a line was put in.
enum Then {
    Nothing,
    Wake(Waker),
    Drain,
}

impl Log {
    pub(crate) fn new(node: NodeId, handle: Handle, options: Options) -> Log {
        let Options { sink, capacity, level } = options;
        Log {
            node,
            handle,
            filters: Filters::new(if sink.is_off() { LevelFilter::Off } else { level }),
            ring: ShortLock::new(Ring::default()),
            capacity,
            sink,
            lost: AtomicU64::new(0),
            actor: Mutex::new(None),
            failures: Failures::default(),
            namer: OnceLock::new(),
        }
    }

    /// Asks `namer` for the names of actors, from now on.
    pub(crate) fn name_by(&self, namer: impl Fn(ActorId) -> Option<Box<str>> + Send + Sync + 'static) {
        let _ = self.namer.set(Box::new(namer)); // the first stays
    }

    /// Returns the first name of an actor of the node.
    pub(crate) fn name_of(&self, actor: ActorId) -> Option<Box<str>> {
        self.namer.get()?(actor)
    }

    /// Starts the task that writes.
    pub(crate) fn start(&'static self) {
        self.handle.spawn_future(Writer(self).write()).detach();
    }

    /// Logs a line, if the filters let it. `text` is asked only then.
    #[inline]
    pub(crate) fn say(&self, level: Level, source: ActorId, target: &str, text: impl fmt::Display) {
        if self.filters.may_let(level) && self.filters.lets(level, source, target) {
            let name = self.name_of(source);
            self.put(Line::new(self.handle.now(), level, source, text).named(name));
        }
    }

    /// Logs that an actor has ended, unless that is as usual.
    pub(crate) fn say_end(&self, actor: ActorId, target: &str, name: Option<&str>, reason: &ExitReason) {
        let (level, more) = match reason {
            ExitReason::Error(_) | ExitReason::Limit(_) => self.failures.count(self.handle.now()),
            ExitReason::RestartsExceeded => (
                Level::Error,
                ": it has given up, as its children failed more often than `max_restarts` says",
            ),
            reason if reason.is_abnormal() => (Level::Debug, ""),
            _ => return,
        };
        if self.filters.lets(level, actor, target) {
            let text = format_args!("ended: {reason}{more}");
            // The actor is not in the table any more, so its name cannot be looked up.
            self.put(Line::new(self.handle.now(), level, actor, text).named(name.map(Box::from)));
        }
    }

    /// Logs why a supervisor, which runs the caller, could not start a child.
    pub(crate) fn say_no_start(&self, supervisor: ActorId, key: &str, error: &SpawnError) {
        let (level, more) = self.failures.count(self.handle.now());
        let target = turn::current_type_name();
        self.say(level, supervisor, target, format_args!("child {key:?} cannot start: {error}{more}"));
    }

    /// Logs a line of the node's own.
    pub(crate) fn say_own(&self, level: Level, text: impl fmt::Display) {
        self.say(level, self.own_id(), OWN_TARGET, text);
    }

    #[cold]
    fn put(&self, line: Line) {
        if WRITES.get() {
            return;
        }
        let (then, lost) = self.ring.lock().put(line, self.capacity, 1);
        self.lost.fetch_add(u64::from(lost.is_some()), Ordering::Relaxed);
        self.carry_on(then);
    }

    /// The id that lines of the node itself have.
    pub(crate) fn own_id(&self) -> ActorId {
        ActorId::new(self.node, 0)
    }

    /// The actor of this node that runs the caller, or else the node.
    pub(crate) fn speaker(&self) -> ActorId {
        let actor = ActorId::from_u64(turn::current_tag());
        if actor.node() == self.node && !actor.is_nobody() { actor } else { self.own_id() }
    }

    /// Lines were lost before they came here.
    pub(crate) fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        let line = Line::of_loss(self, lines);
        let (then, unsaid) = self.ring.lock().put(line, self.capacity, lines);
        drop(unsaid); // it is said with what does not fit into the ring
        self.carry_on(then);
    }

    fn carry_on(&self, then: Then) {
        match then {
            Then::Nothing => (),
            Then::Wake(waker) => waker.wake(),
            Then::Drain => self.drain(),
        }
    }

    /// An actor has ended.
    pub(crate) fn is_actor(&self, id: ActorId) -> bool {
        *self.actor.lock() == Some(id)
    }

    pub(crate) fn forget(&self, actor: ActorId) {
        self.filters.forget(actor);
    }

    /// Writes what is in the ring, unless somebody else does: that one takes what has come meanwhile. May block the thread.
    fn drain(&self) {
        let Some(_writing) = Writing::begin() else { return };
        while self.has_lines()
            && let Some(sink) = self.sink.try_lock()
        {
            self.write_all(sink);
        }
    }

    /// Writes what is in the ring, and waits for whoever does. May block the thread.
    pub(crate) fn drain_all(&self) {
        if let Some(_writing) = Writing::begin() {
            self.write_all(self.sink.lock());
        }
    }

    fn write_all(&self, mut sink: sink::Locked<'_>) {
        loop {
            let (lines, lost) = {
                let mut ring = self.ring.lock();
                (mem::take(&mut ring.lines), mem::take(&mut ring.lost))
            };
            if lines.is_empty() && lost == 0 {
                return;
            }
            let unwritten = sink.write(self, lines, lost);
            self.lost.fetch_add(unwritten, Ordering::Relaxed);
        }
    }

    fn has_lines(&self) -> bool {
        !self.ring.lock().is_empty()
    }

    /// Ready if there is something to write. If not, the task is woken for what comes.
    fn poll_lines(&self, context: &Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let mut ring = self.ring.lock();
        if !ring.is_empty() {
            return Poll::Ready(());
        }
        let replaced = ring.waker.replace(waker);
        drop(ring);
        drop(replaced); // without the lock
        turn::announce_idle();
        Poll::Pending
    }
}

impl Ring {
    /// Puts a line in. If there is no room, so many lines are lost, and it comes back, to be dropped without the lock.
    fn put(&mut self, line: Line, capacity: usize, lines: u64) -> (Then, Option<Line>) {
        let lost = if self.lost == 0 && self.lines.len() < capacity {
            self.lines.push_back(line);
            None
        } else {
            self.lost += lines;
            Some(line)
        };
        (self.then(), lost)
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }

    fn then(&mut self) -> Then {
        match self.waker.take() {
            _ if self.orphaned => Then::Drain,
            Some(waker) => Then::Wake(waker),
            None => Then::Nothing,
        }
    }
}

/// This thread writes lines.
struct Writing;

impl Writing {
    /// None if it does already.
    fn begin() -> Option<Writing> {
        (!WRITES.replace(true)).then_some(Writing)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITES.set(false);
    }
}

/// The task that writes, while it lives. It is a future, and so bound to no worker: one that is stuck does not hold up the log.
struct Writer(&'static Log);

impl Writer {
    async fn write(self) {
        let log = self.0;
        loop {
            poll_fn(|context| log.poll_lines(context)).await;
            // A call that is not made leaves the lines in the ring.
            if let Err(BlockingError::NoThread(_)) = blocking_async(move || log.drain()).await {
                log.drain();
            }
        }
    }
}

impl Drop for Writer {
    /// The runtime ends.
    fn drop(&mut self) {
        self.0.ring.lock().orphaned = true;
        self.0.drain();
    }
}
