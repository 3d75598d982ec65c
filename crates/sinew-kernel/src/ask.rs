//! Questions: a message with a place for the answer.
//!
//! Models: `end_against_ask`, `end_against_ask_that_waits_for_room`.

use std::fmt;
use std::iter;
use std::time::Duration;

use sinew_core::ActorId;
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
        // It was somebody that the actor handed the question to.
        Ok(Some(Answer::Failed(task))) if task != Some(actor.0.head.task()) => Err(AskError::NoReply),
        // The actor ends for that, unless it catches it: then it comes to its next message.
        Ok(Some(Answer::Failed(_))) => {
            if let Some(mut goes_on) = actor.0.goes_on() {
                match goes_on.recv_of_actor(Some(limit), WaitKind::Ask, actor.id().local()) {
                    Ok(_) => return Err(AskError::NoReply),
                    Err(RecvError::Refused(refused)) => return Err(refused.into()),
                    Err(_) => (), // it ends
                }
            }
            // Whoever asks its supervisor next finds that it knows. One that the actor waits for at its end does not wait for that.
            if !is_below(actor) {
                actor.wait_end(Some(limit.deadline()))?;
            }
            Err(without_answer(actor))
        }
        Err(_) => Err(without_answer(actor)),
    }
}

/// The actor has dropped the question.
fn without_answer<M: Send + 'static>(actor: &ActorRef<M>) -> AskError {
    let life = &actor.0.lock().life;
    match life.phase {
        Phase::Ending | Phase::Leaving | Phase::Dead => AskError::Stopped(life.reason()),
        Phase::Starting | Phase::Running => AskError::NoReply,
    }
}

/// True if the caller is a child of the actor, or a child of one.
fn is_below<M: Send + 'static>(actor: &ActorRef<M>) -> bool {
    let (table, id) = (&actor.0.head.node.table, actor.id());
    let parent = |child: &ActorId| table.get(*child)?.life(|life| life.more.as_ref()?.parent);
    let caller = Some(ActorId::from_u64(turn::current_tag()));
    iter::successors(caller, parent).skip(1).any(|above| above == id)
}
