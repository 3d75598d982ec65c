//! What a supervisor does: a state machine that is driven by exits, starts, timers and commands, and never blocks.
//!
//! # In turn
//!
//! Two sets say what is to be done in order: children to stop, of which the last goes first, and then children to start, of which the
//! first goes first. One child at a time: the next is stopped when the last has ended, and started when the last has
//! started. [`Machine::step`] does what can be done by now; it is called after every event. Whatever happens to a
//! supervisor only adds to the sets or takes from them, so nothing is forgotten when things come together.
//!
//! - At first all children are to start.
//! - When a child is to be restarted with others, those of them that run are to stop, and all of them to start, not before the delay
//!   of the one that failed is over.
//! - When the supervisor ends, all that run are to stop, and none is to start. With the dynamic strategy all of them are asked to
//!   at once, each with its own time-out: there may be many, and they have no order.
//!
//! # At once
//!
//! With one_for_one, and dynamic, a child that ends is restarted without regard to the others, which may be in the middle of a start that takes
//! long. Likewise what [commands](Command) start and stop, if nothing is to be done in turn.
//!
//! # Ends that count
//!
//! An end that the supervisor has asked for, or was about to ask for, is not a failure, whatever its reason. Any other one is
//! judged by [`Restart::should_restart`]; one in the middle of a start is no different. A start that a command has asked for and
//! that fails is told to whoever asked, and not tried again.
//!
//! Models: `supervisor_stop_against_restart`, `supervisor_stop_against_delayed_restart`,
//! `supervisor_stop_against_start_of_child`.

mod commands;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use sinew_core::{
    ActorId, ExitReason, Failure, Instant, Intensity, Restart, RestartDelay, RestartHistory, Strategy,
};

use super::command::{Command, SupervisorError};
use super::spec::ChildSpec;
use crate::actor::{Body, Flow};
use crate::ask::Reply;
use crate::cell::AnyCell;
use crate::ctx::Ctx;
use crate::error::SpawnError;
use crate::event::{Event, Exit, Relation};
use crate::message::Message;
use crate::start;
use crate::stop;
use crate::timers::Fire;

/// Children by the order of their specifications.
type Place = usize;
type Timer = (Instant, u64);

pub(crate) struct Machine {
    strategy: Strategy,
    history: RestartHistory,
    children: BTreeMap<Place, Child>,
    next_place: Place,
    keys: HashMap<Box<str>, Place>,
    ids: HashMap<ActorId, Place>,
    /// Why the first children cannot be as they are described.
    pub(super) fault: Option<SpawnError>,
    to_stop: BTreeSet<Place>,
    to_start: BTreeSet<Place>,
    /// The child that starts in turn.
    starting: Option<Place>,
    /// Until when nobody is started in turn.
    pause: Option<Pause>,
    tickets: HashMap<u64, Ticket>,
    next_ticket: u64,
    /// It ends, when its children have ended.
    ending: Option<ExitReason>,
    /// Whoever waits until nothing is left to do in turn.
    waits: Vec<Reply<()>>,
    has_started: bool,
}

struct Child {
    spec: ChildSpec,
    run: Run,
    asked: Asked,
    starts: u32,
    delay: RestartDelay,
    last_exit: Option<ExitReason>,
    answers: Option<Box<Answers>>,
}

/// Whoever waits for a child.
#[derive(Default)]
struct Answers {
    /// To start; true if it is not to be kept if it does not.
    start: Option<(Reply<Result<ActorId, SupervisorError>>, bool)>,
    /// To end.
    stop: Vec<Reply<Result<(), SupervisorError>>>,
}

#[derive(Clone, Copy)]
enum Run {
    Down,
    /// It is started when its ticket comes.
    Waiting(u64, Timer),
    /// It could not be spawned; its ticket says why.
    Failing,
    Starting(ActorId),
    Up(ActorId, Instant),
}

/// Whether the supervisor has asked a child to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    No,
    InTurn,
    ByCommand,
}

struct Pause {
    until: Instant,
    ticket: u64,
    timer: Timer,
}

/// What a timer, or the supervisor itself, comes back for.
enum Ticket {
    /// A child's delay is over.
    Restart(Place),
    /// The delay of those who are to start in turn is over.
    Pause,
    /// A child could not be spawned.
    Failed(Place, ExitReason),
}

