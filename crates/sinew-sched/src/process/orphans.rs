//! Children that nobody waits for any more: one thread of the process waits for all of them.
//!
//! The thread polls their descriptors, and one by which it is told that there is another orphan. It is started with the
//! first orphan, belongs to no runtime, and goes with the process. An orphan is put into the list before the thread is
//! told; the thread forgets what it was told before it looks at the list. So it misses none.

use std::io;
use std::os::fd::AsFd;

use sinew_sync::statics::{Mutex, MutexGuard, OnceLock};
use sinew_sync::thread;

use super::child::Process;
use crate::cpu;
use crate::polling::{Bell, Interest, poll};

struct Orphans {
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
            cpu::unpin();
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
        loop {
            self.another.clear();
            let mut list = self.list();
            list.retain_mut(|process| matches!(process.child.try_wait(), Ok(None)));
            let ended: Vec<_> = list.iter().map(|process| process.ended.clone()).collect();
            drop(list);
            let polled: Vec<_> = ended.iter().map(|ended| (ended.as_fd(), Interest::Read)).collect();
            if poll(&polled, &self.another).is_err() {
                thread::yield_now(); // there is no memory for it at the moment
            }
        }
    }
}
