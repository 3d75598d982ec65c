//! What an actor is doing, by what the scheduler notes about its task.

use std::fmt;
use std::time::Duration;

use sinew_core::ActorId;
use sinew_sched::{TaskDump, TaskState, Wait, WaitKind};

use crate::shared::Inner;
use crate::waits;

/// What an actor is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActorState {
    /// It waits for messages.
    Idle,
    /// It has something to do, and waits for its turn.
    Ready,
    /// It runs, or is about to be seen doing something else.
    Running,
    /// It waits in the middle of its code.
    Blocked(Blocked),
}

/// What a blocked actor waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// What it is to the scheduler.
    pub on: Wait,
    /// The actor whose answer, room or end it waits for.
    pub actor: Option<ActorId>,
    /// For how long, to within some milliseconds.
    pub since: Option<Duration>,
}

/// What the actor of this task is doing.
pub(super) fn of(node: &Inner, task: &TaskDump) -> ActorState {
    match (task.state, &task.wait) {
        (TaskState::Ready, _) => ActorState::Ready,
        (TaskState::Parked, Some(on)) if on.kind == WaitKind::Turn => ActorState::Idle,
        (TaskState::Parked, Some(on)) => {
            let actor = on.tag.map(|local| ActorId::new(node.id, local));
            ActorState::Blocked(Blocked { on: on.clone(), actor, since: task.since })
        }
        _ => ActorState::Running,
    }
}

impl ActorState {
    /// What a blocked actor waits for.
    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            ActorState::Blocked(blocked) => Some(blocked),
            _ => None,
        }
    }

    /// `idle`, `ready`, `running` or `blocked`.
    pub fn name(&self) -> &'static str {
        match self {
            ActorState::Idle => "idle",
            ActorState::Ready => "ready",
            ActorState::Running => "running",
            ActorState::Blocked(_) => "blocked",
        }
    }
}

impl fmt::Display for ActorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.blocked().map_or(Ok(()), |blocked| write!(f, ": {blocked}"))
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.on.kind, self.actor) {
            (waits::ASK, Some(actor)) => return write!(f, "ask to {actor}"),
            (waits::SEND, Some(actor)) => return write!(f, "full mailbox of {actor}"),
            (waits::END, Some(actor)) => return write!(f, "end of {actor}"),
            (kind, _) => write!(f, "{kind}")?,
        }
        match (self.on.task, self.on.fd, self.on.object) {
            (Some(task), _, _) => write!(f, " of task {task}"),
            (_, Some(fd), _) => write!(f, ", fd {fd}"),
            (_, _, Some(object)) => write!(f, " at {object:#x}"),
            _ => Ok(()),
        }
    }
}
