//! Histories of a channel, and whether some order of the calls explains one.
//!
//! A call has a stamp from before it began and one from after it ended. A history is explained by an order of its calls,
//! such that a call that ended before another began comes before it, the calls of one party are in their order, and each
//! gave what a channel on which they are done one by one, in that order, gives: its [`Spec`]. A call that takes effect in
//! several steps is several entries of its party. [`explain`] looks for such an order by trying all of them, and keeps in
//! mind where it has been.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// What came of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Outcome {
    /// Done, for what returns nothing.
    Done,
    /// Received, or displaced by what was sent by force.
    Item(u32),
    /// Not done, for it would have had to wait.
    Not,
    /// It had to wait, and was given up: its task was killed, or its future dropped.
    GaveUp,
    /// The channel has ended; by an error, by being cancelled.
    Ended,
    Failed,
    Cancelled,
    /// So many items were missed; it is too late for all of them; nobody would see the item.
    Missed(usize),
    CutOff,
    Unheard,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<C> {
    pub(crate) who: usize,
    pub(crate) call: C,
    pub(crate) outcome: Outcome,
    pub(crate) began: u64,
    /// The largest number for what takes effect at some time after it began.
    pub(crate) ended: u64,
}

impl<C: fmt::Debug> fmt::Display for Entry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { who, call, outcome, began, ended } = self;
        write!(f, "[{began:3}, {ended:3}] {who}: {call:?} -> {outcome:?}")
    }
}

/// A channel on which one call is done after the other.
pub(crate) trait Spec: Clone + Eq + Hash {
    type Call: Copy + fmt::Debug;

    /// What it may be like after a call that gave this; nothing if the call gives something else.
    fn after(&self, entry: &Entry<Self::Call>) -> Vec<Self>;

    /// Whether two calls that are done together give this, and leave it as it is.
    fn meet(&self, _one: &Entry<Self::Call>, _other: &Entry<Self::Call>) -> bool {
        false
    }
}

/// The calls `(group, call, outcome)` one after the other, but for those with the same number of a group, which overlap;
/// each by another party.
pub(crate) fn history<C: Copy>(calls: &[(u64, C, Outcome)]) -> Vec<Entry<C>> {
    let entry = |(who, (group, call, outcome)): (usize, &(u64, C, Outcome))| Entry {
        who,
        call: *call,
        outcome: *outcome,
        began: group * 2,
        ended: group * 2 + 1,
    };
    calls.iter().enumerate().map(entry).collect()
}

/// An order that explains what happened to what was like `start`, as places in the history; none if there is none. The
/// calls of a party are in their order in the history.
pub(crate) fn explain<S: Spec>(start: &S, history: &[Entry<S::Call>]) -> Option<Vec<usize>> {
    assert!(history.len() < 64, "short histories only");
    let mut search = Search { history, seen: HashSet::new(), order: Vec::new() };
    search.go_on(0, start).then_some(search.order)
}

struct Search<'a, S: Spec> {
    history: &'a [Entry<S::Call>],
    /// What was done, and the channel after it, from where there is no way.
    seen: HashSet<(u64, S)>,
    order: Vec<usize>,
}

impl<S: Spec> Search<'_, S> {
    fn go_on(&mut self, done: u64, spec: &S) -> bool {
        if done == (1 << self.history.len()) - 1 {
            return true;
        }
        if !self.seen.insert((done, spec.clone())) {
            return false;
        }
        let left = (0..self.history.len()).filter(|n| done & 1 << n == 0);
        let first_end = left.clone().map(|n| self.history[n].ended).min().expect("something is left");
        let mut parties = HashSet::new();
        let is_first = |n: &usize| parties.insert(self.history[*n].who);
        let next = left.filter(is_first).filter(|n| self.history[*n].began < first_end);
        let next: Vec<usize> = next.collect();
        for &n in &next {
            for after in spec.after(&self.history[n]) {
                if self.step(&[n], done | 1 << n, &after) {
                    return true;
                }
            }
            for &other in &next {
                let meet = spec.meet(&self.history[n], &self.history[other]);
                if meet && self.step(&[n, other], done | 1 << n | 1 << other, spec) {
                    return true;
                }
            }
        }
        false
    }

    fn step(&mut self, calls: &[usize], done: u64, spec: &S) -> bool {
        self.order.extend_from_slice(calls);
        let explained = self.go_on(done, spec);
        if !explained {
            self.order.truncate(self.order.len() - calls.len());
        }
        explained
    }
}
