//! Reports of runtimes in which all tasks wait and nobody seems to be left who could wake one.
//!
//! # When
//!
//! No worker is up, no timer is set, no descriptor and no blocking call is waited for, the runtime is
//! not shutting down, and there are tasks that have not ended, not all of them idle between two
//! turns; and that has been so for [`PAUSE`], without a worker having got up meanwhile.
//!
//! # How sure it is
//!
//! Such a runtime may be fine: a thread that is no worker holds the other end of a channel, a handle or a waker, and will use
//! it. That cannot be seen, so all this is *possible* only. It is *certain* if there is no such thread:
//!
//! - Every thread of the process is a worker of this runtime, or sysmon, or blocked without a time limit in a wait of this
//!   crate ([`Blocked`]). A thread that is about to go on could be taken for one that is blocked; so each has to be asleep
//!   in the eyes of the system, too. In a wait there is nothing else that it could sleep in.
//! - The process handles no signals but those that Sinew and the C library handle: a handler may interrupt a task.
//!
//! The system is asked for both (`/proc/self`), before and after which it is checked that nobody has got up or begun to wait
//! in between. If it does not say, nothing is certain. What is left are other processes, which may reach into this
//! one's memory. A second runtime of the process makes it possible only, whatever that one does. Whoever keeps it from being
//! certain is named in the report.

use std::fs;
use std::time::Duration;

use sinew_sync::statics::Ordering;

use super::report::{Deadlock, Diagnostic, Hook};
use crate::blocked::{WAITS, blocked, own_number};
use crate::dump::TaskDump;
use crate::shared::Shared;
use crate::wait_kind::WaitKind;

/// How long nothing happens before that is reported.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How long it is at most until one that was possible is looked at again: it may be certain by then.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The signals that the C library uses among its own threads.
const OF_LIBC: [i32; 2] = [32, 33];

/// The threads of which it is known that they wake nobody, as long as the system says that they sleep, and which state that is.
#[derive(PartialEq)]
struct Still {
    threads: Vec<i32>,
    waits: u64,
    got_up: u64,
}

/// A thread of the process, by what the system says.
struct Thread {
    number: i32,
    name: String,
    sleeps: bool,
}

pub(super) struct Deadlocks {
    shared: &'static Shared,
    signals: u64,
    hook: Hook,
    /// How many tasks had been spawned and had ended at the last report, and whether it was certain.
    told: Option<((u64, u64), bool)>,
}

impl Deadlocks {
    /// `signal` is the one that sysmon handles, from 1 to 64.
    pub(super) fn new(shared: &'static Shared, signal: Option<i32>, hook: Hook) -> Deadlocks {
        let known = [Some(libc::SIGSEGV), Some(libc::SIGBUS), signal].into_iter().flatten().chain(OF_LIBC);
        let signals = known.fold(0, |mask, signal| mask | 1 << (signal - 1));
        Deadlocks { shared, signals, hook, told: None }
    }

    /// True if all tasks wait, as far as is known.
    pub(super) fn may_be(&self) -> bool {
        let no_timers = self.shared.inboxes.iter().all(|inbox| inbox.timers.next().is_none());
        let pending = self.shared.blocking.is_awaited() || self.shared.awaits_descriptors();
        no_timers && !pending && !self.shared.is_closed() && self.shared.active() > 0
    }

    /// Reports that all tasks wait, unless that was reported and no task has begun or ended since; once more if it has become
    /// certain. True if it is not, and may become so.
    pub(super) fn report(&mut self) -> bool {
        let counts = self.shared.spawned_and_ended();
        let was_certain = self.told.and_then(|(told, was_certain)| (told == counts).then_some(was_certain));
        let holders = match was_certain {
            Some(true) => return false,
            _ => self.holders(),
        };
        let is_certain = holders.is_empty();
        if was_certain == Some(false) && !is_certain {
            return true;
        }
        let dump = self.shared.dump();
        let is_idle = |task: &TaskDump| task.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Turn);
        if dump.tasks.iter().all(is_idle) {
            return false;
        }
        self.told = Some((counts, is_certain));
        let left = self.shared.left();
        let dump = dump.to_string();
        let deadlock = Deadlock { is_certain, holders, left: left.left, tasks: left.tasks, dump };
        self.hook.tell(&Diagnostic::Deadlock(deadlock));
        !is_certain
    }

    /// Who may wake a task.
    fn holders(&self) -> Vec<String> {
        let before = self.still();
        let (Some(threads), Some(caught)) = (threads(), caught_signals()) else {
            return vec!["whoever there is: the system does not say (/proc/self)".to_owned()];
        };
        let (own, known) = (own_number(), before.as_ref().map_or(&[][..], |still| &still.threads));
        let is_still = |thread: &Thread| thread.sleeps && known.contains(&thread.number);
        let others = threads.iter().filter(|thread| thread.number != own && !is_still(thread));
        let signals = (1..=64).filter(|signal| caught & !self.signals & 1 << (signal - 1) != 0);
        let signals = signals.map(|signal| format!("the handler of signal {signal}"));
        let others = others.map(|thread| format!("thread {} {:?}", thread.number, thread.name));
        let mut holders: Vec<String> = others.chain(signals).collect();
        if before.is_none() || before != self.still() {
            holders.push("somebody who went on while this was looked at".to_owned());
        }
        holders
    }

    /// None if somebody is up.
    fn still(&self) -> Option<Still> {
        let waits = WAITS.load(Ordering::SeqCst);
        let got_up = self.shared.got_up_if_nobody_is_up()?;
        let workers = self.shared.in_service().map(|(_, inbox)| inbox.capture.thread());
        Some(Still { threads: workers.chain(blocked().iter().copied()).collect(), waits, got_up })
    }
}

/// The threads of the process, none if the system does not say.
fn threads() -> Option<Vec<Thread>> {
    let mut threads = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let Ok(stat) = fs::read_to_string(thread.ok()?.path().join("stat")) else {
            continue; // it has ended; if it has woken somebody, that one has got up
        };
        // The name is in parentheses, and may have some itself; the state comes after it.
        let (start, rest) = stat.rsplit_once(')')?;
        let (number, name) = start.split_once('(')?;
        let sleeps = rest.trim_start().starts_with('S');
        threads.push(Thread { number: number.trim().parse().ok()?, name: name.to_owned(), sleeps });
    }
    Some(threads)
}

/// The signals that the process handles, a bit for each.
fn caught_signals() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
