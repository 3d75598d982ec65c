//! The end of an actor: its phases, and one function for each.
//!
//! An actor goes through these [phases](crate::cell::Phase), each of them once, whatever ends it
//! and whatever races:
//!
//! - *Running*. A stop is an event in its lane, and changes nothing here.
//! - *Ending*, from when its mailbox is closed ([`AnyCell::close`]): the reason is known
//!   ([`reason_of`] says it for code that failed), and senders are told it. Its task runs the
//!   `stopping` hook, unless the actor failed or was killed, and drops its state
//!   ([`run`](crate::run)). Then the task calls [`bury`], which makes all steps that are left:
//!   1. what was left in the mailbox is counted as dead letters, the timers are freed, and all of
//!      that is dropped, so questions are answered with the reason ([`discard`]). This is foreign
//!      code: its failures are reported, and until it is done the actor can be killed, and given
//!      up;
//!   2. the children are stopped, and the actor waits until they have ended ([`await_children`]).
//! - *Leaving*. The thread that makes the step to this phase ([`AnyCell::leave`]) gets everything
//!   that the actor has of the node, and is the only one to do the rest:
//!   1. names, groups and watches are freed, and the actor's own monitors are taken back
//!      ([`release`]);
//!   2. its id becomes unknown, its place in the table is free, and it counts as an actor of the
//!      node no more ([`publish`]).
//! - *Dead*. Its parent is told just before the step, then the links, the monitors, and callers
//!   that wait for the end ([`tell`]), at last the subscribers of the node.
//!
//! Mostly the actor's task does all of it. If the task does not end, the clock [gives the actor
//! up](give_up): its thread makes the steps from *leaving* on, and another task drops what was left
//! in the mailbox. The end of a node does the same for actors that outlive the runtime
//! ([`end_without`]). The task of such an actor finds that its end was published when it ends after
//! all.
//!
//! # The end is told last
//!
//! An actor that is told of an end acts on it: a supervisor starts the next child, and a caller of
//! `join` spawns another actor. So everything that the actor has of the node is free before anybody
//! is told: first its names, groups and watches, then its place in the table, and with that its id
//! and its share of [`max_actors`](crate::Builder::max_actors).
//!
//! While the actor is *leaving* its id may lead to nobody. Nothing that is still to happen needs
//! the id:
//!
//! - The thread that publishes the end has the cell.
//! - A link, a monitor or a join that found the cell before adds itself to it until it is dead, and
//!   is told then. One that comes later finds no actor, and says so at once. A monitor that is
//!   taken back in between returns false, and is told.
//! - A stop, a kill and their time-outs do nothing to an actor that is leaving, found or not.
//! - Its children have ended, or were asked to; they do not find it, and nobody waits for them.
//! - Its parent has it among its children until it has told all others, and waits for that at its
//!   own end.
//!
//! So an id may be unknown a moment before its actor is dead, and never the other way round.
//! Senders to its mailbox, and callers that wait for an answer, are told the reason earlier, when
//! the mailbox closes.
//!
//! Models: `end_against_link_and_monitor`, `end_of_whoever_links`, `end_against_monitor`,
//! `end_of_whoever_monitors`, `end_against_demonitor`, `end_against_join`,
//! `end_waits_for_children`, `end_against_refused_child`, `end_against_give_up`,
//! `end_is_seen_when_all_is_done`, `end_is_seen_when_the_id_is_unknown`,
//! `end_is_told_when_the_id_is_unknown`, `end_of_parent_against_spawn`,
//! `send_against_stop_and_lookup`.

use std::mem;

use sinew_chan::chan::oneshot;
use sinew_core::{ActorId, ExitReason};
use sinew_fiber::shield;
use sinew_sched::{Raised, turn};
use sinew_sync::Arc;

use crate::cell::{AnyCell, Burial, Buried, Cell, Children, Head, Leftovers, More, Phase};
use crate::event::{Event, Exit, MonitorId, Relation};
use crate::failure;
use crate::lifecycle::Lifecycle;
use crate::links::linked_end;
use crate::shared::Inner;
use crate::stop;
use crate::waits;

/// The reason of an actor whose code has unwound, and whether it ends as it was asked to: an actor
/// that was asked to stop and took too long is cancelled, and ends for the reason of the stop.
pub(crate) fn reason_of<M: Send + 'static>(cell: &Cell<M>, raised: Raised) -> (ExitReason, bool) {
    let asked = if raised.is_cancelled() { cell.asked() } else { None };
    let reason = failure::reason(raised);
    match asked {
        Some(asked) => (asked, true),
        None => (reason, false),
    }
}

