//! Histories of a channel, and whether some order of the calls explains one.
//!
//! A call has a stamp from before it began and one from after it ended. A history is explained by an order of its calls,
//! such that a call that ended before another began comes before it, and each gave what a channel on which they are done
//! one by one, in that order, gives. [`explain`] looks for such an order by trying all of them, and keeps in mind where
//! it has been.

use std::collections::{HashSet, VecDeque};
use std::fmt;

/// What was called. Items are numbers, each sent at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Send(u32),
    /// Sends until a time that has passed.
    SendLate(u32),
    TrySend(u32),
    ForceSend(u32),
    Recv,
    /// Receives until a time that has passed.
    RecvLate,
    TryRecv,
    Close,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Done, for what returns nothing.
    Done,
    /// Received, or displaced by what was sent by force.
    Item(u32),
    /// Not done, for it would have had to wait.
    Not,
    /// The channel has ended.
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) who: usize,
    pub(crate) call: Call,
    pub(crate) outcome: Outcome,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { who, call, outcome, began, ended } = self;
        write!(f, "[{began:3}, {ended:3}] {who}: {call:?} -> {outcome:?}")
    }
}

/// A channel on which one call is done after the other.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Model {
    items: VecDeque<u32>,
    closed: bool,
}

impl Model {
    /// Does one call at a channel with room for `capacity` items, at least one. False if it gives something else.
    fn does(&mut self, capacity: usize, entry: &Entry) -> bool {
        let full = self.items.len() == capacity;
        match (entry.call, entry.outcome) {
            (Call::Send(_) | Call::SendLate(_) | Call::TrySend(_) | Call::ForceSend(_), Outcome::Ended) => {
                self.closed
            }
            (Call::Send(item) | Call::SendLate(item) | Call::TrySend(item), Outcome::Done) => {
                self.items.push_back(item);
                !self.closed && !full
            }
            (Call::SendLate(_) | Call::TrySend(_), Outcome::Not) => !self.closed && full,
            (Call::ForceSend(item), Outcome::Done) => {
                self.items.push_back(item);
                !self.closed && !full
            }
            (Call::ForceSend(item), Outcome::Item(oldest)) => {
                self.items.push_back(item);
                !self.closed && full && self.items.pop_front() == Some(oldest)
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Item(item)) => {
                self.items.pop_front() == Some(item)
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Ended) => {
                self.closed && self.items.is_empty()
            }
            (Call::RecvLate | Call::TryRecv, Outcome::Not) => !self.closed && self.items.is_empty(),
            (Call::Close, Outcome::Done) => !std::mem::replace(&mut self.closed, true),
            (Call::Close, Outcome::Not) => self.closed,
            _ => false,
        }
    }

    /// Does a call that meets no other at a channel that holds nothing.
    fn does_alone(&mut self, entry: &Entry) -> bool {
        match (entry.call, entry.outcome) {
            (Call::Close, Outcome::Done) => !std::mem::replace(&mut self.closed, true),
            (Call::Close, Outcome::Not) => self.closed,
            (_, Outcome::Ended) => self.closed,
            (Call::ForceSend(item), Outcome::Item(back)) => !self.closed && item == back,
            (Call::SendLate(_) | Call::TrySend(_) | Call::RecvLate | Call::TryRecv, Outcome::Not) => {
                !self.closed
            }
            _ => false,
        }
    }

    /// Whether the two meet at a channel that holds nothing: one of them has to wait there when the other comes.
    fn meet(&self, sends: &Entry, receives: &Entry) -> bool {
        let (item, waits) = match sends.call {
            Call::Send(item) | Call::SendLate(item) => (item, true),
            Call::TrySend(item) | Call::ForceSend(item) => (item, false),
            _ => return false,
        };
        let receiver_waits = match receives.call {
            Call::Recv | Call::RecvLate => true,
            Call::TryRecv => false,
            _ => return false,
        };
        let outcomes = sends.outcome == Outcome::Done && receives.outcome == Outcome::Item(item);
        !self.closed && outcomes && (waits || receiver_waits)
    }
}

/// An order that explains what happened at a channel of `capacity`, as places in the history; none if there is none.
pub(crate) fn explain(capacity: usize, history: &[Entry]) -> Option<Vec<usize>> {
    assert!(history.len() < 32, "short histories only");
    let mut search = Search { capacity, history, seen: HashSet::new(), order: Vec::new() };
    search.go_on(0, &Model::default()).then_some(search.order)
}

struct Search<'a> {
    capacity: usize,
    history: &'a [Entry],
    /// What was done, and the channel after it, from where there is no way.
    seen: HashSet<(u32, Model)>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn go_on(&mut self, done: u32, model: &Model) -> bool {
        if done == (1 << self.history.len()) - 1 {
            return true;
        }
        if !self.seen.insert((done, model.clone())) {
            return false;
        }
        let left = (0..self.history.len()).filter(|n| done & 1 << n == 0);
        let first_end = left.clone().map(|n| self.history[n].ended).min().expect("something is left");
        let next: Vec<usize> = left.filter(|n| self.history[*n].began < first_end).collect();
        for &n in &next {
            let mut after = model.clone();
            let alone = match self.capacity {
                0 => after.does_alone(&self.history[n]),
                capacity => after.does(capacity, &self.history[n]),
            };
            if alone && self.step(&[n], done | 1 << n, &after) {
                return true;
            }
            if self.capacity > 0 {
                continue;
            }
            for &other in &next {
                let meet = model.meet(&self.history[n], &self.history[other]);
                if meet && self.step(&[n, other], done | 1 << n | 1 << other, model) {
                    return true;
                }
            }
        }
        false
    }

    fn step(&mut self, calls: &[usize], done: u32, model: &Model) -> bool {
        self.order.extend_from_slice(calls);
        let explained = self.go_on(done, model);
        if !explained {
            self.order.truncate(self.order.len() - calls.len());
        }
        explained
    }
}
