//! The reference: an interpreter of the same programs, written from the rules of
//! `docs/fibers.md`. Fibers are plain data with explicit frames; there is one loop and no stack to switch.
//!
//! It keeps what the rules speak of, in the simplest form: each fiber has a status and a link to its child,
//! and a signal that passes several fibers writes the status of each. Nothing is cached and nothing is derived
//! that could be looked up by walking the chain.
//!
//! This file has the loop and the bodies; `state.rs` has the data, `calls.rs` what is done to other fibers,
//! `signals.rs` what the running one raises.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{Operation, Reason, Signal, Status};

use crate::coverage::Coverage;
use crate::log::{Event, Log, Name, Outcome, Raised, Seen, Val};
use crate::program::{Body, Op, Program, ROOTS};
use crate::state::{Call, Fiber, Frame, Id, Last, Local, Next, Table, Then};

pub(crate) struct Machine<'a> {
    pub(crate) fibers: Vec<Fiber>,
    pub(crate) running: Id,
    pub(crate) next: Next,
    pub(crate) bindings: Vec<Table>,
    pub(crate) quarantined: usize,
    pub(crate) coverage: &'a mut Coverage,
    steps: u32,
    log: Log,
}

/// The events of `program`, and what it reached.
pub(crate) fn run(program: &Program, coverage: &mut Coverage) -> Vec<Event> {
    let mut machine = Machine {
        fibers: Vec::new(),
        running: 0,
        next: Next::Go,
        bindings: Vec::new(),
        quarantined: 0,
        coverage,
        steps: 0,
        log: Log::default(),
    };
    for root in &program.roots {
        let mut record = Fiber::new(root.as_deref().unwrap_or(""), None);
        record.hook = root.is_some();
        record.root = Some(machine.fibers.len());
        machine.fibers.push(record);
    }
    for (root, body) in &program.runs {
        let result = machine.run_root(*root, body.clone());
        let quarantined = machine.quarantined;
        machine.note(Event::Over { result, quarantined });
    }
    let result = machine.drop_all();
    let quarantined = machine.quarantined;
    machine.note(Event::Over { result, quarantined });
    machine.log.events
}

