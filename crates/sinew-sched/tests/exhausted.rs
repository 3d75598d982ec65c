//! What happens when there is no memory for one more stack. Alone in its process, whose addresses it uses up.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_fiber::{Stack, StackSize};
use sinew_sched::{Runtime, spawn, yield_now};

#[test]
fn a_yield_that_finds_no_stack_goes_on_and_loses_nobody() {
    let size = StackSize::Custom(StackSize::MOST);
    let runtime = Runtime::builder().workers(1).stack(size).build().unwrap();
    runtime.run(|| ()).unwrap();
    let all: Vec<Stack> = std::iter::from_fn(|| Stack::take(size).ok()).collect();
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
    assert_eq!(runtime.shutdown(Duration::from_secs(10)).left, 0);
    assert_eq!(ran.load(Ordering::Relaxed), 10);
}
