//! Streams: many messages to one actor, sent by a task.

use sinew_sched::JoinHandle;

use crate::actor_ref::ActorRef;
use crate::error::{SendError, Unsent};

/// How many messages were accepted and refused: one for each member of a group, or one for each
/// item of a [stream](crate::ActorRef::stream).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "what was refused is gone"]
pub struct SendCounts {
    /// Messages that are in a mailbox.
    pub accepted: usize,
    /// Messages that are not: there was no room, or the actor has ended meanwhile.
    pub refused: usize,
}

impl<M: Send + 'static> ActorRef<M> {
    /// Sends each of `items`, by a task of its own, until there are no more, or the actor ends. If
    /// the mailbox is full, that is as the actor's [`Policy`](crate::Policy) has it: the task waits
    /// for room, or the item is refused, and it goes on with the next. It returns how many of the
    /// items that it has taken were accepted, and how many were not; those are dropped.
    pub fn stream<I>(&self, items: I) -> JoinHandle<SendCounts>
    where
        I: IntoIterator<Item = M> + Send + 'static,
    {
        let to = self.clone();
        self.0.head.node.handle.spawn(move || {
            let mut sent = SendCounts { accepted: 0, refused: 0 };
            for item in items {
                match to.tell(item) {
                    Ok(()) => sent.accepted += 1,
                    Err(SendError { why: Unsent::Full | Unsent::NodeFull { .. }, .. }) => sent.refused += 1,
                    Err(_) => {
                        sent.refused += 1;
                        break;
                    }
                }
            }
            sent
        })
    }
}