impl Machine<'_> {
    fn run_root(&mut self, root: Id, body: Body) -> Result<Val, Raised> {
        self.fibers[root].status = Status::Alive;
        self.fibers[root].unwinding = false;
        self.running = root;
        self.push(Frame::body(body));
        self.next = Next::Go;
        self.run_until_root_ends(root)
    }

    fn drop_all(&mut self) -> Result<Val, Raised> {
        while let Some(index) = self.fibers[ROOTS..].iter().position(|fiber| fiber.in_table) {
            self.fibers[0].status = Status::Alive;
            self.running = 0;
            let step = self.step();
            // An empty body below the drop: when that is reached, the drop is done.
            self.push(Frame::body(Body::default()));
            self.next = Next::Go;
            self.fibers[index + ROOTS].in_table = false;
            self.release(index + ROOTS, Then::Finish { step, what: Outcome::Done });
            self.run_until_root_ends(0)?;
        }
        Ok(Val::Unit)
    }

    /// The loop.
    fn run_until_root_ends(&mut self, root: Id) -> Result<Val, Raised> {
        loop {
            match std::mem::replace(&mut self.next, Next::Go) {
                Next::Go => self.go(),
                Next::Leave(result) => {
                    let Some(Frame::Body { left, .. }) = self.me().frames.last_mut() else { unreachable!() };
                    *left = Some(result);
                    self.leave();
                }
                Next::Unwind(raised) => self.unwind(raised),
                Next::Continue(delivery) => self.continue_with(delivery),
                Next::Start => self.start(),
                Next::Stopped(target) => self.stopped(target),
            }
            if self.fibers[root].status != Status::Alive {
                return self.over(root);
            }
        }
    }

    /// Starts the next operation of the topmost body, or leaves the body.
    fn go(&mut self) {
        let Some(Frame::Body { body, at, left, .. }) = self.me().frames.last_mut() else { unreachable!() };
        if left.is_some() {
            self.leave();
            return;
        }
        *at += 1;
        let Some(op) = body.get(*at - 1).cloned() else {
            self.next = Next::Leave(Ok(Val::Unit));
            return;
        };
        let step = self.step();
        self.perform(step, op);
    }

    fn perform(&mut self, step: u32, op: Op) {
        let outcome = match op {
            Op::New(make) => Outcome::Made(self.make(&make, "") - ROOTS),
            Op::Run(make) => {
                let target = self.make(&make, "");
                self.did(step, Outcome::Made(target - ROOTS));
                let step = self.step();
                return self.call(step, Call::Resume, target);
            }
            Op::Guard(make) => {
                let Some(Frame::Body { locals, .. }) = self.me().frames.last_mut() else { unreachable!() };
                locals.push_back(Local::Run(make));
                Outcome::Done
            }
            Op::Own(target) => {
                let target = self.place(target);
                if let Some(target) = target {
                    self.fibers[target].in_table = false;
                }
                let Some(Frame::Body { locals, .. }) = self.me().frames.last_mut() else { unreachable!() };
                locals.push_back(Local::Drop(target));
                if target.is_some() { Outcome::Done } else { Outcome::Gone }
            }
            Op::Resume(target) => return self.call_at(step, Call::Resume, target),
            Op::Cancel(target) => return self.call_at(step, Call::Cancel, target),
            Op::Propagate(target) => return self.call_at(step, Call::Propagate, target),
            Op::Next(target) => return self.with_only(step, target, true),
            Op::End(target) => return self.with_only(step, target, false),
            Op::Drop(target) => return self.drop_at(step, target),
            Op::Take(target) => match self.place(target) {
                Some(target) => Outcome::Taken(self.take_raised(target)),
                None => Outcome::Gone,
            },
            Op::Yield => return self.signal(step, Signal::Yield),
            Op::Debug => return self.signal(step, Signal::Debug),
            Op::Await => return self.signal(step, Signal::Await),
            Op::Error => return self.signal(step, Signal::Error),
            Op::Signal(signal) => return self.signal(step, signal),
            Op::Panic => return self.raise(Signal::Error, Val::Panic(step)),
            Op::Return => {
                self.next = Next::Leave(Ok(Val::Of(step)));
                return;
            }
            Op::Checkpoint => {
                self.push(Frame::Raise { step, signal: None, stopped: false });
                self.next = Next::Start;
                return;
            }
            Op::Interrupt => {
                self.task().interrupts += 1;
                Outcome::Done
            }
            Op::Stop(level) => {
                let asked = &mut self.task().level;
                *asked = (*asked).max(Some(level));
                Outcome::Done
            }
            Op::Shield(body) => return self.scope(Frame::Shield { step }, body),
            Op::Ffi(body) => return self.scope(Frame::Ffi { step }, body),
            Op::Get(key) => Outcome::Bound(self.get(key)),
            Op::Set(key) => self.set(key, Some(step)),
            Op::Unset(key) => self.set(key, None),
        };
        self.did(step, outcome);
    }

    fn scope(&mut self, scope: Frame, body: Body) {
        self.push(scope);
        self.push(Frame::body(body));
    }

    /// The topmost body was left: its locals go, then what is around it goes on.
    fn leave(&mut self) {
        let Some(Frame::Body { locals, left, .. }) = self.me().frames.last_mut() else { unreachable!() };
        if let Some(local) = locals.pop_front() {
            return self.drop_local(local);
        }
        let result = left.take().expect("the body was left");
        self.me().frames.pop();
        let value = match result {
            Ok(value) => value,
            Err(raised) => return self.next = Next::Unwind(raised),
        };
        match self.me().frames.pop() {
            Some(Frame::Shield { step } | Frame::Ffi { step }) => {
                self.did(step, Outcome::Scope(Ok(value)));
            }
            Some(_) => unreachable!("a body is in a scope or is the whole"),
            None => self.next = self.ended(Signal::Ok, value, None),
        }
    }

    fn drop_local(&mut self, local: Local) {
        let step = self.step();
        match local {
            Local::Run(make) => {
                let target = self.make(&make, "t");
                self.call(step, Call::Guard, target);
            }
            Local::Drop(Some(target)) => self.release(target, Then::Finish { step, what: Outcome::Done }),
            Local::Drop(None) => self.did(step, Outcome::Done),
        }
    }

    /// One frame less, for a terminal signal.
    fn unwind(&mut self, raised: Raised) {
        self.me().unwinding = true;
        match self.me().frames.pop() {
            Some(Frame::Body { body, at, locals, .. }) => {
                self.push(Frame::Body { body, at, locals, left: Some(Err(raised)) });
                self.leave();
            }
            Some(Frame::Ffi { step }) => {
                self.me().unwinding = false;
                self.did(step, Outcome::Scope(Err(raised)));
            }
            Some(Frame::Call { target, .. }) => self.release(target, Then::Unwind(raised)),
            Some(Frame::Shield { .. } | Frame::Raise { .. }) => self.next = Next::Unwind(raised),
            Some(Frame::Drop { .. }) => unreachable!("a drop does not fail"),
            None => self.next = self.ended(raised.signal, raised.value, raised.trace),
        }
    }

    /// The running fiber has no frames left.
    fn ended(&mut self, signal: Signal, value: Val, trace: Option<Vec<Name>>) -> Next {
        let me = self.running;
        let record = self.me();
        record.status = signal.into();
        record.unwinding = false;
        record.last = Rc::new(Cell::new(Some(value)));
        record.trace = trace;
        match self.fibers[me].parent {
            Some(parent) => {
                self.unlink(parent, me);
                self.running = parent;
                Next::Stopped(me)
            }
            None => Next::Go,
        }
    }

    fn over(&mut self, root: Id) -> Result<Val, Raised> {
        let record = &mut self.fibers[root];
        let signal = record.status.signal().expect("a root that is over has ended");
        let value = record.last.take().expect("whatever ended left a value");
        match (signal, record.trace.take()) {
            (Signal::Ok, None) => Ok(value),
            (signal, trace) => Err(Raised { signal, value, trace }),
        }
    }

    pub(crate) fn refused(&self, operation: Operation, fiber: Id, reason: Reason) -> Outcome {
        Outcome::Refused { operation, fiber: name(fiber), status: self.fibers[fiber].status, reason }
    }

    pub(crate) fn me(&mut self) -> &mut Fiber {
        &mut self.fibers[self.running]
    }

    /// The root that runs: that of the running fiber, or of whoever ends it.
    pub(crate) fn task(&mut self) -> &mut Fiber {
        let root = *self.chain_above(self.running).last().expect("the running one is above itself");
        &mut self.fibers[root]
    }

    pub(crate) fn push(&mut self, frame: Frame) {
        self.me().frames.push(frame);
    }

    pub(crate) fn step(&mut self) -> u32 {
        self.steps += 1;
        self.steps
    }

    pub(crate) fn note(&mut self, event: Event) {
        let fibers = &self.fibers;
        self.log.note(event, fibers.len() - ROOTS, |index| look(fibers, index + ROOTS));
    }

    pub(crate) fn did(&mut self, step: u32, what: Outcome) {
        if let Outcome::Refused { reason, .. } = &what {
            self.coverage.refusal(*reason);
        }
        let who = name(self.running);
        self.note(Event::Did { who, step, what });
    }
}

pub(crate) fn name(id: Id) -> Name {
    if id < ROOTS { Name::Root(id) } else { Name::Fiber(id - ROOTS) }
}

fn look(fibers: &[Fiber], id: Id) -> Seen {
    let fiber = &fibers[id];
    let lineage = std::iter::successors(Some(id), |id| fibers[*id].child).map(name);
    let shown = fiber.in_table;
    Seen {
        status: fiber.status,
        can_resume: !fiber.has_ended(),
        last: if shown { peek(&fiber.last) } else { None },
        lineage: if shown { lineage.collect() } else { Vec::new() },
    }
}

fn peek(last: &Last) -> Option<Val> {
    let value = last.take();
    last.set(value);
    value
}
