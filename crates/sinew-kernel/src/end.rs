//! How an actor's start and end are told to others.
//!
//! Models: `end_against_link_and_monitor`, `end_of_whoever_links`, `end_against_monitor`, `end_of_whoever_monitors`,
//! `end_against_demonitor`, `end_against_join`, `end_waits_for_children`, `end_against_refused_child`, `end_against_give_up`, `end_is_seen_when_all_is_done`,
//! `end_is_told_before_the_id_is_unknown`, `end_of_parent_against_spawn`, `send_against_stop_and_lookup`.

use sinew_core::{ActorId, ExitReason};
use sinew_fiber::shield;
use sinew_sched::{WaitKind, turn};
use sinew_sync::Arc;

use crate::cell::{AnyCell, Burial, Buried, Cell, Left, More, Phase, Seen};
use crate::event::{Event, Exit, MonitorId, Relation};
use crate::node::{Inner, Lifecycle};
use crate::stop;

/// The actor's `started` hook has returned.
pub(crate) fn started<M: Send + 'static>(cell: &Cell<M>) {
    let is_plain = {
        let life = &mut cell.lock().life;
        if life.phase == Phase::Starting {
            life.phase = Phase::Running;
        }
        life.more.is_none()
    };
    cell.head.node.lifecycle(|| Lifecycle::Started(cell.head.id));
    if !is_plain {
        tell_of_start(cell);
    }
}

/// Tells those who have to do with an actor that it has started.
fn tell_of_start(cell: &dyn AnyCell) {
    let (announced, restarts) = cell.life(|life| {
        let more = life.more.as_ref();
        let announced = more.and_then(|more| more.parent.filter(|_| more.announces));
        (announced, more.map_or(0, |more| more.restarts))
    });
    let head = cell.head();
    if restarts > 0 {
        head.node.lifecycle(|| {
            let Seen { name, last_error, .. } = cell.see();
            Lifecycle::Restarted { actor: head.id, name, restarts, after: last_error }
        });
    }
    if let Some(parent) = announced {
        tell(head.node, parent, Event::Started(head.id));
    }
}

/// Ends an actor, by its task: drops what is left in its mailbox, waits for its children, and publishes its end if that was not
/// done before.
pub(crate) fn bury(cell: &dyn AnyCell, reason: &ExitReason) {
    if leave(cell, reason, true, |left| left.discard(cell.head())).is_none() {
        cell.head().node.zombies.ended(cell.head());
    }
}

/// Takes an actor back whose spawn was refused. Nobody is told.
pub(crate) fn refuse(cell: &dyn AnyCell) {
    cell.life(|life| life.more().refused = true);
    bury(cell, &ExitReason::Normal);
}

/// Publishes the end of an actor that does not end. What it leaves behind is dropped by a task of its own, for which nobody waits.
pub(crate) fn give_up(cell: &Arc<dyn AnyCell>) {
    let head = cell.head();
    head.node.zombies.add(head);
    let (begun, left) = end_without(cell);
    match begun {
        Some(begun) => head.node.zombies.counted(head, begun),
        None => head.node.zombies.remove(head),
    }
    if !left.is_empty() {
        head.node.handle.spawn(move || drop(left)).detach();
    }
}

/// Publishes the end of an actor as its task would, but for what it leaves behind. Says how many messages it had begun, if it
/// was not published before.
pub(crate) fn end_without(cell: &Arc<dyn AnyCell>) -> (Option<u64>, Vec<LeftBehind>) {
    let mut behind = Vec::new();
    let begun = leave(&**cell, &ExitReason::Killed, false, |left| {
        behind.push(LeftBehind { cell: cell.clone(), left: Some(left) });
    });
    (begun, behind)
}

/// What an actor has left behind whose end was published by another. It is dropped with care.
pub(crate) struct LeftBehind {
    cell: Arc<dyn AnyCell>,
    left: Option<Left>,
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        self.left.take().into_iter().for_each(|left| left.discard(self.cell.head()));
    }
}

