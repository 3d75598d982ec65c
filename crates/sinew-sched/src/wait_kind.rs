//! The kinds of things that a task can wait for.
//!
//! Those of the scheduler and of the crates beside it are constants. A crate above registers labels of its own
//! ([`WaitKind::label`]): to the scheduler they are a number, with a tag that says which thing of that kind is meant.

use std::fmt;

use sinew_sync::statics::OnceLock;

/// The kinds, each with the word for it that dumps have.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $word:literal,)*) => {
        #[allow(non_upper_case_globals, reason = "they read as the variants of an enum, to which others can add")]
        impl WaitKind {
            $($(#[$about])* pub const $kind: WaitKind = WaitKind(Number::$kind as u8);)*
        }

        enum Number {
            $($kind,)*
        }

        const WORDS: &[&str] = &[$($word,)*];
        #[cfg(all(test, not(any(loom, shuttle))))]
        const NAMES: &[(WaitKind, &str)] = &[$((WaitKind::$kind, $word),)*];
    };
}

/// What a parked task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitKind(u8);

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
    /// The next turn of a body that runs in turns.
    Turn = "its next turn",
    /// The return of a blocking call.
    Blocking = "blocking call",
    /// That the task is cancelled; a case of a select.
    Cancelled = "cancellation",
    /// Nothing; a case of a select that cannot happen.
    Never = "never",
}

/// The number of the first label.
const FIRST_LABEL: u8 = 192;

/// How many labels there may be.
const LABELS: usize = 16;

/// What a label says.
struct Label {
    word: &'static str,
    /// What a tag is the number of.
    tagged: &'static str,
}

static REGISTERED: [OnceLock<Label>; LABELS] = [const { OnceLock::new() }; LABELS];

impl WaitKind {
    /// The kind with the label `number`, of 16: for one crate above the scheduler, which says what it means by
    /// [`register`](WaitKind::register).
    #[doc(hidden)]
    pub const fn label(number: u8) -> WaitKind {
        assert!((number as usize) < LABELS);
        WaitKind(FIRST_LABEL + number)
    }

    /// Says what a label means to people: the word for the wait, and what its tags are the numbers of. The first
    /// registration stays.
    #[doc(hidden)]
    pub fn register(self, word: &'static str, tagged: &'static str) {
        if let Some(place) = self.label_number().and_then(|number| REGISTERED.get(number)) {
            place.get_or_init(|| Label { word, tagged });
        }
    }

    fn label_number(self) -> Option<usize> {
        self.0.checked_sub(FIRST_LABEL).map(usize::from)
    }

    fn registered(self) -> Option<&'static Label> {
        REGISTERED.get(self.label_number()?)?.get()
    }

    /// What the tags of a label are the numbers of. None for other kinds.
    pub(crate) fn tagged(self) -> Option<&'static str> {
        self.label_number().map(|_| self.registered().map_or("number", |label| label.tagged))
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self.label_number() {
            Some(_) => self.registered().map_or("unregistered", |label| label.word),
            None => WORDS.get(usize::from(self.0)).copied().unwrap_or("unknown"),
        }
    }

    pub(crate) fn is_of_a_descriptor(self) -> bool {
        matches!(self, WaitKind::Readable | WaitKind::Writable | WaitKind::ReadableOrWritable)
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn from_number(number: u8) -> WaitKind {
        WaitKind(number)
    }
}

impl fmt::Debug for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitKind({:?})", self.as_str())
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
        for (at, (kind, word)) in NAMES.iter().enumerate() {
            assert_eq!(
                (kind.number(), WaitKind::from_number(at as u8), kind.as_str()),
                (at as u8, *kind, *word)
            );
            assert!(kind.number() < FIRST_LABEL && kind.tagged().is_none());
        }
        assert_eq!(WaitKind::from_number(191).as_str(), "unknown");
    }

    #[test]
    fn a_label_says_what_was_registered_first() {
        let kind = WaitKind::label(15);
        assert_eq!((kind.as_str(), kind.tagged()), ("unregistered", Some("number")));
        kind.register("room", "door");
        kind.register("other", "other");
        assert_eq!((kind.as_str(), kind.tagged()), ("room", Some("door")));
        assert_eq!(WaitKind::from_number(kind.number()), kind);
        WaitKind::Sleep.register("other", "other");
        assert_eq!(WaitKind::Sleep.as_str(), "sleep");
    }
}
