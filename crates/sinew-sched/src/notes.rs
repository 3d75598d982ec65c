//! What is noted about a task for those who look on: where it was spawned, what it waits for and since when.
//!
//! Notes are plain atomics in the slot, behind what the scheduler needs of it. Whoever runs the task writes them, by one store
//! each; nothing that the scheduler does depends on them. Anybody may read them at any time.
//!
//! # Writing
//!
//! A spawn writes them before it publishes the task. A park writes them before the commit that makes the task *parked*
//! ([`StateWord::commit_park`]), so whoever sees *parked* sees the notes of that park or of a later one. What says the
//! same already is left as it is: a task that waits in a loop mostly waits for the same thing, in the same millisecond, and a
//! store would have the commit wait for it. Whoever parks a task sees what was noted last, so that is no guess.
//!
//! # Reading
//!
//! A task may go on, park elsewhere or end while its notes are read. So they are read twice, after the state word each
//! time, and taken if both times the same task was parked and both copies are the same ([`Notes::of_parked`]). That is
//! enough: if one copy had a part of another park in it, then what was read of that park, by its release, shows that the
//! task had gone on, so the second look at the state finds it so, or parked again; and who sees that commit sees all
//! that was noted before it. What was read of it in the first copy must then differ in the second, unless both parks say
//! the same.
//!
//! Models: `notes_are_of_one_park`, `notes_left_as_they_are`, `notes_are_of_one_task`, `notes_parked_by_others`.
//!
//! # Whose the stack is
//!
//! The stamp of a park has the number of the worker that parks a body; that of a future has [`ANYWHERE`]. Only that worker
//! writes its own number there, and every spawn and park has the stamp say so. (The worker that a task is pinned to, and has
//! not started on, is noted in a way of its own.) So a worker that finds *parked* in the state and itself in the stamp has
//! parked a task there itself, in the last park of its slot that it can see. If the task stays with its worker, nobody else
//! continues it: the worker may look at its stack. If it migrates, another worker may have continued and ended it, and the
//! slot may be another task's. Whether it migrates is noted with the place of its spawn. What is read there is about
//! the task that was seen if its slot is found to be that task's afterwards ([`Notes::stays_parked_on`]).
//!
//! # Time
//!
//! Stamps have the time of the worker's last look at a coarse clock: when it had searched for work, and every 61 turns.
//! So "since" may be early by so many turns, and by some milliseconds (the clock's tick and the stamp's unit).

use std::os::fd::RawFd;
use std::panic::Location;
use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::state::{Seen, StateWord};
use crate::task_id::TaskId;
use crate::wait_kind::WaitKind;

/// The worker in the stamp of a body that may go on anywhere.
pub(crate) const ANYWHERE: u64 = WORKERS - 1;

/// Stamps are a time above the number of a worker.
const WORKERS: u64 = 1 << 16;
/// Beside the worker that a task is pinned to and has not started on.
const NOT_STARTED: u64 = WORKERS / 2;
/// A stamp's unit of time is so many nanoseconds, as a power of two.
const UNIT: u32 = 20;

/// The bit beside the place of a spawn of a task that migrates.
const MIGRATES: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > MIGRATES, "there is room for a bit");

const KIND: u32 = 56;
const HAS_DEADLINE: u64 = 1 << 55;
const OBJECT: u64 = HAS_DEADLINE - 1;

/// A stamp of `worker` at this time.
pub(crate) fn stamp(time: Instant, worker: usize) -> u64 {
    let worker = if worker < NOT_STARTED as usize { worker as u64 } else { ANYWHERE };
    ((time.as_nanos() >> UNIT) * WORKERS) | worker
}

/// How long before `now` a stamp was made.
pub(crate) fn age(stamp: u64, now: Instant) -> Duration {
    Duration::from_nanos((now.as_nanos() >> UNIT).saturating_sub(stamp / WORKERS) << UNIT)
}

/// The worker that a body with this stamp must go on on.
pub(crate) fn worker_of(stamp: u64) -> Option<usize> {
    (stamp & NOT_STARTED == 0).then_some((stamp % WORKERS) as usize)
}

