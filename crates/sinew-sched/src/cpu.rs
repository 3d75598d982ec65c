//! Which CPUs the workers run on.
//!
//! Workers are not bound to CPUs unless the builder asks for it: bound workers of two processes can meet on one CPU while
//! another one idles. Two hints keep the workers of one runtime apart instead, and leave the kernel free to move them:
//!
//! - A worker starts on a CPU of its own ([`place`]), if there are enough of them.
//! - The kernel may wake a thread on the CPU of the thread that wakes it, behind it in the run queue or in its place,
//!   although another CPU is idle: in a virtual machine it treats a halted CPU as unavailable. A worker that
//!   finds itself there moves to any other ([`leave`]). The next wake-ups of workers by workers then exclude the CPU of the
//!   waker ([`steer`]), which costs two system calls each; after some of them the kernel is tried again ([`Steering`]).
//!
//! A thread inherits its affinity from the thread that starts it. So a thread that is started on a bound worker would
//! count one CPU only: what the first runtime found, before it had workers, is valid for the process.

use sinew_sync::atomic::{AtomicU32, Ordering};
use sinew_sync::statics::OnceLock;

/// The CPUs that this process may run on.
pub(crate) fn allowed() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(allowed_now)
}

/// How many threads the process can run at once: at most one per CPU, and fewer if a quota limits its CPU time.
pub fn parallelism() -> usize {
    static PARALLELISM: OnceLock<usize> = OnceLock::new();
    *PARALLELISM.get_or_init(sinew_sync::available_parallelism)
}

/// The CPUs that this thread may run on.
fn allowed_now() -> Vec<usize> {
    let set = affinity(THIS_THREAD);
    let all = 0..if set.is_some() { libc::CPU_SETSIZE as usize } else { 0 };
    // SAFETY: the numbers are below the size of the set.
    all.filter(|cpu| set.as_ref().is_some_and(|set| unsafe { libc::CPU_ISSET(*cpu, set) })).collect()
}

/// The number of a thread in the kernel.
pub(crate) type ThreadId = libc::pid_t;

/// The thread that asks, for the calls that are about a thread.
const THIS_THREAD: ThreadId = 0;

/// The number of this thread.
pub(crate) fn thread_id() -> ThreadId {
    // SAFETY: it takes nothing and writes nothing.
    unsafe { libc::gettid() }
}

/// The affinity of a thread.
fn affinity(thread: ThreadId) -> Option<libc::cpu_set_t> {
    let mut set = empty();
    // SAFETY: the kernel writes at most the size that it is told.
    let done = unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &raw mut set) };
    (done == 0).then_some(set)
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: a set of CPUs is plain bits, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

/// False if the system refuses.
fn set_affinity(thread: ThreadId, set: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads at most the size that it is told.
    unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), set) == 0 }
}

/// A set with this CPU in it.
fn only(cpu: usize) -> libc::cpu_set_t {
    let mut set = empty();
    // SAFETY: a number that is not below the size of a set is not set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    set
}

/// Binds this thread to `cpu`. If the system refuses, the thread runs wherever it may.
pub(crate) fn bind(cpu: usize) {
    set_affinity(THIS_THREAD, &only(cpu));
}

/// Lets this thread, which may have been started by a bound worker, run wherever the process may.
pub fn unbind() {
    if sinew_sync::MODEL || allowed().is_empty() {
        return;
    }
    let mut set = empty();
    // SAFETY: the CPUs came from a set, so they are below the size of one.
    allowed().iter().for_each(|cpu| unsafe { libc::CPU_SET(*cpu, &mut set) });
    set_affinity(THIS_THREAD, &set);
}

/// Moves this thread to `cpu` once. It may run wherever it might before.
pub(crate) fn place(cpu: usize) {
    if let Some(before) = affinity(THIS_THREAD) {
        bind(cpu);
        set_affinity(THIS_THREAD, &before);
    }
}

/// Moves this thread away from `cpu` once, if it may run on another. It may run wherever it might before.
pub(crate) fn leave(cpu: usize) {
    steer(THIS_THREAD, cpu).into_iter().for_each(Steered::restore);
}

/// Excludes `cpu` from those that `thread` may run on, if it may run on another. The thread has to take the result and
/// restore what it might run on before.
pub(crate) fn steer(thread: ThreadId, cpu: usize) -> Option<Steered> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return None;
    }
    let before = affinity(thread)?;
    let mut others = before;
    // SAFETY: the number is below the size of the set.
    let left = unsafe {
        libc::CPU_CLR(cpu, &mut others);
        libc::CPU_COUNT(&others)
    };
    (left > 0 && set_affinity(thread, &others)).then_some(Steered { before })
}

/// A thread must not run on some CPU until it has been woken.
pub(crate) struct Steered {
    before: libc::cpu_set_t,
}

impl Steered {
    /// Lets this thread, the steered one, run wherever it might before.
    pub(crate) fn restore(self) {
        set_affinity(THIS_THREAD, &self.before);
    }
}

