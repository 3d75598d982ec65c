//! A task: one slot, from its spawn to the join of its result.
//!
//! # Four bodies, one slot
//!
//! A [`Kind::Thunk`] is native code that may block anywhere; it is run once, and when it blocks it keeps the stack that
//! it is on and the thread that it is on. A [`Kind::Migrating`] thunk may go on on any thread. A [`Kind::Future`] is
//! polled until it is ready, and has no stack in between. A [`Kind::Turn`] runs a turn at a time, has no stack in between,
//! and when it blocks in the middle of a turn it is like a thunk. State, queues, cancelling and joining are the same for all.
//!
//! # Who frees a slot
//!
//! `join` is one word that the task, when it ends, and the one [`JoinHandle`](crate::JoinHandle) settle it by:
//!
//! ```text
//! running ──(handle waits)──> waiting(node) ──(task ends)──> done
//! running ──(handle dropped)──> detached ────(task ends)──> the task frees the slot
//! running ──(task ends)──> done ──(handle takes the result or drops it)──> the handle frees the slot
//! ```
//!
//! The task's last step is one swap to done; if it finds a node it copies what it needs of it, tells it and
//! touches neither node nor slot again. Whoever frees takes the result out, counts the generation up and puts
//! the slot on a free list. Slots are never returned to the system, so a stale [`TaskRef`] may look at one at any
//! time; what it finds has another generation.
//!
//! Models: `task_settles_who_frees`, `task_end_wakes_its_joiner`, `task_end_against_a_joiner_that_gives_up`.

mod table;

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr;

use sinew_fiber::Raised;
use sinew_fiber::raw::Word;
use sinew_sync::Arc;
use sinew_sync::atomic::{AtomicPtr, Ordering};
use sinew_sync::statics;

use crate::children::Children;
use crate::clock::Clock;
use crate::core::Core;
use crate::notes::{self, Notes};
use crate::shared::Shared;
use crate::state::StateWord;
use crate::task_id::TaskId;
use crate::wait::{Node, TOLD, Waiter};
use table::RAISED;
pub(crate) use table::{StartOptions, Table, drop_result, never_again, never_blocks, no_options, no_tag};

/// Bytes of a body or result that lie in the slot itself.
const INLINE: usize = 40;

/// How a body runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Native code, which stays on the thread that it started on.
    Thunk,
    /// Native code whose author vouches that it may change threads when it blocks.
    Migrating,
    /// A future.
    Future,
    /// Native code that runs in [turns](crate::turn).
    Turn,
}

/// What a run of a body came to.
pub(crate) enum Ran {
    /// It has ended: the outcome is in the slot.
    Ended,
    /// The same, and this scope waits for it.
    EndedIn(Arc<Children>),
    /// It is a future that has to be woken.
    Pending,
    /// Its turn is over, and it has to be woken.
    Idle,
    /// Its turn is over, and there is another.
    Again,
}

/// Who frees a task that has ended.
pub(crate) enum Settled {
    /// Its handle.
    Kept,
    /// Its handle, which waits.
    Waits(Waiter),
    /// Whoever ran it: its handle is gone.
    Detached,
}

type AtomicTable = statics::AtomicPtr<Table>;

const _: () = assert!(sinew_sync::MODEL || size_of::<Task>() == 128, "two cache lines");

/// A slot for a task.
#[repr(C, align(64))]
pub struct Task {
    pub(crate) state: StateWord,
    /// Cancel, kill and interrupts, as the fibers under the task see them.
    pub(crate) word: Word,
    /// The link of an inbox or a free list; used by whoever has the task queued or free.
    pub(crate) next: Cell<*const Task>,
    pub(crate) join: AtomicPtr<Node>,
    /// Changed by whoever runs the task; for who looks on, an atomic that is read and written as any other word.
    table: AtomicTable,
    home: Cell<*const ()>,
    storage: UnsafeCell<MaybeUninit<[u64; INLINE / 8]>>,
    /// For who looks on: on the second cache line, with the end of the storage.
    pub(crate) notes: Notes,
}

// SAFETY: the cells are used by one party at a time: whoever spawns the task, then the worker that claimed
// it, then whoever frees it; the state word and the join word order these (module prose).
unsafe impl Sync for Task {}

