//! References to actors, by which they are sent messages.

use std::fmt;
use std::mem;
use std::time::Duration;

use sinew_core::{ActorId, ExitReason, Instant};
use sinew_fiber::Refused;
use sinew_fiber::raw::may_await;
use sinew_fiber::shield;
use sinew_sched::chan::{RecvError, oneshot};
use sinew_sched::{JoinHandle, Limit, WaitKind, turn};
use sinew_sync::Arc;

use crate::ask::{Reply, ask};
use crate::cell::{Cell, Entry, Phase, WAITING};
use crate::error::{AskError, JoinError, SendError, Unsent};
use crate::groups::Sent;
use crate::mailbox::{Policy, Put};
use crate::node::NodeRef;
use crate::stop;

/// How long a question waits for its answer, if nothing else is said.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// Like [`tell`](ActorRef::tell), and waits no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// As for `tell`, and if there was no room all the time.
    pub fn tell_timeout(&self, message: M, timeout: Duration) -> Result<(), SendError<M>> {
        self.0.put_at_once(message).or_else(|message| self.tell_slowly(message, Some(timeout)))
    }

    /// Sends a message, or gives it back if the mailbox is full. Never waits.
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
        put_waiting(&self.0, entry, timeout).map_err(|(entry, why)| SendError::new(typed(entry), why))
    }

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

    /// Sends each of `items`, by a task of its own, until there are no more, or the actor ends. If the mailbox is full, that is as the
    /// actor's [`Policy`] has it: the task waits for room, or the item is refused, and it goes on with the next. It returns how many
    /// of the items that it has taken were accepted, and how many were not; those are dropped.
    pub fn stream<I>(&self, items: I) -> JoinHandle<Sent>
    where
        I: IntoIterator<Item = M> + Send + 'static,
    {
        let to = self.clone();
        self.0.head.node.handle.spawn(move || {
            let mut sent = Sent { accepted: 0, refused: 0 };
            for item in items {
                match to.tell(item) {
                    Ok(()) => sent.accepted += 1,
                    Err(SendError { why: Unsent::Full | Unsent::NodeFull { .. }, .. }) => sent.refused += 1,
                    Err(_) => {
                        sent.refused += 1;
                        break;
                    }
                }
            }
            sent
        })
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
        self.join_until(None).map(|ended| ended.expect("there is no deadline"))
    }

    /// Waits until the actor has ended, up to `timeout`; then it is none.
    ///
    /// # Errors
    ///
    /// As for [`join`](ActorRef::join).
    pub fn join_timeout(&self, timeout: Duration) -> Result<Option<ExitReason>, JoinError> {
        self.join_until(Some(sinew_sched::now() + timeout))
    }

    fn join_until(&self, deadline: Option<Instant>) -> Result<Option<ExitReason>, JoinError> {
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
        let forgets = ForgetWaits(self); // after the receiver is gone
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if state.life.phase == Phase::Dead {
                return Ok(Some(state.life.reason()));
            }
            state.life.more().waits.push(sender);
        }
        let limit = deadline.map(Limit::Until);
        let received = receiver.recv_of_actor(limit, WaitKind::ActorEnd, self.id().local());
        if matches!(received, Ok(Some(_))) {
            mem::forget(forgets);
        }
        match received {
            Ok(reason) => Ok(reason),
            Err(RecvError::Refused(refused)) => Err(refused),
            Err(_) => Ok(Some(self.0.reason())),
        }
    }

    /// Why it has ended, if it has.
    fn ended(&self) -> Option<ExitReason> {
        let life = &self.0.lock().life;
        (life.phase == Phase::Dead).then(|| life.reason())
    }

    /// Takes out those who wait no more for its end.
    #[cold]
    fn forget_waits(&self) {
        let gone: Vec<_> = match &mut self.0.lock().life.more {
            Some(more) => more.waits.extract_if(.., |waiting| waiting.is_closed()).collect(),
            None => Vec::new(),
        };
        drop(gone);
    }

    /// True once the actor has ended.
    pub fn is_dead(&self) -> bool {
        self.0.lock().life.phase == Phase::Dead
    }
}

/// Has an actor forget, when this goes, who waits no more for its end: also if the wait unwinds.
struct ForgetWaits<'a, M: Send + 'static>(&'a ActorRef<M>);

impl<M: Send + 'static> Drop for ForgetWaits<'_, M> {
    fn drop(&mut self) {
        self.0.forget_waits();
    }
}

/// Puts a message into a mailbox that was full, when there is room.
#[cold]
fn put_waiting<M: Send + 'static>(
    cell: &Cell<M>,
    entry: Entry<M>,
    timeout: Option<Duration>,
) -> Result<(), (Entry<M>, Unsent)> {
    if turn::current() == Some(cell.head.task()) {
        return Err((entry, Unsent::ToItself));
    }
    if let Err(refused) = may_await() {
        return Err((entry, Unsent::Refused(refused)));
    }
    let deadline = timeout.map(|timeout| sinew_sched::now() + timeout);
    let ticket = cell.head.node.next_number();
    let (sender, mut receiver) = oneshot::channel();
    {
        let mut state = cell.lock();
        // There may be room by now.
        match state.mail.put(entry, || cell.head.begun()) {
            Put::In { wake, .. } => {
                drop(state);
                if wake {
                    cell.head.wake();
                }
                return Ok(());
            }
            Put::Full(entry) => {
                state.mail.wait(ticket, entry, sender);
                cell.set_flag(WAITING);
            }
            Put::Closed(entry) => {
                let reason = state.life.reason();
                return Err((entry, Unsent::Stopped(reason)));
            }
            Put::Instead(..) | Put::Dropped(_) => unreachable!("the policy is to park"),
        }
    }
    let place = Place { cell, ticket };
    let limit = deadline.map(Limit::Until);
    let received = receiver.recv_of_actor(limit, WaitKind::SendMailbox, cell.head.id.local());
    mem::forget(place);
    let why = match received {
        Ok(Some(answer)) => return answered(cell, answer),
        Ok(None) => Unsent::TimedOut(timeout.unwrap_or_default()),
        Err(RecvError::Refused(refused)) => Unsent::Refused(refused),
        Err(_) => Unsent::Stopped(cell.reason()),
    };
    match withdraw(cell, ticket) {
        Some(entry) => Err((entry, why)),
        // It was let in or given back this moment: whoever did so is about to say which.
        None => match shield(|| receiver.recv()) {
            Ok(answer) => answered(cell, answer),
            Err(_) => Ok(()),
        },
    }
}

/// Takes back the message of a sender that waits. None if it was let in or given back.
fn withdraw<M: Send + 'static>(cell: &Cell<M>, ticket: u64) -> Option<Entry<M>> {
    let mut state = cell.lock();
    let withdrawn = state.mail.withdraw(ticket);
    cell.set_flags(&state.mail);
    drop(state);
    withdrawn.map(|(entry, _)| entry)
}

/// The place of a sender that waits. If the wait unwinds, the message is dropped: it was not sent.
struct Place<'a, M: Send + 'static> {
    cell: &'a Cell<M>,
    ticket: u64,
}

impl<M: Send + 'static> Drop for Place<'_, M> {
    fn drop(&mut self) {
        if let Some(entry) = withdraw(self.cell, self.ticket) {
            self.cell.head.discard(entry);
        }
    }
}

fn answered<M: Send + 'static>(cell: &Cell<M>, answer: Option<Entry<M>>) -> Result<(), (Entry<M>, Unsent)> {
    match answer {
        None => Ok(()),
        Some(entry) => Err((entry, Unsent::Stopped(cell.reason()))),
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
