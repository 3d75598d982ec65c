//! References to actors, by which they are sent messages.

use std::fmt;
use std::mem;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_core::{ActorId, ExitReason, Instant};
use sinew_fiber::Refused;
use sinew_sched::raw::Limit;
use sinew_sched::turn;
use sinew_sync::Arc;

use crate::blocked_send;
use crate::cell::{Cell, Entry, Phase};
use crate::error::{JoinError, SendError, Unsent};
use crate::mailbox::Policy;
use crate::shared::NodeRef;
use crate::stop;
use crate::waits;

/// A reference to an actor of this node whose messages are of type `M`. It is cheap to clone and may outlive the actor.
pub struct ActorRef<M>(pub(crate) Arc<Cell<M>>);

impl<M: Send + 'static> ActorRef<M> {
    /// The actor's id, which travels.
    pub fn id(&self) -> ActorId {
        self.0.head.id
    }

    /// The actor's node.
    pub fn node(&self) -> NodeRef {
        NodeRef(self.0.head.node)
    }

    /// Sends a message. If the mailbox is full, that is as the actor's [`Policy`] has it: the sender may have to wait. A task that
    /// sends many at a stretch gives way to others now and then.
    ///
    /// # Errors
    ///
    /// With the message: if the actor has ended, or refuses, or the sender cannot wait.
    #[inline]
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.0.put_at_once(message).or_else(|message| self.tell_slowly(message, None))
    }

    /// Like [`tell`](ActorRef::tell), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`tell`](ActorRef::tell), and [`Unsent::Timeout`].
    pub fn tell_timeout(&self, message: M, timeout: Duration) -> Result<(), SendError<M>> {
        self.0.put_at_once(message).or_else(|message| self.tell_slowly(message, Some(timeout)))
    }

    /// Sends a message, or gives it back if the mailbox is full. Never waits; but a task or an actor whose messages are refused again
    /// and again lets others run in between.
    ///
    /// # Errors
    ///
    /// With the message: if the actor has ended, or there is no room and it drops none.
    pub fn try_tell(&self, message: M) -> Result<(), SendError<M>> {
        let put = self.0.try_put(self.0.entry(message)?);
        put.map(drop).map_err(|(entry, why)| SendError::new(typed(entry), why))
    }

    #[cold]
    pub(crate) fn tell_slowly(&self, message: M, timeout: Option<Duration>) -> Result<(), SendError<M>> {
        let (entry, why) = match self.0.try_put(self.0.entry(message)?) {
            Ok(many) => {
                if many {
                    turn::give_way();
                }
                return Ok(());
            }
            Err(not_put) => not_put,
        };
        let waits = matches!(why, Unsent::Full) && self.0.lock().mail.policy == Policy::Park;
        if !waits {
            return Err(SendError::new(typed(entry), why));
        }
        blocked_send::wait_for_room(&self.0, entry, timeout)
            .map_err(|(entry, why)| SendError::new(typed(entry), why))
    }

    /// Asks the actor to end when it has handled the message that it is at. What is left in its mailbox becomes dead letters.
    pub fn stop(&self) {
        stop::stop(&*self.0, ExitReason::Shutdown);
    }

    /// Asks the actor to end when it has handled what is in its mailbox, however long that takes. Nothing more gets in.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Asks the actor to end, and does not let it finish the message that it is at: its blocking calls fail. Its
    /// [`stopping`](crate::Actor::stopping) hook runs. What is left in its mailbox becomes dead letters.
    pub fn cancel(&self) {
        stop::cancel(&*self.0);
    }

    /// Ends the actor: its blocking calls unwind. One that computes and never blocks is given up after the node's stop
    /// time-out.
    pub fn kill(&self) {
        stop::kill(&*self.0);
    }

    /// Waits until the actor has ended.
    ///
    /// # Errors
    ///
    /// At once if the actor is the caller; refused where nothing may wait.
    pub fn join(&self) -> Result<ExitReason, JoinError> {
        Ok(self.join_by(None)?.expect("there is no deadline"))
    }

    /// Like [`join`](ActorRef::join), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`join`](ActorRef::join), and [`JoinError::Timeout`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<ExitReason, JoinError> {
        self.join_by(Some(sinew_sched::now() + timeout))?.ok_or(JoinError::Timeout(timeout))
    }

    fn join_by(&self, deadline: Option<Instant>) -> Result<Option<ExitReason>, JoinError> {
        if self.is_caller() {
            return Err(JoinError::Itself);
        }
        Ok(self.wait_end(deadline)?)
    }

    /// True if it is the actor that runs the caller.
    pub(crate) fn is_caller(&self) -> bool {
        turn::current() == Some(self.0.head.task())
    }

    pub(crate) fn wait_end(&self, deadline: Option<Instant>) -> Result<Option<ExitReason>, Refused> {
        if let Some(reason) = self.ended() {
            return Ok(Some(reason));
        }
        let (sender, mut receiver) = oneshot::channel();
        let ticket = self.0.head.node.next_number();
        {
            let mut state = self.0.lock();
            if state.life.phase == Phase::Dead {
                return Ok(Some(state.life.reason()));
            }
            state.life.more().waits.insert(ticket, sender);
        }
        let forgets = ForgetsWait { actor: self, ticket };
        let limit = deadline.map(Limit::Until);
        let received = receiver.recv_as(limit, waits::on(waits::END, self.id()));
        if received.is_ok() {
            mem::forget(forgets);
        }
        match received {
            Ok(reason) => Ok(Some(reason)),
            Err(RecvError::Timeout) => Ok(None),
            Err(RecvError::Refused(refused)) => Err(refused),
            Err(_) => Ok(Some(self.0.reason())),
        }
    }

    /// Why it has ended, if it has.
    fn ended(&self) -> Option<ExitReason> {
        let life = &self.0.lock().life;
        (life.phase == Phase::Dead).then(|| life.reason())
    }

    /// True once the actor has ended.
    pub fn is_dead(&self) -> bool {
        self.0.lock().life.phase == Phase::Dead
    }
}

/// Has an actor forget, when this goes, a caller that waits no more for its end: also if the wait unwinds.
struct ForgetsWait<'a, M: Send + 'static> {
    actor: &'a ActorRef<M>,
    ticket: u64,
}

impl<M: Send + 'static> Drop for ForgetsWait<'_, M> {
    #[cold]
    fn drop(&mut self) {
        let forgotten =
            self.actor.0.lock().life.more.as_mut().and_then(|more| more.waits.remove(&self.ticket));
        drop(forgotten); // without the lock
    }
}

fn typed<M: Send + 'static>(entry: Entry<M>) -> M {
    entry.open().expect("it was typed")
}

impl<M> Clone for ActorRef<M> {
    fn clone(&self) -> ActorRef<M> {
        ActorRef(self.0.clone())
    }
}

impl<M: Send + 'static> fmt::Debug for ActorRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorRef({})", self.id())
    }
}