/// The join word of a task that has ended.
pub(crate) const DONE: *mut Node = ptr::without_provenance_mut(1);
/// The join word of a task whose handle is gone.
pub(crate) const DETACHED: *mut Node = ptr::without_provenance_mut(2);

/// A task of some generation: what a waker holds. It may be stale.
#[derive(Clone, Copy)]
pub(crate) struct TaskRef {
    pub(crate) task: &'static Task,
    /// The generation, and in the lower half the worker that the task waits on, which is only a hint. One word: two that
    /// are written apart and read at once make the reader wait.
    mark: u64,
}

/// Nobody knows which worker a task waits on.
const SOMEWHERE: u32 = u32::MAX;

impl TaskRef {
    pub(crate) fn of(id: TaskId) -> TaskRef {
        TaskRef::new(id.slot(), id.generation())
    }

    #[inline(always)]
    pub(crate) fn new(task: &'static Task, generation: u32) -> TaskRef {
        TaskRef { task, mark: u64::from(generation) << 32 | u64::from(SOMEWHERE) }
    }

    /// The same task, which is about to wait on `worker`.
    #[inline(always)]
    pub(crate) fn on(self, worker: usize) -> TaskRef {
        TaskRef { mark: self.mark & !u64::from(u32::MAX) | u64::from(worker as u32), ..self }
    }

    #[inline(always)]
    pub(crate) fn generation(self) -> u32 {
        (self.mark >> 32) as u32
    }

    /// True if it is known which worker the task waits on.
    #[inline(always)]
    pub(crate) fn is_placed(self) -> bool {
        self.mark as u32 != SOMEWHERE
    }

    /// The worker that the task waits on, probably; no worker's index if nobody knows.
    #[inline(always)]
    pub(crate) fn worker(self) -> usize {
        self.mark as u32 as usize
    }
}