impl Child {
    fn id(&self) -> Option<ActorId> {
        match self.run {
            Run::Starting(id) | Run::Up(id, _) => Some(id),
            Run::Down | Run::Waiting(..) | Run::Failing => None,
        }
    }

    /// Its end will be told.
    fn will_end(&self) -> bool {
        matches!(self.run, Run::Failing | Run::Starting(_) | Run::Up(..))
    }

    fn answers(&mut self) -> &mut Answers {
        self.answers.get_or_insert_default()
    }

    fn take_start_answer(&mut self) -> Option<(Reply<Result<ActorId, SupervisorError>>, bool)> {
        self.answers.as_mut()?.start.take()
    }
}

impl Machine {
    pub(super) fn new(strategy: Strategy, intensity: Intensity, specs: Vec<ChildSpec>) -> Machine {
        let mut machine = Machine {
            strategy,
            history: RestartHistory::new(intensity),
            children: BTreeMap::new(),
            next_place: 0,
            keys: HashMap::new(),
            ids: HashMap::new(),
            fault: None,
            to_stop: BTreeSet::new(),
            to_start: BTreeSet::new(),
            starting: None,
            pause: None,
            tickets: HashMap::new(),
            next_ticket: 0,
            ending: None,
            waits: Vec::new(),
            has_started: false,
        };
        for spec in specs {
            let added = spec.check().and_then(|()| machine.add(spec).map_err(SpawnError::DuplicateChild));
            match added {
                Ok(place) => drop(machine.to_start.insert(place)),
                Err(fault) => machine.fault = Some(fault),
            }
        }
        machine
    }

    /// Adds a child. Its key, if there is one with the same.
    fn add(&mut self, spec: ChildSpec) -> Result<Place, Box<str>> {
        if self.keys.contains_key(&spec.key) {
            return Err(spec.key);
        }
        let place = self.next_place;
        self.next_place += 1;
        self.keys.insert(spec.key.clone(), place);
        let delay = RestartDelay::new(spec.backoff);
        let child = Child {
            spec,
            run: Run::Down,
            asked: Asked::No,
            starts: 0,
            delay,
            last_exit: None,
            answers: None,
        };
        self.children.insert(place, child);
        Ok(place)
    }

    fn remove(&mut self, place: Place, ctx: &Ctx<'_, Command>) {
        self.to_start.remove(&place);
        self.to_stop.remove(&place);
        if let Some(child) = self.children.remove(&place) {
            self.keys.remove(&child.spec.key);
            ctx.cell.head.contain("the destructor of a child's factory", || drop(child));
        }
    }

    fn child(&mut self, place: Place) -> &mut Child {
        self.children.get_mut(&place).expect("places are those of children")
    }

    /// Children are restarted without regard to the others.
    fn is_one_for_one(&self) -> bool {
        matches!(self.strategy, Strategy::OneForOne | Strategy::Dynamic)
    }

    /// Nothing is left to do in turn.
    fn is_settled(&self) -> bool {
        self.to_stop.is_empty() && self.to_start.is_empty() && self.starting.is_none()
    }

    /// Does what can be done in turn by now.
    fn step(&mut self, ctx: &mut Ctx<'_, Command>) -> Flow {
        while let Some(&place) = self.to_stop.last() {
            if self.child(place).will_end() {
                self.ask_to_end(place, Asked::InTurn, ctx);
                return Flow::Continue;
            }
            self.to_stop.remove(&place);
        }
        if let Some(reason) = &self.ending {
            return Flow::Exit(reason.clone());
        }
        while self.starting.is_none()
            && self.pause.is_none()
            && let Some(place) = self.to_start.pop_first()
        {
            self.starting = Some(place);
            self.start(place, ctx);
        }
        if self.is_settled() {
            // A supervisor has started when its children have.
            if !std::mem::replace(&mut self.has_started, true) {
                start::started(&**ctx.cell);
            }
            self.waits.drain(..).for_each(|waiting| waiting.send(()));
        }
        Flow::Continue
    }

