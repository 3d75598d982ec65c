//! The state of the reference: what a fiber is, and what it may be doing.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use sinew_fiber::{CancelLevel, Signal, Status};

use crate::log::{Name, Outcome, Raised, Val};
use crate::program::{Body, Make};

/// Roots and fibers are numbered together, roots first.
pub(crate) type Id = usize;

/// A value that several fibers of a chain have in common, until one of them is asked for it.
pub(crate) type Last = Rc<Cell<Option<Val>>>;

pub(crate) struct Fiber {
    pub(crate) mask: Vec<Signal>,
    pub(crate) status: Status,
    pub(crate) child: Option<Id>,
    pub(crate) parent: Option<Id>,
    pub(crate) last: Last,
    pub(crate) trace: Option<Vec<Name>>,
    /// The root under which it was first resumed.
    pub(crate) root: Option<Id>,
    /// How many own it, the table included, and whether the table does.
    pub(crate) owners: usize,
    pub(crate) in_table: bool,
    /// What it is doing, innermost last.
    pub(crate) frames: Vec<Frame>,
    pub(crate) body: Option<Body>,
    /// A terminal signal is on its way through the frames.
    pub(crate) unwinding: bool,
    /// It is being dropped, and went on so many times.
    pub(crate) ending: bool,
    pub(crate) swallowed: u32,
    pub(crate) quarantined: bool,
    pub(crate) bindings: Option<usize>,
    /// Of a root: has it a hook, how many interrupts are counted, is it cancelled.
    pub(crate) hook: bool,
    pub(crate) interrupts: u32,
    pub(crate) level: Option<CancelLevel>,
}

pub(crate) enum Frame {
    /// A list of operations and how far it is. Once it is left, its locals go, the first one first.
    Body {
        body: Body,
        at: usize,
        locals: VecDeque<Local>,
        left: Option<Result<Val, Raised>>,
    },
    /// The scopes around the body in the frame above.
    Shield {
        step: u32,
    },
    Ffi {
        step: u32,
    },
    /// An operation on another fiber, which it owns meanwhile.
    Call {
        step: u32,
        call: Call,
        target: Id,
    },
    /// A resumable signal of its own, or a checkpoint; `stopped` once it has stopped with the signal.
    Raise {
        step: u32,
        signal: Option<Signal>,
        stopped: bool,
    },
    /// Waits for a fiber that it dropped to end.
    Drop {
        then: Then,
    },
}

impl Frame {
    pub(crate) fn body(body: Body) -> Frame {
        Frame::Body { body, at: 0, locals: VecDeque::new(), left: None }
    }
}

/// What a body does when it is left.
pub(crate) enum Local {
    Run(Make),
    Drop(Option<Id>),
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Call {
    Resume,
    Cancel,
    Propagate,
    /// The second half of a propagate whose signal reached the root: resume with what the hook gave.
    Continue(Val),
    Next,
    Guard,
}

/// What follows the end of a dropped fiber.
pub(crate) enum Then {
    Finish {
        step: u32,
        what: Outcome,
    },
    /// The outcome is how the fiber ended.
    Tell {
        step: u32,
    },
    Unwind(Raised),
}

/// What the running fiber does next.
pub(crate) enum Next {
    /// The next operation of the topmost body.
    Go,
    /// The topmost body is left.
    Leave(Result<Val, Raised>),
    /// A terminal signal goes through the frames.
    Unwind(Raised),
    /// The topmost frame, which had stopped, is continued.
    Continue(Delivery),
    /// The operation in the topmost frame starts, or starts again after an interrupt.
    Start,
    /// The fiber of this frame has stopped or ended.
    Stopped(Id),
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Delivery {
    Value(Val),
    Error(Val),
    /// The pending signal is refused: the fiber is being dropped and is shielded.
    Ending,
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<usize, u32>,
    pub(crate) below: Option<usize>,
}

impl Fiber {
    pub(crate) fn new(letters: &str, body: Option<Body>) -> Fiber {
        Fiber {
            mask: caught_by(letters),
            status: Status::New,
            child: None,
            parent: None,
            last: Last::default(),
            trace: None,
            root: None,
            owners: 1,
            in_table: true,
            frames: Vec::new(),
            body,
            unwinding: false,
            ending: false,
            swallowed: 0,
            quarantined: false,
            bindings: None,
            hook: false,
            interrupts: 0,
            level: None,
        }
    }

    /// The terminal statuses: dead, error and user0 to user4.
    pub(crate) fn has_ended(&self) -> bool {
        [0, 1, 4, 5, 6, 7, 8].contains(&self.status.number())
    }

    pub(crate) fn shielded(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::Shield { .. }))
    }

    pub(crate) fn in_ffi_scope(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::Ffi { .. }))
    }
}

/// The table of the letters.
fn caught_by(letters: &str) -> Vec<Signal> {
    use Signal::{
        Await, Debug, Error, Interrupt, User0, User1, User2, User3, User4, User5, User6, User7, Yield,
    };
    let users = [User0, User1, User2, User3, User4, User5, User6, User7, Interrupt, Await];
    let signals = |letter| match letter {
        'e' => vec![Error],
        'd' => vec![Debug],
        'y' => vec![Yield],
        't' => vec![Error, User0, User1, User2, User3, User4],
        'u' => users[..8].to_vec(),
        'a' => [&[Error, Debug, Yield], &users[..8]].concat(),
        'r' => vec![Interrupt],
        'w' => vec![Await],
        'i' | 'p' => vec![],
        digit => vec![users[digit.to_digit(10).expect("programs have known letters") as usize]],
    };
    letters.chars().flat_map(signals).collect()
}
