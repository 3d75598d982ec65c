//! How a select waits.
//!
//! 1. Each case is attempted, from another one on each time, so that none is preferred. If one needs no wait, that is all.
//! 2. Otherwise each gets a node with a common [`Group`], and is enrolled. A case that turns out to be ready meanwhile, or
//!    that another party completes, claims the group: no other case can happen then.
//! 3. The waiter sleeps until the group says which node was told. If it gives up, because its time has passed or its task
//!    is cancelled, it claims the group itself; if somebody else has it already, that case happens after all.
//! 4. All nodes are withdrawn from their queues, before anything else runs. Whoever is still busy with one of them has
//!    found the group taken under the lock of the queue, or is waited for.
//!
//! If the waiter unwinds, since its task is killed, the nodes are withdrawn too, and what a case was given goes on to
//! the next in line ([`Awaited::hand_on`](crate::wait::Awaited::hand_on)).
//!
//! Models: `select_two_senders`, `select_against_close`, `select_against_select`, `select_crossed`, `select_gives_up`,
//! `select_unwinds`, `select_of_locks`, `select_of_permits`, `select_against_drop`,
//! `select_lock_or_item`.

use std::cell::Cell;

use sinew_fiber::{Reason, Refused};
use sinew_sched::raw::{Attempt, Enrolled, Group, Node, What, charge, note_cases};
use sinew_sched::{WaitKind, raw};

/// How many nodes are kept on the stack.
const FEW: usize = 8;

thread_local! {
    /// Where the next select of this thread starts.
    static START: Cell<usize> = const { Cell::new(0) };
}

/// Never inlined: the address of a thread-local must not be kept across a wait.
#[inline(never)]
fn next_start(cases: usize) -> usize {
    if sinew_sync::MODEL {
        return 0; // which a model can repeat
    }
    START.with(|start| {
        let now = start.get();
        start.set(now.wrapping_add(1));
        now.checked_rem(cases).unwrap_or(0)
    })
}

/// The cases from `start` on, and round to the one before it.
fn rotated(cases: usize, start: usize) -> impl Iterator<Item = usize> {
    (start..cases).chain(0..start)
}

/// The first of the cases that needs no wait, and is done now.
#[doc(hidden)]
pub fn attempt(cases: &[&dyn Attempt]) -> Option<usize> {
    rotated(cases.len(), next_start(cases.len())).find(|number| cases[*number].attempt())
}

/// Waits until one of the cases is done; returns which.
///
/// # Errors
///
/// If the task is cancelled, and none of the cases waits for that; if it must not block here.
#[doc(hidden)]
pub fn wait(cases: &[&dyn Attempt]) -> Result<usize, Refused> {
    loop {
        if let Some(number) = attempt(cases) {
            charge();
            return Ok(number);
        }
        let group = Group::new();
        // SAFETY: the group outlives the nodes.
        let node = |number| unsafe { Node::in_group(&raw const group, number) };
        let won = if cases.len() <= FEW {
            let nodes: [Node; FEW] = std::array::from_fn(node);
            Enlisted::new(cases, &nodes[..cases.len()], &group).wait()?
        } else {
            let nodes: Vec<Node> = (0..cases.len()).map(node).collect();
            Enlisted::new(cases, &nodes, &group).wait()?
        };
        if let Some(number) = won {
            return Ok(number);
        }
    }
}

/// The cases of a select while it waits, with a node for each. Leaves the queues on every way out.
struct Enlisted<'a> {
    cases: &'a [&'a dyn Attempt],
    nodes: &'a [Node],
    group: &'a Group,
    /// Where the first was enrolled, and how many were.
    start: usize,
    enrolled: Cell<usize>,
}

impl<'a> Enlisted<'a> {
    fn new(cases: &'a [&'a dyn Attempt], nodes: &'a [Node], group: &'a Group) -> Enlisted<'a> {
        Enlisted { cases, nodes, group, start: next_start(cases.len()), enrolled: Cell::new(0) }
    }

    /// The case that is done; none if all has to begin again.
    fn wait(self) -> Result<Option<usize>, Refused> {
        let mut done = None;
        for number in rotated(self.cases.len(), self.start) {
            // SAFETY: the node is new. The nodes, the group and the cases are borrowed for longer than this, which
            // withdraws what it has enrolled before it goes, but for a node of which the group says that it was told.
            // The cases are attempted before this and after it.
            match unsafe { self.cases[number].enroll(&self.nodes[number]) } {
                Enrolled::Queued => self.enrolled.set(self.enrolled.get() + 1),
                Enrolled::Done => {
                    done = Some(number);
                    break;
                }
                Enrolled::Again if self.group.claim() => {
                    self.leave(None);
                    return Ok(None);
                }
                Enrolled::Again | Enrolled::Taken => break,
            }
        }
        if done.is_some() {
            self.leave(None);
            charge();
            return Ok(done);
        }
        self.wait_for_group()
    }

    fn wait_for_group(self) -> Result<Option<usize>, Refused> {
        let deadline = self.cases.iter().filter_map(|case| case.deadline()).min();
        note_cases(self.cases.iter().map(|case| case.what().kind()));
        let what = What::at(WaitKind::Select, self.group);
        let waited = raw::wait(|| self.group.won().is_some(), deadline, what);
        // Whoever has claimed the group is about to tell it, on another thread, and does not block there.
        let given_up = !matches!(waited, Ok(true)) && self.group.claim();
        if given_up {
            self.leave(None);
            return match waited {
                // The wait says that it has passed, by a clock that this thread may not be on.
                Ok(_) => Ok(self.cases.iter().position(|case| case.deadline() == deadline)),
                Err(refused) if refused.reason() == Reason::Cancelled => {
                    let cancel = self.cases.iter().position(|case| case.awaits_cancel());
                    cancel.map(Some).ok_or(refused)
                }
                Err(refused) => Err(refused),
            };
        }
        let number = self.won();
        self.leave(Some(number));
        // SAFETY: the group says that the node was told, which was enrolled with this case.
        let settled = unsafe { self.cases[number].settle(&self.nodes[number]) };
        Ok(settled.then_some(number))
    }

    /// The node that was told, of a group that is taken by somebody else.
    fn won(&self) -> usize {
        loop {
            if let Some(number) = self.group.won() {
                return number;
            }
            sinew_sync::thread::yield_now();
        }
    }

    /// Takes all nodes out of their queues, but for the one that was told.
    fn leave(&self, told: Option<usize>) {
        for number in rotated(self.cases.len(), self.start).take(self.enrolled.replace(0)) {
            if told != Some(number) {
                // SAFETY: the node was enrolled with this case, since it is one of the first so many; and once, since
                // `enrolled` is zero from now on.
                unsafe { self.cases[number].withdraw(&self.nodes[number]) };
            }
        }
    }
}

impl Drop for Enlisted<'_> {
    /// Only on the way of an unwind is there anything to do.
    fn drop(&mut self) {
        if self.enrolled.get() == 0 {
            return;
        }
        let told = (!self.group.claim()).then(|| self.won());
        self.leave(told);
        if let Some(number) = told {
            // SAFETY: the group says that the node was told, which was enrolled with this case; nobody has settled
            // that.
            unsafe { self.cases[number].hand_on(&self.nodes[number]) };
        }
    }
}

#[cfg(test)]
mod tests;
