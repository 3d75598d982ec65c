//! What a supervisor is asked for, and what it answers.

use std::fmt;
use std::time::Duration;

use sinew_core::{ActorId, ExitReason, Restart};

use super::spec::ChildSpec;
use crate::actor_ref::ActorRef;
use crate::ask::Reply;
use crate::error::{AskError, JoinError, LookupError};

/// What a supervisor is asked for.
pub(crate) enum Command {
    StartChild(Box<ChildSpec>, Reply<Result<ActorId, SupervisorError>>),
    RestartChild(Box<str>, Reply<Result<ActorId, SupervisorError>>),
    TerminateChild(Box<str>, Reply<Result<(), SupervisorError>>),
    DeleteChild(Box<str>, Reply<Result<(), SupervisorError>>),
    WhichChildren(Reply<Vec<ChildInfo>>),
    CountChildren(Reply<ChildCounts>),
    Child(Box<str>, Reply<Result<Option<ActorId>, SupervisorError>>),
    WhenStarted(Reply<()>),
}

/// Why a supervisor did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// It has no child with this key.
    #[error("there is no child {0:?}: it was deleted, or never was; `which_children` says which there are")]
    NoChild(Box<str>),
    /// It has a child with this key.
    #[error("there is a child {0:?} already: choose another key, or terminate and delete that one")]
    Exists(Box<str>),
    /// The child runs, or is about to.
    #[error("the child {0:?} runs, or is about to: terminate it first")]
    NotStopped(Box<str>),
    /// The child does not run at the moment.
    #[error("the child {0:?} does not run at the moment: it waits to be restarted, or was terminated")]
    NotRunning(Box<str>),
    /// The child's messages are of another type.
    #[error("the child {0:?} is of another type: its messages are not {1}")]
    OtherType(Box<str>, &'static str),
    /// The child ended while it was started.
    #[error("the child ended before it had started: {0}")]
    Failed(ExitReason),
    /// The supervisor stops its children, and ends.
    #[error("the supervisor is ending")]
    Ending,
    /// It did not answer.
    #[error("the supervisor did not answer: {0}")]
    Unanswered(#[from] AskError),
}

/// A child of a supervisor.
#[derive(Clone, PartialEq, Debug)]
pub struct ChildInfo {
    /// By which the supervisor knows it.
    pub key: Box<str>,
    /// Its id, if it runs.
    pub id: Option<ActorId>,
    /// What it does.
    pub state: ChildState,
    /// When it is restarted.
    pub restart: Restart,
    /// How often it was started again.
    pub restarts: u32,
    /// Why it ended the last time.
    pub last_exit: Option<ExitReason>,
    /// It is a supervisor itself.
    pub is_supervisor: bool,
}

/// What a child does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildState {
    /// Its factory or its `started` hook runs.
    Starting,
    /// It has started.
    Running,
    /// Its supervisor has asked it to end.
    Stopping,
    /// It is to start, after others or after a time.
    Waiting,
    /// It has ended, and is not restarted.
    Stopped,
}

/// How many children a supervisor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildCounts {
    /// In all.
    pub specs: usize,
    /// Of them, those that run.
    pub active: usize,
    /// Of them all, those that are supervisors.
    pub supervisors: usize,
}

/// A reference to a supervisor. It is cheap to clone and may outlive it.
///
/// Its calls wait for the answer, up to 5 seconds. The supervisor answers at once, unless that is to say how a child has started
/// or ended: who waits no longer for that leaves the child to its supervisor. A child that asks its own supervisor to stop it, or
/// that asks for another to be started while it starts itself, waits for itself in vain.
#[derive(Clone, Debug)]
pub struct SupervisorRef(pub(super) ActorRef<Command>);

impl SupervisorRef {
    /// The supervisor's id.
    pub fn id(&self) -> ActorId {
        self.0.id()
    }

    /// Adds a child and starts it. It comes after the others when they are stopped or restarted.
    ///
    /// # Errors
    ///
    /// If there is one with its key, or the child ended before it had started; then it is not added.
    pub fn start_child(&self, spec: ChildSpec) -> Result<ActorId, SupervisorError> {
        self.0.ask(|reply| Command::StartChild(Box::new(spec), reply))?
    }