/// The worker that a task with this stamp has to start on.
pub(crate) fn pinned_to(stamp: u64) -> Option<usize> {
    (stamp & NOT_STARTED != 0 && stamp % WORKERS != ANYWHERE).then_some((stamp % NOT_STARTED) as usize)
}

/// What is waited for: a kind, an object of that kind, and whether there is a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct What(u64);

impl What {
    /// Something of this kind.
    #[inline(always)]
    pub const fn of(kind: WaitKind) -> What {
        What((kind.number() as u64) << KIND)
    }

    /// The object at this address, of which a program's have fewer bits than there are places for.
    #[inline(always)]
    pub fn at<T: ?Sized>(kind: WaitKind, object: &T) -> What {
        What(What::of(kind).0 | ptr::from_ref(object).addr() as u64)
    }

    /// The end of a task.
    #[inline(always)]
    pub fn end_of(task: TaskId) -> What {
        What(What::of(WaitKind::Join).0 | task.index() as u64)
    }

    /// The thing with this number, of a kind that is a label.
    #[inline(always)]
    pub fn tagged(kind: WaitKind, tag: u32) -> What {
        What(What::of(kind).0 | u64::from(tag))
    }

    /// That a descriptor is ready.
    pub fn ready(fd: RawFd, kind: WaitKind) -> What {
        What(What::of(kind).0 | fd as u64 & OBJECT)
    }

    /// A time.
    pub fn until(deadline: Instant) -> What {
        What(What::of(WaitKind::Sleep).0 | deadline.as_nanos().min(OBJECT))
    }

    /// The same, with a deadline, which is noted beside it.
    pub fn with_deadline(self) -> What {
        What(self.0 | HAS_DEADLINE)
    }

    /// Itself, unless nothing is known: then something of this kind.
    pub fn or(self, kind: WaitKind) -> What {
        if self == What::of(WaitKind::Await) { What::of(kind) } else { self }
    }

    /// Returns the kind of the wait.
    pub fn kind(self) -> WaitKind {
        WaitKind::from_number((self.0 >> KIND) as u8)
    }

    /// Returns what is waited for: an address, or a number of that kind.
    pub fn object(self) -> u64 {
        self.0 & OBJECT
    }
}

pub(crate) struct Notes {
    /// Where the task was spawned, and [`MIGRATES`].
    site: AtomicPtr<Location<'static>>,
    what: AtomicU64,
    /// The kinds of the first eight cases of a select, one more than its number in each byte.
    cases: AtomicU64,
    deadline: AtomicU64,
    stamp: AtomicU64,
}

/// A copy of the notes of a task that is parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    pub(crate) what: What,
    cases: u64,
    deadline: u64,
    pub(crate) stamp: u64,
}

impl Noted {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.what.kind() {
            WaitKind::Sleep => Some(Instant::from_nanos(self.what.object())),
            _ if self.what.0 & HAS_DEADLINE == 0 => None,
            _ => Some(Instant::from_nanos(self.deadline)),
        }
    }

    pub(crate) fn cases(&self) -> Vec<WaitKind> {
        let is_select = self.what.kind() == WaitKind::Select;
        let cases = self.cases.to_le_bytes().into_iter().take_while(|case| is_select && *case > 0);
        cases.map(|case| WaitKind::from_number(case - 1)).collect()
    }
}