/// How many wake-ups are steered before the kernel is tried again: after the first that was misplaced, and at most.
const STEERED_FIRST: u32 = 256;
const STEERED_MOST: u32 = 4096;

/// Whether wake-ups are steered. All of it is a hint, and read and written without an order.
pub(crate) struct Steering {
    left: AtomicU32,
    /// How many wake-ups are steered after the next misplaced one.
    next: AtomicU32,
}

impl Steering {
    pub(crate) fn new() -> Steering {
        Steering { left: AtomicU32::new(0), next: AtomicU32::new(STEERED_FIRST) }
    }

    /// True if the wake-up that is about to come is to be steered.
    pub(crate) fn is_on(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// A worker that was not steered ran on the CPU of its waker, which was still at work.
    pub(crate) fn was_misplaced(&self) {
        let steered = self.next.load(Ordering::Relaxed);
        self.left.store(steered, Ordering::Relaxed);
        self.next.store((steered * 2).min(STEERED_MOST), Ordering::Relaxed);
    }

    /// A worker that was not steered ran elsewhere, or in place of its waker.
    pub(crate) fn was_well_placed(&self) {
        if self.left.load(Ordering::Relaxed) == 0 && self.next.load(Ordering::Relaxed) != STEERED_FIRST {
            self.next.store(STEERED_FIRST, Ordering::Relaxed);
        }
    }
}

/// The CPU that this thread runs on, or did a moment ago.
pub(crate) fn current() -> Option<usize> {
    if sinew_sync::MODEL {
        return None;
    }
    // SAFETY: it takes nothing and writes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_a_bound_one_starts_may_run_anywhere_again() {
        let before = super::allowed().to_vec();
        let started = sinew_sync::thread::spawn(move || {
            super::bind(before[0]);
            let inherits = sinew_sync::thread::spawn(|| {
                let inherited = super::allowed_now();
                super::unbind();
                (inherited, super::allowed_now())
            });
            assert_eq!(inherits.join().unwrap(), (vec![before[0]], before));
        });
        started.join().unwrap();
    }

    #[test]
    fn a_bound_thread_may_run_on_one_cpu_and_others_are_not_touched() {
        let before = super::allowed_now();
        let &cpu = before.last().unwrap();
        let pinned = sinew_sync::thread::spawn(move || {
            super::bind(cpu);
            super::allowed_now()
        });
        assert_eq!(pinned.join().unwrap(), [cpu]);
        let unpinned = sinew_sync::thread::spawn(move || {
            super::bind(cpu);
            super::unbind();
            super::allowed_now()
        });
        assert_eq!(unpinned.join().unwrap(), super::allowed());
        assert_eq!(super::allowed_now(), before);
    }

    #[test]
    fn a_thread_that_is_steered_may_not_run_on_that_cpu_until_it_restores_what_was() {
        let (say, told) = channel();
        let (go_on, steered) = channel::<Option<super::Steered>>();
        let sleeps = sinew_sync::thread::spawn(move || {
            let before = super::allowed_now();
            say.send(super::thread_id()).unwrap();
            let steered = steered.recv().unwrap();
            let meanwhile = super::allowed_now();
            steered.into_iter().for_each(super::Steered::restore);
            assert_eq!(super::allowed_now(), before);
            meanwhile
        });
        let cpu = super::allowed()[0];
        let steered = super::steer(told.recv().unwrap(), cpu);
        let is_steered = steered.is_some();
        go_on.send(steered).unwrap();
        let meanwhile = sleeps.join().unwrap();
        assert_eq!(meanwhile.contains(&cpu), !is_steered);
        assert_eq!(is_steered, super::allowed().len() > 1);
    }

    #[test]
    fn wake_ups_are_steered_for_longer_each_time_that_the_kernel_was_tried_and_they_were_misplaced() {
        let steering = super::Steering::new();
        assert!(!steering.is_on());
        let steered = |steering: &super::Steering| {
            steering.was_misplaced();
            (0..).take_while(|_| steering.is_on()).count()
        };
        assert_eq!(steered(&steering), 256);
        assert_eq!(steered(&steering), 512);
        assert_eq!((0..9).map(|_| steered(&steering)).max(), Some(4096));
        steering.was_well_placed();
        assert_eq!(steered(&steering), 256);
    }

    #[test]
    fn a_thread_that_is_moved_may_run_where_it_might_before() {
        let moved = sinew_sync::thread::spawn(|| {
            let before = super::allowed_now();
            for &cpu in &before {
                super::place(cpu);
                assert_eq!(super::allowed_now(), before);
                super::leave(cpu);
                assert_eq!(super::allowed_now(), before);
            }
            super::bind(before[0]);
            super::leave(before[0]);
            assert_eq!(super::allowed_now(), [before[0]], "there is no other");
            super::leave(usize::MAX);
        });
        moved.join().unwrap();
    }
}
