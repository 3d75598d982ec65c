//! Links and monitors: actors that are told of the end of others, or end with them.
//!
//! Both sides of a link, and both sides of a monitor, keep it in their cells, under their own
//! locks. An end takes the step to dead under the same lock and tells the links and monitors that
//! it finds then ([`end`](crate::end)). So a link or a monitor that is added to a cell before that
//! step is told by the end, and one that comes later finds the actor dead and says so itself.
//!
//! Models: `end_against_link_and_monitor`, `end_of_whoever_links`, `end_against_monitor`,
//! `end_of_whoever_monitors`, `end_against_demonitor`.

use sinew_core::{ActorId, ExitReason};
use sinew_sync::Arc;

use crate::cell::{AnyCell, Phase};
use crate::event::{Event, Exit, MonitorId, Relation};
use crate::shared::Inner;
use crate::stop;

/// Two actors that are to end with each other.
pub(crate) fn link(node: &'static Inner, one: ActorId, other: ActorId) -> Result<(), ExitReason> {
    let (Some(one), Some(other)) = (node.table.get(one), node.table.get(other)) else {
        return Err(unknown(node, other));
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

/// Why there is nobody with this id: on this node there is no such actor, and other nodes are out
/// of reach.
fn unknown(node: &Inner, id: ActorId) -> ExitReason {
    if id.node() == node.id || id.is_nobody() { ExitReason::NoActor } else { ExitReason::NoConnection }
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
        None => Some(unknown(head.node, target)),
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

/// `other` was linked to an actor that has ended.
pub(crate) fn linked_end(node: &'static Inner, other: ActorId, exit: Exit) {
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