impl Notes {
    pub(crate) fn new() -> Notes {
        Notes {
            site: AtomicPtr::new(ptr::null_mut()),
            what: AtomicU64::new(0),
            cases: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// The task is about to be published.
    #[inline(always)]
    pub(crate) fn spawned(&self, site: &'static Location<'static>, migrates: bool, stamp: u64) {
        let site = ptr::from_ref(site).cast_mut().map_addr(|address| address | usize::from(migrates));
        self.site.store(site, Ordering::Release);
        self.stamp.store(stamp | ANYWHERE, Ordering::Release);
    }

    /// The task was spawned, and is about to be queued on the only worker that may start it.
    pub(crate) fn pinned(&self, worker: usize) {
        let time = self.stamp.load(Ordering::Relaxed) & !ANYWHERE;
        let worker = (worker as u64).min(NOT_STARTED - 1);
        self.stamp.store(time | NOT_STARTED | worker, Ordering::Release);
    }

    /// The task is about to park; `stamp` has the worker that it must go on on.
    #[inline(always)]
    pub(crate) fn parks(&self, what: What, stamp: u64) {
        if self.what.load(Ordering::Relaxed) != what.0 {
            self.what.store(what.0, Ordering::Release);
        }
        if self.stamp.load(Ordering::Relaxed) != stamp {
            self.stamp.store(stamp, Ordering::Release);
        }
    }

    /// The wait that is about to be noted has this deadline.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        self.deadline.store(deadline.as_nanos(), Ordering::Release);
    }

    /// The wait of a parked task that was noted as `what`, if it is the last, has a deadline from now on. Only its worker says so.
    pub(crate) fn add_deadline(&self, what: What, deadline: Instant) {
        if self.what.load(Ordering::Relaxed) == what.0 {
            self.set_deadline(deadline);
            self.what.store(what.with_deadline().0, Ordering::Release);
        }
    }

    /// The select that is about to be noted has cases of these kinds.
    pub(crate) fn set_cases(&self, kinds: impl Iterator<Item = WaitKind>) {
        let mut cases = [0; 8];
        cases.iter_mut().zip(kinds).for_each(|(case, kind)| *case = kind.number() + 1);
        self.cases.store(u64::from_le_bytes(cases), Ordering::Release);
    }

    /// Where the task was spawned.
    pub(crate) fn site(&self) -> Option<&'static Location<'static>> {
        let site = self.site.load(Ordering::Acquire).map_addr(|address| address & !MIGRATES);
        // SAFETY: it is null or has come from a reference that lives for ever.
        unsafe { site.as_ref() }
    }

    /// Whether the task has a stack that any worker may go on on.
    pub(crate) fn migrates(&self) -> bool {
        self.site.load(Ordering::Acquire).addr() & MIGRATES != 0
    }

    /// True if this worker, which asks, has parked the task and alone may continue it.
    pub(crate) fn stays_parked_on(&self, worker: usize, state: &StateWord) -> bool {
        let Some(seen) = state.see() else { return false };
        let parked_here = seen.is_parked && worker_of(self.stamp()) == Some(worker);
        // One that migrates may have ended meanwhile: then the slot has another generation.
        parked_here && !self.migrates() && state.id() == seen.id
    }

    /// The last stamp, of a spawn or a park.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    fn copy(&self) -> Noted {
        Noted {
            what: What(self.what.load(Ordering::Acquire)),
            cases: self.cases.load(Ordering::Acquire),
            deadline: self.deadline.load(Ordering::Acquire),
            stamp: self.stamp(),
        }
    }