    /// Starts a child that has ended and was not restarted.
    ///
    /// # Errors
    ///
    /// If there is no such child, it runs or is about to, or it ended before it had started.
    pub fn restart_child(&self, key: &str) -> Result<ActorId, SupervisorError> {
        self.0.ask(|reply| Command::RestartChild(key.into(), reply))?
    }

    /// Stops a child, and waits until it has ended. It is not restarted, but stays known, unless it is temporary.
    ///
    /// # Errors
    ///
    /// If there is no such child.
    pub fn terminate_child(&self, key: &str) -> Result<(), SupervisorError> {
        self.0.ask(|reply| Command::TerminateChild(key.into(), reply))?
    }

    /// Forgets a child that has ended and was not restarted.
    ///
    /// # Errors
    ///
    /// If there is no such child, or it runs or is about to.
    pub fn delete_child(&self, key: &str) -> Result<(), SupervisorError> {
        self.0.ask(|reply| Command::DeleteChild(key.into(), reply))?
    }

    /// The children, in the order in which they are started.
    ///
    /// # Errors
    ///
    /// If the supervisor has ended.
    pub fn which_children(&self) -> Result<Vec<ChildInfo>, AskError> {
        self.0.ask(Command::WhichChildren)
    }

    /// How many children there are.
    ///
    /// # Errors
    ///
    /// If the supervisor has ended.
    pub fn count_children(&self) -> Result<ChildCounts, AskError> {
        self.0.ask(Command::CountChildren)
    }

    /// A child that runs, whose messages are of type `M`. When it is restarted, the reference is one to an actor that has ended:
    /// ask again.
    ///
    /// # Errors
    ///
    /// If there is no such child, it does not run at the moment, or its messages are of another type.
    pub fn child_ref<M: Send + 'static>(&self, key: &str) -> Result<ActorRef<M>, SupervisorError> {
        let id = self.0.ask(|reply| Command::Child(key.into(), reply))??;
        let id = id.ok_or_else(|| SupervisorError::NotRunning(key.into()))?;
        self.0.node().actor_ref(id).map_err(|error| match error {
            LookupError::OtherType { wanted, .. } => SupervisorError::OtherType(key.into(), wanted),
            _ => SupervisorError::NotRunning(key.into()),
        })
    }

    /// A child that runs and is a supervisor.
    ///
    /// # Errors
    ///
    /// As for [`child_ref`](SupervisorRef::child_ref).
    pub fn child_supervisor(&self, key: &str) -> Result<SupervisorRef, SupervisorError> {
        self.child_ref::<Command>(key).map(SupervisorRef)
    }

    /// Waits until all children have started for which it is time, up to 5 seconds.
    ///
    /// # Errors
    ///
    /// If the supervisor has ended, or one of them takes longer.
    pub fn wait_started(&self) -> Result<(), AskError> {
        self.0.ask(Command::WhenStarted)
    }

    /// Like [`wait_started`](SupervisorRef::wait_started), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`wait_started`](SupervisorRef::wait_started); [`AskError::Timeout`] after `timeout`.
    pub fn wait_started_timeout(&self, timeout: Duration) -> Result<(), AskError> {
        self.0.ask_timeout(Command::WhenStarted, timeout)
    }

    /// Asks the supervisor to stop its children, from the last to the first, and to end. With [`Strategy::Dynamic`] they are stopped
    /// all at once.
    ///
    /// [`Strategy::Dynamic`]: crate::Strategy::Dynamic
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Ends the supervisor at once. Its children are stopped, in no order.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Waits until the supervisor has ended.
    ///
    /// # Errors
    ///
    /// Refused where nothing may wait.
    pub fn join(&self) -> Result<ExitReason, JoinError> {
        self.0.join()
    }

    /// Like [`join`](SupervisorRef::join), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`join`](SupervisorRef::join), and [`JoinError::Timeout`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<ExitReason, JoinError> {
        self.0.join_timeout(timeout)
    }

    /// True once the supervisor has ended.
    pub fn is_dead(&self) -> bool {
        self.0.is_dead()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}
