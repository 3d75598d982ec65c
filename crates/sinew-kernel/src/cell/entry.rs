//! What is in a mailbox: messages in the queue, events and notices in the lane.

use std::any::Any;

use sinew_core::{ActorId, ExitReason, Kind};
use sinew_sync::Arc;

use crate::dead::Letter;
use crate::event::Event;
use crate::limits::Queued;
use crate::mailbox::Stop;
use crate::message::{Message, Payload};
use crate::notice::TypedNotice;

/// A message in the queue.
pub(crate) enum Entry<M> {
    Typed(M),
    /// One that was sent by id, to an actor whose messages are of another type, or whose bytes are
    /// counted.
    Raw(Box<Queued>),
}

/// Something in the lane.
pub(crate) enum Lane<M> {
    Event(Event),
    /// A message of the actor's own, from a timer.
    Typed(Arc<dyn TypedNotice<M>>),
}

impl<M> From<Stop> for Lane<M> {
    fn from(stop: Stop) -> Lane<M> {
        Lane::Event(Event::Stop { reason: ExitReason::Shutdown, drain: stop == Stop::Drain })
    }
}

impl<M: Send + 'static> Entry<M> {
    /// A message that was sent by id.
    pub(super) fn queued(queued: Queued) -> Entry<M> {
        if queued.is_charged() {
            return Entry::Raw(Box::new(queued));
        }
        match typed::<M>(queued.message) {
            Ok(message) => Entry::Typed(message),
            Err(message) => Entry::Raw(Box::new(Queued::uncounted(message))),
        }
    }

    /// What is said of it as a dead letter.
    pub(crate) fn letter(&self) -> Letter {
        match self {
            Entry::Typed(message) => Letter::of(message),
            Entry::Raw(queued) => Letter::raw(&queued.message),
        }
    }

    /// The message, which is about to be handled: of the actor's own type, or not.
    #[inline]
    pub(crate) fn open(self) -> Result<M, Message> {
        match self {
            Entry::Typed(message) => Ok(message),
            Entry::Raw(queued) => typed(queued.message),
        }
    }
}

/// The message as one of the actor's own type, if it carries one, or is one.
pub(super) fn typed<M: 'static>(message: Message) -> Result<M, Message> {
    let mut whole = Some(message);
    if let Some(same) = (&mut whole as &mut dyn Any).downcast_mut::<Option<M>>() {
        return Ok(same.take().expect("it is there"));
    }
    let Message { source, dest, kind, payload } = whole.expect("it is there");
    payload.downcast::<M>().map_err(|payload| Message { source, dest, kind, payload })
}

/// The other way round, for a message that comes back.
pub(super) fn untyped<M: Send + 'static>(entry: Entry<M>, dest: ActorId) -> Message {
    match entry {
        Entry::Raw(queued) => queued.message,
        Entry::Typed(message) => {
            let mut message = Some(message);
            if let Some(same) = (&mut message as &mut dyn Any).downcast_mut::<Option<Message>>() {
                return same.take().expect("it is there");
            }
            let payload = Payload::value(message.expect("it is there"));
            Message::new(dest, Kind(0), payload)
        }
    }
}