/// Ends an actor, by its task: drops what is left in its mailbox, waits for its children, and
/// publishes its end, unless that was done by another.
pub(crate) fn bury(cell: &dyn AnyCell, reason: &ExitReason) {
    if finish(cell, reason, Children::Await, |left| discard(left, cell.head())).is_none() {
        let head = cell.head();
        count_late(head, head.node.zombies.ended(head.id));
    }
}

/// Takes an actor back whose spawn was refused. Nobody is told.
pub(crate) fn refuse(cell: &dyn AnyCell) {
    cell.life(|life| life.more().refused = true);
    bury(cell, &ExitReason::Normal);
}

/// Publishes the end of an actor that does not end. What it leaves behind is dropped by a task of
/// its own, for which nobody waits. Returns false if another has published the end, or the actor
/// waits for its children.
pub(crate) fn give_up(cell: &Arc<dyn AnyCell>) -> bool {
    let head = cell.head();
    let zombies = &head.node.zombies;
    zombies.add(head.id);
    let (begun, left) = end_without(cell, Children::Respect);
    match begun {
        Some(begun) => count_late(head, zombies.counted(head.id, begun)),
        None => zombies.remove(head.id),
    }
    if !left.is_empty() {
        head.node.handle.spawn(move || drop(left)).detach();
    }
    begun.is_some()
}

/// Publishes the end of an actor as its task would, but for what it leaves behind. Returns how many
/// messages it had begun, or `None` if the end was published before.
pub(crate) fn end_without(cell: &Arc<dyn AnyCell>, children: Children) -> (Option<u64>, Vec<LeftBehind>) {
    let mut behind = Vec::new();
    let begun = finish(&**cell, &ExitReason::Killed, children, |left| {
        behind.push(LeftBehind { cell: cell.clone(), left: Some(left) });
    });
    (begun, behind)
}

/// What an actor has left behind whose end was published by another. It is dropped with care.
pub(crate) struct LeftBehind {
    cell: Arc<dyn AnyCell>,
    left: Option<Leftovers>,
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        self.left.take().into_iter().for_each(|left| discard(left, self.cell.head()));
    }
}

/// Adds to the books what an actor has begun after its end was published, with so many messages, if
/// it has ended by now.
fn count_late(head: &Head, published_with: Option<u64>) {
    if let Some(begun) = published_with {
        head.node.books.late(head.handled() - begun, head.take_failed());
    }
}

/// Takes an actor from *ending* to *dead*; `first` gets what is left in its mailbox. Returns how
/// many messages it had begun, or `None` if another has made the step to *leaving*.
fn finish(
    cell: &dyn AnyCell,
    reason: &ExitReason,
    mut children: Children,
    mut first: impl FnMut(Leftovers),
) -> Option<u64> {
    let is_given_up = children == Children::Respect;
    let buried = loop {
        match cell.leave(reason, children) {
            Burial::Left(left) => first(left),
            Burial::Children { children: ids, killed, childless } => {
                if !await_children(cell.head().node, &ids, killed, childless) {
                    children = Children::Leave;
                }
            }
            Burial::Leaving(buried) => break buried,
            Burial::Done => return None,
        }
    };
    let (head, begun) = (cell.head(), buried.begun);
    if buried.more.as_ref().is_none_or(|more| !more.refused) {
        head.node.books.close(begun, head.take_failed());
    }
    publish(cell, head, buried, is_given_up);
    Some(begun)
}

/// Drops what an actor leaves behind, as part of the actor. All of it is code of the actor's.
fn discard(Leftovers { mail, timers, saves }: Leftovers, head: &Head) {
    for timer in timers.into_values() {
        head.contain("a timer's message", || head.node.timers.end(&*timer));
    }
    for save in saves.into_values() {
        head.contain("the report of a save", || save.cancel());
    }
    mail(head);
}

/// Has the children of an actor end with it, and waits until they have. Returns false where nothing
/// can wait.
fn await_children(
    node: &'static Inner,
    children: &[ActorId],
    killed: bool,
    mut childless: oneshot::Receiver<()>,
) -> bool {
    end_children(node, children, killed);
    let one = children.first().copied().unwrap_or(ActorId::NOBODY);
    // A kill is handed on to the children: here is nothing that it should interrupt.
    shield(|| childless.recv_as(None, waits::on(waits::END, one))).is_ok()
}

