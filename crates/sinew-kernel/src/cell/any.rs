//! An actor, whatever the type of its messages.

use std::any::Any;
use std::mem;
use std::panic::Location;

use sinew_core::{ActorId, ExitReason};
use sinew_sync::Arc;

use super::{Burial, Cell, Children, Entry, Head, Lane, Life, More, Phase, untyped};
use crate::error::SendError;
use crate::event::Event;
use crate::mailbox::Stop;
use crate::message::Message;
use crate::patience::Patience;
use crate::services::{Owned, Owner};
use crate::table::Identified;

/// An actor, whatever the type of its messages.
pub(crate) trait AnyCell: Send + Sync {
    fn head(&self) -> &Head;

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
    fn leave(&self, reason: &ExitReason, children: Children) -> Burial;

    /// For onlookers.
    fn see(&self) -> Seen;
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

impl<M: Send + 'static> Owner for Cell<M> {
    fn with_services(&self, what: &mut dyn FnMut(&mut Owned)) {
        if let Some(more) = &mut self.lock().life.more {
            what(&mut more.services);
        }
    }
}

impl Identified for dyn AnyCell {
    fn id(&self) -> ActorId {
        self.head().id
    }
}

impl<M: Send + 'static> AnyCell for Cell<M> {
    fn head(&self) -> &Head {
        &self.head
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

    fn leave(&self, reason: &ExitReason, children: Children) -> Burial {
        self.step_to_leaving(reason, children)
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
