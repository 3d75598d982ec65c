//! Where new tasks start, given that a body stays on the worker that it first blocks on.
//!
//! A new task goes to its spawner's worker: tasks that talk to each other stay together, where a message costs a tenth of
//! what it costs between processors, and an idle worker takes what its owner does not get round to. That is wrong for
//! one kind of work: tasks that block first and compute long afterwards. They start, block and are pinned within
//! microseconds, all on one worker, before another could take any; and then they compute one after the other.
//!
//! So kinds of work are learned. A kind is a type of body, which is a place in the program. An idle worker tells the busy
//! ones that they are watched ([`Watch::look`]); a worker that is watched measures what it runs, and if a body that it had
//! resumed computes for [`LONG`] while others that are pinned here wait, its kind is noted as one to spread: the next
//! [`SPREAD`] tasks of that kind are handed out to the workers in turns, and stay where they are handed, unless that worker
//! does not change tasks from one look to the next: then an idle one takes what has not started. Tasks that talk
//! are never long, so they are never spread. Nothing is measured while nobody is idle, and nothing is learned from work
//! that balances itself.
//!
//! These are hints: whatever they say, every task runs.

use std::cell::Cell;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::{AtomicU8, Ordering};
use sinew_sync::statics::AtomicU32;

use crate::clock::system_now;
use crate::task::{Home, Kind, Table, Task};

/// How long a body computes that should have had a worker of its own.
const LONG: Duration = Duration::from_micros(100);

/// How many tasks of a kind are spread before the kind is measured anew.
const SPREAD: u32 = 4096;

const KINDS: usize = 1024;

/// How many more tasks of a kind are to be spread, by a hash of the kind.
static TO_SPREAD: [AtomicU32; KINDS] = [const { AtomicU32::new(0) }; KINDS];

fn place(table: &'static Table) -> &'static AtomicU32 {
    let kind = table.run as *const () as usize;
    &TO_SPREAD[(kind >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - KINDS.ilog2())]
}

/// True if a new task of this kind shall be handed to the next worker in turn.
#[inline]
pub(crate) fn spreads(table: &'static Table) -> bool {
    let place = place(table);
    let left = place.load(Ordering::Relaxed);
    if left > 0 {
        place.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}

/// What a worker looks at in every turn: whether somebody idle waits for what it has, and whether it is asked something
/// for a dump ([`crate::dump`]).
pub(crate) struct Watch(AtomicU8);

const WATCHED: u8 = 1;
const ASKED: u8 = 2;

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch(AtomicU8::new(0))
    }

    /// An idle worker looks. True if it has looked before and this worker has not changed tasks since: it is stuck, or
    /// computes.
    pub(crate) fn look(&self) -> bool {
        self.is_watched() || self.0.fetch_or(WATCHED, Ordering::Relaxed) & WATCHED != 0
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WATCHED != 0
    }

    /// The worker is asked something.
    pub(crate) fn ask(&self) {
        self.0.fetch_or(ASKED, Ordering::Release);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASKED != 0
    }

    /// The worker is about to answer.
    pub(crate) fn answers(&self) {
        self.0.fetch_and(!ASKED, Ordering::Acquire);
    }

    /// True if there is anything to see to.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn off(&self) {
        self.0.fetch_and(!WATCHED, Ordering::Relaxed);
    }
}

/// What a worker that is watched measures: the kind that it runs, and since when.
pub(crate) struct Stopwatch(Cell<Option<(&'static Table, Instant)>>);

impl Stopwatch {
    pub(crate) fn new() -> Stopwatch {
        Stopwatch(Cell::new(None))
    }

    /// The worker, which is watched, is about to run `next`; `waiting` says whether others wait behind it.
    #[cold]
    pub(crate) fn turn(&self, watch: &Watch, next: Option<&'static Task>, waiting: bool) {
        let now = system_now();
        match self.0.take() {
            Some((table, since)) => {
                if waiting && now - since >= LONG {
                    place(table).store(SPREAD, Ordering::Relaxed);
                }
                watch.off();
            }
            None => {
                let resumed = next.filter(|task| matches!(task.home(), Home::Core(_)));
                let pinned = resumed.map(Task::table).filter(|table| table.kind == Kind::Thunk);
                self.0.set(pinned.map(|table| (table, now)));
                if pinned.is_none() {
                    watch.off();
                }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_finds_the_last_one_unseen_says_so() {
        let watch = Watch::new();
        assert!(!watch.look());
        assert!(watch.look());
        watch.off();
        assert!(!watch.look());
    }
}
