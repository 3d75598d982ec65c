//! Ending actors from outside: asking, cancelling, killing, giving up.
//!
//! An actor that is asked to stop finishes the message that it is at. If that takes longer than its node's
//! [stop time-out](crate::Builder::stop_timeout), it is cancelled: its blocking calls fail. After as long again it is killed: they
//! unwind. One that has not ended after as long again is a *zombie*: its end is published as if it had ended, and what is left of
//! it, which cannot be stopped from outside, is counted until it does end. Messages that it leaves behind are dropped by a task of
//! their own ([`end::give_up`]): these steps are made by the node's clock, where foreign code would hold up all timers.
//!
//! An actor that ends has its children end with it: they are asked to stop, and cancelled at once if it was killed. Its end is told
//! when they have ended: so who starts another in its place does not meet them, nor find their names taken. While it waits for
//! them, times run for them and not for it, unless it has a time-out of its own; a kill is handed on to them.
//!
//! One that is drained has all the time that it needs for what is in its mailbox: a stop or a kill may follow.
//!
//! A child of a supervisor may have a time-out of its own, after which it is killed at once. A supervisor has all the time that
//! its children need: it never blocks itself.
//!
//! Models: `end_against_give_up`, `kill_against_spawn`, `send_against_stop_and_lookup`.

use std::time::Duration;

use sinew_core::{ActorId, ExitReason};
use sinew_sched::Level;
use sinew_sched::turn::{self, Marked};

use crate::cell::{AnyCell, Phase};
use crate::end;
use crate::event::Event;
use crate::timers::Fire;

/// How long an actor that was killed has to unwind before it is given up, at least: it has to have a turn for that.
const LEAST: Duration = Duration::from_millis(100);

/// How long an actor may take to end when it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Patience {
    /// As its node has it: then it is cancelled, and killed after as long again.
    #[default]
    Node,
    /// This long: then it is killed. With zero it is not asked at all.
    Kill(Duration),
    /// As long as it likes.
    Forever,
}

impl Patience {
    /// It is killed, and not asked.
    pub(crate) const NONE: Patience = Patience::Kill(Duration::ZERO);
}

/// What is done next about an actor that was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Cancel,
    Kill,
    Bury,
}

/// Asks an actor to stop, and sees to it that it does.
pub(crate) fn stop(cell: &dyn AnyCell, reason: ExitReason) {
    let Some(patience) = cell.ask_to_end(reason) else { return };
    let head = cell.head();
    match patience {
        Patience::NONE => kill(cell),
        Patience::Node => head.node.timers.cancel_late(head.node, head.id),
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
        Some(_) => step(cell, Step::Cancel),
        None => (),
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

/// An actor that was asked to stop has not ended in time.
pub(crate) fn step(cell: &dyn AnyCell, step: Step) {
    let (ends, waits, patience) = cell.life(|life| match &life.more {
        Some(more) => (life.phase < Phase::Leaving, more.childless.is_some(), more.patience),
        None => (life.phase < Phase::Leaving, false, Patience::Node),
    });
    match step {
        _ if !ends => (),
        // It waits for its children, which have times of their own, unless it has one.
        Step::Kill if waits && !matches!(patience, Patience::Kill(_)) => (),
        Step::Bury if waits => later(cell, give_up_after(cell), Step::Bury),
        Step::Cancel => {
            interrupt(cell, Level::Cancel);
            later(cell, cell.head().node.stop_timeout, Step::Kill);
        }
        Step::Kill => kill(cell),
        Step::Bury => {
            if let Some(cell) = cell.head().node.table.get(cell.head().id) {
                end::give_up(&cell);
            }
        }
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
    interrupt(cell, Level::Kill);
    later(cell, give_up_after(cell), Step::Bury);
    children
}

fn give_up_after(cell: &dyn AnyCell) -> Duration {
    cell.head().node.stop_timeout.max(LEAST)
}

fn later(cell: &dyn AnyCell, after: Duration, step: Step) {
    let (node, id) = (cell.head().node, cell.head().id);
    node.timers.at(node, node.handle.now() + after, Fire::Step(id, step));
}

fn interrupt(cell: &dyn AnyCell, level: Level) {
    // Its handle keeps the task from being another's, and is the lock's. The rest may take long, and takes other locks.
    let marked = cell.life(|life| life.task.as_ref().map(|task| turn::mark(task, level)));
    marked.into_iter().for_each(Marked::tell); // without a task it has ended
}
