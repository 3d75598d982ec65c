//! An actor, whatever the type of its messages: what the node does with it, and how it ends.

use std::any::Any;
use std::mem;
use std::panic::Location;

use sinew_core::{ActorId, ExitReason};
use sinew_sched::chan::oneshot;
use sinew_sync::Arc;

use super::{BURIED, Cell, Entry, Head, Lane, Life, More, Phase, untyped};
use crate::error::SendError;
use crate::event::Event;
use crate::mailbox::{Refused, Stop};
use crate::message::Message;
use crate::services::{Timers, release_timers};
use crate::stop::Patience;

/// An actor, whatever the type of its messages.
pub(crate) trait AnyCell: Send + Sync {
    fn head(&self) -> &Head;

    /// It gets its id, before anybody else has it.
    fn set_id(&mut self, id: ActorId);

    /// The cell, for those who know the type of its messages.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Puts a message that was sent by id into the mailbox.
    fn deliver(&self, message: Message) -> Result<(), SendError<Message>>;

    /// Puts an event into the lane. It is given back if the actor ends.
    fn push_event(&self, event: Event) -> Result<(), Event>;

    /// Asks it to end, and says how long it may take. None if it has ended, or is leaving; and one that may take no time at all is
    /// not asked.
    fn ask_to_end(&self, reason: ExitReason) -> Option<Patience>;

    /// Does something with its life, under its lock: `what` runs no foreign code, and takes no other lock.
    fn with_life(&self, what: &mut dyn FnMut(&mut Life));

    /// Closes the mailbox for this reason, if it is open: from now on the actor ends. False if it did already; then a failure
    /// still takes the place of a reason that is none.
    fn close(&self, reason: ExitReason) -> bool;

    /// The step to leaving, if nothing is left in its mailbox, and it is not to wait for children: whoever makes it gets what is to
    /// be freed. The actor ends for the reason for which it was closed, if it was, else for this one.
    fn bury(&self, reason: &ExitReason, children: Children) -> Burial;

    /// For onlookers.
    fn see(&self) -> Seen;
}

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
    /// These come first; then it is to be tried again. Its mailbox is closed for good, and those in it are dead letters.
    Left(Left),
    /// These are to end first, and whoever waits for that is told when the last has; then it is to be tried again.
    Children { children: Vec<ActorId>, killed: bool, childless: oneshot::Receiver<()> },
    /// It is leaving.
    Leaving(Buried),
    /// It was leaving before, or waits for its children.
    Done,
}

/// Messages that an actor leaves behind, in its mailbox and with its timers. To drop them runs foreign code.
pub(crate) struct Left {
    mail: Box<dyn FnOnce(&Head) + Send>,
    timers: Timers,
}

impl Left {
    /// Drops them, as part of the actor.
    pub(crate) fn discard(self, head: &Head) {
        release_timers(self.timers, head);
        (self.mail)(head);
    }
}

/// What is told of an actor that has ended, and to whom.
pub(crate) struct Buried {
    pub(crate) reason: ExitReason,
    /// How many messages it had begun.
    pub(crate) begun: u64,
    pub(crate) more: Option<Box<More>>,
}

/// What an onlooker sees of an actor.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) queued: usize,
    pub(crate) capacity: u32,
    pub(crate) high_water: u32,
    pub(crate) dropped: u32,
    pub(crate) phase: Phase,
    /// Senders wait for room.
    pub(crate) waiting: bool,
    pub(crate) handled: u64,
    pub(crate) bytes: usize,
    pub(crate) name: Option<Box<str>>,
    pub(crate) parent: Option<ActorId>,
    pub(crate) restarts: u32,
    pub(crate) last_error: Option<ExitReason>,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
}

impl dyn AnyCell + '_ {
    /// [`AnyCell::with_life`] with a result.
    pub(crate) fn life<T>(&self, what: impl FnOnce(&mut Life) -> T) -> T {
        let (mut what, mut result) = (Some(what), None);
        self.with_life(&mut |life| result = what.take().map(|what| what(life)));
        result.expect("it is called once")
    }
}

