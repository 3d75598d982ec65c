//! What others have to do with a worker: its queue for other threads, its bed, and its counts. The prose is in [`super`].

use std::ptr;

use sinew_core::Instant;
use sinew_sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Arc, Mutex, MutexGuard, fetch_to_write};

use super::UP;
use super::service::Duty;
use crate::backtrace_request::BacktraceRequest;
use crate::capture::Capture;
use crate::counters::Own;
use crate::cpu;
use crate::placement::Watch;
use crate::task::Task;
use crate::timers::Timers;

/// A worker's queue for other threads, its bed, and its counts.
#[repr(align(128))]
pub(crate) struct Inbox {
    head: AtomicPtr<Task>,
    pub(super) bed: AtomicU8,
    /// The worker has lain down, and has found nothing since. Only the worker writes it.
    pub(super) idle: AtomicBool,
    /// What the reactor last had for tasks when the worker slept there was for those of others alone. Only the worker
    /// writes it.
    pub(super) serves_others: AtomicBool,
    pub(super) duty: Duty,
    /// The worker had free stacks of its own when it last lay down. Only the worker writes it.
    pub(crate) has_free_stacks: AtomicBool,
    /// Who sleeps in the bed.
    sleeper: Mutex<Option<Sleeper>>,
    /// How many cores belong to the worker.
    pub(crate) cores: AtomicUsize,
    pub(crate) capture: Capture,
    /// Not freed with the inbox: a future may have its alarm there.
    pub(crate) timers: &'static Timers,
    pub(crate) watch: Watch,
    /// What the worker is asked for dumps.
    pub(crate) requests: Mutex<Vec<Arc<BacktraceRequest>>>,
    pub(crate) own: Own,
}

/// The thread of a worker.
pub(super) struct Sleeper {
    pub(super) thread: Thread,
    pub(super) id: cpu::ThreadId,
    /// Set by the one who wakes it, before it does so.
    pub(super) steered: Option<cpu::Steered>,
    /// Set by a worker that wakes it and leaves it to the kernel where it runs.
    pub(super) woken: Option<Woken>,
}

impl Sleeper {
    pub(super) fn current() -> Sleeper {
        Sleeper { thread: thread::current(), id: cpu::thread_id(), steered: None, woken: None }
    }
}

/// Which worker woke a worker, when, and on which CPU it runs.
#[derive(Clone, Copy)]
pub(super) struct Woken {
    pub(super) by: usize,
    pub(super) cpu: usize,
    pub(super) at: Instant,
}

impl Inbox {
    pub(super) fn new(in_service: bool) -> Inbox {
        Inbox {
            head: AtomicPtr::new(ptr::null_mut()),
            bed: AtomicU8::new(UP),
            idle: AtomicBool::new(!in_service),
            serves_others: AtomicBool::new(false),
            duty: Duty::new(in_service),
            has_free_stacks: AtomicBool::new(false),
            sleeper: Mutex::new(None),
            cores: AtomicUsize::new(0),
            capture: Capture::new(),
            timers: Timers::take(),
            watch: Watch::new(),
            requests: Mutex::new(Vec::new()),
            own: Own::new(),
        }
    }

    pub(super) fn sleeper(&self) -> MutexGuard<'_, Option<Sleeper>> {
        self.sleeper.lock()
    }

    /// True while the worker lies in its bed.
    pub(crate) fn is_asleep(&self) -> bool {
        self.bed.load(Ordering::Relaxed) != UP
    }

    /// True if there is nothing in the queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Begins to fetch what it takes to put a task into the queue.
    #[inline(always)]
    pub(crate) fn fetch_to_push(&self) {
        fetch_to_write(&raw const self.head);
    }

    /// Puts a task into the queue.
    pub(super) fn push(&self, task: &'static Task) {
        // Mostly it is empty, and to look first would take the cache line twice.
        let mut head = ptr::null_mut();
        loop {
            task.next.set(head);
            let new = ptr::from_ref(task).cast_mut();
            match self.head.compare_exchange_weak(head, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything that is in the queue, oldest first. False if there was nothing. The worker does this, and others
    /// if it is stuck. Whoever sees that it is empty sees that the worker is up ([`Shared::clock_jumps`]).
    pub(crate) fn drain(&self, mut each: impl FnMut(&'static Task)) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::AcqRel).cast_const();
        let mut oldest: *const Task = ptr::null();
        while !newest.is_null() {
            // SAFETY: slots are never freed, and the link of a queued task is its queue's.
            let task = unsafe { &*newest };
            newest = task.next.replace(oldest);
            oldest = task;
        }
        while !oldest.is_null() {
            // SAFETY: as above; the link is read before the task is handed on.
            let task: &'static Task = unsafe { &*oldest };
            oldest = task.next.get();
            each(task);
        }
        true
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.timers.give();
    }
}