    fn ask_to_end(&mut self, place: Place, why: Asked, ctx: &Ctx<'_, Command>) {
        let child = self.child(place);
        let asked = std::mem::replace(&mut child.asked, why);
        if asked == Asked::ByCommand {
            child.asked = asked;
        }
        // One that the table does not know has ended, and told so.
        if asked == Asked::No
            && let Some(id) = child.id()
            && let Some(cell) = ctx.cell.head.node.table.get(id)
        {
            stop::stop(&*cell, ExitReason::Shutdown);
        }
    }

    /// Spawns a child. How that went is told later, whatever it is.
    fn start(&mut self, place: Place, ctx: &Ctx<'_, Command>) {
        let child = self.child(place);
        child.asked = Asked::No;
        let restarts = child.starts;
        child.starts = restarts.saturating_add(1);
        match child.spec.start(ctx.child().instead_of(child.last_exit.clone()), restarts) {
            Ok(id) => {
                child.run = Run::Starting(id);
                self.ids.insert(id, place);
            }
            Err(error) => {
                child.run = Run::Failing;
                ctx.cell.head.node.log.say_no_start(ctx.id(), &child.spec.key, &error);
                // A node that shuts down is about to stop this supervisor.
                if matches!(error, SpawnError::ShuttingDown | SpawnError::ParentEnded(_)) {
                    child.asked = Asked::ByCommand;
                }
                let reason = match error {
                    SpawnError::TooMany(_) => ExitReason::Limit(error.to_string().into()),
                    SpawnError::ShuttingDown | SpawnError::ParentEnded(_) => ExitReason::Shutdown,
                    error => Failure::new(error.to_string()).into(),
                };
                let ticket = self.ticket(Ticket::Failed(place, reason));
                let _ = ctx.cell.push_event(Event::Tick(ticket)); // if it ends, nobody is started
            }
        }
    }

    fn ticket(&mut self, what: Ticket) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, what);
        ticket
    }

    fn tick_at(&mut self, at: Instant, what: Ticket, ctx: &Ctx<'_, Command>) -> (u64, Timer) {
        let ticket = self.ticket(what);
        let node = ctx.cell.head.node;
        (ticket, node.timers.at(&node.table, at, Fire::Tick(ctx.id(), ticket)))
    }

    fn forget(&mut self, (ticket, timer): (u64, Timer), ctx: &Ctx<'_, Command>) {
        self.tickets.remove(&ticket);
        ctx.cell.head.node.timers.cancel(timer);
    }

    /// A child has ended, or could not be spawned.
    fn ended(&mut self, place: Place, reason: ExitReason, ctx: &mut Ctx<'_, Command>) -> Flow {
        let child = self.child(place);
        let run = std::mem::replace(&mut child.run, Run::Down);
        let asked = std::mem::replace(&mut child.asked, Asked::No);
        let restart = child.spec.restart;
        let answers = child.answers.take();
        child.last_exit = Some(reason.clone());
        let in_turn = self.starting == Some(place);
        if in_turn {
            self.starting = None;
        }
        let wanted = self.to_stop.remove(&place) || asked != Asked::No;
        let Answers { start, stop } = answers.map_or_else(Answers::default, |answers| *answers);
        stop.into_iter().for_each(|waiting| waiting.send(Ok(())));
        let asked_for = start.is_some();
        let kept = start.is_none_or(|(waiting, new)| {
            waiting.send(Err(SupervisorError::Failed(reason.clone())));
            !new
        });
        if !kept || restart == Restart::Temporary {
            self.remove(place, ctx);
        } else if !wanted && !asked_for && restart.should_restart(&reason) {
            self.failed(place, run, in_turn, ctx);
        }
        self.step(ctx)
    }

    /// A child is to be restarted.
    fn failed(&mut self, place: Place, run: Run, in_turn: bool, ctx: &mut Ctx<'_, Command>) {
        let now = ctx.cell.head.node.handle.now();
        if !self.history.record(now) {
            return self.end(ExitReason::RestartsExceeded, ctx);
        }
        let lived = match run {
            Run::Up(_, since) => now - since,
            _ => Duration::ZERO,
        };
        let delay = self.child(place).delay.next(lived);
        if self.is_one_for_one() && !in_turn {
            if delay.is_zero() {
                return self.start(place, ctx);
            }
            let (ticket, timer) = self.tick_at(now + delay, Ticket::Restart(place), ctx);
            self.child(place).run = Run::Waiting(ticket, timer);
            return;
        }
        let affected = self.strategy.affected(place, self.next_place);
        for (other, child) in self.children.range(affected).filter(|(_, child)| child.will_end()) {
            self.to_stop.insert(*other);
            if child.asked != Asked::ByCommand && child.spec.restart != Restart::Temporary {
                self.to_start.insert(*other);
            }
        }
        self.to_start.insert(place);
        self.pause_until(now, now + delay, ctx);
    }

    /// Nobody is started in turn before this time.
    fn pause_until(&mut self, now: Instant, until: Instant, ctx: &Ctx<'_, Command>) {
        if until <= now || self.pause.as_ref().is_some_and(|pause| pause.until >= until) {
            return;
        }
        let (ticket, timer) = self.tick_at(until, Ticket::Pause, ctx);
        if let Some(Pause { ticket, timer, .. }) = self.pause.replace(Pause { until, ticket, timer }) {
            self.forget((ticket, timer), ctx);
        }
    }

    /// It ends, when its children have.
    fn end(&mut self, reason: ExitReason, ctx: &Ctx<'_, Command>) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(reason);
        self.to_start.clear();
        let mut waiting = Vec::new();
        for (place, child) in &mut self.children {
            if child.will_end() {
                self.to_stop.insert(*place);
            } else if let Some((asked, _)) = child.take_start_answer() {
                asked.send(Err(SupervisorError::Ending));
            }
            if let Run::Waiting(ticket, timer) = child.run {
                child.run = Run::Down;
                waiting.push((ticket, timer));
            }
        }
        waiting.extend(self.pause.take().map(|pause| (pause.ticket, pause.timer)));
        waiting.into_iter().for_each(|timer| self.forget(timer, ctx));
        if self.strategy == Strategy::Dynamic {
            let all: Vec<Place> = self.to_stop.iter().copied().collect();
            all.into_iter().for_each(|place| self.ask_to_end(place, Asked::InTurn, ctx));
        }
    }
}

