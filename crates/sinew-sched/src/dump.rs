//! What a runtime is doing, as text: for whoever looks at one that hangs.
//!
//! A dump reads atomics, the list of slots and the table of names. It waits for no worker and no task, and touches no
//! cell that belongs to either, so it may be made at any time and on any thread.

use std::fmt::Write;
use std::ptr;

use sinew_core::Instant;
use sinew_fiber::Level;
use sinew_sync::atomic::Ordering;

use crate::blocking::pool::Counts;
use crate::shared::{Inbox, Shared};
use crate::state::Seen;
use crate::task::{DETACHED, DONE, Task};

/// Tasks that a dump shows.
const MOST_SHOWN: usize = 200;

/// What is seen of one task that has not ended.
struct Shown {
    seen: Seen,
    /// The worker that runs it.
    runs_on: Option<usize>,
    level: Option<Level>,
    handle: &'static str,
}

impl Shared {
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes everything");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let (workers, active) = (self.inboxes.len(), self.active());
        let outside = self.spawned_outside();
        writeln!(
            text,
            "runtime: {workers} workers, {active} tasks, {outside} spawned from outside, {}",
            self.phase()
        )?;
        writeln!(text, "injector: {} queued", self.injector.len())?;
        let Counts { threads, idle, queued, running, alone } = self.blocking.counts();
        writeln!(
            text,
            "blocking: {threads} threads, {idle} idle; {queued} calls queued, {running} running, of which nobody waits for {alone}"
        )?;
        let now = self.clock.now();
        for (index, inbox) in self.inboxes.iter().enumerate() {
            self.write_worker(text, index, inbox, now)?;
        }
        let (shown, rest, unclaimed) = self.tasks();
        let names = self.names.lock();
        for Shown { seen, runs_on, level, handle } in shown {
            write!(text, "task {}", seen.id)?;
            if let Some(name) = names.get(&seen.id) {
                write!(text, " {name:?}")?;
            }
            let notified = if seen.notified { ", notified" } else { "" };
            let level = match level {
                None => "",
                Some(Level::Cancel) => ", cancelled",
                Some(Level::Kill) => ", killed",
            };
            match runs_on {
                _ if seen.is_parked => write!(text, ": parked")?,
                Some(worker) => write!(text, ": running on worker {worker}")?,
                None => write!(text, ": queued")?,
            }
            writeln!(text, "{notified}{level}, {handle}")?;
        }
        if rest > 0 {
            writeln!(text, "and {rest} more tasks")?;
        }
        writeln!(text, "{unclaimed} ended tasks whose result nobody has taken")
    }

    fn write_worker(&self, text: &mut String, index: usize, inbox: &Inbox, now: Instant) -> std::fmt::Result {
        let asleep = match inbox.is_asleep() {
            true => "asleep",
            false if inbox.watch.is_on() => "awake, has not changed tasks since an idle worker looked",
            false => "awake",
        };
        let mail = if inbox.is_empty() { "empty" } else { "not empty" };
        let queues = &self.stealers[index];
        let (new, woken, handed) = (queues.new.len(), queues.woken.len(), queues.handed.len());
        let spawned = inbox.own.spawned.load(Ordering::Relaxed);
        let ended = inbox.own.ended.load(Ordering::Relaxed);
        write!(text, "worker {index}: {asleep}, inbox {mail}, {new} new, {woken} woken, {handed} handed, ")?;
        write!(text, "spawned {spawned}, ended {ended}, ")?;
        match inbox.timers.next() {
            None => writeln!(text, "no timer"),
            Some(next) if next <= now => writeln!(text, "a timer is due since {:?}", now - next),
            Some(next) => writeln!(text, "next timer in {:?}", next - now),
        }
    }

    /// The tasks that have not ended, some of them; how many more there are; and how many have ended but wait for
    /// their handle.
    fn tasks(&self) -> (Vec<Shown>, usize, usize) {
        let (mut shown, mut rest, mut unclaimed) = (Vec::new(), 0, 0);
        for task in self.chunks().into_iter().flatten() {
            match self.look(task) {
                None => (),
                Some(None) => unclaimed += 1,
                Some(Some(task)) if shown.len() < MOST_SHOWN => shown.push(task),
                Some(Some(_)) => rest += 1,
            }
        }
        (shown, rest, unclaimed)
    }

    /// What is in a slot: nothing, a task that has ended, or one that has not.
    fn look(&self, task: &Task) -> Option<Option<Shown>> {
        let seen = task.state.see()?;
        let (join, level) = (task.join.load(Ordering::Relaxed), task.word.level());
        let handle = match join {
            DONE => return Some(None),
            DETACHED => "detached",
            node if node.is_null() => "not joined yet",
            _ => "joined",
        };
        let runs = |inbox: &Inbox| ptr::eq(inbox.own.running.load(Ordering::Relaxed), task);
        let runs_on = self.inboxes.iter().position(runs);
        // The rest may be about the next task of the slot: then this one has ended.
        (task.state.id() == seen.id).then_some(Some(Shown { seen, runs_on, level, handle }))
    }
}
