//! Which processors the workers run on.
//!
//! A kernel often wakes a thread on the processor of whoever woke it, behind it in the queue, while another one idles:
//! then a worker that was woken to help waits for the one that it is to help. So each worker has a processor of its
//! own, if there are enough of them for all.
//!
//! A thread inherits where it may run from the one that starts it. So whoever asks on a worker would hear of one processor
//! only: what the first runtime found, before it had workers, counts for the process.

use sinew_sync::statics::OnceLock;

/// The processors that this process may run on.
pub(crate) fn allowed() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(allowed_now)
}

/// How many threads the process can run at once: no more than it has processors, and less if it is granted less time.
pub(crate) fn parallelism() -> usize {
    static PARALLELISM: OnceLock<usize> = OnceLock::new();
    *PARALLELISM.get_or_init(sinew_sync::available_parallelism)
}

/// The processors that this thread may run on.
fn allowed_now() -> Vec<usize> {
    // SAFETY: a set of processors is plain bits, for which zero is fine.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size that it is told.
    let done = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    let all = 0..if done == 0 { libc::CPU_SETSIZE as usize } else { 0 };
    // SAFETY: the numbers are below the size of the set.
    all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Lets this thread run on `cpu` only. If the system does not like that, it runs wherever it may.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Lets this thread, which may have been started by a worker, run wherever the process may.
pub(crate) fn unpin() {
    if sinew_sync::MODEL || allowed().is_empty() {
        return;
    }
    // SAFETY: as above; the processors are below the size of the set, whence they came.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        allowed().iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    #[test]
    fn a_thread_that_a_pinned_one_starts_may_run_anywhere_again() {
        let before = super::allowed().to_vec();
        let started = sinew_sync::thread::spawn(move || {
            super::pin(before[0]);
            let inherits = sinew_sync::thread::spawn(|| {
                let inherited = super::allowed_now();
                super::unpin();
                (inherited, super::allowed_now())
            });
            assert_eq!(inherits.join().unwrap(), (vec![before[0]], before));
        });
        started.join().unwrap();
    }

    #[test]
    fn a_pinned_thread_may_run_on_one_processor_and_others_are_not_touched() {
        let before = super::allowed_now();
        let &cpu = before.last().unwrap();
        let pinned = sinew_sync::thread::spawn(move || {
            super::pin(cpu);
            super::allowed_now()
        });
        assert_eq!(pinned.join().unwrap(), [cpu]);
        assert_eq!(super::allowed_now(), before);
    }
}