/// Has an actor leave, and publishes its end. Says how many messages it had begun. None if another has done so.
fn leave(
    cell: &dyn AnyCell,
    reason: &ExitReason,
    mut waits: bool,
    mut first: impl FnMut(Left),
) -> Option<u64> {
    let buried = loop {
        match cell.bury(reason, waits) {
            Burial::Left(left) => first(left),
            Burial::Children { children, killed, mut childless } => {
                end_children(cell.head().node, &children, killed);
                let one = children.first().map_or(0, |child| child.local());
                // A kill is handed on to the children: here is nothing that it should interrupt.
                waits = shield(|| childless.recv_of_actor(None, WaitKind::ActorEnd, one)).is_ok();
            }
            Burial::Leaving(buried) => break buried,
            Burial::Done => return None,
        }
    };
    let begun = buried.begun;
    publish(cell, buried);
    Some(begun)
}

/// Has children end with their parent.
fn end_children(node: &'static Inner, children: &[ActorId], killed: bool) {
    for child in children.iter().filter_map(|child| node.table.get(*child)) {
        if killed { stop::cancel(&*child) } else { stop::stop(&*child, ExitReason::Shutdown) }
    }
}

fn publish(cell: &dyn AnyCell, Buried { reason, more, .. }: Buried) {
    let head = cell.head();
    let node = head.node;
    let refused = more.as_ref().is_some_and(|more| more.refused);
    let name = more.and_then(|more| tell_all(cell, *more, &reason));
    node.log.say_end(node, head.id, turn::current_type_name(), name.as_deref(), &reason);
    if !refused {
        node.lifecycle(|| Lifecycle::Ended { actor: head.id, name, reason: reason.clone() });
    }
    node.table.remove(head.id);
    node.log.forget(head.id);
    node.gone();
}

/// Frees what an actor has that has ended, and tells all who have to do with it. Returns its name.
fn tell_all(cell: &dyn AnyCell, more: More, reason: &ExitReason) -> Option<Box<str>> {
    let (head, node) = (cell.head(), cell.head().node);
    let More { name, parent, children, monitored, services, killed, .. } = more;
    services.release(head);
    end_children(node, &children.into_iter().collect::<Vec<_>>(), killed); // it did not wait for them
    for (monitor, target) in monitored {
        if let Some(target) = node.table.get(target) {
            target.life(|life| life.more.as_mut().and_then(|more| more.monitors.remove(&monitor)));
        }
    }
    let task = cell.life(|life| life.task.take()); // until now it could be killed
    drop(task);
    let exit = |relation| Exit { actor: head.id, reason: reason.clone(), relation };
    // The parent first, before anybody sees that it is dead: whoever does, and asks the parent, finds that it knows.
    let parent = parent.and_then(|parent| node.table.get(parent));
    if let Some(parent) = &parent {
        let _ = parent.push_event(Event::Exit(exit(Relation::Child))); // it may have ended
    }
    let (links, monitors, waits) = cell.life(|life| {
        life.phase = Phase::Dead;
        let more = life.more();
        let links = std::mem::take(&mut more.links);
        (links, std::mem::take(&mut more.monitors), std::mem::take(&mut more.waits))
    });
    for other in links {
        linked_end(node, other, exit(Relation::Link));
    }
    for (monitor, watcher) in monitors {
        if let Some(watcher) = node.table.get(watcher) {
            watcher.life(|life| life.more.as_mut().and_then(|more| more.monitored.remove(&monitor)));
            let _ = watcher.push_event(Event::Exit(exit(Relation::Monitor(MonitorId(monitor))))); // it may have ended
        }
    }
    for waiting in waits {
        let _ = waiting.send(reason.clone()); // it may wait no more
    }
    if let Some(childless) = parent.and_then(|parent| parent.life(|life| life.lose(head.id))) {
        let _ = childless.send(()); // it may have been given up
    }
    name
}

