//! Actors: a state, and what it does with messages.

use std::any::type_name;
use std::fmt;
use std::panic::Location;

use sinew_core::payload;
use sinew_core::{ActorId, ExitReason, Failure};

use crate::cell::AnyCell;
use crate::ctx::Ctx;
use crate::event::{Exit, Relation};
use crate::message::{Message, encoded};

/// A state that handles messages, one at a time. Every method may block for as long as it likes: other actors run meanwhile, and
/// this one's messages wait.
///
/// ```
/// use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
///
/// struct Counter(u64);
///
/// enum Msg {
///     Add(u64),
///     Get(Reply<u64>),
/// }
///
/// impl Actor for Counter {
///     type Msg = Msg;
///
///     fn handle(&mut self, msg: Msg, _: &mut Ctx<Msg>) -> Flow {
///         match msg {
///             Msg::Add(n) => self.0 += n,
///             Msg::Get(reply) => reply.send(self.0),
///         }
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let counter = node.spawn(Counter(0)).unwrap();
/// counter.tell(Msg::Add(40)).unwrap();
/// counter.tell(Msg::Add(2)).unwrap();
/// assert_eq!(counter.ask(Msg::Get).unwrap(), 42);
/// ```
pub trait Actor: Send + 'static {
    /// What it is sent.
    type Msg: Send + 'static;

    /// It starts: before the first message.
    fn started(&mut self, ctx: &mut Ctx<Self::Msg>) -> Flow {
        let _ = ctx;
        Flow::Continue
    }

    /// A message.
    fn handle(&mut self, msg: Self::Msg, ctx: &mut Ctx<Self::Msg>) -> Flow;

    /// An actor has ended that is its child, or that it monitors, or that it is linked to if it
    /// [traps exits](Ctx::trap_exits).
    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<Self::Msg>) -> Flow {
        let _ = (exit, ctx);
        Flow::Continue
    }

    /// A message that came by id and is not of its type: one of the system, such as a [timer's](Ctx::set_timer), or one of
    /// somebody else.
    fn raw(&mut self, message: Message, ctx: &mut Ctx<Self::Msg>) -> Flow {
        let _ = (message, ctx);
        Flow::Continue
    }

    /// Called last, when the actor ends and its mailbox is closed; not if it has panicked or was
    /// killed.
    fn stopping(&mut self, reason: &ExitReason, ctx: &mut Ctx<Self::Msg>) {
        let _ = (reason, ctx);
    }
}

/// What comes after a message.
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use]
pub enum Flow {
    /// The next one.
    #[default]
    Continue,
    /// Nothing: the actor ends, normally.
    Stop,
    /// Nothing: the actor ends for this reason.
    Exit(ExitReason),
}

impl Flow {
    /// Ends the actor with an [error](ExitReason::Error) that carries the text of `error` and the
    /// location of this call. Its supervisor restarts it as after a panic. Unlike a panic, this
    /// does not unwind, and the [`stopping`](Actor::stopping) hook runs.
    ///
    /// ```
    /// use sinew_kernel::{Actor, Ctx, Flow, Node};
    ///
    /// struct Account(u32);
    ///
    /// impl Actor for Account {
    ///     type Msg = u32;
    ///
    ///     fn handle(&mut self, sum: u32, _: &mut Ctx<u32>) -> Flow {
    ///         let Some(rest) = self.0.checked_sub(sum) else {
    ///             return Flow::fail(format_args!("{sum} asked for, {} there", self.0));
    ///         };
    ///         self.0 = rest;
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let account = node.spawn(Account(40)).unwrap();
    /// account.tell(42).unwrap();
    /// assert!(account.join().unwrap().to_string().starts_with("error: 42 asked for, 40 there, at "));
    /// ```
    #[track_caller]
    pub fn fail(error: impl fmt::Display) -> Flow {
        Flow::Exit(HandlerError::from(error).0)
    }

    /// Runs `body`, which may use `?` on any error that implements `Display`. An error that it
    /// returns ends the actor as [`fail`](Flow::fail) does, with the location of the `?`.
    ///
    /// ```
    /// use sinew_kernel::{Actor, Ctx, Flow, Node};
    ///
    /// struct Sum(i64);
    ///
    /// impl Actor for Sum {
    ///     type Msg = &'static str;
    ///
    ///     fn handle(&mut self, number: &'static str, _: &mut Ctx<&'static str>) -> Flow {
    ///         Flow::attempt(|| {
    ///             self.0 += number.parse::<i64>()?;
    ///             Ok(Flow::Continue)
    ///         })
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let sum = node.spawn(Sum(0)).unwrap();
    /// sum.tell("40").unwrap();
    /// sum.tell("two").unwrap();
    /// assert!(sum.join().unwrap().to_string().starts_with("error: invalid digit found in string, at "));
    /// ```
    ///
    /// If `body` returns an error while it owns a [`Reply`](crate::Reply), the caller that asked
    /// gets [`NoReply`](crate::AskError::NoReply). To tell the caller what went wrong, send an
    /// answer first.
    pub fn attempt(body: impl FnOnce() -> Result<Flow, HandlerError>) -> Flow {
        body().unwrap_or_else(|HandlerError(reason)| Flow::Exit(reason))
    }
}

