//! How other threads reach a root: interrupts that are counted, and two levels of cancellation.
//!
//! # Protocol
//!
//! One 64-bit word per root, shared through an `Arc`, or per task, in its scheduler's memory:
//!
//! ```text
//! bit 63      killed     sticky
//! bit 62      cancelled  sticky; set whenever killed is
//! bit 61      tripped    until it is cleared; the task's hook knows what to unwind with, if at all
//! bits 0-60   interrupts that have not stopped the root yet
//! ```
//!
//! Any thread, and any signal handler, adds an interrupt (one `fetch_add`); any thread sets a level or trips (one
//! `fetch_or`), and clears a trip (one `fetch_and`). Only the root's own thread takes interrupts, by a compare-and-swap that subtracts one from
//! a count that it saw above zero; so each count stops the root exactly once and the count never goes
//! below zero. Writers release and the taker acquires: what the interrupter wrote before is visible to
//! whoever handles the stop. The check on the hot path is one relaxed load: seeing the word late is
//! allowed, since there is no order between an interrupt and code that has not synchronised with it.
//!
//! A root without a hook that waits blocks its thread ([`Controlled::block`]). It says so under a lock, then looks at
//! the level, then parks; whoever sets a level does so first and then looks, under the lock, for a thread to
//! unpark. So either the waiter sees the level or the canceller sees the waiter.
//!
//! A time-out is one more reason to go on early: the caller looks at the level again.
//!
//! Models: `control_interrupts`, `control_levels`, `control_trips`, `control_cancel_wakes_who_blocks`,
//! `control_cancel_meets_a_time_out`.

use std::fmt;
use std::time::Duration;

use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Arc, Mutex};

const KILLED: u64 = 1 << 63;
const CANCELLED: u64 = 1 << 62;
const TRIPPED: u64 = 1 << 61;
const COUNT: u64 = TRIPPED - 1;

/// The word of a root or task.
pub struct Word(AtomicU64);

impl Word {
    /// A quiet word.
    #[allow(clippy::new_without_default, reason = "nobody needs a default one")]
    pub fn new() -> Word {
        Word(AtomicU64::new(0))
    }

    /// True if nobody wants anything of the root.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The level that was asked for.
    pub fn level(&self) -> Option<CancelLevel> {
        match self.0.load(Ordering::Acquire) & (KILLED | CANCELLED) {
            0 => None,
            CANCELLED => Some(CancelLevel::Cancel),
            _ => Some(CancelLevel::Kill),
        }
    }

    /// Counts one more interrupt.
    pub fn interrupt(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Raises the level.
    pub fn cancel(&self, level: CancelLevel) {
        let bits = match level {
            CancelLevel::Cancel => CANCELLED,
            CancelLevel::Kill => CANCELLED | KILLED,
        };
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Makes blocking calls and checkpoints ask the task's hook what to unwind with.
    pub fn trip(&self) {
        self.0.fetch_or(TRIPPED, Ordering::Release);
    }

    /// Takes [`trip`](Word::trip) back.
    pub fn clear_trip(&self) {
        self.0.fetch_and(!TRIPPED, Ordering::Release);
    }

    pub(crate) fn is_tripped(&self) -> bool {
        self.0.load(Ordering::Acquire) & TRIPPED != 0
    }

    /// Makes the word quiet, for the next task.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes one interrupt, if there is one. Only the root's thread calls this.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| (word & COUNT > 0).then(|| word - 1))
            .is_ok()
    }
}

/// A root's word, and the thread that is blocked for it.
pub(crate) struct Controlled {
    pub(crate) word: Word,
    blocked: Mutex<Option<Thread>>,
}

impl Controlled {
    pub(crate) fn new() -> Controlled {
        Controlled { word: Word::new(), blocked: Mutex::new(None) }
    }

    fn cancel(&self, level: CancelLevel) {
        self.word.cancel(level);
        if let Some(thread) = &*self.blocked.lock() {
            thread.unpark();
        }
    }

