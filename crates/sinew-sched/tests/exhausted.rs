//! What happens when there is no memory for one more stack. The tests use the addresses of their process up, so they are
//! a program of their own and run one after the other.
#![cfg(not(any(loom, shuttle)))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_fiber::{Stack, StackError, StackSize};
use sinew_sched::{Runtime, spawn, yield_now};
use sinew_test_kit::runtimes as support;
use support::Watchdog;

const SIZE: StackSize = StackSize::Custom(StackSize::MOST);

static ALONE: Mutex<()> = Mutex::new(());

fn all_stacks() -> Vec<Stack> {
    std::iter::from_fn(|| Stack::take(SIZE).ok()).collect()
}

#[test]
fn a_runtime_whose_workers_find_no_stack_is_an_error() {
    let _alone = ALONE.lock();
    let builder = Runtime::builder().workers(4).stack(SIZE);
    let mut all = all_stacks();
    for left in 0..4 {
        let error = builder.clone().build().unwrap_err();
        assert!(error.get_ref().unwrap().is::<StackError>(), "{left} stacks were left: {error}");
        drop(all.pop());
    }
    drop(all);
    let runtime = builder.build().unwrap();
    assert_eq!(runtime.run(|| 7).unwrap(), 7);
}

#[test]
fn a_yield_that_finds_no_stack_goes_on_and_loses_nobody() {
    let _alone = ALONE.lock();
    let runtime = Runtime::builder().workers(1).stack(SIZE).build().unwrap();
    runtime.run(|| ()).unwrap();
    let all = all_stacks();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let yields = runtime.run(move || {
        for _ in 0..10 {
            let count = count.clone();
            drop(spawn(move || count.fetch_add(1, Ordering::Relaxed)));
        }
        (0..200).map(|_| yield_now()).count()
    });
    assert_eq!(yields.unwrap(), 200);
    drop(all);
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    assert_eq!(ran.load(Ordering::Relaxed), 10);
}

#[test]
fn a_body_without_a_stack_may_migrate_while_it_is_dropped() {
    /// Waits when it is dropped.
    struct Waits(oneshot::Receiver<()>, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.recv().unwrap();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _alone = ALONE.lock();
    let watchdog = Watchdog::new("bodies that migrate while they are dropped".to_owned());
    let runtime = Runtime::builder().workers(4).build().unwrap();
    watchdog.watch(&runtime);
    runtime.run(|| ()).unwrap();
    let all = all_stacks();
    let dropped = Arc::new(AtomicUsize::new(0));
    for round in 1..=200 {
        let (wake, woken) = oneshot::channel();
        let waits = Waits(woken, dropped.clone());
        // SAFETY: a body that is never run has nothing on its stack; its destructor holds what may move.
        let refused = unsafe { runtime.task().stack(SIZE).spawn_migrating(move || drop(waits)) };
        // Somebody else wakes it, on whichever worker that is: there it goes on.
        let wakes = runtime.spawn(move || {
            yield_now();
            wake.send(()).unwrap();
        });
        wakes.join().unwrap();
        let error = refused.join().unwrap_err().to_string();
        assert!(error.contains("no memory for one more"), "{error}");
        assert_eq!(dropped.load(Ordering::Relaxed), round);
    }
    drop(all);
    assert_eq!(runtime.run(|| 7).unwrap(), 7);
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}