/// An error in [`Flow::attempt`]: the text of the error that `?` was applied to, and the location
/// of the `?`. A method that is called there may return it, too.
///
/// It implements neither `Error` nor `Display`, so that it can be converted from every type that
/// implements `Display`.
#[derive(Debug)]
pub struct HandlerError(ExitReason);

impl<E: fmt::Display> From<E> for HandlerError {
    #[track_caller]
    fn from(error: E) -> HandlerError {
        let location = Location::caller().to_string();
        HandlerError(Failure { location, ..Failure::new(error.to_string()) }.into())
    }
}

/// What runs as an actor: the forms of actors are made into this.
pub(crate) trait Body: Send + 'static {
    type Msg: Send + 'static;

    /// It has not started when its hook has returned, and says itself when it has.
    const STARTS_LATER: bool = false;

    /// What it is called to onlookers.
    fn type_name() -> &'static str {
        type_name::<Self>()
    }

    fn started(&mut self, ctx: &mut Ctx<Self::Msg>) -> Flow;
    fn message(&mut self, msg: Self::Msg, ctx: &mut Ctx<Self::Msg>) -> Flow;
    fn raw(&mut self, message: Message, ctx: &mut Ctx<Self::Msg>) -> Flow;
    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<Self::Msg>) -> Flow;
    fn child_started(&mut self, child: ActorId, ctx: &mut Ctx<Self::Msg>) -> Flow {
        let _ = (child, ctx);
        Flow::Continue
    }
    /// What it has asked its node's timers for.
    fn tick(&mut self, ticket: u64, ctx: &mut Ctx<Self::Msg>) -> Flow {
        let _ = (ticket, ctx);
        Flow::Continue
    }
    /// It is to end: at once, or when it has handled what is in its mailbox.
    fn stop(&mut self, reason: ExitReason, drain: bool, ctx: &mut Ctx<Self::Msg>) -> Flow {
        if !drain {
            return Flow::Exit(reason);
        }
        ctx.cell.close(reason);
        Flow::Continue
    }
    fn stopping(&mut self, reason: &ExitReason, ctx: &mut Ctx<Self::Msg>);
}

/// An [`Actor`] as it runs.
pub(crate) struct Typed<A>(pub(crate) A);

impl<A: Actor> Body for Typed<A> {
    type Msg = A::Msg;

    fn type_name() -> &'static str {
        type_name::<A>()
    }

    #[inline]
    fn started(&mut self, ctx: &mut Ctx<A::Msg>) -> Flow {
        self.0.started(ctx)
    }

    #[inline]
    fn message(&mut self, msg: A::Msg, ctx: &mut Ctx<A::Msg>) -> Flow {
        self.0.handle(msg, ctx)
    }

    fn raw(&mut self, message: Message, ctx: &mut Ctx<A::Msg>) -> Flow {
        self.0.raw(message, ctx)
    }

    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<A::Msg>) -> Flow {
        self.0.exit_of(exit, ctx)
    }

    fn stopping(&mut self, reason: &ExitReason, ctx: &mut Ctx<A::Msg>) {
        self.0.stopping(reason, ctx);
    }
}

/// A raw behaviour: a state, and a function that is called with it and each message, those of the system included.
pub(crate) struct Behaviour<S, F>(pub(crate) S, pub(crate) F);

impl<S, F> Body for Behaviour<S, F>
where
    S: Send + 'static,
    F: FnMut(&mut S, &Message, &mut Ctx) -> Flow + Send + 'static,
{
    type Msg = Message;

    fn type_name() -> &'static str {
        type_name::<F>()
    }

    fn started(&mut self, _: &mut Ctx) -> Flow {
        Flow::Continue
    }

    fn message(&mut self, message: Message, ctx: &mut Ctx) -> Flow {
        (self.1)(&mut self.0, &message, ctx)
    }

    fn raw(&mut self, message: Message, ctx: &mut Ctx) -> Flow {
        (self.1)(&mut self.0, &message, ctx)
    }

    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx) -> Flow {
        let message = exit.to_message(ctx.id());
        (self.1)(&mut self.0, &message, ctx)
    }

    fn stopping(&mut self, _: &ExitReason, _: &mut Ctx) {}
}

impl Exit {
    /// The exit as a message to `dest`, in the layout that guests know.
    pub(crate) fn to_message(&self, dest: ActorId) -> Message {
        let (actor, reason) = (self.actor, self.reason.clone());
        let (kind, bytes) = match self.relation {
            Relation::Child => encoded(&payload::ChildExit { child: actor, reason: reason.code() }),
            Relation::Link => encoded(&payload::Exit { actor, reason }),
            Relation::Monitor(_) => encoded(&payload::Down { actor, reason }),
        };
        Message { source: actor, dest, kind, payload: bytes.into() }
    }
}
