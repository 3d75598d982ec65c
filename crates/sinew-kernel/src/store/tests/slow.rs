//! A disk that takes its time, so that it is known what is queued and what is being committed.

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_sched::{ManualClock, Runtime, sleep};

use super::super::{Store, StoreError};
use super::faults::Gate;
use super::{Folder, open};

/// A store whose commits wait at a gate, with one commit there.
pub(super) fn busy(folder: &Folder, builder: super::Builder) -> (Store, Gate, thread::JoinHandle<()>) {
    let (store, faults) = open(builder, &folder.file());
    store.of("a").save("k", "old").unwrap();
    let gate = faults.gate();
    let state = store.of("first");
    let first = thread::spawn(move || state.save("k", "v").unwrap());
    gate.wait_for_arrival();
    (store, gate, first)
}

pub(super) fn wait_until_queued(store: &Store, count: usize) {
    while store.stats().queued < count {
        thread::yield_now();
    }
}

#[test]
fn saves_that_come_during_a_commit_are_the_next_commit_together() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let before = store.stats().commits;
    thread::scope(|threads| {
        for n in 0..50 {
            let state = store.of("many");
            threads.spawn(move || state.save(&n.to_string(), "v").unwrap());
        }
        wait_until_queued(&store, 50);
        gate.open();
    });
    first.join().unwrap();
    assert_eq!(store.stats().commits - before, 2);
    assert_eq!(store.stats().saves, 52);
    assert_eq!(store.of("many").keys("").unwrap().len(), 50);
}

#[test]
fn a_load_does_not_wait_for_a_commit_and_sees_the_one_before() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    assert_eq!(store.of("a").load("k").unwrap(), Some(b"old".to_vec()));
    assert_eq!(store.of("first").load("k").unwrap(), None);
    assert_eq!(store.of("a").keys("").unwrap(), ["k"]);
    gate.open();
    first.join().unwrap();
    assert_eq!(store.of("first").load("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn a_queue_that_is_full_of_bytes_has_callers_wait() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder().max_value(1000).queue(2000));
    let state = store.of("a");
    let context = &mut Context::from_waker(Waker::noop());
    let mut saves: Vec<_> = (0..3).map(|_| Box::pin(state.save_async("k", vec![0; 800]))).collect();
    for save in &mut saves {
        assert!(save.as_mut().poll(context).is_pending());
    }
    assert_eq!(store.stats().queued, 2);
    gate.open();
    first.join().unwrap();
    for save in saves {
        sinew_sched::block_on(save).unwrap().unwrap();
    }
    assert_eq!(store.stats().queued, 0);
}

#[test]
fn the_largest_value_fits_into_any_queue() {
    let folder = Folder::new();
    let (store, _) = open(Store::builder().max_value(5000).queue(1), &folder.file());
    let name = "n".repeat(255);
    store.of(&name).save(&name, vec![1; 5000]).unwrap();
    assert_eq!(store.of(&name).load(&name).unwrap(), Some(vec![1; 5000]));
}

#[test]
fn a_task_that_is_cancelled_while_it_waits_is_told_that_nobody_knows() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let state = store.of("a");
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let saves = runtime.spawn(move || {
        let error = state.save("k", "new").unwrap_err();
        (matches!(error, StoreError::Unconfirmed(_)), error.is_cancelled())
    });
    wait_until_queued(&store, 1);
    saves.cancel();
    assert_eq!(saves.join().unwrap(), (true, true));
    gate.open();
    first.join().unwrap();
    store.flush().unwrap();
    assert_eq!(store.of("a").load("k").unwrap(), Some(b"new".to_vec())); // it was queued before the flush
}

#[test]
fn a_task_that_is_killed_while_it_waits_holds_nobody_up() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let state = store.of("a");
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let saves = runtime.spawn(move || state.save("k", "new").map_err(|error| error.to_string()));
    wait_until_queued(&store, 1);
    saves.kill();
    assert!(saves.join().unwrap_err().is_cancelled());
    gate.open();
    first.join().unwrap();
    store.of("a").save("k", "newest").unwrap();
    assert_eq!(store.of("a").load("k").unwrap(), Some(b"newest".to_vec()));
}

#[test]
fn a_future_that_is_dropped_while_it_waits_leaves_a_whole_value() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    {
        let state = store.of("a");
        let mut save = pin!(state.save_async("k", "new"));
        assert!(save.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    gate.open();
    first.join().unwrap();
    store.flush().unwrap();
    let value = store.of("a").load("k").unwrap().unwrap();
    assert!([&b"old"[..], b"new"].contains(&&*value));
}

#[test]
fn a_task_that_waits_for_the_disk_leaves_its_worker_to_others() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let state = store.of("a");
    let (told, mut tells) = oneshot::channel();
    let saves = runtime.spawn(move || {
        told.send(()).unwrap();
        state.save("k", "new").unwrap();
    });
    tells.recv().unwrap();
    wait_until_queued(&store, 1);
    // The only worker is free, or this would never end.
    let loads = store.of("a");
    assert_eq!(runtime.run(move || loads.load("k").unwrap()).unwrap(), Some(b"old".to_vec()));
    gate.open();
    saves.join().unwrap();
    first.join().unwrap();
}

#[test]
fn a_manual_clock_stands_still_while_a_task_waits_for_the_disk() {
    for by_future in [false, true] {
        let folder = Folder::new();
        let (store, gate, first) = busy(&folder, Store::builder());
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
        let state = store.of("a");
        let saves = if by_future {
            runtime.spawn_future(async move { state.save_async("k", "new").await.unwrap() })
        } else {
            runtime.spawn(move || state.save("k", "new").unwrap())
        };
        wait_until_queued(&store, 1);
        let sleeps = runtime.spawn(|| sleep(Duration::from_secs(3600)));
        // Nothing is left to do but to wait.
        let dump = runtime.dumper();
        let idle = |dump: String| ["worker 0: asleep", "next timer in 3"].iter().all(|it| dump.contains(it));
        while !idle(dump().to_string()) && clock.now().as_nanos() == 0 {
            thread::yield_now();
        }
        assert_eq!(clock.now().as_nanos(), 0);
        gate.open();
        saves.join().unwrap();
        sleeps.join().unwrap();
        first.join().unwrap();
    }
}

#[test]
fn closing_waits_for_what_is_queued_and_refuses_what_comes_later() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    thread::scope(|threads| {
        let state = store.of("a");
        let queued = threads.spawn(move || state.save("k", "queued"));
        wait_until_queued(&store, 1);
        let closes = threads.spawn(|| store.close());
        let other = store.of("other");
        let context = &mut Context::from_waker(Waker::noop());
        // Those that are still queued are given up.
        while pin!(other.delete_async("k")).poll(context).is_pending() {
            thread::yield_now();
        }
        assert!(matches!(sinew_sched::block_on(other.delete_async("k")), Ok(Err(StoreError::Closed))));
        gate.open();
        queued.join().unwrap().unwrap();
        closes.join().unwrap().unwrap();
    });
    first.join().unwrap();
    assert!(matches!(store.of("a").load("k"), Err(StoreError::Closed)));
    assert_eq!(Store::open(folder.file()).unwrap().of("a").load("k").unwrap(), Some(b"queued".to_vec()));
}
