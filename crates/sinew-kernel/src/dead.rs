//! Dead letters: messages that were accepted and will not be handled.

use std::any::{Any, type_name};

use sinew_core::{ActorId, ExitReason, Kind};
use sinew_sync::atomic::{AtomicU64, Ordering};

use crate::bus::Bus;
use crate::message::Message;

/// A message that was accepted and will not be handled: what is known of it. The message itself is gone.
#[derive(Clone, PartialEq, Debug)]
pub struct DeadLetter {
    /// Whom it was for.
    pub dest: ActorId,
    /// Who sent it; [`ActorId::NOBODY`] if it is a value of the type of the actor's messages, of which that is not kept.
    pub source: ActorId,
    /// Its kind, unless it is such a value.
    pub kind: Option<Kind>,
    /// The type of the message.
    pub type_name: &'static str,
    /// Why it will not be handled.
    pub reason: DeadLetterReason,
}

/// Why a message that was accepted will not be handled.
#[derive(Clone, PartialEq, Debug)]
pub enum DeadLetterReason {
    /// The mailbox was full, and its policy is to drop.
    Overflow,
    /// Its actor has ended, for this reason.
    Ended(ExitReason),
}

/// What a message becomes when it is one.
pub(crate) struct Letter {
    source: ActorId,
    kind: Option<Kind>,
    type_name: &'static str,
}

impl Letter {
    pub(crate) fn of<M: 'static>(message: &M) -> Letter {
        match (message as &dyn Any).downcast_ref::<Message>() {
            Some(message) => Letter::raw(message),
            None => Letter { source: ActorId::NOBODY, kind: None, type_name: type_name::<M>() },
        }
    }

    pub(crate) fn raw(message: &Message) -> Letter {
        Letter { source: message.source, kind: Some(message.kind), type_name: type_name::<Message>() }
    }
}

/// The dead letters of a node.
#[derive(Default)]
pub(crate) struct DeadLetters {
    count: AtomicU64,
    pub(crate) bus: Bus<DeadLetter>,
}

impl DeadLetters {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn overflow(&self, dest: ActorId, letter: Letter) {
        self.tell(dest, letter, || DeadLetterReason::Overflow);
    }

    pub(crate) fn unhandled(&self, dest: ActorId, letter: Letter, reason: &ExitReason) {
        self.tell(dest, letter, || DeadLetterReason::Ended(reason.clone()));
    }

    fn tell(&self, dest: ActorId, letter: Letter, reason: impl FnOnce() -> DeadLetterReason) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bus.tell(|| {
            let Letter { source, kind, type_name } = letter;
            DeadLetter { dest, source, kind, type_name, reason: reason() }
        });
    }
}
