//! Looking inside a node: what every actor is doing, who is whose child, and the books.
//!
//! A snapshot takes each actor's lock for as long as it copies a few numbers, and reads what the scheduler notes about its
//! task; nobody waits for it. Nothing stands still for it either: each actor is seen as it is at one moment, all of them at
//! different ones. In a node where nothing runs the books balance; while messages are on their way they may be off by
//! some of those.

mod cycles;
mod json;
mod state;
pub(crate) mod tasks;
mod text;

use std::panic::Location;

use sinew_core::{ActorId, ExitReason, Instant, NodeId};
use sinew_sync::Arc;

use crate::cell::{AnyCell, Phase, Seen};
use crate::shared::NodeRef;
pub use state::{ActorState, Blocked};
pub use text::Tree;

/// What a node was doing: see [`NodeRef::snapshot`]. Its `Display` is for people: the totals and a table of up to 200 actors;
/// [`tree`](Snapshot::tree) shows who is whose child; [`to_json`](Snapshot::to_json) is for tools, and has all of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The node.
    pub node: NodeId,
    /// When it was made, on the clock of the node's runtime.
    pub now: Instant,
    /// The node in all.
    pub totals: Totals,
    /// The actors, in the order of their ids.
    pub actors: Vec<ActorInfo>,
    /// Actors whose end was published although they run on.
    pub zombies: Vec<ActorId>,
    cycles: Vec<Vec<ActorId>>,
}

/// A node in all. When nothing runs, every message that was sent, and that the sender did not get back, is one of those that were
/// `handled`, that `failed`, the `dead_letters` and those that are `queued`.
///
/// Messages that a [zombie](NodeRef::zombies) has taken and not begun are among them when it ends. Events of the system are no
/// messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Actors that there are.
    pub actors: usize,
    /// Actors that there were.
    pub ended: u64,
    /// Actors whose end was published although they run on.
    pub zombies: usize,
    /// Messages that were begun by their actors and did not fail.
    pub handled: u64,
    /// Messages in the middle of which the actor failed or was killed: its exit says why.
    pub failed: u64,
    /// Messages that will not be handled.
    pub dead_letters: u64,
    /// Messages that wait in mailboxes.
    pub queued: u64,
    /// Things that are to happen at a time.
    pub timers: usize,
    /// Events of actors' lives and dead letters that subscribers have missed, because they were behind.
    pub missed: u64,
}

/// One actor, as a snapshot sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ActorInfo {
    /// Its id.
    pub id: ActorId,
    /// Its first name, if it has one.
    pub name: Option<Box<str>>,
    /// The actor whose child it is.
    pub parent: Option<ActorId>,
    /// The type of the actor; of a raw behaviour and a process that of its function.
    pub type_name: &'static str,
    /// What it is doing.
    pub state: ActorState,
    /// How far it is in its life.
    pub stage: LifecycleStage,
    /// Messages in its mailbox that it has not begun.
    pub queued: usize,
    /// How many its mailbox holds.
    pub capacity: u32,
    /// The most that there were in it.
    pub high_water: u32,
    /// Whether senders wait for room in it.
    pub has_waiting_senders: bool,
    /// Messages that were sent to it and that the sender did not get back.
    pub accepted: u64,
    /// Messages that it has begun.
    pub handled: u64,
    /// Messages that its mailbox has dropped because it was full.
    pub dropped: u32,
    /// How often it was restarted.
    pub restarts: u32,
    /// Bytes of what the node keeps for it: its own state, without what that has elsewhere; its bookkeeping; and the room of its
    /// mailbox, without what messages have elsewhere. The stack of one that is blocked is not in it.
    pub memory: usize,
    /// Why the one ended whose place it has taken.
    pub last_error: Option<ExitReason>,
    /// Where it was spawned, if it is a child or has a name.
    pub spawned_at: Option<&'static Location<'static>>,
}

/// How far an actor is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LifecycleStage {
    /// Its `started` hook has not returned.
    Starting,
    /// It handles messages.
    Running,
    /// Its mailbox is closed.
    Ending,
}

impl Totals {
    /// Messages that were sent, and that the sender did not get back.
    pub fn accepted(&self) -> u64 {
        self.handled + self.failed + self.dead_letters + self.queued
    }
}