impl<M: Send + 'static> AnyCell for Cell<M> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn set_id(&mut self, id: ActorId) {
        self.head.id = id;
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn deliver(&self, message: Message) -> Result<(), SendError<Message>> {
        let (source, kind) = (message.source, message.kind);
        let queued = self.head.node.budget.charge(message);
        let queued = queued.map_err(|(message, why)| SendError::new(message, why))?;
        let entry = Entry::queued(queued);
        self.try_put(entry).map(drop).map_err(|(entry, why)| {
            let message = Message { source, kind, ..untyped(entry, self.head.id) };
            SendError::new(message, why)
        })
    }

    fn push_event(&self, event: Event) -> Result<(), Event> {
        self.push_lane(Lane::Event(event)).map_err(|lane| match lane {
            Lane::Event(event) => event,
            Lane::Typed(_) => unreachable!("it was an event"),
        })
    }

    fn ask_to_end(&self, reason: ExitReason) -> Option<Patience> {
        let mut state = self.lock();
        let patience = state.life.more.as_ref().map_or(Patience::Node, |more| more.patience);
        if patience == Patience::NONE {
            return Some(patience);
        }
        let put = match reason {
            ExitReason::Shutdown => state.mail.put_stop(Stop::Now).ok(),
            reason => state.mail.put_event(Lane::Event(Event::Stop { reason, drain: false })).ok(),
        };
        self.set_flags(&state.mail);
        // One that drops what was left in its mailbox has to get done with that.
        let ends = put.is_some() || state.life.phase < Phase::Leaving;
        drop(state);
        if put == Some(true) {
            self.head.waker.wake();
        }
        ends.then_some(patience)
    }

    fn with_life(&self, what: &mut dyn FnMut(&mut Life)) {
        what(&mut self.lock().life);
    }

    fn close(&self, reason: ExitReason) -> bool {
        let mut state = self.lock();
        if state.life.phase >= Phase::Ending {
            // One that fails or is killed while it ends well has not ended well.
            if state.life.phase == Phase::Ending && reason.is_abnormal() && !state.life.reason().is_abnormal()
            {
                state.life.set_reason(reason);
            }
            return false;
        }
        state.life.phase = Phase::Ending;
        state.life.set_reason(reason);
        let refused = state.mail.close();
        let goes_on = state.life.more.as_mut().map(|more| mem::take(&mut more.goes_on));
        self.set_flags(&state.mail);
        drop(state);
        drop(goes_on); // it does not
        self.give_back(refused);
        true
    }

    fn bury(&self, reason: &ExitReason, children: Children) -> Burial {
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
            // Nobody has to do with it, and it leaves nothing behind.
            state.life.phase = Phase::Dead;
            let kept = (state.mail.drain(), state.life.task.take());
            self.set_flag(BURIED);
            drop(state);
            drop(kept); // memory, and a handle
            return self.buried(reason, None);
        }
        let refused = state.mail.close();
        let (queue, lane) = state.mail.drain().unwrap_or_default();
        let timers = state.life.more.as_mut().map(|more| mem::take(&mut more.services.timers));
        let timers = timers.unwrap_or_default();
        self.set_flags(&state.mail);
        if refused.is_some() || !queue.is_empty() || !lane.is_empty() || !timers.is_empty() {
            drop(state);
            let unwound = refused.map(Refused::tell).unwrap_or_default();
            let dead = &self.head.node.dead_letters;
            queue.iter().for_each(|entry| dead.unhandled(&self.head, entry.letter(), &reason));
            let mail = Box::new(move |head: &Head| {
                queue.into_iter().chain(unwound).for_each(|entry| head.discard(entry));
                lane.into_iter().for_each(|event| head.discard(event));
            });
            return Burial::Left(Left { mail, timers });
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
        self.buried(reason, Some(more))
    }

    fn see(&self) -> Seen {
        let state = self.lock();
        let handled = self.head.handled();
        let more = state.life.more.as_deref();
        let own = size_of::<Self>() + more.map_or(0, |_| size_of::<More>());
        Seen {
            queued: state.mail.len(handled as u32),
            capacity: state.mail.capacity(),
            high_water: state.mail.high_water,
            dropped: state.mail.dropped,
            phase: state.life.phase,
            waiting: state.mail.has_waiting(),
            handled,
            bytes: own + state.mail.bytes(),
            name: more.and_then(|more| more.name.clone()),
            parent: more.and_then(|more| more.parent),
            restarts: more.map_or(0, |more| more.restarts),
            last_error: more.and_then(|more| more.last_error.clone()),
            spawned_at: more.and_then(|more| more.spawned_at),
        }
    }
}

impl<M: Send + 'static> Cell<M> {
    /// The step to leaving was made.
    fn buried(&self, reason: ExitReason, more: Option<Box<More>>) -> Burial {
        let begun = self.head.handled();
        if more.as_ref().is_none_or(|more| !more.refused) {
            self.head.node.books.close(begun, self.head.take_failed());
        }
        Burial::Leaving(Buried { reason, begun, more })
    }
}
