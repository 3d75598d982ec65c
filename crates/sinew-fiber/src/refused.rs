//! `Refused`: an operation on a fiber that was refused, and why.

use std::fmt;

use sinew_core::{Signal, Status};

use crate::trace::{Link, LinkKind};

/// An operation that was refused. The fiber is as it was before; a refusal is a Rust error and never
/// travels as a signal.
///
/// It says which operation, on which fiber, in which status, and why:
///
/// ```
/// use sinew_fiber::Fiber;
///
/// let fiber = Fiber::builder().name("once").build(|_| ())?;
/// let _ = fiber.resume(())?;
/// let refused = fiber.resume(()).unwrap_err();
/// assert!(refused.to_string().starts_with("cannot resume fiber once"));
/// assert!(refused.to_string().contains("its status is dead"));
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
pub struct Refused(Box<Details>);

struct Details {
    operation: Operation,
    kind: LinkKind,
    fiber: String,
    status: Status,
    reason: Reason,
    /// The signal reached the root of a task, whose supervisor would have caught it.
    lacks_supervisor: bool,
}

impl Refused {
    /// The refusal of `operation` on `fiber`, which has the status `status`.
    #[cold]
    pub(crate) fn new(operation: Operation, fiber: &Link, status: Status, reason: Reason) -> Refused {
        let (kind, fiber) = (fiber.kind, fiber.to_string());
        Refused(Box::new(Details { operation, kind, fiber, status, reason, lacks_supervisor: false }))
    }

    /// Makes the message name a supervisor as a way out.
    pub(crate) fn for_lack_of_a_supervisor(mut self) -> Refused {
        self.0.lacks_supervisor = true;
        self
    }

    /// What was asked for.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The name of the fiber that it was asked of.
    pub fn fiber(&self) -> &str {
        &self.0.fiber
    }

    /// The status of that fiber, then and now.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Why it was refused.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Returns `true` if the caller is asked to end: its task is cancelled, or its fiber is being
    /// dropped.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self.reason(), Reason::Cancelled | Reason::Ending)
    }
}

impl std::error::Error for Refused {}

/// The message, as [`Display`](fmt::Display) has it: it is what `unwrap` and `main` print.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { operation, kind, fiber, status, reason, lacks_supervisor } = &*self.0;
        match operation {
            // Most who wait know of no fiber, and it is alive.
            Operation::Signal(Signal::Await) => write!(f, "cannot wait in {fiber}: ")?,
            _ => write!(f, "cannot {operation} {kind} {fiber} (its status is {status}): ")?,
        }
        match reason {
            Reason::Status => f.write_str(match status {
                Status::New => "it has not run yet; resume it first",
                Status::Alive => "it is running, or waits for a fiber that it resumed",
                Status::Dead if *operation == Operation::Propagate => {
                    "it has returned, and a root has no body that could return for it; use its value"
                }
                Status::Dead => "it has returned; make a new fiber",
                _ => "it has ended; make a new fiber",
            }),
            Reason::Linked => f.write_str("it stopped together with the fiber that resumed it; resume that one"),
            Reason::OtherTask => {
                f.write_str("it was first resumed by another task, or under another root; resume it there")
            }
            Reason::TooDeep => write!(f, "the chain would be deeper than {MAX_DEPTH} fibers"),
            Reason::Shielded => f.write_str("it is inside a shield; try again later"),
            Reason::Uncaught if *lacks_supervisor => f.write_str(
                "no fiber around it catches the signal, and its task has no supervisor; add the signal to the mask of a \
                 fiber around it, or start the task with a supervisor (`TaskBuilder::supervisor` with an `Events`)",
            ),
            Reason::Uncaught => f.write_str(
                "no fiber around it catches the signal; add it to the mask of one (a mask that is given replaces \
                 the default, which is yield)",
            ),
            Reason::Unwinding => f.write_str("the thread is unwinding; a destructor must not suspend"),
            Reason::FfiScope => {
                f.write_str("the signal would cross an ffi_scope; raise it after the foreign call has returned")
            }
            Reason::InsidePoll => f.write_str(
                "inside the poll of a future nothing may block: await a future instead, or block outside",
            ),
            Reason::OpenScope => f.write_str(
                "the signal would leave an open scope, which only await may; raise it after the scope has ended",
            ),
            Reason::Ending => f.write_str("it is being dropped; nobody will resume it again"),
            Reason::Cancelled => f.write_str("its task is cancelled; hand this error on with `?`"),
        }
    }
}

/// What was asked of a fiber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// [`Fiber::resume`](crate::Fiber::resume), or an iteration.
    Resume,
    /// [`Fiber::cancel`](crate::Fiber::cancel).
    Cancel,
    /// [`propagate`](crate::propagate).
    Propagate,
    /// A signal raised by the running fiber: a yield, a breakpoint, an await…
    Signal(Signal),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Resume => f.write_str("resume"),
            Operation::Cancel => f.write_str("cancel"),
            Operation::Propagate => f.write_str("propagate from"),
            Operation::Signal(signal) => write!(f, "signal {signal} from"),
        }
    }
}

/// The greatest number of fibers in a chain, the root not counted.
pub const MAX_DEPTH: u16 = 1024;

/// Why an operation was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The status does not allow it: the fiber has ended, is running, or (for `propagate`) is new.
    Status,
    /// The fiber stopped together with the one that resumed it, and continues when that one does.
    Linked,
    /// The fiber was first resumed under another root.
    OtherTask,
    /// The chain of fibers would be deeper than [`MAX_DEPTH`].
    TooDeep,
    /// The fiber is inside a [`shield`](crate::shield).
    Shielded,
    /// Nobody in the chain catches the signal, and it is not one that reaches the root. A mask
    /// around it, or a supervisor of its task, would catch it.
    Uncaught,
    /// The thread is unwinding; a stack that is being unwound must not be suspended.
    Unwinding,
    /// The signal would stop a fiber that is inside an [`ffi_scope`](crate::ffi_scope).
    FfiScope,
    /// The signal would stop a fiber that is inside the poll of a future.
    InsidePoll,
    /// The signal would stop a fiber whose stack others borrow from, and is not await.
    OpenScope,
    /// The fiber that would be stopped is being dropped.
    Ending,
    /// The task was cancelled.
    Cancelled,
}