    /// Blocks the root's thread until it is unparked, or `timeout` has passed, or, unless `shielded`, a level is set.
    pub(crate) fn block(&self, shielded: bool, timeout: Option<Duration>) {
        *self.blocked.lock() = Some(thread::current());
        if shielded || self.word.level().is_none() {
            match timeout {
                None => thread::park(),
                Some(timeout) => sinew_sync::park_timeout(timeout),
            }
        }
        *self.blocked.lock() = None;
    }
}

/// How firmly a root is asked to end. Both levels are sticky, and [`shield`](crate::shield) defers both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CancelLevel {
    /// Blocking calls that can fail return an error ([`Reason::Cancelled`](crate::Reason::Cancelled));
    /// those that cannot unwind.
    Cancel,
    /// Every blocking call unwinds.
    Kill,
}

/// How handles reach the tasks of a scheduler, which know them by their numbers. A number whose task is over is that
/// of nobody.
pub trait Remote: Send + Sync {
    /// Counts an interrupt. Called by signal handlers too.
    fn interrupt(&self, id: u64);
    /// Raises the level, and wakes the task if it waits.
    fn cancel(&self, id: u64, level: CancelLevel);
    /// The level that was asked for.
    fn level(&self, id: u64) -> Option<CancelLevel>;
}

/// A handle with which any thread reaches a root or task and all the fibers under it; a signal handler may interrupt.
///
/// [`control`](crate::control()) returns the handle of the running one. Whatever is asked is seen
/// at the next resume, yield, signal, cancel, await or [`checkpoint`](crate::checkpoint) of the
/// root's thread. To ask something of a task that is over does nothing.
///
/// ```
/// use sinew_fiber::{Fiber, Mask, Signal, checkpoint, control};
///
/// let busy = Fiber::builder().mask(Mask::INTERRUPT).build(|_| {
///     (0..1000u64).inspect(|_| checkpoint()).sum::<u64>()
/// })?;
/// control().interrupt(); // usually from another thread
/// assert_eq!(busy.resume(())?, Signal::Interrupt); // stopped once…
/// assert_eq!(busy.resume(())?.get::<u64>()?, 499_500); // …and continued
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
#[derive(Clone)]
pub struct Control(Reach);

#[derive(Clone)]
enum Reach {
    Root(Arc<Controlled>),
    Task(&'static dyn Remote, u64),
    /// A task that is over, or whose scheduler lets nobody reach it.
    Nobody,
}

impl Control {
    /// The handle of a root with a word of its own.
    pub(crate) fn of_root(root: Arc<Controlled>) -> Control {
        Control(Reach::Root(root))
    }

    /// The handle of a task, if its scheduler has one to give.
    pub(crate) fn of_task(remote: Option<(&'static dyn Remote, u64)>) -> Control {
        Control(remote.map_or(Reach::Nobody, |(remote, id)| Reach::Task(remote, id)))
    }

    fn ask(&self, level: CancelLevel) {
        match &self.0 {
            Reach::Root(root) => root.cancel(level),
            Reach::Task(remote, id) => remote.cancel(*id, level),
            Reach::Nobody => (),
        }
    }

    /// Stops the root once, at its next check, with [`Signal::Interrupt`](sinew_core::Signal::Interrupt).
    /// Calls are counted: each stops it once. Async-signal-safe.
    pub fn interrupt(&self) {
        match &self.0 {
            Reach::Root(root) => root.word.interrupt(),
            Reach::Task(remote, id) => remote.interrupt(*id),
            Reach::Nobody => (),
        }
    }

    /// Asks the root to end: from now on its blocking calls fail or unwind, as
    /// [`CancelLevel::Cancel`] says. Unlike [`interrupt`](Control::interrupt) this takes a lock:
    /// not for signal handlers.
    pub fn cancel(&self) {
        self.ask(CancelLevel::Cancel);
    }

    /// Makes every blocking call of the root unwind from now on. Takes a lock: not for signal handlers.
    pub fn kill(&self) {
        self.ask(CancelLevel::Kill);
    }

    /// The level that was asked for, if any.
    pub fn level(&self) -> Option<CancelLevel> {
        match &self.0 {
            Reach::Root(root) => root.word.level(),
            Reach::Task(remote, id) => remote.level(*id),
            Reach::Nobody => None,
        }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("level", &self.level()).finish_non_exhaustive()
    }
}

/// The value of the error signal that unwinds a cancelled or killed body, and the error inside the
/// [`io::Error`](std::io::Error) of a call that was cancelled: see
/// [`IoErrorExt`](crate::IoErrorExt).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

#[cfg(test)]
mod tests {
    use sinew_sync::{model, thread};

