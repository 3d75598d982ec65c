//! What the programs of a whole run reached, counted by the reference; so that the property cannot pass by
//! never going anywhere.

use std::collections::BTreeMap;
use std::fmt;

use sinew_fiber::{Reason, Status};

/// The columns of the matrix in `docs/fibers.md`, and the drop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Action {
    Resume,
    Cancel,
    Propagate,
    Next,
    Drop,
}

const ACTIONS: [Action; 5] = [Action::Resume, Action::Cancel, Action::Propagate, Action::Next, Action::Drop];

/// Every reason for a refusal.
const REASONS: [Reason; 10] = [
    Reason::Status,
    Reason::Linked,
    Reason::OtherTask,
    Reason::TooDeep,
    Reason::Shielded,
    Reason::Uncaught,
    Reason::Unwinding,
    Reason::FfiScope,
    Reason::Ending,
    Reason::Cancelled,
];

/// Whatever else has to happen.
const SITUATIONS: [&str; 14] = [
    "binding read from a shared table",
    "binding read through a layer",
    "cancelled again",
    "cancelled at the root",
    "chain of 2 continued",
    "chain of 3 or more continued",
    "drop while unwinding",
    "ending in a shield",
    "hook",
    "interrupt is caught",
    "interrupt reaches the root",
    "next of a running fiber is not possible",
    "propagate reaches the root",
    "quarantined",
];

#[derive(Default)]
pub(crate) struct Coverage {
    cells: [[u64; 16]; ACTIONS.len()],
    objections: BTreeMap<String, u64>,
    refusals: BTreeMap<String, u64>,
    situations: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(crate) fn cell(&mut self, action: Action, status: Status) {
        self.cells[action as usize][usize::from(status.number())] += 1;
    }

    /// `action` was refused because of the state of its target.
    pub(crate) fn objection(&mut self, action: Action, reason: Reason) {
        *self.objections.entry(format!("{action:?} {reason:?}")).or_default() += 1;
    }

    pub(crate) fn refusal(&mut self, reason: Reason) {
        *self.refusals.entry(format!("{reason:?}")).or_default() += 1;
    }

    pub(crate) fn hit(&mut self, situation: &'static str) {
        debug_assert!(SITUATIONS.contains(&situation), "{situation} is not in the list");
        *self.situations.entry(situation).or_default() += 1;
    }

    pub(crate) fn chain(&mut self, length: usize) {
        match length {
            1 => (),
            2 => self.hit("chain of 2 continued"),
            _ => self.hit("chain of 3 or more continued"),
        }
    }

    /// The cells, reasons and situations that were not reached.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for action in ACTIONS {
            for status in Status::ALL {
                // A running fiber's handle is in use, so it is neither dropped nor borrowed mutably.
                let impossible = status == Status::Alive && matches!(action, Action::Next | Action::Drop);
                let count = self.cells[action as usize][usize::from(status.number())];
                if (count == 0) != impossible {
                    missing.push(format!("{action:?} of a fiber that is {status}: {count} times"));
                }
            }
        }
        for action in [Action::Resume, Action::Cancel, Action::Propagate] {
            for reason in [Reason::Linked, Reason::OtherTask] {
                let objection = format!("{action:?} {reason:?}");
                if !self.objections.contains_key(&objection) {
                    missing.push(objection);
                }
            }
        }
        let reasons = REASONS.into_iter().map(|reason| format!("{reason:?}"));
        missing.extend(reasons.filter(|reason| !self.refusals.contains_key(reason)));
        let situations = SITUATIONS.into_iter().filter(|situation| !self.situations.contains_key(situation));
        missing.extend(situations.map(str::to_owned));
        missing
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12}", "status")?;
        for action in ACTIONS {
            write!(f, "{:>10}", format!("{action:?}"))?;
        }
        writeln!(f)?;
        for status in Status::ALL {
            write!(f, "{:12}", status.to_string())?;
            for action in ACTIONS {
                write!(f, "{:10}", self.cells[action as usize][usize::from(status.number())])?;
            }
            writeln!(f)?;
        }
        for (what, count) in &self.refusals {
            writeln!(f, "refused, {what}: {count}")?;
        }
        for (what, count) in &self.objections {
            writeln!(f, "objection, {what}: {count}")?;
        }
        for (what, count) in &self.situations {
            writeln!(f, "{what}: {count}")?;
        }
        Ok(())
    }
}
