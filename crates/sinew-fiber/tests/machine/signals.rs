//! The reference's signals: who catches one, how the fibers on the way stop, and what reaches the root.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{CancelLevel, Operation, Reason, Signal};

use crate::log::{Event, Outcome, Raised, Val};
use crate::program::ROOTS;
use crate::reference::{Machine, name};
use crate::state::{Delivery, Fiber, Frame, Id, Next};

/// How often a body may go on although it is being dropped.
const MAX_SWALLOWED: u32 = 8;

/// What becomes of a resumable signal of the running fiber.
pub(crate) enum Verdict {
    Refused(Reason),
    /// It would leave this fiber, which is being dropped: cancelled is raised again.
    Again(Id),
    /// The resumer of this fiber catches it.
    Caught(Id),
    Root(Id),
}

impl Machine<'_> {
    /// Raises `signal` in the running fiber, by an operation of its body.
    pub(crate) fn signal(&mut self, step: u32, signal: Signal) {
        match signal.number() {
            0 | 1 | 4..=8 => self.raise(signal, Val::Of(step)),
            _ => {
                self.push(Frame::Raise { step, signal: Some(signal), stopped: false });
                self.next = Next::Start;
            }
        }
    }

    /// A terminal signal, with its trace.
    pub(crate) fn raise(&mut self, signal: Signal, value: Val) {
        let trace = self.chain_above(self.running).into_iter().map(name).collect();
        self.next = Next::Unwind(Raised { signal, value, trace: Some(trace) });
    }

    /// The signal of the topmost frame, which is resumable.
    pub(crate) fn stop(&mut self, step: u32, signal: Signal) {
        let value = Val::Of(step);
        match self.verdict(signal) {
            Verdict::Refused(reason) => {
                self.finish(self.refused(Operation::Signal(signal), self.running, reason));
            }
            Verdict::Again(ended) => self.cancel_again(ended, signal, value),
            Verdict::Caught(top) => {
                let Some(Frame::Raise { stopped, .. }) = self.me().frames.last_mut() else { unreachable!() };
                *stopped = true;
                if signal == Signal::Debug {
                    let trace = self.chain_above(self.running).into_iter().map(name).collect();
                    self.me().trace = Some(trace);
                }
                self.suspend(top, signal, value);
            }
            Verdict::Root(root) => {
                if let Some(value) = self.reach_root(root, signal, value) {
                    self.finish(Outcome::Value(value));
                }
            }
        }
    }

    pub(crate) fn checkpoint(&mut self) {
        let chain = self.chain_above(self.running);
        let unwinding = chain.iter().any(|id| self.fibers[*id].unwinding);
        match self.level() {
            Some(_) if !unwinding => self.raise(Signal::Error, Val::Cancelled),
            _ => self.finish(Outcome::Done),
        }
    }

    /// The fibers that `signal` would stop, from the running one up; and whether the last of them is a root that
    /// nobody's mask kept it from.
    fn way(&self, signal: Signal) -> (Vec<Id>, bool) {
        let chain = self.chain_above(self.running);
        match chain.iter().position(|id| *id >= ROOTS && self.fibers[*id].mask.contains(&signal)) {
            Some(at) => (chain[..=at].to_vec(), false),
            None => (chain, true),
        }
    }

    pub(crate) fn verdict(&self, signal: Signal) -> Verdict {
        let (way, to_root) = self.way(signal);
        let top = *way.last().expect("the running fiber is one");
        let root = &self.fibers[top];
        let reaches_root = matches!(signal, Signal::Await | Signal::Interrupt | Signal::Debug);
        if to_root && reaches_root && !root.hook && signal != Signal::Await {
            return Verdict::Root(top); // it stops nobody
        }
        let obstacle = way.iter().find_map(|id| match &self.fibers[*id] {
            fiber if fiber.unwinding => Some(Reason::Unwinding),
            fiber if fiber.in_ffi_scope() => Some(Reason::FfiScope),
            _ => None,
        });
        if let Some(reason) = obstacle {
            return Verdict::Refused(reason);
        }
        if to_root && !reaches_root && !(root.hook && root.mask.contains(&signal)) {
            return Verdict::Refused(Reason::Uncaught);
        }
        let Some(at) = way.iter().position(|id| self.fibers[*id].ending) else {
            return if to_root { Verdict::Root(top) } else { Verdict::Caught(top) };
        };
        let shielded = way[..=at].iter().any(|id| self.fibers[*id].shielded());
        match (shielded, to_root) {
            (false, _) => Verdict::Again(way[at]),
            (true, false) => Verdict::Refused(Reason::Ending),
            (true, true) => Verdict::Root(top),
        }
    }

    /// Stops the fibers from the running one to `top`; the resumer of `top` goes on.
    pub(crate) fn suspend(&mut self, top: Id, signal: Signal, value: Val) {
        let last = Rc::new(Cell::new(Some(value)));
        let mut id = self.running;
        loop {
            self.fibers[id].status = signal.into();
            self.fibers[id].last = last.clone();
            let parent = self.fibers[id].parent.expect("the signal is caught above");
            if id == top {
                self.unlink(parent, top);
                self.running = parent;
                return self.next = Next::Stopped(top);
            }
            id = parent;
        }
    }

    /// `ended` is being dropped and the running fiber, in its chain, goes on.
    pub(crate) fn cancel_again(&mut self, ended: Id, signal: Signal, value: Val) {
        self.coverage.hit("cancelled again");
        self.fibers[ended].swallowed += 1;
        if self.fibers[ended].swallowed <= MAX_SWALLOWED {
            return self.raise(Signal::Error, Val::Cancelled);
        }
        self.coverage.hit("quarantined");
        self.quarantined += 1;
        for below in self.chain_below(ended) {
            self.fibers[below].quarantined = true;
        }
        self.suspend(ended, signal, value);
    }

    /// The level of cancellation that holds for the running fiber.
    fn level(&mut self) -> Option<CancelLevel> {
        let chain = self.chain_above(self.running);
        // A shield around whoever drops a fiber is none for the fiber.
        let dropped = chain.iter().position(|id| self.fibers[*id].ending).unwrap_or(chain.len() - 1);
        let shielded = chain[..=dropped].iter().any(|id| self.fibers[*id].shielded());
        if shielded { None } else { self.task().level }
    }

    /// What the hook gives, unless the task is cancelled, about which the running fiber has been told then.
    pub(crate) fn reach_root(&mut self, root: Id, signal: Signal, value: Val) -> Option<Val> {
        let unwinding = self.chain_above(self.running).iter().any(|id| self.fibers[*id].unwinding);
        match self.level() {
            None => Some(self.call_hook(root, signal, value)),
            // Only what stops nobody gets here from a destructor.
            Some(_) if unwinding => Some(self.call_hook(root, signal, value)),
            Some(CancelLevel::Cancel) if signal == Signal::Await => {
                self.finish(self.refused(Operation::Signal(signal), self.running, Reason::Cancelled));
                None
            }
            Some(_) => {
                self.coverage.hit("cancelled at the root");
                self.raise(Signal::Error, Val::Cancelled);
                None
            }
        }
    }

    fn call_hook(&mut self, root: Id, signal: Signal, value: Val) -> Val {
        if !self.fibers[root].hook {
            return Val::Unit;
        }
        self.coverage.hit("hook");
        self.note(Event::Hook(signal, value));
        Val::Of(self.step())
    }

    /// Takes one interrupt before the operation of the topmost frame, if there is one and it stops somebody.
    pub(crate) fn take_interrupt(&mut self) -> bool {
        if self.task().interrupts == 0 {
            return false;
        }
        let (way, to_root) = self.way(Signal::Interrupt);
        let top = *way.last().expect("the running fiber is one");
        let keeps = |fiber: &Fiber| fiber.unwinding || fiber.in_ffi_scope() || fiber.ending;
        if way.iter().any(|id| keeps(&self.fibers[*id])) || (to_root && !self.fibers[top].hook) {
            return false;
        }
        self.task().interrupts -= 1;
        if to_root {
            self.coverage.hit("interrupt reaches the root");
            self.call_hook(top, Signal::Interrupt, Val::Unit);
            self.next = Next::Start;
        } else {
            self.coverage.hit("interrupt is caught");
            self.suspend(top, Signal::Interrupt, Val::Unit);
        }
        true
    }

    /// The topmost frame, which had stopped with its own signal or with an interrupt, goes on.
    pub(crate) fn continue_with(&mut self, delivery: Delivery) {
        let own = match self.me().frames.last() {
            Some(Frame::Raise { signal, stopped: true, .. }) => *signal,
            _ => None,
        };
        self.me().trace = None;
        match (delivery, own) {
            (Delivery::Error(value), _) => self.raise(Signal::Error, value),
            (Delivery::Value(value), Some(_)) => self.finish(Outcome::Value(value)),
            (Delivery::Ending, Some(signal)) => {
                self.coverage.hit("ending in a shield");
                self.finish(self.refused(Operation::Signal(signal), self.running, Reason::Ending));
            }
            (Delivery::Value(_) | Delivery::Ending, None) => self.next = Next::Start,
        }
    }
}