    use super::*;

    #[test]
    fn each_interrupt_is_taken_once() {
        model("control_interrupts", || {
            let word = Arc::new(Word::new());
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let word = word.clone();
                    thread::spawn(move || word.interrupt())
                })
                .collect();
            let mut taken = u32::from(word.take_interrupt());
            for other in others {
                other.join().unwrap();
            }
            while word.take_interrupt() {
                taken += 1;
            }
            assert_eq!(taken, 2);
            assert!(word.is_quiet());
        });
    }

    #[test]
    fn a_cancel_wakes_whoever_blocks_or_is_seen_by_it() {
        model("control_cancel_wakes_who_blocks", || {
            let root = Arc::new(Controlled::new());
            let waiter = {
                let root = root.clone();
                thread::spawn(move || {
                    while root.word.level().is_none() {
                        root.block(false, None);
                    }
                })
            };
            root.cancel(CancelLevel::Cancel);
            waiter.join().unwrap();
        });
    }

    /// A model has no time: there a time-out is one more unpark, before, after or in the middle of the cancel.
    #[test]
    fn a_cancel_is_seen_by_whoever_blocks_for_a_time() {
        model("control_cancel_meets_a_time_out", || {
            let root = Arc::new(Controlled::new());
            let waiter = {
                let root = root.clone();
                thread::spawn(move || {
                    while root.word.level().is_none() {
                        root.block(false, Some(Duration::from_micros(1)));
                    }
                    assert!(root.blocked.lock().is_none(), "nobody is left to be woken");
                })
            };
            waiter.thread().unpark();
            root.cancel(CancelLevel::Cancel);
            waiter.join().unwrap();
        });
    }

    #[test]
    fn a_trip_is_no_interrupt_and_no_level_and_is_cleared_without_losing_either() {
        model("control_trips", || {
            let word = Arc::new(Word::new());
            let tripper = {
                let word = word.clone();
                thread::spawn(move || {
                    word.trip();
                    word.interrupt();
                })
            };
            word.cancel(CancelLevel::Cancel);
            let seen = word.is_tripped();
            word.clear_trip();
            assert_eq!(word.level(), Some(CancelLevel::Cancel));
            tripper.join().unwrap();
            assert_eq!(word.level(), Some(CancelLevel::Cancel));
            assert!(word.take_interrupt() && !word.take_interrupt());
            assert!(!(seen && word.is_tripped()), "it was cleared after it was seen");
        });
    }

    #[test]
    fn a_level_neither_counts_as_an_interrupt_nor_loses_one() {
        model("control_levels", || {
            let word = Arc::new(Word::new());
            let killer = {
                let word = word.clone();
                thread::spawn(move || word.cancel(CancelLevel::Kill))
            };
            word.interrupt();
            assert!(word.take_interrupt());
            assert!(!word.take_interrupt());
            killer.join().unwrap();
            assert!(!word.take_interrupt());
            assert_eq!(word.level(), Some(CancelLevel::Kill));
            word.cancel(CancelLevel::Cancel);
            assert_eq!(word.level(), Some(CancelLevel::Kill), "a level never falls");
        });
    }
}
