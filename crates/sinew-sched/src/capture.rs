//! Where a stuck worker is: its own thread walks its stack, when it is asked to by a signal.
//!
//! # Protocol
//!
//! Each worker has one [`Capture`], with room for the addresses of some frames, and a state:
//!
//! ```text
//! idle ──(sysmon asks, and sends the signal)──> asked ──(the handler begins)──> begun ──(it is done)──> answered
//!  ^                                              │                                                        │
//!  └──────────────(sysmon gives up)───────────────┴──────────────────(sysmon reads)────────────────────────┘
//! ```
//!
//! Every step is one compare-and-swap or a store with release; whoever sees a state sees what was written before it. So
//! the frames are written by the handler alone, between asked and answered, and read by sysmon alone, after that.
//!
//! Sysmon says in which turn the worker has to be. If it is in another by the time that the handler runs, the task that was
//! meant has blocked or ended, and the answer is that.
//!
//! # What the handler may do
//!
//! It runs at any instruction of any code, on the thread's alternate stack, since a task's own may be small or full. It
//! allocates nothing, takes no lock and touches thread-locals that need no initialisation. To walk the stack it calls
//! `_Unwind_Backtrace`, which POSIX does not list as safe. What that means:
//!
//! - Frames are found by the unwinder's tables, which are read only. Since libgcc 12 with glibc 2.35 they are found without
//!   a lock. Older ones take the lock of the dynamic loader, which the interrupted code may hold in the middle of a
//!   `dlopen`; it can be taken twice by one thread, so that this is no deadlock, but the list of libraries may be half done.
//! - What libgcc initialises at its first use was initialised before: sysmon walks its own stack when it starts.
//! - In the middle of a switch there is no stack to walk: the handler sees that, and sysmon asks again.
//! - Code without unwind information ends the walk, and so does hand-written assembly whose information is wrong at an
//!   instruction; the latter could also lead it astray. Where that matters, `Sysmon::signal(None)` turns it off.
//!
//! A system call that the signal interrupts goes on (`SA_RESTART`), as far as the system does that: `poll`, `epoll_wait` and
//! some others return `EINTR` all the same.

use std::ffi::{c_int, c_void};

use sinew_fiber::raw::is_switching;
use sinew_sync::statics::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::task_id::TaskId;

/// Frames of an answer.
const FRAMES: usize = 64;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const BEGUN: u32 = 2;
const ANSWERED: u32 = 3;

/// The worker was in another turn, or in the middle of a switch: instead of a number of frames.
const GONE: usize = usize::MAX;
const SWITCHING: usize = usize::MAX - 1;

pub(crate) struct Capture {
    state: AtomicU32,
    /// The thread of the worker; zero if it has none that could be asked.
    thread: AtomicI32,
    turn: AtomicU64,
    task: AtomicU64,
    len: AtomicUsize,
    frames: [AtomicUsize; FRAMES],
}

/// What became of a question.
pub(crate) enum Answer {
    /// The addresses of the instructions, innermost first.
    Frames(TaskId, Vec<usize>),
    /// The worker was in the middle of a switch: to be asked again.
    Switching,
    /// The worker has gone on.
    Gone,
}

impl Capture {
    pub(crate) fn new() -> Capture {
        Capture {
            state: AtomicU32::new(IDLE),
            thread: AtomicI32::new(0),
            turn: AtomicU64::new(0),
            task: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; FRAMES],
        }
    }

    /// The calling thread is the worker's, until it says otherwise.
    pub(crate) fn here(&self, is_here: bool) {
        // SAFETY: it asks who calls.
        let thread = if is_here { unsafe { libc::gettid() } } else { 0 };
        self.thread.store(thread, Ordering::Release);
    }

    /// The thread of the worker; zero if it has none that could be asked.
    pub(crate) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Asks the worker where it is, if it is in this turn. Nothing is asked already. False if nobody can be asked.
    pub(crate) fn ask(&self, turn: u64, signal: c_int) -> bool {
        let thread = self.thread();
        if thread == 0 {
            return false;
        }
        self.turn.store(turn, Ordering::Relaxed);
        self.state.store(ASKED, Ordering::Release);
        // SAFETY: the handler is set. A thread that has ended is not found; if another has its number by now, it is one of
        // this process, and the handler finds nothing to answer there.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) } == 0;
        sent || !self.give_up()
    }

    /// Takes the question back. False if it is being answered.
    pub(crate) fn give_up(&self) -> bool {
        self.state.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The answer, if it is there.
    pub(crate) fn take(&self) -> Option<Answer> {
        if self.state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let answer = match self.len.load(Ordering::Relaxed) {
            GONE => Answer::Gone,
            SWITCHING => Answer::Switching,
            len => {
                let frames = self.frames.iter().take(len).map(|frame| frame.load(Ordering::Relaxed));
                Answer::Frames(TaskId::from_u64(self.task.load(Ordering::Relaxed)), frames.collect())
            }
        };
        self.state.store(IDLE, Ordering::Release);
        Some(answer)
    }

    /// Answers on the worker's own thread, which is in `turn` and runs `task`, and was interrupted at `address`. False if
    /// nothing was asked. Async-signal-safe, as far as the module's prose says.
    pub(crate) fn answer(&self, turn: u64, task: Option<TaskId>, address: usize) -> bool {
        if self.state.compare_exchange(ASKED, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return false;
        }
        let len = match task {
            Some(task) if turn == self.turn.load(Ordering::Relaxed) => {
                self.task.store(task.as_u64(), Ordering::Relaxed);
                if is_switching(address) { SWITCHING } else { self.walk(address) }
            }
            _ => GONE,
        };
        self.len.store(len, Ordering::Relaxed);
        self.state.store(ANSWERED, Ordering::Release);
        true
    }

    /// Writes down the frames from the one that was interrupted at `address`, and returns how many.
    pub(crate) fn walk(&self, address: usize) -> usize {
        let mut walk = Walk { frames: &self.frames, address, len: 0 };
        // SAFETY: `each` is called with the context of a frame and the walk, which lives until the call returns.
        unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
        if walk.len == 0 {
            self.frames[0].store(address, Ordering::Relaxed); // the way from the handler to what it interrupted is not known
        }
        walk.len.max(1)
    }
}

struct Walk<'a> {
    frames: &'a [AtomicUsize; FRAMES],
    /// Where the walk begins to count: the frames before are the handler's.
    address: usize,
    len: usize,
}

enum Context {}

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut Context, *mut c_void) -> c_int, walk: *mut c_void)
    -> c_int;
    fn _Unwind_GetIPInfo(context: *mut Context, is_before: *mut c_int) -> usize;
}

extern "C" fn each(context: *mut Context, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END_OF_STACK: c_int = 5;
    // SAFETY: `walk` hands it to the unwinder, which hands it on.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    let mut is_before = 0;
    // SAFETY: the unwinder passes the context of a frame.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut is_before) };
    if address == 0 {
        return END_OF_STACK;
    }
    if walk.len > 0 || address == walk.address {
        let Some(place) = walk.frames.get(walk.len) else { return END_OF_STACK };
        // A return address may be that of the next function: the call is before it.
        place.store(if is_before == 0 { address - 1 } else { address }, Ordering::Relaxed);
        walk.len += 1;
    }
    GO_ON
}