impl NodeRef {
    /// What the node is doing.
    ///
    /// ```
    /// use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
    ///
    /// struct Echo;
    /// impl Actor for Echo {
    ///     type Msg = Reply<()>;
    ///     fn handle(&mut self, reply: Reply<()>, _: &mut Ctx<Reply<()>>) -> Flow {
    ///         reply.send(());
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let echo = node.actor().name("echo").spawn(Echo).unwrap();
    /// echo.ask(|reply| reply).unwrap();
    /// let snapshot = node.snapshot();
    /// let seen = snapshot.actor(echo.id()).unwrap();
    /// assert_eq!((seen.name.as_deref(), seen.handled), (Some("echo"), 1));
    /// println!("{snapshot}{}", snapshot.tree());
    /// ```
    pub fn snapshot(self) -> Snapshot {
        let node = self.0;
        let closed = node.books.closed();
        let zombies = node.zombies.ids();
        let mut totals = Totals {
            ended: closed.ended,
            zombies: zombies.len(),
            handled: closed.begun - closed.failed.min(closed.begun),
            failed: closed.failed,
            timers: node.timers.len(&node.table),
            missed: node.missed(),
            ..Totals::default()
        };
        let mut actors = Vec::new();
        for cell in node.table.all() {
            if let Some(actor) = ActorInfo::of(&cell) {
                let failed = u64::from(cell.head().has_failed()).min(actor.handled);
                totals.handled += actor.handled - failed;
                totals.failed += failed;
                totals.queued += actor.queued as u64;
                actors.push(actor);
            }
        }
        (totals.actors, totals.dead_letters) = (actors.len(), node.dead_letters.count());
        let cycles = cycles::of(&actors, |id| {
            let task = node.handle.dump_task(node.table.get(id)?.head().task())?;
            Some(state::of(node, &task))
        });
        Snapshot { node: node.id, now: node.handle.now(), totals, actors, zombies, cycles }
    }

    /// What one actor is doing. None if it has ended.
    pub fn inspect(self, actor: ActorId) -> Option<ActorInfo> {
        ActorInfo::of(&self.0.table.get(actor)?)
    }
}

impl ActorInfo {
    /// None of one that has ended.
    fn of(cell: &Arc<dyn AnyCell>) -> Option<ActorInfo> {
        let (head, seen) = (cell.head(), cell.see());
        let stage = match seen.phase {
            Phase::Starting => LifecycleStage::Starting,
            Phase::Running => LifecycleStage::Running,
            Phase::Ending => LifecycleStage::Ending,
            // What it has begun is in the books.
            Phase::Leaving | Phase::Dead => return None,
        };
        let Seen { name, parent, queued, capacity, high_water, dropped, handled, .. } = seen;
        let task = head.node.handle.dump_task(head.task());
        Some(ActorInfo {
            id: head.id,
            name,
            parent,
            type_name: task.as_ref().map_or("", |task| task.type_name),
            state: task.as_ref().map_or(ActorState::Running, |task| state::of(head.node, task)),
            stage,
            queued,
            capacity,
            high_water,
            has_waiting_senders: seen.waiting,
            accepted: handled + queued as u64 + u64::from(dropped),
            handled,
            dropped,
            restarts: seen.restarts,
            memory: seen.bytes + task.map_or(0, |task| task.size),
            last_error: seen.last_error,
            spawned_at: seen.spawned_at,
        })
    }
}

impl Snapshot {
    /// The actor with this id.
    pub fn actor(&self, id: ActorId) -> Option<&ActorInfo> {
        let at = self.actors.binary_search_by_key(&id, |actor| actor.id).ok()?;
        Some(&self.actors[at])
    }

    /// The actor with this name.
    pub fn named(&self, name: &str) -> Option<&ActorInfo> {
        self.actors.iter().find(|actor| actor.name.as_deref() == Some(name))
    }

    /// The children of an actor, in the order of their ids.
    pub fn children(&self, of: ActorId) -> impl Iterator<Item = &ActorInfo> {
        self.actors.iter().filter(move |actor| actor.parent == Some(of))
    }

    /// The actors that are nobody's children, or whose parent is not there.
    pub fn roots(&self) -> impl Iterator<Item = &ActorInfo> {
        self.actors.iter().filter(|actor| actor.parent.is_none_or(|parent| self.actor(parent).is_none()))
    }

    /// Actors that wait for each other: each for an answer of the next, for room in its mailbox or for its end, and the last for
    /// the first. All of them did so at one moment. They go on only when time is up for one of them, or it is ended.
    pub fn cycles(&self) -> &[Vec<ActorId>] {
        &self.cycles
    }

    /// The actors with their children under them, as text.
    pub fn tree(&self) -> Tree<'_> {
        Tree(self)
    }

    /// The snapshot as one object of JSON; `docs/actors.md` has its shape.
    pub fn to_json(&self) -> String {
        json::of(self)
    }
}