    /// What was noted when the task was `seen` parked. None if it did not stay so while it was looked at.
    pub(crate) fn of_parked(&self, state: &StateWord, seen: &Seen) -> Option<Noted> {
        let first = self.copy();
        let again = state.see()?;
        let stayed = seen.is_parked && again.is_parked && again.id == seen.id;
        (stayed && self.copy() == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, thread};

    use super::*;

    /// A task that is parked goes on and parks once more while somebody reads: what is taken is of one of the two parks, and
    /// of the second if the reader knows that the first is over.
    #[test]
    fn what_is_read_is_of_one_park() {
        model("notes_are_of_one_park", || {
            let slot = Arc::new((StateWord::new(5), Notes::new(), AtomicU64::new(0)));
            let (state, notes, gone_on) = (&slot.0, &slot.1, &slot.2);
            let park = |state: &StateWord, notes: &Notes, number: u64| {
                notes.set_deadline(Instant::from_nanos(number));
                notes.parks(What(HAS_DEADLINE | number), number);
                assert!(state.commit_park());
            };
            state.publish();
            state.begin();
            park(state, notes, 1);
            let task = {
                let slot = slot.clone();
                thread::spawn(move || {
                    let (state, notes, gone_on) = (&slot.0, &slot.1, &slot.2);
                    assert!(state.unpark(0));
                    // A read-modify-write: loom sees that the order of this and the reader's matters.
                    gone_on.fetch_add(1, Ordering::Release);
                    park(state, notes, 2);
                })
            };
            let has_gone_on = gone_on.fetch_add(0, Ordering::Acquire) == 1;
            if let Some(seen) = state.see()
                && let Some(noted) = notes.of_parked(state, &seen)
            {
                let numbers = [noted.what.object(), noted.deadline, noted.stamp];
                assert!(numbers == [2; 3] || numbers == [1; 3] && !has_gone_on, "{numbers:?}, {has_gone_on}");
            }
            task.join().unwrap();
            let seen = state.see().expect("there is a task");
            assert_eq!(notes.of_parked(state, &seen).map(|noted| noted.stamp), Some(2));
        });
    }

    /// The same if both parks are for the same thing: although that is left as it is, the rest is of one of the two.
    #[test]
    fn what_is_left_as_it_is_is_of_one_park() {
        model("notes_left_as_they_are", || {
            let slot = Arc::new((StateWord::new(5), Notes::new(), AtomicU64::new(0)));
            let park = |state: &StateWord, notes: &Notes, number: u64| {
                notes.set_deadline(Instant::from_nanos(number));
                notes.parks(What(HAS_DEADLINE), number);
                assert!(state.commit_park());
            };
            slot.0.publish();
            park(&slot.0, &slot.1, 1);
            let task = {
                let slot = slot.clone();
                thread::spawn(move || {
                    assert!(slot.0.unpark(0));
                    slot.2.fetch_add(1, Ordering::Release);
                    park(&slot.0, &slot.1, 2);
                })
            };
            let has_gone_on = slot.2.fetch_add(0, Ordering::Acquire) == 1;
            if let Some(seen) = slot.0.see()
                && let Some(noted) = slot.1.of_parked(&slot.0, &seen)
            {
                let numbers = [noted.deadline, noted.stamp];
                assert!(numbers == [2; 2] || numbers == [1; 2] && !has_gone_on, "{numbers:?}, {has_gone_on}");
            }
            task.join().unwrap();
        });
    }

    /// A body that migrates is parked by a worker, and goes on and ends elsewhere, where the next task of its slot, which does
    /// not migrate, is parked too: the worker never takes either for one that it may look at.
    #[test]
    fn a_worker_leaves_alone_what_others_may_continue() {
        model("notes_parked_by_others", || {
            const HERE: usize = 3;
            let spawned = |slot: &(StateWord, Notes), migrates| {
                slot.1.spawned(Location::caller(), migrates, 0);
                slot.0.publish();
            };
            let park = |slot: &(StateWord, Notes), worker: usize| {
                slot.1.parks(What(0), worker as u64);
                assert!(slot.0.commit_park());
            };
            let slot = Arc::new((StateWord::new(5), Notes::new()));
            spawned(&slot, true);
            park(&slot, HERE);
            let other = {
                let slot = slot.clone();
                thread::spawn(move || {
                    assert!(slot.0.unpark(0));
                    slot.0.recycle();
                    spawned(&slot, false);
                    park(&slot, HERE + 1);
                })
            };
            assert!(!slot.1.stays_parked_on(HERE, &slot.0));
            other.join().unwrap();
            assert!(slot.1.stays_parked_on(HERE + 1, &slot.0) && !slot.1.stays_parked_on(HERE, &slot.0));
            assert!(slot.0.unpark(1));
            assert!(!slot.1.stays_parked_on(HERE + 1, &slot.0), "it runs, or is about to");
        });
    }

    #[test]
    fn what_is_read_is_of_the_task_that_was_seen_parked() {
        model("notes_are_of_one_task", || {
            let (state, notes) = (StateWord::new(5), Notes::new());
            let parked = |number| {
                notes.parks(What(number), number);
                assert!(state.commit_park());
                state.see().expect("there is a task")
            };
            state.publish();
            let running = state.see().expect("there is a task");
            let first = parked(1);
            assert_eq!(notes.of_parked(&state, &running), None, "it was not seen parked");
            assert_eq!(notes.of_parked(&state, &first).map(|noted| noted.stamp), Some(1));
            assert!(state.unpark(0));
            assert_eq!(notes.of_parked(&state, &first), None, "it has gone on");
            state.recycle();
            state.publish();
            parked(2);
            assert_eq!(notes.of_parked(&state, &first), None, "another task is parked in the slot");
        });
    }
}
