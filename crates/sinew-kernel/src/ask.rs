//! Questions: a message with a place for the answer.
//!
//! Models: `end_against_ask`, `end_against_ask_that_waits_for_room`.

use std::fmt;
use std::time::Duration;

use sinew_fiber::raw::may_await;
use sinew_sched::chan::{RecvError, oneshot};
use sinew_sched::{Limit, TaskId, WaitKind, turn};

use crate::actor_ref::ActorRef;
use crate::cell::Phase;
use crate::error::AskError;

/// Where an answer goes. One that is dropped tells whoever asked that there will be none. It may be handed on, to another actor
/// or task.
#[must_use = "whoever asked gets an error if this is dropped"]
pub struct Reply<T>(Option<oneshot::Sender<Answer<T>>>);

enum Answer<T> {
    Is(T),
    /// The task that had the question failed while it had it.
    Failed(Option<TaskId>),
}

impl<T> Reply<T> {
    /// Answers. If nobody waits any more, the answer is dropped.
    pub fn send(mut self, answer: T) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Answer::Is(answer)); // nobody waits any more
        }
    }

    /// True if nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.0.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take()
            && std::thread::panicking()
        {
            let _ = sender.send(Answer::Failed(turn::current())); // nobody waits any more
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("abandoned", &self.is_abandoned()).finish()
    }
}

pub(crate) fn ask<M, T>(
    actor: &ActorRef<M>,
    question: impl FnOnce(Reply<T>) -> M,
    timeout: Duration,
) -> Result<T, AskError>
where
    M: Send + 'static,
    T: Send + 'static,
{
    if actor.is_caller() {
        return Err(AskError::ToItself);
    }
    may_await()?; // or the question would be sent, and its answer lost
    let (sender, mut receiver) = oneshot::channel();
    let mut limit = Limit::within(timeout);
    if let Err(question) = actor.0.put_at_once(question(Reply(Some(sender)))) {
        limit = Limit::Until(limit.deadline()); // it may have to wait for room first
        actor.tell_slowly(question, Some(timeout)).map_err(|error| AskError::from(error.why))?;
    }
    match receiver.recv_of_actor(Some(limit), WaitKind::Ask, actor.id().local()) {
        Ok(Some(Answer::Is(answer))) => Ok(answer),
        Ok(None) => Err(AskError::TimedOut(timeout)),
        Err(RecvError::Refused(refused)) => Err(refused.into()),
        // Its end is about to be published, if it was the actor that failed and not somebody that it handed the question to.
        Ok(Some(Answer::Failed(task))) if task != Some(actor.0.head.task()) => Err(AskError::NoReply),
        Ok(Some(Answer::Failed(_))) => match actor.wait_end(Some(limit.deadline())) {
            Ok(Some(reason)) => Err(AskError::Stopped(reason)),
            Ok(None) => Err(AskError::NoReply),
            Err(refused) => Err(refused.into()),
        },
        Err(_) => {
            let state = actor.0.lock();
            match state.life.phase {
                Phase::Ending | Phase::Leaving | Phase::Dead => Err(AskError::Stopped(state.life.reason())),
                Phase::Starting | Phase::Running => Err(AskError::NoReply),
            }
        }
    }
}
