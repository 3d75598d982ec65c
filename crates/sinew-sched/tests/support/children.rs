//! What tests of scopes share: runtimes of several sizes, children that are pinned or not, and something to borrow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{Runtime, Scope, ScopedJoinHandle, yield_now};

pub(crate) const LONG: Duration = Duration::from_secs(1000);

/// Runs `test` as a task with one worker, two, and more than there are cores; children are pinned or not.
pub(crate) fn with_runtimes(test: fn(bool)) {
    for workers in [1, 2, 8] {
        for pinned in [false, true] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            runtime.run(move || test(pinned)).unwrap();
            assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        }
    }
}

pub(crate) fn child<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    pinned: bool,
    body: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let task = scope.task();
    if pinned { task.pinned().spawn(body) } else { task.spawn(body) }
}

/// Something that must be whole for as long as any child uses it.
pub(crate) struct Borrowed {
    whole: AtomicBool,
    users: AtomicUsize,
}

impl Borrowed {
    pub(crate) fn new() -> Borrowed {
        Borrowed { whole: AtomicBool::new(true), users: AtomicUsize::new(0) }
    }

    /// Uses it until the task is cancelled, or so often.
    pub(crate) fn use_it(&self, times: usize) {
        struct Use<'a>(&'a Borrowed);
        impl Drop for Use<'_> {
            fn drop(&mut self) {
                assert!(self.0.whole.load(Ordering::SeqCst), "used after it was gone");
                self.0.users.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.users.fetch_add(1, Ordering::SeqCst);
        let _use = Use(self);
        for _ in 0..times {
            yield_now();
            assert!(self.whole.load(Ordering::SeqCst), "used after it was gone");
        }
    }

    pub(crate) fn wait_for_users(&self, users: usize) {
        while self.users.load(Ordering::SeqCst) < users {
            yield_now();
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.whole.store(false, Ordering::SeqCst);
        assert_eq!(self.users.load(Ordering::SeqCst), 0, "a child still uses it");
    }
}
