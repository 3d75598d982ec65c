//! The clock of a node: the task that waits for what is [due next](crate::timers), and does it.

use std::pin::Pin;
use std::task::{Context, Poll};

use sinew_core::Instant;
use sinew_sched::{Sleep, sleep_async, turn};

use crate::event::Event;
use crate::overdue;
use crate::shared::Inner;
use crate::timers::Fire;

/// Things that happen before other tasks have a turn.
const BATCH: usize = 256;

/// Starts the clock of a node.
pub(crate) fn start(node: &'static Inner) {
    node.handle.spawn_future(Clock { node, sleep: None }).detach();
}

/// Does what is due.
pub(crate) fn fire(node: &Inner, fire: Fire) {
    match fire {
        Fire::Step(id, step) => {
            if let Some(cell) = node.table.get(id) {
                overdue::step(&*cell, step);
            }
        }
        Fire::Tick(id, ticket) => {
            if let Some(cell) = node.table.get(id) {
                let _ = cell.push_event(Event::Tick(ticket)); // it may have ended
            }
        }
        Fire::Timer(timer) => timer.expire(),
    }
}

/// The task that waits. It is a future, and so bound to no worker: one that is stuck holds up no
/// timer.
struct Clock {
    node: &'static Inner,
    /// Until the first of them.
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Future for Clock {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (node, timers) = (self.node, &self.node.timers);
        loop {
            let now = node.handle.now();
            for _ in 0..BATCH {
                let Some(due) = timers.pop(now) else { break };
                fire(node, due);
            }
            let Some(first) = timers.first(context.waker()) else {
                self.sleep = None;
                turn::announce_idle();
                return Poll::Pending;
            };
            if first <= now {
                context.waker().wake_by_ref(); // there are many: others have a turn
                return Poll::Pending;
            }
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != first) {
                self.sleep = Some((first, Box::pin(sleep_async(first - now))));
            }
            let slept = self.sleep.as_mut().map(|(_, sleep)| sleep.as_mut().poll(context));
            if slept != Some(Poll::Ready(())) {
                return Poll::Pending;
            }
            self.sleep = None;
        }
    }
}
