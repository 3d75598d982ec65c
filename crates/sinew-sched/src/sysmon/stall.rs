//! Reports of tasks that keep their workers for long: when to ask where one is, and what to tell.
//!
//! A worker that has been in one turn for the threshold is asked, once in that turn. The answer is looked for at the next
//! ticks, so sysmon waits for nobody; a thread that does not answer in [`PATIENCE`] has blocked the signal, or is deep in
//! the system, and is reported without a backtrace. So is a task that went on before it could answer.
//!
//! There is one report for each place in the program ([`Stall::site`]); what has no such place is told by the name of the
//! task. Addresses are turned into names here, on sysmon's thread.

use std::collections::HashSet;
use std::ffi::c_int;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::Ordering;

use super::capture::Answer;
use super::report::{Diagnostic, Frame, Hook, Stall};
use super::{Heartbeat, Sysmon};
use crate::shared::Shared;
use crate::slots::TaskId;

/// How long to wait for an answer, if nothing else is said.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// How many places are remembered. Beyond that nothing is reported: nobody would read it.
const MOST_SITES: usize = 1000;

/// What was asked of a worker.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    No,
    /// At this time, about a task that ran since then.
    Yes {
        at: Instant,
        since: Instant,
        task: TaskId,
    },
    /// And it was answered.
    Done,
}

pub(super) struct Stalls {
    shared: &'static Shared,
    threshold: Duration,
    patience: Duration,
    signal: Option<c_int>,
    hook: Hook,
    /// For each worker the turn, and what was asked about it.
    asked: Vec<(u64, Asked)>,
    told: HashSet<String>,
}

impl Stalls {
    pub(super) fn new(shared: &'static Shared, settings: &Sysmon) -> Stalls {
        Stalls {
            shared,
            threshold: settings.stall_threshold,
            patience: settings.patience,
            signal: settings.signal,
            hook: settings.hook.clone(),
            asked: vec![(0, Asked::No); shared.inboxes.len()],
            told: HashSet::new(),
        }
    }

    /// Looks at `worker`, which runs a task in the turn that was seen.
    pub(super) fn look(&mut self, worker: usize, seen: Heartbeat, now: Instant) {
        let (turn, asked) = self.asked[worker];
        if let Asked::Yes { .. } = asked {
            return;
        }
        if (turn != seen.turn || asked == Asked::No) && now - seen.since >= self.threshold {
            let inbox = &self.shared.inboxes[worker];
            // SAFETY: slots are never freed; whether the task is still the one that is meant does not matter to its number.
            let Some(task) = (unsafe { inbox.own.running.load(Ordering::Relaxed).as_ref() }) else { return };
            self.asked[worker] = (seen.turn, Asked::Yes { at: now, since: seen.since, task: task.id() });
            if !self.signal.is_some_and(|signal| inbox.capture.ask(seen.turn, signal)) {
                self.answered(worker, now, task.id(), Vec::new());
            }
        }
    }

    /// Looks for answers.
    pub(super) fn listen(&mut self, now: Instant) {
        for worker in 0..self.asked.len() {
            let (turn, Asked::Yes { at, task, .. }) = self.asked[worker] else { continue };
            let capture = &self.shared.inboxes[worker].capture;
            match capture.take() {
                Some(Answer::Frames(task, addresses)) => self.answered(worker, now, task, addresses),
                Some(Answer::Switching)
                    if now - at < self.patience
                        && self.signal.is_some_and(|signal| capture.ask(turn, signal)) => {}
                Some(Answer::Gone | Answer::Switching) => self.answered(worker, now, task, Vec::new()),
                None if now - at >= self.patience && capture.give_up() => {
                    self.answered(worker, now, task, Vec::new());
                }
                None => (),
            }
        }
    }

    fn answered(&mut self, worker: usize, now: Instant, task: TaskId, addresses: Vec<usize>) {
        let (turn, Asked::Yes { since, .. }) = self.asked[worker] else { return };
        self.asked[worker] = (turn, Asked::Done);
        let backtrace: Vec<Frame> = addresses.into_iter().flat_map(resolve).collect();
        let site = Stall::site_of(&backtrace);
        if site.as_ref().is_some_and(|site| self.told.contains(site)) {
            return;
        }
        let name = self.shared.names.of(&[task]).remove(&task);
        let key = site.clone().or_else(|| name.clone()).unwrap_or_default();
        if self.told.len() < MOST_SITES && self.told.insert(key) {
            let stall = Stall { task, name, worker, ran_for: now - since, site, backtrace };
            self.hook.tell(&Diagnostic::Stall(stall));
        }
    }
}

/// The functions that are at an address, innermost first: those that were inlined there, and the one that is called.
fn resolve(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let function = symbol.name().map(|name| format!("{name:#}"));
        let source = symbol.filename().zip(symbol.lineno());
        let source = source.map(|(file, line)| (file.display().to_string(), line));
        frames.push(Frame { address, function, source });
    });
    if frames.is_empty() {
        frames.push(Frame { address, function: None, source: None });
    }
    frames
}
