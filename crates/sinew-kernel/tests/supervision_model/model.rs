//! The model: whoever is started or stopped is so at once.

use std::collections::BTreeSet;

use sinew_kernel::{ChildState, Restart, Strategy};

use crate::case::{How, Kid, MAX_DELAY, Op};

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) strategy: Strategy,
    pub(crate) max_restarts: usize,
    pub(crate) window: u64,
    pub(crate) now: u64,
    pub(crate) counted: Vec<u64>,
    pub(crate) children: Vec<Modelled>,
    /// To start in order, not before a time.
    pub(crate) pending: BTreeSet<usize>,
    pub(crate) not_before: u64,
    pub(crate) log: Vec<String>,
    pub(crate) ended: Option<&'static str>,
}

pub(crate) struct Modelled {
    kid: Kid,
    state: State,
    pub(crate) bad_starts: u32,
    next_delay: u64,
    /// Somebody waits for it to start; true if it was added so.
    asked: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Up {
        since: u64,
    },
    /// It starts at this time, whatever the others do.
    Wait {
        until: u64,
    },
    Down,
    Gone,
}

impl Model {
    pub(crate) fn add(&mut self, kid: Kid) -> usize {
        let next_delay = kid.backoff.0;
        let bad_starts = kid.bad_starts;
        self.children.push(Modelled { kid, state: State::Down, bad_starts, next_delay, asked: None });
        self.children.len() - 1
    }

    /// Children are restarted without regard to the others.
    pub(crate) fn is_one_for_one(&self) -> bool {
        matches!(self.strategy, Strategy::OneForOne | Strategy::Dynamic)
    }

    /// Starts a child. True if it has started.
    fn start(&mut self, child: usize) -> bool {
        let now = self.now;
        let it = &mut self.children[child];
        if it.bad_starts > 0 {
            it.bad_starts -= 1;
            return false;
        }
        (it.state, it.asked) = (State::Up { since: now }, None);
        self.log.push(format!("+{child}"));
        true
    }

    /// Stops a child that runs.
    fn stop(&mut self, child: usize) {
        if let State::Up { .. } = self.children[child].state {
            self.log.push(format!("-{child}"));
            self.children[child].state = State::Down;
        }
    }

    pub(crate) fn end(&mut self, reason: &'static str) {
        (0..self.children.len()).rev().for_each(|child| self.stop(child));
        self.pending.clear();
        self.ended = Some(reason);
    }

    /// Children that are started together; those that fail do so when all have been tried.
    fn start_alone(&mut self, children: Vec<usize>) {
        let bad: Vec<usize> = children.into_iter().filter(|child| !self.start(*child)).collect();
        let bad = bad.into_iter().map(|child| (child, 0, How::Panic, false)).collect();
        self.have_ended(bad);
    }

    /// Children that have ended, how long they lived, how, and whether that was while they were started in order.
    fn have_ended(&mut self, ends: Vec<(usize, u64, How, bool)>) {
        let one_for_one = self.is_one_for_one();
        let mut alone = Vec::new();
        for (child, lived, how, in_order) in ends {
            let it = &mut self.children[child];
            let asked = it.asked.take();
            // Whoever is stopped with another has not failed.
            let stopped = self.pending.contains(&child) || self.ended.is_some();
            let Kid { restart, backoff, .. } = it.kid;
            if stopped && self.ended.is_none() && asked.is_none() {
                continue;
            }
            it.state = State::Down;
            if restart == Restart::Temporary || asked == Some(true) {
                it.state = State::Gone;
                continue;
            }
            let restarts = restart == Restart::Permanent || how.is_abnormal();
            if stopped || asked.is_some() || !restarts {
                continue;
            }
            let (now, window) = (self.now, self.window);
            if self.counted.iter().filter(|then| now - **then <= window).count() >= self.max_restarts {
                // Those that were just spawned get as far as they can before they are stopped.
                for child in std::mem::take(&mut alone) {
                    self.start(child);
                }
                self.end("restarts exceeded");
                continue;
            }
            self.counted.push(now);
            if lived >= backoff.2 {
                it.next_delay = backoff.0;
            }
            let delay = it.next_delay;
            it.next_delay = (delay * u64::from(backoff.1)).min(MAX_DELAY);
            let affected = match self.strategy {
                _ if one_for_one && !in_order && delay == 0 => {
                    alone.push(child);
                    continue;
                }
                _ if one_for_one && !in_order => {
                    it.state = State::Wait { until: now + delay };
                    continue;
                }
                Strategy::OneForOne | Strategy::Dynamic => child..child,
                Strategy::OneForAll => 0..self.children.len(),
                Strategy::RestForOne => child..self.children.len(),
            };
            for other in affected.rev() {
                if let State::Up { .. } = self.children[other].state
                    && other != child
                {
                    self.stop(other);
                    if self.children[other].kid.restart == Restart::Temporary {
                        self.children[other].state = State::Gone;
                    } else {
                        self.pending.insert(other);
                    }
                }
            }
            self.pending.insert(child);
            self.not_before = self.not_before.max(now + delay);
        }
        if !alone.is_empty() {
            self.start_alone(alone);
        }
    }