/// `other` was linked to an actor that has ended.
fn linked_end(node: &'static Inner, other: ActorId, exit: Exit) {
    let Some(other) = node.table.get(other) else { return };
    let (linked, traps) = other.life(|life| match &mut life.more {
        Some(more) => (more.links.remove(&exit.actor), more.traps),
        None => (false, false),
    });
    if !linked {
        return; // unlinked meanwhile
    }
    if traps {
        let _ = other.push_event(Event::Exit(exit));
    } else if exit.reason != ExitReason::Normal {
        stop::stop(&*other, exit.reason);
    }
}

fn tell(node: &'static Inner, actor: ActorId, event: Event) {
    if let Some(actor) = node.table.get(actor) {
        let _ = actor.push_event(event); // it may have ended
    }
}

/// Two actors that are to end with each other.
pub(crate) fn link(node: &'static Inner, one: ActorId, other: ActorId) -> Result<(), ExitReason> {
    let (Some(one), Some(other)) = (node.table.get(one), node.table.get(other)) else {
        return Err(ExitReason::NoConnection);
    };
    add_link(&one, other.head().id)?;
    if let Err(reason) = add_link(&other, one.head().id) {
        one.life(|life| life.more.as_mut().map(|more| more.links.remove(&other.head().id)));
        return Err(reason);
    }
    // One that has ended in between has told nobody of this link.
    if let Some(reason) = one.life(|life| (life.phase == Phase::Dead).then(|| life.reason())) {
        let exit = Exit { actor: one.head().id, reason: reason.clone(), relation: Relation::Link };
        linked_end(node, other.head().id, exit);
        return Err(reason);
    }
    Ok(())
}

/// Takes a link away, on both sides.
pub(crate) fn unlink(node: &'static Inner, one: ActorId, other: ActorId) {
    for (one, other) in [(one, other), (other, one)] {
        if let Some(one) = node.table.get(one) {
            one.life(|life| life.more.as_mut().map(|more| more.links.remove(&other)));
        }
    }
}

/// Has `watcher` told of the end of `target`, once: at once if there is no such actor any more.
pub(crate) fn monitor(watcher: &dyn AnyCell, target: ActorId) -> MonitorId {
    let head = watcher.head();
    let monitor = head.node.next_number();
    watcher.life(|life| life.more().monitored.insert(monitor, target));
    let ended = match head.node.table.get(target) {
        None => Some(ExitReason::NoConnection),
        Some(target) => target.life(|life| {
            if life.phase == Phase::Dead {
                return Some(life.reason());
            }
            life.more().monitors.insert(monitor, head.id);
            None
        }),
    };
    let id = MonitorId(monitor);
    if let Some(reason) = ended {
        watcher.life(|life| life.more().monitored.remove(&monitor));
        let exit = Exit { actor: target, reason, relation: Relation::Monitor(id) };
        let _ = watcher.push_event(Event::Exit(exit)); // it may be ending
    }
    id
}

/// Takes a monitor back. False if its exit was told, or is about to be.
pub(crate) fn demonitor(watcher: &dyn AnyCell, monitor: MonitorId) -> bool {
    let target = watcher.life(|life| life.more.as_mut().and_then(|more| more.monitored.remove(&monitor.0)));
    let target = target.and_then(|target| watcher.head().node.table.get(target));
    let taken = target.map(|target| target.life(|life| life.more.as_mut()?.monitors.remove(&monitor.0)));
    taken.flatten().is_some()
}

/// An error with the reason if the actor is dead.
fn add_link(cell: &Arc<dyn AnyCell>, other: ActorId) -> Result<(), ExitReason> {
    cell.life(|life| {
        if life.phase == Phase::Dead {
            return Err(life.reason());
        }
        life.more().links.insert(other);
        Ok(())
    })
}
