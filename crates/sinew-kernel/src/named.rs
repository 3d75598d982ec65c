//! References by name, which survive restarts.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sinew_core::ActorId;
use sinew_sched::raw::Limit;
use sinew_sync::Mutex;

use crate::actor_ref::ActorRef;
use crate::ask::{PATIENCE, Question, Reply};
use crate::ctx::Ctx;
use crate::error::{AskError, LookupError, SendError, Unsent};
use crate::shared::NodeRef;

/// A reference to the actor that has a name, whose messages are of type `M`. It is cheap to clone,
/// and survives restarts of the actor.
///
/// Each call goes to the actor that has the name at that moment. The reference caches the actor
/// that it has found, and looks the name up again when that actor has ended or the name has moved.
///
/// While a child is restarted, which takes longer with a [`Backoff`](crate::Backoff), no actor has
/// its name. [`tell`](NamedRef::tell) and [`ask`](NamedRef::ask) wait until an actor registers it.
/// They do not know whether that will happen: if no actor ever registers the name, or its
/// supervisor has given up, they return an error on timeout. When the node shuts down, they return
/// an error at once.
///
/// ```
/// use std::time::Duration;
///
/// use sinew_kernel::{Actor, AskError, ChildSpec, Ctx, Flow, Node, Reply, Strategy};
///
/// struct Divider;
///
/// struct Divide(u32, u32, Reply<u32>);
///
/// impl Actor for Divider {
///     type Msg = Divide;
///     fn handle(&mut self, Divide(a, b, reply): Divide, _: &mut Ctx<Divide>) -> Flow {
///         reply.send(a / b);
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let child = ChildSpec::new("divider", || Divider).name("divider");
/// node.supervisor(Strategy::OneForOne).child(child).spawn().unwrap();
///
/// let divider = node.named::<Divide>("divider");
/// let failed = divider.ask(|reply| Divide(1, 0, reply));
/// assert!(matches!(failed, Err(AskError::Stopped(_)))); // the one that had the question
/// assert_eq!(divider.ask(|reply| Divide(84, 2, reply)).unwrap(), 42); // the next one
/// ```
pub struct NamedRef<M> {
    node: NodeRef,
    name: Arc<str>,
    found: Mutex<Option<Found<M>>>,
}

/// The actor that was found.
struct Found<M> {
    actor: ActorRef<M>,
    /// The [moves](crate::names::Names::moves) that were counted at that time.
    moves: u64,
}

