//! Actors that were asked to stop and take too long: they are cancelled, killed, and given up.
//!
//! An actor has its node's [stop time-out](crate::Builder::stop_timeout) for the message that it is
//! at. Then it is cancelled: its blocking calls fail. After as long again it is killed: they
//! unwind. An actor that has not ended after a third time-out is a *zombie*: its end is published
//! as if it had ended, and what is left of it, which cannot be stopped from outside, is counted
//! until it does end. Messages that it leaves behind are dropped by a task of their own
//! ([`end::give_up`]): the steps are made by the node's clock, where foreign code would hold up all
//! timers.
//!
//! While an actor waits for its children, times run for them and not for it, unless it has a
//! time-out of its own. A child of a supervisor may have one, after which it is killed at once. A
//! supervisor has all the time that its children need: it never blocks itself.
//!
//! Model: `end_against_give_up`.

use crate::cell::{AnyCell, Phase};
use crate::end;
use crate::patience::{Patience, Step};
use crate::stop;

/// Makes the next step about an actor that has not ended in time.
pub(crate) fn step(cell: &dyn AnyCell, step: Step) {
    let (ends, waits, patience) = cell.life(|life| match &life.more {
        Some(more) => (life.phase < Phase::Leaving, more.childless.is_some(), more.patience),
        None => (life.phase < Phase::Leaving, false, Patience::Node),
    });
    match step {
        _ if !ends => (),
        // It waits for its children, which have times of their own, unless it has one.
        Step::Kill if waits && !matches!(patience, Patience::Kill(_)) => (),
        Step::Bury if waits => stop::give_up_later(cell),
        Step::Cancel => stop::interrupt(cell),
        Step::Kill => stop::kill(cell),
        Step::Bury => give_up(cell),
    }
}

fn give_up(cell: &dyn AnyCell) {
    let Some(cell) = cell.head().node.table.get(cell.head().id) else { return };
    if !end::give_up(&cell) {
        step(&*cell, Step::Bury); // by now it waits for its children, or has ended
    }
}
