//! A task: one slot of a slab, from its spawn to the join of its result.
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
//! Model: `task_settles_who_frees` (loom).

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;

use sinew_fiber::Raised;
use sinew_fiber::raw::Word;
use sinew_sync::atomic::{AtomicPtr, Ordering};

use crate::core::Core;
use crate::state::StateWord;
use crate::wait::Node;

/// Bytes of a body or result that lie in the slot itself.
const INLINE: usize = 16;

/// What runs, and how its result is taken; one table per type of body.
pub(crate) struct Table {
    /// Runs the body that lies in the slot and puts the result, or what ended it, in its place.
    pub(crate) run: unsafe fn(&'static Task, &Core),
    /// Drops the result, or what ended the task.
    pub(crate) drop_result: unsafe fn(&'static Task),
}

const _: () = assert!(sinew_sync::MODEL || size_of::<Task>() == 64, "one cache line");

#[repr(C, align(64))]
pub(crate) struct Task {
    pub(crate) state: StateWord,
    /// Cancel, kill and interrupts, as the fibers under the task see them.
    pub(crate) word: Word,
    /// The link of an inbox or a free list; used by whoever has the task queued or free.
    pub(crate) next: Cell<*const Task>,
    pub(crate) join: AtomicPtr<Node>,
    table: Cell<Option<&'static Table>>,
    /// The stack that the body is suspended on; null until it blocks for the first time.
    pub(crate) core: Cell<*const Core>,
    storage: UnsafeCell<MaybeUninit<[u64; INLINE / 8]>>,
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
    pub(crate) generation: u32,
}

impl Task {
    pub(crate) fn new() -> Task {
        Task {
            state: StateWord::new(),
            word: Word::new(),
            next: Cell::new(ptr::null()),
            join: AtomicPtr::new(ptr::null_mut()),
            table: Cell::new(None),
            core: Cell::new(ptr::null()),
            storage: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Puts `body` into a free slot and makes it a task that is to be queued.
    ///
    /// # Safety
    ///
    /// The caller took the slot from a free list.
    #[inline]
    pub(crate) unsafe fn prepare<F, T>(&'static self, body: F)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.table.set(Some(&Table { run: run::<F, T>, drop_result: drop_result::<T> }));
        self.join.store(ptr::null_mut(), Ordering::Relaxed);
        self.core.set(ptr::null());
        self.word.reset();
        // SAFETY: the caller owns the slot, and it is free.
        unsafe { self.put(body) };
        self.state.publish();
    }

    #[inline]
    pub(crate) fn table(&self) -> &'static Table {
        self.table.get().expect("a spawned task has a table")
    }

    pub(crate) fn reference(&'static self) -> TaskRef {
        TaskRef { task: self, generation: self.state.generation() }
    }

    /// Takes how the task ended out of its slot.
    ///
    /// # Safety
    ///
    /// The task, whose body returns a `T`, has ended, and the caller frees it.
    #[inline]
    pub(crate) unsafe fn take_outcome<T>(&self) -> Result<T, Raised> {
        // SAFETY: the caller's promise; `run` has put one or the other there, and the table says which.
        unsafe {
            if ptr::eq(self.table(), &RAISED) {
                Err(*self.take::<Box<Raised>>())
            } else {
                Ok(self.take::<T>())
            }
        }
    }

    /// # Safety
    ///
    /// The caller owns the storage, and nothing is in it.
    #[inline]
    unsafe fn put<V>(&self, value: V) {
        let place = self.storage.get();
        // SAFETY: the caller's promise; the storage is large and aligned enough, or holds a box.
        unsafe {
            if size_of::<V>() <= INLINE && align_of::<V>() <= 8 {
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
    unsafe fn take<V>(&self) -> V {
        let place = self.storage.get();
        // SAFETY: the caller's promise.
        unsafe {
            if size_of::<V>() <= INLINE && align_of::<V>() <= 8 {
                place.cast::<V>().read()
            } else {
                *place.cast::<Box<V>>().read()
            }
        }
    }
}

/// # Safety
///
/// The caller has claimed the task, and its body, of type `F`, has not run.
unsafe fn run<F, T>(task: &'static Task, core: &Core)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: the caller's promise.
    let body = unsafe { task.take::<F>() };
    match core.run(task, body) {
        // SAFETY: the body was taken out, so nothing is there; the task is still ours.
        Ok(result) => unsafe { task.put::<T>(result) },
        Err(raised) => {
            task.table.set(Some(&RAISED));
            // SAFETY: as above.
            unsafe { task.put::<Box<Raised>>(Box::new(raised)) };
        }
    }
}

/// The table of a task that ended with a signal, which is in its storage instead of a result. So a small result
/// needs no allocation.
static RAISED: Table = Table { run: never_again, drop_result: drop_result::<Box<Raised>> };

unsafe fn never_again(_: &'static Task, _: &Core) {
    unreachable!("a task that has ended does not run");
}

/// # Safety
///
/// The caller frees the task, and its result, of type `T`, was not taken.
unsafe fn drop_result<T>(task: &'static Task) {
    // SAFETY: the caller's promise.
    drop(unsafe { task.take::<T>() });
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, thread};

    use super::*;

    /// The end of a task against the drop of its handle, with the very exchanges that both make: exactly one of the
    /// two frees the slot.
    #[test]
    fn exactly_one_of_task_and_handle_frees_the_slot() {
        model("task_settles_who_frees", || {
            let join = Arc::new(AtomicPtr::<Node>::new(ptr::null_mut()));
            let task = {
                let join = join.clone();
                thread::spawn(move || join.swap(DONE, Ordering::AcqRel) == DETACHED)
            };
            let detached =
                join.compare_exchange(ptr::null_mut(), DETACHED, Ordering::AcqRel, Ordering::Acquire);
            let task_frees = task.join().unwrap();
            assert_eq!(task_frees, detached.is_ok());
        });
    }
}
