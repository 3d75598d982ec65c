//! The reference's operations on other fibers: making, resuming, cancelling, propagating, dropping.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{MAX_DEPTH, Operation, Reason, Signal, Status};

use crate::coverage::Action;
use crate::log::{Event, Outcome, Raised, Val};
use crate::program::{Make, ROOTS, Target};
use crate::reference::{Machine, name};
use crate::signals::Verdict;
use crate::state::{Call, Delivery, Fiber, Frame, Id, Last, Next, Table, Then};

impl Machine<'_> {
    pub(crate) fn make(&mut self, make: &Make, also_caught: &str) -> Id {
        let letters = format!("{}{also_caught}", make.letters);
        let mut fiber = Fiber::new(&letters, Some(make.body.clone()));
        fiber.bindings = match make.letters.rfind(['i', 'p']).map(|at| make.letters.as_bytes()[at]) {
            None => None,
            Some(b'i') => Some(self.own_table()),
            Some(_) => {
                let below = Some(self.own_table());
                self.bindings.push(Table { below, ..Table::default() });
                Some(self.bindings.len() - 1)
            }
        };
        self.fibers.push(fiber);
        self.fibers.len() - 1
    }

    /// The table of the running fiber, made if there is none.
    fn own_table(&mut self) -> usize {
        if self.me().bindings.is_none() {
            self.bindings.push(Table::default());
            self.me().bindings = Some(self.bindings.len() - 1);
        }
        self.me().bindings.expect("just made")
    }

    pub(crate) fn get(&mut self, key: usize) -> Option<u32> {
        let own = self.me().bindings;
        let mut table = own;
        while let Some(at) = table {
            if let Some(value) = self.bindings[at].entries.get(&key) {
                if own != table {
                    self.coverage.hit("binding read through a layer");
                } else if self.fibers.iter().filter(|fiber| fiber.bindings == own).count() > 1 {
                    self.coverage.hit("binding read from a shared table");
                }
                return Some(*value);
            }
            table = self.bindings[at].below;
        }
        None
    }

    pub(crate) fn set(&mut self, key: usize, value: Option<u32>) -> Outcome {
        let table = self.own_table();
        match value {
            Some(value) => self.bindings[table].entries.insert(key, value),
            None => self.bindings[table].entries.remove(&key),
        };
        Outcome::Done
    }

    /// The fiber that is meant, if the table has its handle.
    pub(crate) fn place(&self, target: Target) -> Option<Id> {
        let id = target.among(self.fibers.len() - ROOTS)? + ROOTS;
        self.fibers[id].in_table.then_some(id)
    }

    pub(crate) fn call_at(&mut self, step: u32, call: Call, target: Target) {
        match self.place(target) {
            Some(target) => self.call(step, call, target),
            None => self.did(step, Outcome::Gone),
        }
    }

    /// Starts an operation on `target`, which the running fiber owns as well meanwhile.
    pub(crate) fn call(&mut self, step: u32, call: Call, target: Id) {
        self.fibers[target].owners += 1;
        self.push(Frame::Call { step, call, target });
        self.next = Next::Start;
    }

    /// An operation that needs the only handle: the next item, or the end.
    pub(crate) fn with_only(&mut self, step: u32, target: Target, next: bool) {
        let Some(target) = self.place(target) else { return self.did(step, Outcome::Gone) };
        let fiber = &mut self.fibers[target];
        if fiber.owners > 1 {
            if fiber.status == Status::Alive && next {
                self.coverage.hit("next of a running fiber is not possible");
            }
            return self.did(step, Outcome::Busy);
        }
        fiber.in_table = false;
        if next {
            self.push(Frame::Call { step, call: Call::Next, target });
            self.next = Next::Start;
        } else {
            self.release(target, Then::Tell { step });
        }
    }

    pub(crate) fn drop_at(&mut self, step: u32, target: Target) {
        let Some(target) = self.place(target) else { return self.did(step, Outcome::Gone) };
        self.fibers[target].in_table = false;
        self.release(target, Then::Finish { step, what: Outcome::Done });
    }

    /// The operation in the topmost frame, once there is no interrupt to take before it.
    pub(crate) fn start(&mut self) {
        if self.take_interrupt() {
            return;
        }
        match *self.me().frames.last().expect("an operation starts") {
            Frame::Raise { step, signal: Some(signal), .. } => self.stop(step, signal),
            Frame::Raise { signal: None, .. } => self.checkpoint(),
            Frame::Call { step, call, target } => self.start_call(step, call, target),
            _ => unreachable!("only these wait for interrupts"),
        }
    }

    fn start_call(&mut self, step: u32, call: Call, target: Id) {
        let status = self.fibers[target].status;
        let action = match call {
            Call::Resume | Call::Guard | Call::Continue(_) => Action::Resume,
            Call::Cancel => Action::Cancel,
            Call::Propagate => Action::Propagate,
            Call::Next => Action::Next,
        };
        self.coverage.cell(action, status);
        if call == Call::Propagate {
            return self.propagate(step, target);
        }
        let operation = if call == Call::Cancel { Operation::Cancel } else { Operation::Resume };
        if let Some(reason) = self.objection(target) {
            self.coverage.objection(action, reason);
            let refused = self.refused(operation, target, reason);
            return self.finish(match (call, reason) {
                (Call::Next, Reason::Status) => Outcome::Item(None),
                (Call::Next, reason) => {
                    let (signal, value) = (Signal::Error, Val::Refused(reason));
                    Outcome::Item(Some(Err(Raised { signal, value, trace: None })))
                }
                _ => refused,
            });
        }
        if call != Call::Cancel {
            let value = match call {
                Call::Continue(value) => value,
                Call::Next => Val::Unit,
                _ => Val::Of(step),
            };
            return self.enter(target, Delivery::Value(value));
        }
        if self.chain_below(target).iter().any(|below| self.fibers[*below].shielded()) {
            return self.finish(self.refused(operation, target, Reason::Shielded));
        }
        if status == Status::New {
            self.end_unstarted(target, Val::Of(step));
            let around = self.chain_above(self.running).into_iter().map(name);
            self.fibers[target].trace = Some([name(target)].into_iter().chain(around).collect());
            return self.next = Next::Stopped(target);
        }
        self.enter(target, Delivery::Error(Val::Of(step)));
    }

    fn end_unstarted(&mut self, target: Id, value: Val) {
        let fiber = &mut self.fibers[target];
        fiber.status = Status::Error;
        fiber.last = Rc::new(Cell::new(Some(value)));
        fiber.body = None;
    }

    /// What speaks against resuming, cancelling or propagating `target`.
    fn objection(&mut self, target: Id) -> Option<Reason> {
        let fiber = &self.fibers[target];
        if fiber.has_ended() || fiber.status == Status::Alive {
            return Some(Reason::Status);
        }
        if fiber.parent.is_some() {
            return Some(Reason::Linked);
        }
        let (theirs, ours) = (fiber.root, self.me().root);
        if theirs.is_some() && theirs != ours {
            return Some(Reason::OtherTask);
        }
        let fibers_above = self.chain_above(self.running).len() - 1;
        let depth = fibers_above + self.chain_below(target).len();
        (depth > usize::from(MAX_DEPTH)).then_some(Reason::TooDeep)
    }

    fn propagate(&mut self, step: u32, target: Id) {
        let status = self.fibers[target].status;
        let root = self.running < ROOTS;
        let Some(signal) = status.signal().filter(|signal| !(root && *signal == Signal::Ok)) else {
            return self.finish(self.refused(Operation::Propagate, target, Reason::Status));
        };
        if self.fibers[target].has_ended() {
            let (theirs, ours) = (self.fibers[target].root, self.me().root);
            if theirs.is_some() && theirs != ours {
                return self.finish(self.refused(Operation::Propagate, target, Reason::OtherTask));
            }
            let trace = self.fibers[target].trace.take();
            return self.next = Next::Unwind(Raised { signal, value: Val::Of(step), trace });
        }
        if let Some(reason) = self.objection(target) {
            self.coverage.objection(Action::Propagate, reason);
            return self.finish(self.refused(Operation::Propagate, target, reason));
        }
        match self.verdict(signal) {
            Verdict::Refused(reason) => {
                self.finish(self.refused(Operation::Signal(signal), self.running, reason));
            }
            Verdict::Again(ended) => self.cancel_again(ended, signal, Val::Of(step)),
            Verdict::Caught(top) => {
                // As if `target`, resumed from here, had just raised the signal.
                let me = self.running;
                self.link(me, target);
                self.running = *self.chain_below(target).last().expect("`target` is one");
                self.suspend(top, signal, Val::Of(step));
            }
            Verdict::Root(root) => {
                self.coverage.hit("propagate reaches the root");
                if let Some(value) = self.reach_root(root, signal, Val::Of(step)) {
                    let Some(Frame::Call { call, .. }) = self.me().frames.last_mut() else { unreachable!() };
                    *call = Call::Continue(value);
                    self.next = Next::Start;
                }
            }
        }
    }

    /// Continues the chain that starts at `target`, below the running fiber, in its innermost fiber.
    pub(crate) fn enter(&mut self, target: Id, delivery: Delivery) {
        let me = self.running;
        let root = self.fibers[me].root;
        self.fibers[target].root = self.fibers[target].root.or(root);
        self.link(me, target);
        let chain = self.chain_below(target);
        self.coverage.chain(chain.len());
        for below in &chain {
            self.fibers[*below].status = Status::Alive;
            self.fibers[*below].last = Last::default();
        }
        self.running = *chain.last().expect("`target` is one");
        match self.me().body.take() {
            Some(body) => {
                let Delivery::Value(argument) = delivery else { unreachable!("a new fiber gets a value") };
                self.note(Event::Began(name(target), argument));
                self.push(Frame::body(body));
                self.next = Next::Go;
            }
            None => self.next = Next::Continue(delivery),
        }
    }

    /// `target`, on which the topmost frame waits, has stopped or ended.
    pub(crate) fn stopped(&mut self, target: Id) {
        if let Some(Frame::Drop { .. }) = self.me().frames.last() {
            let Some(Frame::Drop { then, .. }) = self.me().frames.pop() else { unreachable!() };
            return self.follow(target, then);
        }
        let Some(Frame::Call { call, .. }) = self.me().frames.last() else { unreachable!() };
        let call = *call;
        let fiber = &self.fibers[target];
        let signal = fiber.status.signal().expect("it has stopped");
        let ended = fiber.has_ended();
        let escapes = ended && signal != Signal::Ok && !fiber.mask.contains(&signal);
        match call {
            Call::Next => {
                let item = match (ended, escapes) {
                    (true, true) => Some(Err(self.take_raised(target))),
                    (true, false) => None,
                    (false, _) => Some(Ok(self.take_value(target))),
                };
                self.finish(Outcome::Item(item));
            }
            _ if escapes => self.next = Next::Unwind(self.take_raised(target)),
            Call::Propagate | Call::Continue(_) => {
                let value = self.take_value(target);
                self.finish(Outcome::Value(value));
            }
            Call::Resume | Call::Cancel | Call::Guard => self.finish(Outcome::Stopped(signal)),
        }
    }

    pub(crate) fn take_value(&mut self, target: Id) -> Val {
        self.fibers[target].last.take().unwrap_or(Val::Unit)
    }

    /// What it stopped with. The trace is with the fiber that raised the signal.
    pub(crate) fn take_raised(&mut self, target: Id) -> Raised {
        let signal = self.fibers[target].status.signal().unwrap_or(Signal::Ok);
        let raiser = *self.chain_below(target).last().expect("`target` is one");
        Raised { signal, value: self.take_value(target), trace: self.fibers[raiser].trace.take() }
    }

    /// The operation of the topmost frame is done; the frame gives its handle up, or back.
    pub(crate) fn finish(&mut self, what: Outcome) {
        match self.me().frames.pop() {
            Some(Frame::Call { step, call: Call::Next, target }) => {
                self.fibers[target].in_table = true;
                self.did(step, what);
            }
            Some(Frame::Call { step, target, .. }) => self.release(target, Then::Finish { step, what }),
            Some(Frame::Raise { step, .. }) => self.did(step, what),
            _ => unreachable!("only these are operations"),
        }
    }

    /// One owner less; the last one ends the fiber.
    pub(crate) fn release(&mut self, target: Id, then: Then) {
        let fiber = &mut self.fibers[target];
        fiber.owners -= 1;
        if fiber.owners > 0 || fiber.quarantined {
            return self.follow(target, then);
        }
        self.coverage.cell(Action::Drop, fiber.status);
        if fiber.has_ended() {
            return self.follow(target, then);
        }
        if fiber.status == Status::New {
            self.end_unstarted(target, Val::Cancelled);
            return self.follow(target, then);
        }
        if self.me().unwinding {
            self.coverage.hit("drop while unwinding");
        }
        self.fibers[target].ending = true;
        let shielded = self.chain_below(target).iter().any(|below| self.fibers[*below].shielded());
        self.push(Frame::Drop { then });
        self.enter(target, if shielded { Delivery::Ending } else { Delivery::Error(Val::Cancelled) });
    }

    fn follow(&mut self, target: Id, then: Then) {
        match then {
            Then::Finish { step, what } => self.did(step, what),
            Then::Tell { step } => {
                let raised = self.take_raised(target);
                let fine = raised.signal == Signal::Ok || raised.value == Val::Cancelled;
                self.did(step, Outcome::Ended(if fine { Ok(()) } else { Err(raised) }));
            }
            Then::Unwind(raised) => self.next = Next::Unwind(raised),
        }
    }

    fn link(&mut self, parent: Id, child: Id) {
        self.fibers[parent].child = Some(child);
        self.fibers[child].parent = Some(parent);
    }

    pub(crate) fn unlink(&mut self, parent: Id, child: Id) {
        self.fibers[parent].child = None;
        self.fibers[child].parent = None;
    }

    /// `fiber` and those that it resumed, to the innermost.
    pub(crate) fn chain_below(&self, fiber: Id) -> Vec<Id> {
        std::iter::successors(Some(fiber), |id| self.fibers[*id].child).collect()
    }

    /// `fiber` and those that resumed it, to the root.
    pub(crate) fn chain_above(&self, fiber: Id) -> Vec<Id> {
        std::iter::successors(Some(fiber), |id| self.fibers[*id].parent).collect()
    }
}
