//! Reports of runtimes in which all tasks wait and nobody seems to be left who could wake one.
//!
//! # When
//!
//! No worker is up, no timer is set, no descriptor and no blocking call is waited for, the runtime is
//! not shutting down, and there are tasks that have not ended, not all of them between two turns, as actors without messages
//! are: for [`PAUSE`], without a worker having got up meanwhile.
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
//! one's memory. A second runtime of the process makes it possible only, whatever that one does.

use std::fs;
use std::time::Duration;

use sinew_sync::statics::{AtomicU64, AtomicUsize, Ordering};

use super::report::{Deadlock, Diagnostic, Hook};
use crate::dump::{TaskDump, WaitKind};
use crate::shared::Shared;

/// How long nothing happens before that is reported.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Threads that block in a wait without a time limit.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
/// How often one has begun to.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// A thread that blocks in a wait without a time limit, for as long as this lives.
pub(crate) struct Blocked(());

impl Blocked {
    pub(crate) fn new() -> Blocked {
        WAITS.fetch_add(1, Ordering::SeqCst);
        BLOCKED.fetch_add(1, Ordering::SeqCst);
        Blocked(())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        BLOCKED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The signals that the C library uses among its own threads.
const OF_LIBC: [i32; 2] = [32, 33];

/// How many threads there are of which it is known that they wake nobody, and which state that is.
#[derive(PartialEq)]
struct Still {
    threads: usize,
    waits: u64,
    got_up: u64,
}

pub(super) struct Deadlocks {
    shared: &'static Shared,
    signals: u64,
    hook: Hook,
    /// How many tasks had been spawned and had ended at the last report.
    told: Option<(u64, u64)>,
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

    /// Reports that all tasks wait, unless that was reported and no task has begun or ended since.
    pub(super) fn report(&mut self) {
        let counts = self.shared.spawned_and_ended();
        if self.told == Some(counts) {
            return;
        }
        self.told = Some(counts);
        let dump = self.shared.dump();
        let is_idle = |task: &TaskDump| task.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Mailbox);
        if dump.tasks.iter().all(is_idle) {
            return;
        }
        let is_certain = self.is_certain();
        let left = self.shared.left();
        let deadlock = Deadlock { is_certain, left: left.left, tasks: left.tasks, dump: dump.to_string() };
        self.hook.tell(&Diagnostic::Deadlock(deadlock));
    }

    fn is_certain(&self) -> bool {
        let before = self.still();
        let asleep = threads_if_all_sleep();
        let caught = caught_signals();
        let Some(threads) = before.as_ref().map(|still| still.threads) else { return false };
        asleep == Some(threads)
            && caught.is_some_and(|caught| caught & !self.signals == 0)
            && before == self.still()
    }

    /// None if somebody is up.
    fn still(&self) -> Option<Still> {
        let waits = WAITS.load(Ordering::SeqCst);
        let got_up = self.shared.got_up_if_nobody_is_up()?;
        let threads = self.shared.in_service().count() + 1 + BLOCKED.load(Ordering::SeqCst);
        Some(Still { threads, waits, got_up })
    }
}

/// How many threads the process has, if all but the calling one sleep.
fn threads_if_all_sleep() -> Option<usize> {
    // SAFETY: it asks who calls.
    let own = unsafe { libc::gettid() }.to_string();
    let mut threads = 0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        // The state comes after the name, which is in parentheses and may have some itself.
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        if state != 'S' && thread.file_name() != *own {
            return None;
        }
        threads += 1;
    }
    Some(threads)
}

/// The signals that the process handles, a bit for each.
fn caught_signals() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
