//! Children that nobody waits for any more: one thread of the process waits for all of them.
//!
//! The thread polls their descriptors, and one by which it is told that there is another orphan: runtimes, and their
//! reactors, come and go. It is started with the first orphan, and goes with the process. An orphan is put into the list
//! before the thread is told; the thread forgets what it was told before it takes what is in the list. So it misses none.

use std::io;
use std::os::fd::AsRawFd;

use sinew_sched::raw::{Bell, unbind};
use sinew_sync::statics::{Mutex, MutexGuard, OnceLock};
use sinew_sync::thread;

use super::child::Process;
use crate::fd::{Interest, asked, poll_any};

struct Orphans {
    /// Those that the thread has not taken yet.
    list: Mutex<Vec<Process>>,
    another: Bell,
}

impl Orphans {
    fn list(&self) -> MutexGuard<'_, Vec<Process>> {
        self.list.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Sees to the end of a process. If the system has neither a thread nor a descriptor left for that, it ends up as a zombie.
pub(super) fn adopt(process: Process) {
    static ORPHANS: OnceLock<Option<Orphans>> = OnceLock::new();
    let orphans = ORPHANS.get_or_init(|| {
        let orphans = Orphans { list: Mutex::new(Vec::new()), another: Bell::new().ok()? };
        start().ok()?;
        Some(orphans)
    });
    if let Some(orphans) = orphans {
        orphans.list().push(process);
        orphans.another.ring();
    }

    fn start() -> io::Result<()> {
        let thread = || {
            unbind();
            // It is being made by whoever has started this thread.
            if let Some(orphans) = ORPHANS.wait() {
                orphans.see_to_all();
            }
        };
        thread::Builder::new().name("sinew-orphans".to_owned()).spawn(thread).map(drop)
    }
}

impl Orphans {
    fn see_to_all(&self) -> ! {
        let mut alive = Vec::new();
        loop {
            self.another.clear();
            alive.append(&mut self.list());
            alive.retain_mut(|process| matches!(process.child.try_wait(), Ok(None)));
            let ended = alive.iter().map(|process| process.ended.get().as_raw_fd());
            let mut polled: Vec<_> =
                ended.chain([self.another.as_raw_fd()]).map(|fd| asked(fd, Interest::READ)).collect();
            if poll_any(&mut polled, None).is_err() {
                thread::yield_now(); // there is no memory for it at the moment
            }
        }
    }
}
