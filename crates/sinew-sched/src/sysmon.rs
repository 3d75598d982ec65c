//! Sysmon: a thread of each runtime that looks after workers that are stuck.
//!
//! A worker is *stuck* when it is up and has not changed tasks for some time: its count of turns stands still. Sysmon looks
//! at the counts at every tick. For a worker that is stuck it rings the timers, and starts a temporary worker for what
//! could run elsewhere (`temporary.rs`). One that is stuck for long while something waits behind it is reported, with a
//! backtrace (`stall.rs`). So is a runtime in which all tasks wait (`deadlock.rs`). It serves the reactor when no worker
//! does, and gives the memory of idle stacks back to the system (`idle_stacks.rs`).
//!
//! It is advisory: everything is right without it, only later. It is bounded: so many temporary workers, so often. And it
//! costs nothing when there is nothing to do: while all workers sleep it sleeps too (`shared/service.rs`).
//!
//! Time here is the system's, whatever the clock of the runtime: a thread is stuck in real time. A manual clock is never
//! moved by sysmon, and does not jump while sysmon does something.

mod capture_signal;
mod deadlock;
mod idle_stacks;
mod report;
mod settings;
mod stall;
mod temporary;

use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::Ordering;
use sinew_sync::park_timeout;
use sinew_sync::thread::{self, JoinHandle as ThreadHandle};

use crate::clock::system_now;
use crate::cpu;
use crate::shared::{Inbox, Shared, SharedRef, Slept};
use crate::waker::wake_caught;
use crate::worker::Queues;
use deadlock::Deadlocks;
use idle_stacks::IdleStacks;
pub use report::{Deadlock, Diagnostic, Frame, Stall};
pub use settings::Sysmon;
use stall::Stalls;
use temporary::Temporary;

/// Starts sysmon for a runtime, unless it is off; `spare` are the queues for temporary workers.
pub(crate) fn start(
    shared: &SharedRef,
    settings: Sysmon,
    spare: Vec<Queues>,
    stack_idle_time: Duration,
) -> std::io::Result<Option<ThreadHandle<()>>> {
    if settings.is_off() {
        return Ok(None);
    }
    if let Some(signal) = settings.signal {
        capture_signal::install(signal)?;
    }
    let thread = thread::Builder::new().name("sinew-sysmon".to_owned());
    let reference = shared.clone();
    thread
        .spawn(move || {
            cpu::unbind();
            Monitor::new(reference.get(), settings, spare, stack_idle_time).run();
            drop(reference);
        })
        .map(Some)
}

/// What sysmon has seen of a worker.
#[derive(Clone, Copy)]
struct Heartbeat {
    turn: u64,
    /// Since when the worker has been in that turn, as far as sysmon knows.
    since: Instant,
}

struct Monitor {
    shared: &'static Shared,
    settings: Sysmon,
    heartbeats: Vec<Heartbeat>,
    temporary: Temporary,
    stalls: Stalls,
    deadlocks: Deadlocks,
    idle_stacks: IdleStacks,
}

impl Monitor {
    fn new(
        shared: &'static Shared,
        settings: Sysmon,
        spare: Vec<Queues>,
        stack_idle_time: Duration,
    ) -> Monitor {
        let heartbeats = vec![Heartbeat { turn: 0, since: system_now() }; shared.inboxes.len()];
        let temporary = Temporary::new(shared, &settings, spare);
        let stalls = Stalls::new(shared, &settings);
        let deadlocks = Deadlocks::new(shared, settings.signal, settings.hook.clone());
        let idle_stacks = IdleStacks::new(shared, stack_idle_time);
        Monitor { shared, settings, heartbeats, temporary, stalls, deadlocks, idle_stacks }
    }

    fn run(mut self) {
        while !self.shared.has_ended() {
            if self.sleep_if_nobody_is_up() {
                let now = system_now(); // what was seen before says nothing about who has got up since
                self.heartbeats.iter_mut().for_each(|seen| seen.since = now);
            }
            park_timeout(self.settings.tick);
            self.shared.tick.next();
            let now = system_now();
            self.look(now);
            self.idle_stacks.look(now);
        }
        self.temporary.join();
    }

    /// Sleeps until somebody gets up; meanwhile it reports a deadlock, and gives idle stacks back. False if somebody is up.
    fn sleep_if_nobody_is_up(&mut self) -> bool {
        let since = system_now();
        let mut pause = deadlock::PAUSE;
        let mut report_at = self.deadlocks.may_be().then_some(since + pause);
        let mut trim_at = self.idle_stacks.next(since);
        loop {
            let until = [report_at, trim_at].into_iter().flatten().min();
            let slept = self.shared.sleep_as_sysmon(until.map(|until| until - system_now()));
            if slept != Slept::AllTheTime {
                return slept != Slept::NotAtAll;
            }
            let now = system_now();
            if report_at.is_some_and(|at| at <= now) {
                let again = self.deadlocks.may_be() && self.deadlocks.report();
                pause = deadlock::LONGEST.min(pause * 2);
                report_at = again.then_some(now + pause);
            }
            if trim_at.is_some_and(|at| at <= now) {
                trim_at = self.idle_stacks.give_back(since, now);
            }
        }
    }

    /// Looks at all workers, and does something about those that are stuck.
    fn look(&mut self, now: Instant) {
        let mut stuck = Vec::new();
        for (index, inbox) in self.shared.inboxes.iter().enumerate() {
            let seen = &mut self.heartbeats[index];
            let turn = inbox.own.turns.load(Ordering::Relaxed);
            inbox.own.budget.store(0, Ordering::Relaxed); // calls may have become slower since it was granted
            if turn != seen.turn || !runs(inbox) {
                *seen = Heartbeat { turn, since: now };
            } else if now - seen.since >= self.settings.stuck_after {
                stuck.push(index);
            }
        }
        let somebody_takes = self.temporary.somebody_takes();
        let is_untaken = !stuck.is_empty() && !somebody_takes && self.temporary.is_left_untaken(&stuck);
        self.stalls.note_untaken(is_untaken, now);
        stuck.iter().for_each(|index| self.stalls.look(*index, self.heartbeats[*index], now));
        self.stalls.listen(now);
        self.shared.serve_as_sysmon();
        if !stuck.is_empty() {
            let (shared, temporary) = (self.shared, &mut self.temporary);
            shared.act_as_sysmon(|| {
                stuck.iter().for_each(|index| ring(shared, *index));
                temporary.help(&stuck, somebody_takes, now);
            });
        }
    }
}

/// True if the worker runs a task.
fn runs(inbox: &Inbox) -> bool {
    inbox.is_in_service() && !inbox.is_asleep() && !inbox.own.running.load(Ordering::Relaxed).is_null()
}

/// Rings the timers of a worker that is stuck. Wakers that are not ours are called by a task: they may be any code.
fn ring(shared: &'static Shared, worker: usize) {
    let (timers, now) = (shared.inboxes[worker].timers, shared.clock.now());
    if timers.next().is_some_and(|next| next <= now) {
        let foreign = timers.ring_ours(now);
        if !foreign.is_empty() {
            shared.run_detached(move || foreign.into_iter().for_each(wake_caught));
        }
    }
}