impl<M: Send + 'static> NamedRef<M> {
    fn new(node: NodeRef, name: &str) -> NamedRef<M> {
        NamedRef { node, name: name.into(), found: Mutex::new(None) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a message, as [`ActorRef::tell`] does. If no actor has the name, or the actor ends
    /// before it accepts the message, waits up to 5 seconds for the next actor that registers the
    /// name.
    ///
    /// # Errors
    ///
    /// With the message: [`UnknownName`](Unsent::UnknownName) if no actor has the name,
    /// [`OtherType`](Unsent::OtherType) if the actor takes messages of another type,
    /// [`Refused`](Unsent::Refused) if the caller would have to wait and cannot; otherwise as for
    /// [`ActorRef::tell`].
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        let send = |actor: &ActorRef<M>, message| actor.tell(message);
        self.deliver(message, Some(Limit::For(PATIENCE)), send).map(drop)
    }

    /// Sends a message, as [`ActorRef::try_tell`] does. Never waits.
    ///
    /// # Errors
    ///
    /// As for [`tell`](NamedRef::tell), and if there is no room.
    pub fn try_tell(&self, message: M) -> Result<(), SendError<M>> {
        self.deliver(message, None, |actor, message| actor.try_tell(message)).map(drop)
    }

    /// Asks, as [`ActorRef::ask`] does. Waits up to 5 seconds in all, for an actor of that name and
    /// for its answer.
    ///
    /// A question that an actor has accepted is not sent again. If that actor ends, this returns
    /// [`Stopped`](AskError::Stopped): the actor may have done what it was asked for.
    ///
    /// # Errors
    ///
    /// [`Unsent`](AskError::Unsent) as for [`tell`](NamedRef::tell); otherwise as for
    /// [`ActorRef::ask`].
    pub fn ask<T: Send + 'static>(&self, question: impl FnOnce(Reply<T>) -> M) -> Result<T, AskError> {
        self.ask_timeout(question, PATIENCE)
    }

    /// Like [`ask`](NamedRef::ask), and waits up to `timeout`.
    ///
    /// # Errors
    ///
    /// As for `ask`.
    pub fn ask_timeout<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<T>) -> M,
        timeout: Duration,
    ) -> Result<T, AskError> {
        let (message, mut question) = Question::new(question, timeout)?;
        let deadline = question.deadline();
        let sent = self.deliver(message, Some(Limit::Until(deadline)), |actor, message| {
            if actor.is_caller() {
                return Err(SendError::new(message, Unsent::ToItself));
            }
            question.send(actor, message, deadline.duration_since(sinew_sched::now()))
        });
        match sent {
            Ok(actor) => question.answer(&actor),
            Err(SendError { why: Unsent::ToItself, .. }) => Err(AskError::ToItself),
            Err(error) => Err(error.why.into()),
        }
    }

    /// Sends a message to the actor that has the name, and returns that actor. If there is none, or
    /// it accepts no more messages, waits for the next one up to `limit`; without a limit, does not
    /// wait.
    fn deliver(
        &self,
        mut message: M,
        limit: Option<Limit>,
        mut send: impl FnMut(&ActorRef<M>, M) -> Result<(), SendError<M>>,
    ) -> Result<ActorRef<M>, SendError<M>> {
        let (mut ended, mut deadline) = (None, None);
        loop {
            match self.current(ended) {
                Ok(Some(actor)) => match send(&actor, message) {
                    Ok(()) => return Ok(actor),
                    Err(SendError { item: unsent, why: Unsent::Stopped(_) }) => {
                        (message, ended) = (unsent, Some(actor.id()));
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                Ok(None) => (),
                Err(why) => return Err(SendError::new(message, why)),
            }
            let unknown = || Unsent::UnknownName((&*self.name).into());
            let Some(limit) = limit else { return Err(SendError::new(message, unknown())) };
            let deadline = *deadline.get_or_insert_with(|| limit.deadline());
            match self.node.0.names.wait(self.node.0, &self.name, ended, deadline) {
                Ok(true) => (),
                Ok(false) => return Err(SendError::new(message, unknown())),
                Err(refused) => return Err(SendError::new(message, refused.into())),
            }
        }
    }

    /// Returns the actor that has the name. `None` if there is none, or it is the actor that has
    /// `ended`.
    pub(crate) fn current(&self, ended: Option<ActorId>) -> Result<Option<ActorRef<M>>, Unsent> {
        let moves = self.node.0.names.moves();
        let is_current = |found: &&Found<M>| found.moves == moves && Some(found.actor.id()) != ended;
        let found = self.found.lock().as_ref().filter(is_current).map(|found| found.actor.clone());
        if found.is_some() {
            return Ok(found);
        }
        let (Some(id), moves) = self.node.0.names.lookup_counted(&self.name) else { return Ok(None) };
        if Some(id) == ended {
            return Ok(None); // its name is about to be free
        }
        match self.node.actor_ref::<M>(id) {
            Ok(actor) => {
                let replaced = self.found.lock().replace(Found { actor: actor.clone(), moves });
                drop(replaced); // without the lock
                Ok(Some(actor))
            }
            Err(LookupError::OtherType { actor, .. }) => {
                Err(Unsent::OtherType { name: (&*self.name).into(), actor, wanted: type_name::<M>() })
            }
            Err(_) => Ok(None), // it has ended this moment, and its name is free
        }
    }
}

impl<M: Send + 'static> Clone for NamedRef<M> {
    fn clone(&self) -> NamedRef<M> {
        let found = self.found.lock().as_ref().map(|found| Found { actor: found.actor.clone(), ..*found });
        NamedRef { node: self.node, name: self.name.clone(), found: Mutex::new(found) }
    }
}

impl<M> fmt::Debug for NamedRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedRef({:?})", self.name)
    }
}

/// # References by name
impl NodeRef {
    /// Returns a reference to the actor that has this name or path, now or later: see [`NamedRef`].
    pub fn named<M: Send + 'static>(self, name: &str) -> NamedRef<M> {
        NamedRef::new(self, name)
    }
}

/// # References by name
impl<M: Send + 'static> Ctx<'_, M> {
    /// Returns a reference to the actor of the node that has this name or path, now or later: see
    /// [`NamedRef`].
    pub fn named<N: Send + 'static>(&self, name: &str) -> NamedRef<N> {
        self.node().named(name)
    }
}