/// Where a task that waits goes on.
pub(crate) enum Home<'a> {
    /// It has not started.
    None,
    /// On this stack.
    Core(&'a Core),
    /// On any worker of this runtime, which polls it.
    Runtime(&'static Shared),
}

impl Task {
    pub(crate) fn new(index: u32) -> Task {
        Task {
            state: StateWord::new(index),
            word: Word::new(),
            next: Cell::new(ptr::null()),
            join: AtomicPtr::new(ptr::null_mut()),
            table: AtomicTable::new(ptr::null_mut()),
            home: Cell::new(ptr::null()),
            storage: UnsafeCell::new(MaybeUninit::uninit()),
            notes: Notes::new(),
        }
    }

    /// Puts `body` into a free slot and makes it a task that is to be queued.
    ///
    /// # Safety
    ///
    /// The caller took the slot from a free list; `table` is for bodies of this type.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn prepare<F>(
        &'static self,
        body: F,
        table: &'static Table,
        shared: &'static Shared,
        stamp: u64,
    ) {
        let home = match table.kind {
            Kind::Thunk | Kind::Migrating => ptr::null(),
            Kind::Future => ptr::from_ref(shared).cast(),
            Kind::Turn => between_turns(shared),
        };
        // SAFETY: the caller's promise.
        unsafe { self.fill(body, table, home, stamp) };
    }

    /// # Safety
    ///
    /// As for [`Task::prepare`]; `home` is where a task of that kind begins.
    #[inline]
    #[track_caller]
    unsafe fn fill<F>(&'static self, body: F, table: &'static Table, home: *const (), stamp: u64) {
        self.notes.spawned(Location::caller(), table.kind == Kind::Migrating, stamp);
        self.set_table(table);
        self.join.store(ptr::null_mut(), Ordering::Relaxed);
        self.home.set(home);
        self.word.reset();
        // SAFETY: the caller owns the slot, and it is free.
        unsafe { self.put(body) };
        self.state.publish();
    }

    /// Makes a free slot a task that ended with `raised` before it began, and that its handle frees.
    ///
    /// # Safety
    ///
    /// As for [`Task::prepare`]; the caller makes a handle for it.
    #[track_caller]
    pub(crate) unsafe fn prepare_ended(&'static self, raised: Raised) {
        let stamp = notes::stamp(Clock::System.coarse(), usize::MAX);
        // SAFETY: the caller's promise; what the table is for is the box that `end` would have put there.
        unsafe { self.fill(Box::new(raised), &RAISED, ptr::null(), stamp) };
        self.join.store(DONE, Ordering::Release);
    }

    #[inline]
    pub(crate) fn table(&self) -> &'static Table {
        self.seen_table().expect("a spawned task has a table")
    }

    /// From now on it is run and taken by another table. Only whoever runs the task says so.
    pub(crate) fn set_table(&self, table: &'static Table) {
        self.table.store(ptr::from_ref(table).cast_mut(), statics::Ordering::Relaxed);
    }

    /// The table of the task in this slot, or of one that was there: for who looks on.
    #[inline]
    pub(crate) fn seen_table(&self) -> Option<&'static Table> {
        // SAFETY: nothing else is put there.
        unsafe { self.table.load(statics::Ordering::Relaxed).as_ref() }
    }

    #[inline]
    pub(crate) fn reference(&'static self) -> TaskRef {
        TaskRef::new(self, self.state.generation())
    }

    #[inline]
    /// Returns the id of the task that is in the slot.
    pub fn id(&self) -> TaskId {
        self.state.id()
    }

    /// Where the task goes on. Only whoever has it queued or runs it asks.
    #[inline]
    pub(crate) fn home(&self) -> Home<'_> {
        let home = self.home.get();
        if home.is_null() {
            return Home::None;
        }
        if let Some(shared) = self.between_turns() {
            return Home::Runtime(shared);
        }
        // SAFETY: a future's home is its runtime, which stays until the task has ended ([`crate::shared`]); that of a thunk, or of a turn, is the core that it has
        // blocked on, which it keeps until it has ended, or its turn has.
        unsafe {
            match self.table().kind {
                Kind::Future => Home::Runtime(&*home.cast()),
                Kind::Thunk | Kind::Migrating | Kind::Turn => Home::Core(&*home.cast()),
            }
        }
    }

    /// The runtime of a body that is between two turns. Only whoever has it queued or runs it asks.
    #[inline]
    pub(crate) fn between_turns(&self) -> Option<&'static Shared> {
        let home = self.home.get();
        let shared = home.map_addr(|address| address & !(BETWEEN_TURNS | REACHED)).cast::<Shared>();
        // SAFETY: only what leads to a runtime, which stays until the task has ended, has the mark.
        (home.addr() & BETWEEN_TURNS != 0).then(|| unsafe { &*shared })
    }

    /// The task's turn is over: it goes on anywhere. `reached` says whether it can be [reached](crate::reach).
    #[inline]
    pub(crate) fn leave_core(&self, shared: &'static Shared, reached: bool) {
        let mark = if reached { REACHED } else { 0 };
        self.home.set(between_turns(shared).map_addr(|address| address | mark));
    }

    /// True if the task, which is between two turns, can be reached since an earlier one.
    #[inline]
    pub(crate) fn was_reached(&self) -> bool {
        self.home.get().addr() & REACHED != 0
    }

    /// The task, native code that runs, is about to block on `core`.
    #[inline]
    pub(crate) fn keep_core(&self, core: *const Core) {
        self.home.set(core.cast());
    }

    /// The options of a task that has not ended. Only whoever has it queued or runs it asks.
    pub(crate) fn options(&self) -> Option<&StartOptions> {
        // SAFETY: the table is that of the body in the slot.
        unsafe { (self.table().options)(self).as_ref() }
    }

    /// True if the task, which the caller has taken out of a queue, has not started and may do so anywhere.
    pub(crate) fn is_unstarted(&self) -> bool {
        matches!(self.home(), Home::None) && !self.options().is_some_and(|options| options.pinned)
    }

    /// Takes how the task ended out of its slot.
    ///
    /// # Safety
    ///
    /// The task, whose body returns a `T`, has ended, and the caller frees it.
    #[inline]
    pub(crate) unsafe fn take_outcome<T>(&self) -> Result<T, Raised> {
        // SAFETY: the caller's promise; `end` has put one or the other there, and the table says which.
        unsafe { if self.has_raised() { Err(self.take_raised()) } else { Ok(self.take::<T>()) } }
    }

    /// True if the task, which has ended, ended with a signal.
    pub(crate) fn has_raised(&self) -> bool {
        ptr::eq(self.table(), &RAISED)
    }

    /// Takes what the task ended with out of its slot.
    ///
    /// # Safety
    ///
    /// The task [has raised](Task::has_raised) it, and the caller frees the task.
    pub(crate) unsafe fn take_raised(&self) -> Raised {
        // SAFETY: the caller's promise.
        *unsafe { self.take::<Box<Raised>>() }
    }

    /// The last step of a task whose outcome is in its slot: settles with its handle who frees the slot.
    #[inline]
    pub(crate) fn settle(&self) -> Settled {
        match self.join.swap(DONE, Ordering::AcqRel) {
            node if node.is_null() => Settled::Kept,
            DETACHED => Settled::Detached,
            // SAFETY: whoever waits keeps the node until it is told, and it was in the word once.
            node => match unsafe { Node::claim_and_tell(node, TOLD) } {
                Some(waiter) => Settled::Waits(waiter),
                None => Settled::Kept, // it has something else by now, and its handle still
            },
        }
    }

    /// Puts how the task ended into its slot.
    ///
    /// # Safety
    ///
    /// The caller runs the task, whose body returns a `T` and was taken out or dropped.
    #[inline]
    pub(crate) unsafe fn end<T>(&self, outcome: Result<T, Raised>) {
        match outcome {
            // SAFETY: the caller's promise.
            Ok(result) => unsafe { self.put::<T>(result) },
            Err(raised) => {
                self.set_table(&RAISED);
                // SAFETY: as above.
                unsafe { self.put::<Box<Raised>>(Box::new(raised)) };
            }
        }
    }

    /// Puts how a task ended that was none into its slot. Its result, whose destructor may block, is then like that of a
    /// thunk.
    ///
    /// # Safety
    ///
    /// As for [`Task::end`].
    pub(crate) unsafe fn end_as_thunk<T>(&self, outcome: Result<T, Raised>) {
        self.home.set(ptr::null());
        self.set_table(
            const {
                &Table {
                    kind: Kind::Thunk,
                    configured: false,
                    run: never_again,
                    drop_result: drop_result::<T>(),
                    options: no_options,
                    blocks: never_blocks,
                    tag: no_tag,
                    type_name: || "",
                    size: 0,
                }
            },
        );
        // SAFETY: the caller's promise.
        unsafe { self.end(outcome) };
    }

    /// # Safety
    ///
    /// The caller owns the storage, and nothing is in it.
    #[inline]
    pub(crate) unsafe fn put<V>(&self, value: V) {
        let place = self.storage.get();
        // SAFETY: the caller's promise; the storage is large and aligned enough, or holds a box.
        unsafe {
            if fits::<V>() {
                place.cast::<V>().write(value);
            } else {
                place.cast::<Box<V>>().write(Box::new(value));
            }
        }
    }

    /// # Safety
    ///
    /// The caller owns the storage, and a `V` that was put there is in it; afterwards nothing is.
    #[inline]
    pub(crate) unsafe fn take<V>(&self) -> V {
        let place = self.storage.get();
        // SAFETY: the caller's promise.
        unsafe { if fits::<V>() { place.cast::<V>().read() } else { *place.cast::<Box<V>>().read() } }
    }

    /// Where the `V` is that was put into the storage. It does not move until it is taken.
    ///
    /// # Safety
    ///
    /// A `V` that was put there is in the storage.
    #[inline]
    pub(crate) unsafe fn stored<V>(&self) -> *mut V {
        let place = self.storage.get();
        // SAFETY: the caller's promise.
        unsafe { if fits::<V>() { place.cast::<V>() } else { &raw mut **place.cast::<Box<V>>() } }
    }

    /// Drops the `V` in the storage where it is.
    ///
    /// # Safety
    ///
    /// As for [`Task::take`].
    pub(crate) unsafe fn drop_stored<V>(&self) {
        let place = self.storage.get();
        // SAFETY: the caller's promise.
        unsafe {
            if fits::<V>() {
                place.cast::<V>().drop_in_place();
            } else {
                place.cast::<Box<V>>().drop_in_place();
            }
        }
    }
}

/// Marks the home of a body that is between two turns.
const BETWEEN_TURNS: usize = 1;
/// The same for one that can be reached.
const REACHED: usize = 2;

const _: () = assert!(align_of::<Shared>() >= 4);

fn between_turns(shared: &'static Shared) -> *const () {
    ptr::from_ref(shared).cast::<()>().map_addr(|address| address | BETWEEN_TURNS)
}

/// True if a `V` lies in the slot itself rather than in a box.
const fn fits<V>() -> bool {
    size_of::<V>() <= INLINE && align_of::<V>() <= 8
}

#[cfg(test)]
mod tests;