impl Body for Machine {
    type Msg = Command;

    const STARTS_LATER: bool = true;

    fn type_name() -> &'static str {
        "sinew_kernel::Supervisor"
    }

    fn started(&mut self, ctx: &mut Ctx<Command>) -> Flow {
        match &self.fault {
            Some(fault) => Flow::Exit(Failure::new(fault.to_string()).into()),
            None => self.step(ctx),
        }
    }

    fn message(&mut self, command: Command, ctx: &mut Ctx<Command>) -> Flow {
        self.obey(command, ctx);
        self.step(ctx)
    }

    fn raw(&mut self, _: Message, _: &mut Ctx<Command>) -> Flow {
        Flow::Continue
    }

    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<Command>) -> Flow {
        if exit.relation != Relation::Child {
            return Flow::Continue;
        }
        match self.ids.remove(&exit.actor) {
            Some(place) => self.ended(place, exit.reason, ctx),
            None => Flow::Continue,
        }
    }

    fn child_started(&mut self, id: ActorId, ctx: &mut Ctx<Command>) -> Flow {
        let Some(&place) = self.ids.get(&id) else { return Flow::Continue };
        let now = ctx.cell.head.node.handle.now();
        let child = self.child(place);
        child.run = Run::Up(id, now);
        if let Some((asked, _)) = child.take_start_answer() {
            asked.send(Ok(id));
        }
        if self.starting == Some(place) {
            self.starting = None;
        }
        self.step(ctx)
    }

    fn tick(&mut self, ticket: u64, ctx: &mut Ctx<Command>) -> Flow {
        match self.tickets.remove(&ticket) {
            Some(Ticket::Restart(place)) => self.start(place, ctx),
            Some(Ticket::Pause) => self.pause = None,
            Some(Ticket::Failed(place, reason)) => return self.ended(place, reason, ctx),
            None => (), // taken back
        }
        self.step(ctx)
    }

    fn stop(&mut self, reason: ExitReason, _: bool, ctx: &mut Ctx<Command>) -> Flow {
        self.end(reason, ctx);
        self.step(ctx)
    }

    fn stopping(&mut self, _: &ExitReason, _: &mut Ctx<Command>) {}
}
