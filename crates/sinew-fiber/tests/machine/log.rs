//! What a program did, as both machines write it down: one event after the other, and after each event what
//! has changed about the fibers of the table.

use sinew_fiber::{Operation, Reason, Signal, Status};

/// A value, with the number of the operation that it came from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Val {
    Unit,
    Of(u32),
    Cancelled,
    Panic(u32),
    Refused(Reason),
    /// No program makes such a value: the machine did.
    Alien,
}

/// A root or a fiber, with its place among the roots or in the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Name {
    Root(usize),
    Fiber(usize),
}

/// A signal on its way: the fibers of the trace are innermost first.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Raised {
    pub(crate) signal: Signal,
    pub(crate) value: Val,
    pub(crate) trace: Option<Vec<Name>>,
}

/// What came of an operation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    Made(usize),
    /// How the fiber stopped.
    Stopped(Signal),
    Value(Val),
    Taken(Raised),
    Item(Option<Result<Val, Raised>>),
    Ended(Result<(), Raised>),
    Scope(Result<Val, Raised>),
    Bound(Option<u32>),
    Done,
    Refused {
        operation: Operation,
        fiber: Name,
        status: Status,
        reason: Reason,
    },
    /// There is no such fiber, or its handle was dropped.
    Gone,
    /// The operation needs the only handle, and somebody else has one.
    Busy,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Event {
    /// A body starts, with its argument.
    Began(Name, Val),
    /// An operation is done.
    Did { who: Name, step: u32, what: Outcome },
    /// The hook is called.
    Hook(Signal, Val),
    /// The run under a root is over, with so many fibers quarantined by now.
    Over { result: Result<Val, Raised>, quarantined: usize },
    /// A fiber of the table is seen to have changed.
    Now(usize, Seen),
}

/// What can be seen of a fiber from outside. Without a handle, only its status.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    pub(crate) status: Status,
    pub(crate) can_resume: bool,
    pub(crate) last: Option<Val>,
    pub(crate) lineage: Vec<Name>,
}

/// A table may be long (a chain of `MAX_DEPTH` fibers): so many of the newest are looked at.
pub(crate) const LOOKED_AT: usize = 32;

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    seen: Vec<Option<Seen>>,
}

impl Log {
    /// Notes `event` and what has changed in a table of `len` fibers.
    pub(crate) fn note(&mut self, event: Event, len: usize, look: impl Fn(usize) -> Seen) {
        self.events.push(event);
        self.seen.resize(len, None);
        for index in len.saturating_sub(LOOKED_AT)..len {
            let seen = look(index);
            if self.seen[index].as_ref() != Some(&seen) {
                self.seen[index] = Some(seen.clone());
                self.events.push(Event::Now(index, seen));
            }
        }
    }
}