/// Has children end with their parent.
fn end_children(node: &'static Inner, children: &[ActorId], killed: bool) {
    for child in children.iter().filter_map(|child| node.table.get(*child)) {
        if killed { stop::cancel(&*child) } else { stop::stop(&*child, ExitReason::Shutdown) }
    }
}

/// Frees everything that an actor has of the node, its place in the table last; then makes the step
/// to *dead*, and tells all.
fn publish(cell: &dyn AnyCell, head: &Head, buried: Buried, is_given_up: bool) {
    let Buried { reason, more, .. } = buried;
    let node = head.node;
    let refused = more.as_ref().is_some_and(|more| more.refused);
    let (name, parent) = more.map(|more| release(cell, *more)).unwrap_or_default();
    node.table.remove(head.id);
    if is_given_up {
        announce_zombie(head);
    }
    tell(cell, parent, &reason);
    node.log.say_end(head.id, turn::current_type_name(), name.as_deref(), &reason);
    node.log.forget(head.id);
    if !refused {
        node.lifecycle(|| Lifecycle::Ended { actor: head.id, name, reason: reason.clone() });
    }
    node.gone();
}

/// Frees what an actor has that is leaving, but for its place in the table. Returns its name and
/// its parent.
fn release(cell: &dyn AnyCell, more: More) -> (Option<Box<str>>, Option<ActorId>) {
    let (head, node) = (cell.head(), cell.head().node);
    let More { name, parent, children, monitored, services, killed, .. } = more;
    if services.named {
        node.names.release(head.id, &node.events);
    }
    if !services.groups.is_empty() {
        node.groups.release(&services.groups, head.id);
    }
    services.watches.values().for_each(|watch| watch.end());
    drop(services);
    end_children(node, &children.into_iter().collect::<Vec<_>>(), killed); // it did not wait for them
    for (monitor, target) in monitored {
        if let Some(target) = node.table.get(target) {
            target.life(|life| life.more.as_mut().and_then(|more| more.monitors.remove(&monitor)));
        }
    }
    let task = cell.life(|life| life.task.take()); // until now it could be killed
    drop(task);
    (name, parent)
}

/// Tells that an actor was given up. Its id is unknown by now, as to all who are told of its end.
fn announce_zombie(head: &Head) {
    head.node.lifecycle(|| Lifecycle::GivenUp(head.id));
    head.node.complain(&format!(
        "actor {} does not end although it was killed: it computes and never blocks; it counts as ended",
        head.id
    ));
}

/// Makes the step to *dead*, and tells all who have to do with the actor. Nothing leads to it any
/// more.
fn tell(cell: &dyn AnyCell, parent: Option<ActorId>, reason: &ExitReason) {
    let (head, node) = (cell.head(), cell.head().node);
    let exit = |relation| Exit { actor: head.id, reason: reason.clone(), relation };
    // The parent first, before anybody sees that it is dead: whoever does, and asks the parent, finds that it knows.
    let parent = parent.and_then(|parent| node.table.get(parent));
    if let Some(parent) = &parent {
        let _ = parent.push_event(Event::Exit(exit(Relation::Child))); // it may have ended
    }
    let told = cell.life(|life| {
        life.phase = Phase::Dead;
        let more = life.more.as_mut()?;
        Some((mem::take(&mut more.links), mem::take(&mut more.monitors), mem::take(&mut more.waits)))
    });
    let Some((links, monitors, waits)) = told else { return };
    for other in links {
        linked_end(node, other, exit(Relation::Link));
    }
    for (monitor, watcher) in monitors {
        if let Some(watcher) = node.table.get(watcher) {
            watcher.life(|life| life.more.as_mut().and_then(|more| more.monitored.remove(&monitor)));
            let _ = watcher.push_event(Event::Exit(exit(Relation::Monitor(MonitorId(monitor))))); // it may have ended
        }
    }
    for waiting in waits.into_values() {
        let _ = waiting.send(reason.clone()); // it may wait no more
    }
    if let Some(childless) = parent.and_then(|parent| parent.life(|life| life.lose(head.id))) {
        let _ = childless.send(()); // it may have been given up
    }
}
