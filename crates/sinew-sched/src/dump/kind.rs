//! The kinds of things that a task can wait for.

use std::fmt;

/// The kinds, each with the word for it that dumps have.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $word:literal,)*) => {
        /// What a parked task waits for.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum WaitKind {
            $($(#[$about])* $kind,)*
        }

        const ALL: &[(WaitKind, &str)] = &[$((WaitKind::$kind, $word),)*];
    };
}

kinds! {
    /// An await of the task's own, of which the scheduler knows nothing more.
    Await = "await",
    /// The end of a task.
    Join = "join",
    /// A time.
    Sleep = "sleep",
    /// A mutex.
    Mutex = "mutex",
    /// A share of a lock that others hold.
    RwLockRead = "rwlock read",
    /// The whole of a lock that others hold.
    RwLockWrite = "rwlock write",
    /// A condition.
    Condvar = "condvar",
    /// Permits.
    Semaphore = "semaphore",
    /// A value that another is making.
    Once = "once",
    /// The others of a barrier.
    Barrier = "barrier",
    /// The members of a group.
    WaitGroup = "wait group",
    /// The children of a scope, which is at its end.
    Scope = "scope end",
    /// An event of a task that it supervises.
    Event = "event",
    /// An answer of its supervisor, for which it has stopped.
    Answer = "answer of its supervisor",
    /// A future, which is pending and has not said on what.
    Future = "future",
    /// The first of several things.
    Select = "select",
    /// Room in a bounded channel.
    SendBounded = "send, bounded channel",
    /// An item of a bounded channel.
    RecvBounded = "receive, bounded channel",
    /// A receiver.
    SendRendezvous = "send, rendezvous",
    /// A sender.
    RecvRendezvous = "receive, rendezvous",
    /// Room in a weighted channel.
    SendWeighted = "send, weighted channel",
    /// An item of a weighted channel.
    RecvWeighted = "receive, weighted channel",
    /// The value of a oneshot channel.
    RecvOneshot = "receive, oneshot",
    /// The next result of an ordered channel.
    RecvOrdered = "receive, ordered channel",
    /// Room in a broadcast channel.
    SendBroadcast = "send, broadcast",
    /// An item of a broadcast channel.
    RecvBroadcast = "receive, broadcast",
    /// An item of a pool.
    Pool = "pool",
    /// Something to read from a descriptor, or its end.
    Readable = "readable",
    /// Room to write to a descriptor.
    Writable = "writable",
    /// Either.
    ReadableOrWritable = "readable or writable",
    /// Something to do, between two turns.
    Mailbox = "mailbox",
    /// Room in the mailbox of an actor.
    SendMailbox = "send, mailbox",
    /// An answer of an actor.
    Ask = "ask",
    /// The end of an actor.
    ActorEnd = "end of an actor",
    /// The return of a blocking call.
    Blocking = "blocking call",
    /// That the task is cancelled; a case of a select.
    Cancelled = "cancellation",
    /// Nothing; a case of a select that cannot happen.
    Never = "never",
}

impl WaitKind {
    /// The word for it in dumps.
    pub fn as_str(self) -> &'static str {
        ALL[self as usize].1
    }

    pub(crate) fn is_of_a_descriptor(self) -> bool {
        matches!(self, WaitKind::Readable | WaitKind::Writable | WaitKind::ReadableOrWritable)
    }

    pub(crate) fn is_of_an_actor(self) -> bool {
        matches!(self, WaitKind::SendMailbox | WaitKind::Ask | WaitKind::ActorEnd)
    }

    pub(crate) fn from_u8(number: u8) -> WaitKind {
        ALL.get(usize::from(number)).map_or(WaitKind::Await, |(kind, _)| *kind)
    }
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_number() {
        for (at, (kind, word)) in ALL.iter().enumerate() {
            assert_eq!((*kind as usize, WaitKind::from_u8(at as u8), kind.as_str()), (at, *kind, *word));
        }
        assert_eq!(WaitKind::from_u8(255), WaitKind::Await);
    }
}
