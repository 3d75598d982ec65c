//! How long an actor that is asked to stop may take, and what is done if it takes longer.

use std::time::Duration;

/// How long an actor may take to end when it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Patience {
    /// As its node has it: then it is cancelled, and killed after as long again.
    #[default]
    Node,
    /// This long: then it is killed. With zero it is not asked at all.
    Kill(Duration),
    /// As long as it likes.
    Forever,
}

impl Patience {
    /// It is killed, and not asked.
    pub(crate) const NONE: Patience = Patience::Kill(Duration::ZERO);
}

/// What is done next about an actor that was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Cancel,
    Kill,
    Bury,
}
