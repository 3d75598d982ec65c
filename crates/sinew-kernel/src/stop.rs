//! Asking actors to end: a stop, a cancel, a kill.
//!
//! An actor that is asked to stop finishes the message that it is at. If it takes longer than it
//! may, [`overdue`](crate::overdue) has it cancelled, killed and given up, one after the other. An
//! actor that is drained has all the time that it needs for what is in its mailbox: a stop or a
//! kill may follow.
//!
//! An actor that ends has its children end with it: they are asked to stop, and cancelled at once
//! if it was killed. Its end is told when they have ended: so an actor that is started in its place
//! does not meet them, and finds their names free. A kill of an actor that waits for its children
//! is handed on to them.
//!
//! Models: `kill_against_spawn`, `send_against_stop_and_lookup`.

use std::time::Duration;

use sinew_core::{ActorId, ExitReason};
use sinew_sched::CancelLevel;
use sinew_sched::turn::{self, Marked};

use crate::cell::{AnyCell, Phase};
use crate::event::Event;
use crate::patience::{Patience, Step};
use crate::timers::Fire;

/// The least time that an actor has to unwind, after it was killed and before it is given up: it
/// needs a turn for that.
const UNWIND_TIME: Duration = Duration::from_millis(100);

/// Asks an actor to stop, and sees to it that it does.
pub(crate) fn stop(cell: &dyn AnyCell, reason: ExitReason) {
    let Some(patience) = cell.ask_to_end(reason) else { return };
    let head = cell.head();
    match patience {
        Patience::NONE => kill(cell),
        Patience::Node => {
            let at = head.node.handle.now() + head.node.stop_timeout;
            head.node.timers.cancel_late(&head.node.table, at, head.id);
        }
        Patience::Kill(timeout) => {
            later(cell, timeout, Step::Kill);
        }
        Patience::Forever => (),
    }
}

/// Asks an actor to stop, and cancels it at once.
pub(crate) fn cancel(cell: &dyn AnyCell) {
    match cell.ask_to_end(ExitReason::Shutdown) {
        Some(Patience::NONE) => kill(cell),
        Some(Patience::Forever) | None => (), // a supervisor does not block, and stops its children in order
        Some(_) => interrupt(cell),
    }
}

/// Kills an actor, and if it waits for its children, them as well.
pub(crate) fn kill(cell: &dyn AnyCell) {
    let node = cell.head().node;
    let mut children = kill_one(cell);
    while let Some(child) = children.pop() {
        let killed = node.table.get(child).map(|child| kill_one(&*child));
        children.extend(killed.into_iter().flatten());
    }
}

/// Cancels what an actor is at, and kills it if it takes longer than it may. Does nothing to one
/// that is leaving.
pub(crate) fn interrupt(cell: &dyn AnyCell) {
    let ends = cell.life(|life| {
        let ends = life.phase < Phase::Leaving;
        if ends {
            life.more().cancelled = true;
        }
        ends
    });
    if ends {
        mark(cell, CancelLevel::Cancel);
        later(cell, cell.head().node.stop_timeout, Step::Kill);
    }
}

/// Kills an actor. Returns the children that it waits for, which are to be killed with it.
fn kill_one(cell: &dyn AnyCell) -> Vec<ActorId> {
    let children = cell.life(|life| {
        if life.phase == Phase::Dead {
            return None;
        }
        let more = life.more();
        more.killed = true; // before it may see that it ends, and say so to its hook
        Some(if more.childless.is_some() { more.children.iter().copied().collect() } else { Vec::new() })
    });
    let Some(children) = children else { return Vec::new() };
    cell.close(ExitReason::Killed);
    let _ = cell.push_event(Event::Kill); // it may have ended
    mark(cell, CancelLevel::Kill);
    give_up_later(cell);
    children
}

/// Has an actor that was killed given up if it does not end.
pub(crate) fn give_up_later(cell: &dyn AnyCell) {
    later(cell, cell.head().node.stop_timeout.max(UNWIND_TIME), Step::Bury);
}

fn later(cell: &dyn AnyCell, after: Duration, step: Step) {
    let (node, id) = (cell.head().node, cell.head().id);
    node.timers.at(&node.table, node.handle.now() + after, Fire::Step(id, step));
}

/// Cancels or kills the task of an actor.
fn mark(cell: &dyn AnyCell, level: CancelLevel) {
    // Its handle keeps the task from being another's, and is the lock's. The rest may take long, and takes other locks.
    let marked = cell.life(|life| life.task.as_ref().map(|task| turn::mark(task, level)));
    marked.into_iter().for_each(Marked::tell); // without a task it has ended
}
