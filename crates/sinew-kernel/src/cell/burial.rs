//! The step to *leaving*, made under the lock of the actor, and what [`end`](crate::end) has to do
//! before it.

use std::mem;

use sinew_chan::chan::oneshot;
use sinew_core::{ActorId, ExitReason};

use super::{BURIED, Cell, Head, More, Phase};
use crate::mailbox::Refused;
use crate::services::{Saves, Timers};

/// Whether an actor that is buried waits for its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Children {
    /// It does, as long as there are any.
    Await,
    /// It is given up, unless it does.
    Respect,
    /// It does not.
    Leave,
}

/// How far the burial of an actor has come.
pub(crate) enum Burial {
    /// These come first; then it is to be tried again. Its mailbox is closed for good, and those in
    /// it are dead letters.
    Left(Leftovers),
    /// These are to end first, and whoever waits for that is told when the last has; then it is to
    /// be tried again.
    Children { children: Vec<ActorId>, killed: bool, childless: oneshot::Receiver<()> },
    /// It is leaving.
    Leaving(Buried),
    /// It was leaving before, or waits for its children.
    Done,
}

/// Messages that an actor leaves behind, in its mailbox, with its timers and its saves. To drop
/// them runs foreign code.
pub(crate) struct Leftovers {
    pub(crate) mail: Box<dyn FnOnce(&Head) + Send>,
    pub(crate) timers: Timers,
    pub(crate) saves: Saves,
}

/// What is told of an actor that has ended, and to whom.
pub(crate) struct Buried {
    pub(crate) reason: ExitReason,
    /// How many messages it had begun.
    pub(crate) begun: u64,
    pub(crate) more: Option<Box<More>>,
}

impl<M: Send + 'static> Cell<M> {
    /// See [`AnyCell::leave`](super::AnyCell::leave).
    pub(super) fn step_to_leaving(&self, reason: &ExitReason, children: Children) -> Burial {
        let mut state = self.lock();
        let waits = state.life.more.as_ref().is_some_and(|more| more.childless.is_some());
        if state.life.phase >= Phase::Leaving || waits && children == Children::Respect {
            return Burial::Done;
        }
        if state.life.phase < Phase::Ending {
            state.life.phase = Phase::Ending;
            state.life.set_reason(reason.clone());
        }
        let reason = state.life.reason();
        if state.life.more.is_none() && state.mail.is_empty() {
            // Nobody has to do with it, and it leaves nothing behind. Who comes now is told when it is dead.
            state.life.phase = Phase::Leaving;
            let kept = (state.mail.drain(), state.life.task.take());
            self.set_flag(BURIED);
            drop(state);
            drop(kept); // memory, and a handle
            return Burial::Leaving(Buried { reason, begun: self.head.handled(), more: None });
        }
        let refused = state.mail.close();
        let (queue, lane) = state.mail.drain().unwrap_or_default();
        let services = state.life.more.as_mut().map(|more| &mut more.services);
        let (timers, saves) = services
            .map(|services| (mem::take(&mut services.timers), mem::take(&mut services.saves)))
            .unwrap_or_default();
        self.set_flags(&state.mail);
        let is_left = !queue.is_empty() || !lane.is_empty() || !timers.is_empty() || !saves.is_empty();
        if refused.is_some() || is_left {
            drop(state);
            let unwound = refused.map(Refused::tell).unwrap_or_default();
            let dead = &self.head.node.dead_letters;
            queue.iter().for_each(|entry| dead.unhandled(self.head.id, entry.letter(), &reason));
            let mail = Box::new(move |head: &Head| {
                queue.into_iter().chain(unwound).for_each(|entry| head.discard(entry));
                lane.into_iter().for_each(|event| head.discard(event));
            });
            return Burial::Left(Leftovers { mail, timers, saves });
        }
        if let Some(more) = &mut state.life.more
            && children == Children::Await
            && !more.children.is_empty()
        {
            let (sender, childless) = oneshot::channel();
            more.childless = Some(sender);
            let children = more.children.iter().copied().collect();
            return Burial::Children { children, killed: more.killed, childless };
        }
        self.set_flag(BURIED);
        let mut more = state.life.more.take().unwrap_or_default();
        state.life.phase = Phase::Leaving;
        // Those who are to be told stay until it is dead.
        let stay = state.life.more();
        stay.links = mem::take(&mut more.links);
        stay.monitors = mem::take(&mut more.monitors);
        stay.waits = mem::take(&mut more.waits);
        state.life.set_reason(reason.clone()); // for those who ask later
        drop(state);
        drop(queue); // memory
        Burial::Leaving(Buried { reason, begun: self.head.handled(), more: Some(more) })
    }
}
