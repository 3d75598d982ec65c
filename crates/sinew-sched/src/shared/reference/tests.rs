use sinew_fiber::StackSize;
use sinew_sync::{Arc, model, thread};

use super::*;
use crate::clock::Clock;
use crate::task::Task;
use crate::worker::Queues;

/// A runtime without threads, and something that its memory keeps.
fn runtime(kept: &Arc<()>) -> SharedRef {
    let shared = Shared::new(&[Queues::new()], 0, StackSize::KiB16, Clock::System, true);
    let kept = kept.clone();
    shared.names.set_of_turns(Box::new(move |_| {
        let _kept = &kept;
        Default::default()
    }));
    SharedRef::new(shared)
}

/// A thread that queues a task, against the worker that runs it and ends with it: whoever is last frees the runtime.
#[test]
fn a_waker_that_is_late_keeps_the_runtime_until_it_has_woken_somebody() {
    model("reference_wake_or_free", || {
        let kept = Arc::new(());
        let runtime = runtime(&kept);
        let task: &'static Task = Box::leak(Box::new(Task::new(0)));
        // What the waker has is the reference in the task's home, valid until the task is queued.
        let shared = runtime.get();
        let waker = thread::spawn(move || shared.keep().inject(task));
        while runtime.injector.steal().success().is_none() {
            thread::yield_now();
        }
        drop(runtime);
        waker.join().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "the memory was freed, by one of the two");
    });
}

/// An id against the last reference: it leads to the runtime, which stays then, or nowhere.
#[test]
fn an_id_leads_to_a_runtime_that_stays_or_nowhere() {
    model("reference_upgrade_or_free", || {
        let kept = Arc::new(());
        let runtime = runtime(&kept);
        let id = runtime.id;
        let other = {
            let kept = kept.clone();
            thread::spawn(move || {
                let Some(reference) = id.upgrade() else { return };
                assert!(reference.injector.is_empty());
                assert!(Arc::strong_count(&kept) >= 3, "the runtime was freed under a reference");
            })
        };
        drop(runtime);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
        assert!(id.upgrade().is_none());
    });
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn an_id_never_leads_to_a_later_runtime_of_its_record() {
    let kept = Arc::new(());
    let mut ids = Vec::new();
    for _ in 0..100 {
        let runtime = runtime(&kept);
        assert!(ids.iter().all(|id: &RuntimeId| id.upgrade().is_none() && *id != runtime.id));
        assert!(runtime.id.upgrade().is_some());
        ids.push(runtime.id);
    }
}
