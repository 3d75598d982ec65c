//! Questions: a message with a place for the answer.
//!
//! Models: `end_against_ask`, `end_against_ask_that_waits_for_room`.

use std::fmt;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_core::Instant;
use sinew_fiber::raw::may_await;
use sinew_sched::raw::Limit;
use sinew_sched::{TaskId, turn};

use crate::actor_ref::ActorRef;
use crate::cell::Phase;
use crate::error::{AskError, SendError};
use crate::waits;

/// How long a question waits for its answer, if nothing else is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

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

impl<M: Send + 'static> ActorRef<M> {
    /// Asks: sends the message that `question` makes of a [`Reply`], and waits for the answer, up to 5 seconds.
    ///
    /// # Errors
    ///
    /// At once if the actor has ended, ends or fails, with the reason, or is the caller; if it dropped the question; if time is up.
    pub fn ask<T: Send + 'static>(&self, question: impl FnOnce(Reply<T>) -> M) -> Result<T, AskError> {
        ask(self, question, PATIENCE)
    }

    /// Like [`ask`](ActorRef::ask), and waits up to `timeout`. If the actor fails with the question in hand, its end is waited for, to
    /// say why: up to as long again, if its destructors take that long.
    ///
    /// # Errors
    ///
    /// As for `ask`.
    pub fn ask_timeout<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<T>) -> M,
        timeout: Duration,
    ) -> Result<T, AskError> {
        ask(self, question, timeout)
    }
}

fn ask<M, T>(
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
    let (message, mut question) = Question::new(question, timeout)?;
    question.send(actor, message, timeout).map_err(|error| AskError::from(error.why))?;
    question.answer(actor)
}

/// A question whose answer is waited for.
pub(crate) struct Question<T> {
    receiver: oneshot::Receiver<Answer<T>>,
    limit: Limit,
    timeout: Duration,
}

impl<T: Send + 'static> Question<T> {
    /// Returns the message that `question` makes, and the question. Its timeout begins now.
    pub(crate) fn new<M>(
        question: impl FnOnce(Reply<T>) -> M,
        timeout: Duration,
    ) -> Result<(M, Question<T>), AskError> {
        may_await()?; // or the question would be sent, and its answer lost
        let (sender, receiver) = oneshot::channel();
        let limit = Limit::within(timeout);
        Ok((question(Reply(Some(sender))), Question { receiver, limit, timeout }))
    }

    /// Returns the deadline of the answer.
    pub(crate) fn deadline(&mut self) -> Instant {
        let deadline = self.limit.deadline();
        self.limit = Limit::Until(deadline); // the waits before the answer count
        deadline
    }

    /// Sends the question. Waits for room in the mailbox up to `timeout`.
    pub(crate) fn send<M: Send + 'static>(
        &mut self,
        actor: &ActorRef<M>,
        message: M,
        timeout: Duration,
    ) -> Result<(), SendError<M>> {
        actor.0.put_at_once(message).or_else(|message| {
            self.deadline(); // it may have to wait for room first
            actor.tell_slowly(message, Some(timeout))
        })
    }

    /// Waits for the answer of `actor`, which has accepted the question.
    pub(crate) fn answer<M: Send + 'static>(mut self, actor: &ActorRef<M>) -> Result<T, AskError> {
        let limit = self.limit;
        match self.receiver.recv_as(Some(limit), waits::on(waits::ASK, actor.id())) {
            Ok(Answer::Is(answer)) => Ok(answer),
            Err(RecvError::Timeout) => Err(AskError::Timeout(self.timeout)),
            Err(RecvError::Refused(refused)) => Err(refused.into()),
            // It was somebody that the actor handed the question to.
            Ok(Answer::Failed(task)) if task != Some(actor.0.head.task()) => Err(AskError::NoReply),
            // The actor ends for that, unless it catches it: then it comes to its next message.
            Ok(Answer::Failed(_)) => {
                if let Some(mut goes_on) = actor.0.goes_on() {
                    match goes_on.recv_as(Some(limit), waits::on(waits::ASK, actor.id())) {
                        Ok(()) | Err(RecvError::Timeout) => return Err(AskError::NoReply),
                        Err(RecvError::Refused(refused)) => return Err(refused.into()),
                        Err(_) => (), // it ends
                    }
                }
                // Whoever asks its supervisor next finds that it knows; unless the actor waits for
                // its children, which may take long.
                let waits = actor.0.lock().life.more.as_ref().is_some_and(|more| !more.children.is_empty());
                if !waits {
                    actor.wait_end(Some(limit.deadline()))?;
                }
                Err(without_answer(actor))
            }
            Err(_) => Err(without_answer(actor)),
        }
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
