//! How messages and traces describe a fiber: its link, its label, its traces and refusals.

use std::panic::Location;

use sinew_core::Signal;

use super::Record;
use crate::refused::{Operation, Reason, Refused};
use crate::trace::{Link, LinkKind, Trace};

impl Record {
    /// The fiber or root as traces name it.
    pub(crate) fn link(&self) -> Link {
        let kind = match self.is_root() {
            false => LinkKind::Fiber,
            true if self.of_thread.get() => LinkKind::Thread,
            true if self.runs_tasks() => LinkKind::Task,
            true => LinkKind::Root,
        };
        Link { kind, name: self.name(), id: self.id.get(), created: self.created }
    }

    /// How messages name the fiber: `parser#12`, or `#12` if it has no name.
    pub(crate) fn label(&self) -> String {
        self.link().to_string()
    }

    /// The trace of a signal that the fiber raises at `location`.
    #[cold]
    pub(crate) fn capture_trace(&self, location: &'static Location<'static>) -> Box<Trace> {
        Trace::capture(location, self.ancestors().map(Record::link))
    }

    /// The trace of a panic of the fiber.
    pub(crate) fn capture_panic(&self, location: &Location<'_>) -> Box<Trace> {
        Trace::capture_panic(location, self.ancestors().map(Record::link))
    }

    /// The refusal of `operation` on the fiber.
    #[cold]
    pub(crate) fn refuse(&self, operation: Operation, reason: Reason) -> Refused {
        Refused::new(operation, &self.link(), self.status(), reason)
    }

    /// The refusal of a signal that the fiber raises.
    #[cold]
    pub(crate) fn refuse_signal(&self, signal: Signal, reason: Reason) -> Refused {
        self.refuse(Operation::Signal(signal), reason)
    }
}
