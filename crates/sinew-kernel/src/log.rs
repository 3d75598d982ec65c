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

mod actor;
mod failures;
mod filters;
mod handle;
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

use sinew_core::{ActorId, ExitReason, Level};
use sinew_sched::{BlockingError, blocking_async, turn};
use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::{Mutex, ShortLock};

use crate::ctx::Ctx;
use crate::error::SpawnError;
use crate::node::Inner;
use failures::Failures;
use filters::Filters;
pub use filters::LevelFilter;
pub use handle::Logger;
use line::Line;
pub(crate) use options::Options;
use sink::Sink;
#[cfg(feature = "tracing")]
pub use tracing::LogSubscriber;

/// What lines of the node itself have as their target.
const OWN_TARGET: &str = "sinew";

thread_local! {
    /// This thread writes lines.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Log {
    filters: Filters,
    ring: ShortLock<Ring>,
    capacity: usize,
    sink: Sink,
    /// Lines that were lost, in all.
    lost: AtomicU64,
    /// The actor that takes lines as messages.
    actor: Mutex<Option<ActorId>>,
    failures: Failures,
}

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
    pub(crate) fn new(options: Options) -> Log {
        let Options { sink, capacity, level } = options;
        Log {
            filters: Filters::new(if sink.is_off() { LevelFilter::Off } else { level }),
            ring: ShortLock::new(Ring::default()),
            capacity,
            sink,
            lost: AtomicU64::new(0),
            actor: Mutex::new(None),
            failures: Failures::default(),
        }
    }

    /// Starts the task that writes.
    pub(crate) fn start(node: &'static Inner) {
        node.handle.spawn_future(Writer(node).write()).detach();
    }

    /// Logs a line, if the filters let it. `text` is asked only then.
    #[inline]
    pub(crate) fn say(
        &self,
        node: &Inner,
        level: Level,
        source: ActorId,
        target: &str,
        text: impl fmt::Display,
    ) {
        if self.filters.may_let(level) && self.filters.lets(level, source, target) {
            self.put(node, Line::new(node.handle.now(), level, source, text));
        }
    }

    /// Logs that an actor has ended, unless that is as usual.
    pub(crate) fn say_end(
        &self,
        node: &Inner,
        actor: ActorId,
        target: &str,
        name: Option<&str>,
        reason: &ExitReason,
    ) {
        let (level, more) = match reason {
            ExitReason::Error(_) | ExitReason::Limit(_) => self.failures.count(node.handle.now()),
            ExitReason::RestartsExceeded => (
                Level::Error,
                ": it has given up, as its children failed more often than `max_restarts` says",
            ),
            reason if reason.is_abnormal() => (Level::Debug, ""),
            _ => return,
        };
        match name {
            Some(name) => {
                self.say(node, level, actor, target, format_args!("{name:?} ended: {reason}{more}"))
            }
            None => self.say(node, level, actor, target, format_args!("ended: {reason}{more}")),
        }
    }

    /// Logs why a supervisor could not start a child.
    pub(crate) fn say_no_start<M: Send + 'static>(&self, ctx: &Ctx<'_, M>, key: &str, error: &SpawnError) {
        let head = &ctx.cell.head;
        let (level, more) = self.failures.count(head.node.handle.now());
        let target = turn::current_type_name();
        self.say(
            head.node,
            level,
            head.id,
            target,
            format_args!("child {key:?} cannot start: {error}{more}"),
        );
    }

    /// Logs a line of the node's own.
    pub(crate) fn say_own(&self, node: &Inner, level: Level, text: impl fmt::Display) {
        self.say(node, level, own_id(node), OWN_TARGET, text);
    }

    #[cold]
    fn put(&self, node: &Inner, line: Line) {
        if WRITES.get() {
            return;
        }
        let (then, lost) = self.ring.lock().put(line, self.capacity, 1);
        self.lost.fetch_add(u64::from(lost.is_some()), Ordering::Relaxed);
        self.carry_on(node, then);
    }

    /// Lines were lost before they came here.
    fn lose(&self, node: &Inner, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        let line = Line::of_loss(node, lines);
        let (then, unsaid) = self.ring.lock().put(line, self.capacity, lines);
        drop(unsaid); // it is said with what does not fit into the ring
        self.carry_on(node, then);
    }

    fn carry_on(&self, node: &Inner, then: Then) {
        match then {
            Then::Nothing => (),
            Then::Wake(waker) => waker.wake(),
            Then::Drain => self.drain(node),
        }
    }

    /// An actor has ended.
    pub(crate) fn forget(&self, actor: ActorId) {
        self.filters.forget(actor);
    }

    /// Writes what is in the ring, unless somebody else does: that one takes what has come meanwhile. May block the thread.
    fn drain(&self, node: &Inner) {
        let Some(_writing) = Writing::begin() else { return };
        while self.has_lines()
            && let Some(sink) = self.sink.try_lock()
        {
            self.write_all(node, sink);
        }
    }

    /// Writes what is in the ring, and waits for whoever does. May block the thread.
    fn drain_all(&self, node: &Inner) {
        if let Some(_writing) = Writing::begin() {
            self.write_all(node, self.sink.lock());
        }
    }

    fn write_all(&self, node: &Inner, mut sink: sink::Locked<'_>) {
        loop {
            let (lines, lost) = {
                let mut ring = self.ring.lock();
                (mem::take(&mut ring.lines), mem::take(&mut ring.lost))
            };
            if lines.is_empty() && lost == 0 {
                return;
            }
            let unwritten = sink.write(node, lines, lost);
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

/// Who says the lines of the node itself.
fn own_id(node: &Inner) -> ActorId {
    ActorId::new(node.id, 0)
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
struct Writer(&'static Inner);

impl Writer {
    async fn write(self) {
        let node = self.0;
        loop {
            poll_fn(|context| node.log.poll_lines(context)).await;
            // A call that is not made leaves the lines in the ring.
            if let Err(BlockingError::NoThread(_)) = blocking_async(move || node.log.drain(node)).await {
                node.log.drain(node);
            }
        }
    }
}

impl Drop for Writer {
    /// The runtime ends.
    fn drop(&mut self) {
        self.0.log.ring.lock().orphaned = true;
        self.0.log.drain(self.0);
    }
}