    /// Starts those whose turn it is.
    pub(crate) fn go_on(&mut self) {
        while self.ended.is_none()
            && self.not_before <= self.now
            && let Some(child) = self.pending.pop_first()
        {
            if !self.start(child) {
                self.have_ended(vec![(child, 0, How::Panic, true)]);
            }
        }
    }

    pub(crate) fn pass(&mut self, time: u64) {
        self.now += time;
        let due =
            |child: &usize| matches!(self.children[*child].state, State::Wait { until } if until <= self.now);
        let mut due: Vec<usize> = (0..self.children.len()).filter(due).collect();
        due.iter().for_each(|child| self.children[*child].state = State::Down);
        due.sort();
        self.start_alone(due);
        self.go_on();
    }

    /// Children that run end, one after the other.
    pub(crate) fn ends(&mut self, children: &[usize], how: How) {
        let mut ends = Vec::new();
        for child in children {
            if let State::Up { since } = self.children[*child].state {
                ends.push((*child, self.now - since, how, false));
            }
        }
        // In a group, the second one is stopped with the first if it is restarted with it.
        if self.is_one_for_one() {
            ends.iter().for_each(|(child, ..)| self.children[*child].state = State::Down);
            self.have_ended(ends);
        } else {
            for end in ends {
                if let State::Up { .. } = self.children[end.0].state {
                    self.have_ended(vec![end]);
                }
            }
        }
        self.go_on();
    }

    fn is_stopped(&self, child: usize) -> bool {
        self.children[child].state == State::Down && !self.pending.contains(&child)
    }

    /// Starts a child for somebody who waits for it, and says how that went; none if it does not start yet.
    fn start_for(&mut self, child: usize, new: bool) -> Option<Answer> {
        self.children[child].asked = Some(new);
        if self.is_one_for_one() && self.pending.is_empty() {
            self.start_alone(vec![child]);
        } else {
            self.pending.insert(child);
            self.go_on();
        }
        match self.children[child].state {
            _ if self.pending.contains(&child) => None,
            State::Up { .. } => Some(Answer::Done),
            _ => Some(Answer::Failed),
        }
    }

    pub(crate) fn command(&mut self, op: &Op) -> Option<Answer> {
        match *op {
            Op::Add(kid) => {
                let child = self.add(kid);
                self.start_for(child, true)
            }
            Op::Terminate(child) | Op::Restart(child) | Op::Delete(child)
                if self.children[child].state == State::Gone =>
            {
                Some(Answer::NoChild)
            }
            Op::Terminate(child) => {
                let was_asked = self.children[child].asked.take();
                self.pending.remove(&child);
                self.stop(child);
                let it = &mut self.children[child];
                it.state = State::Down;
                if it.kid.restart == Restart::Temporary || was_asked == Some(true) {
                    it.state = State::Gone;
                }
                Some(Answer::Done)
            }
            Op::Restart(child) if self.is_stopped(child) => self.start_for(child, false),
            Op::Delete(child) if self.is_stopped(child) => {
                self.children[child].state = State::Gone;
                Some(Answer::Done)
            }
            Op::Restart(_) | Op::Delete(_) => Some(Answer::NotStopped),
            _ => unreachable!("it is a command"),
        }
    }

    pub(crate) fn states(&self) -> Vec<(String, ChildState)> {
        let all = self.children.iter().enumerate().filter(|(_, it)| it.state != State::Gone);
        all.map(|(child, it)| {
            let state = match it.state {
                State::Up { .. } => ChildState::Running,
                State::Wait { .. } => ChildState::Waiting,
                _ if self.pending.contains(&child) => ChildState::Waiting,
                _ => ChildState::Stopped,
            };
            (child.to_string(), state)
        })
        .collect()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Answer {
    Done,
    Failed,
    NoChild,
    NotStopped,
}
