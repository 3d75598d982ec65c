//! Threads that block in waits of this crate without a time limit: what the search for deadlocks asks.

use sinew_sync::statics::{AtomicU64, Mutex, MutexGuard, Ordering};

/// How often a thread has begun to block in a wait without a time limit.
pub(crate) static WAITS: AtomicU64 = AtomicU64::new(0);

/// The threads that do.
pub(crate) fn blocked() -> MutexGuard<'static, Vec<i32>> {
    static BLOCKED: Mutex<Vec<i32>> = Mutex::new(Vec::new());
    BLOCKED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The number that the system has for the calling thread.
pub(crate) fn own_number() -> i32 {
    // SAFETY: it asks who calls.
    unsafe { libc::gettid() }
}

/// A thread that blocks in a wait without a time limit, for as long as this lives.
pub(crate) struct Blocked(i32);

impl Blocked {
    pub(crate) fn new() -> Blocked {
        let own = own_number();
        WAITS.fetch_add(1, Ordering::SeqCst);
        blocked().push(own);
        Blocked(own)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let mut blocked = blocked();
        if let Some(place) = blocked.iter().position(|thread| *thread == self.0) {
            blocked.swap_remove(place);
        }
    }
}
