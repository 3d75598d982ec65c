//! Reports of tasks that keep their workers for long: when to ask where one is, and what to tell.
//!
//! # What is reported
//!
//! A task that computes alone does no harm. It is reported when it has kept its worker for the threshold and something waits
//! behind it:
//!
//! - a task that is ready and has to run on that worker. Those that the task has woken itself, or found waiting, are in a queue
//!   that only the worker sees; so the states of all tasks are looked at, when the task has run for the threshold, for twice
//!   that, and so on: that costs the worker nothing, and sysmon little, however long the task runs;
//! - the worker's inbox, in which others put tasks that are to run there, if it was not empty for the threshold. Tasks that
//!   have not started are in it until an idle worker, or a temporary one, takes them;
//! - work that any worker could take, if no worker was idle and none has taken anything for the threshold;
//! - a time-out of a task of that worker that is put off until the worker looks at its timers ([`crate::countdown`]).
//!   Timers that are set are no such case: sysmon rings them, and who is woken by one is in an inbox or in a queue.
//!
//! Everything here is a guess by relaxed loads; at the next tick there is another.
//!
//! # Asking
//!
//! Such a worker is asked where it is, once in that turn. The answer is looked for at the next
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

use super::report::{Diagnostic, Frame, Hook, Stall};
use super::{Heartbeat, Sysmon};
use crate::capture::Answer;
use crate::shared::Shared;
use crate::task_id::TaskId;

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

/// What waits behind a worker that is in one turn for long.
#[derive(Clone, Copy, Default)]
struct Behind {
    turn: u64,
    /// How long the turn had lasted when sysmon last looked for tasks that are ready; zero if it has not.
    looked: Duration,
    /// Since when the inbox is not empty.
    has_mail_since: Option<Instant>,
}

pub(super) struct Stalls {
    shared: &'static Shared,
    threshold: Duration,
    patience: Duration,
    signal: Option<c_int>,
    hook: Hook,
    /// For each worker the turn, and what was asked about it.
    asked: Vec<(u64, Asked)>,
    /// For each worker what waits behind it.
    behind: Vec<Behind>,
    /// Since when there is work that nobody takes.
    untaken_since: Option<Instant>,
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
            behind: vec![Behind::default(); shared.inboxes.len()],
            untaken_since: None,
            told: HashSet::new(),
        }
    }

    /// Notes whether there is work that any worker could take and none does.
    pub(super) fn note_untaken(&mut self, is_untaken: bool, now: Instant) {
        self.untaken_since = is_untaken.then(|| self.untaken_since.unwrap_or(now));
    }

    /// Looks at `worker`, which runs a task in the turn that was seen.
    pub(super) fn look(&mut self, worker: usize, seen: Heartbeat, now: Instant) {
        let (turn, asked) = self.asked[worker];
        if let Asked::Yes { .. } = asked {
            return;
        }
        if (turn != seen.turn || asked == Asked::No) && self.is_waited_for(worker, seen, now) {
            let inbox = &self.shared.inboxes[worker];
            // SAFETY: slots are never freed; whether the task is still the one that is meant does not matter to its number.
            let Some(task) = (unsafe { inbox.own.running.load(Ordering::Relaxed).as_ref() }) else { return };
            self.asked[worker] = (seen.turn, Asked::Yes { at: now, since: seen.since, task: task.id() });
            if !self.signal.is_some_and(|signal| inbox.capture.ask(seen.turn, signal)) {
                self.answered(worker, now, task.id(), Vec::new());
            }
        }
    }

    /// True if `worker` has been in the turn that was seen for the threshold, and something waits behind it.
    fn is_waited_for(&mut self, worker: usize, seen: Heartbeat, now: Instant) -> bool {
        let (threshold, inbox) = (self.threshold, &self.shared.inboxes[worker]);
        let waits = |since: Option<Instant>| since.is_some_and(|since| now - since >= threshold);
        let behind = &mut self.behind[worker];
        if behind.turn != seen.turn {
            *behind = Behind { turn: seen.turn, ..Behind::default() };
        }
        behind.has_mail_since = (!inbox.is_empty()).then(|| behind.has_mail_since.unwrap_or(now));
        let ran_for = now - seen.since;
        if ran_for < threshold {
            return false;
        }
        if waits(behind.has_mail_since) || waits(self.untaken_since) || !inbox.own.countdowns.is_empty() {
            return true;
        }
        let looks = behind.looked.is_zero() || ran_for >= 2 * behind.looked;
        if looks {
            behind.looked = ran_for;
        }
        looks && self.shared.has_ready_on(worker)
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
