//! Pools: never more items than places, first come first served, and whatever panics, each item is destroyed once.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{self, Pool, PoolBuilder, Pooled, TakeError};
use sinew_chan::select;
use sinew_chan::select::{cancelled, recv, sleep};
use sinew_sched::{ManualClock, Reason, Runtime, block_on, now, spawn, yield_now};

use crate::support::{Counted, Tally, current_thread, poll, with_runtimes};

/// A pool of items that are counted; the numbers are in the order in which they are created.
fn counted(tally: &Tally, capacity: usize) -> PoolBuilder<Counted> {
    let (tally, number) = (tally.clone(), AtomicUsize::new(0));
    Pool::builder(capacity, move || tally.value(number.fetch_add(1, Ordering::Relaxed) as u64))
}

#[test]
fn items_are_created_when_they_are_needed_and_used_again() {
    let tally = Tally::new();
    let pool = counted(&tally, 2).build();
    assert_eq!((pool.capacity(), pool.len(), pool.is_empty()), (2, 0, true));
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    assert_eq!((first.number(), second.number()), (0, 1));
    assert_eq!((pool.len(), pool.idle(), pool.created()), (2, 0, 2));
    assert!(pool.try_take().unwrap().is_none());
    drop(second);
    drop(first);
    assert_eq!((pool.len(), pool.idle()), (2, 2));
    assert_eq!(pool.take().unwrap().number(), 0, "the one that came back last");
    assert_eq!(tally.made(), 2);
    drop(pool);
    tally.assert_even(2);
}

#[test]
fn there_are_never_more_items_than_places() {
    with_runtimes(|runtime| {
        let (tally, lent) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
        let pool = counted(&tally, 3).build();
        let uses = |yields: bool| {
            let (pool, lent) = (pool.clone(), lent.clone());
            move || {
                for _ in 0..100 {
                    let item = pool.take().unwrap();
                    assert!(lent.fetch_add(1, Ordering::Relaxed) < 3);
                    item.number();
                    if yields {
                        yield_now();
                    }
                    lent.fetch_sub(1, Ordering::Relaxed);
                }
            }
        };
        let tasks: Vec<_> = (0..20).map(|_| runtime.spawn(uses(true))).collect();
        let threads: Vec<_> = (0..2).map(|_| thread::spawn(uses(false))).collect();
        let polls = pool.clone();
        let future = runtime.spawn_future(async move {
            for _ in 0..100 {
                polls.take_async().await.unwrap().number();
            }
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        future.join().unwrap();
        let made = tally.made();
        assert!(made <= 3);
        assert_eq!((pool.len(), pool.idle(), pool.created()), (made, made, made));
        drop(pool);
        tally.assert_even(made);
    });
}

#[test]
fn who_waits_is_served_in_order_and_not_passed() {
    let runtime = current_thread();
    let pool = Pool::builder(1, || ()).build();
    let item = pool.take().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    for n in 0..4 {
        let (pool, log) = (pool.clone(), log.clone());
        let waits = move || {
            let item = pool.take().unwrap();
            log.lock().unwrap().push(n);
            yield_now();
            drop(item);
            assert!(n == 3 || pool.try_take().unwrap().is_none(), "the next one has it");
        };
        runtime.spawn(waits).detach();
        runtime.run_until_idle();
    }
    drop(item);
    assert!(pool.try_take().unwrap().is_none());
    runtime.run_until_idle();
    assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3]);
    assert_eq!(pool.idle(), 1);
}

#[test]
fn an_item_is_reset_before_the_next_one_has_it() {
    let pool = Pool::builder(1, Vec::new).reset(Vec::clear).build();
    let mut item = pool.take().unwrap();
    item.extend([1, 2, 3]);
    let runtime = current_thread();
    let other = pool.clone();
    let waits = runtime.spawn(move || other.take().unwrap().len());
    runtime.run_until_idle();
    drop(item);
    runtime.run_until_idle();
    assert_eq!(waits.join().unwrap(), 0);
    assert_eq!(pool.take().unwrap().len(), 0);
}

#[test]
fn an_item_that_is_detached_is_nobodys_and_one_that_is_discarded_is_destroyed() {
    let (tally, destroyed) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
    let count = destroyed.clone();
    let destroy = move |_: Counted| _ = count.fetch_add(1, Ordering::Relaxed);
    let pool = counted(&tally, 1).destroy(destroy).build();
    let runtime = current_thread();
    let wait = || {
        let other = pool.clone();
        let waits = runtime.spawn(move || other.take().unwrap());
        runtime.run_until_idle();
        waits
    };
    let detached = pool.take().unwrap();
    let waits = wait();
    let detached = Pooled::detach(detached);
    runtime.run_until_idle();
    let item = waits.join().unwrap();
    assert_eq!((item.number(), detached.number()), (1, 0));
    let waits = wait();
    Pooled::discard(item);
    runtime.run_until_idle();
    assert_eq!(waits.join().unwrap().number(), 2);
    assert_eq!((pool.len(), destroyed.load(Ordering::Relaxed)), (1, 1));
    drop(pool);
    assert_eq!((tally.dropped(), destroyed.load(Ordering::Relaxed)), (2, 2));
    drop(detached);
    tally.assert_even(3);
}

#[test]
fn a_pool_that_is_closed_lends_nothing_and_destroys_what_comes_back() {
    let tally = Tally::new();
    let pool = counted(&tally, 2).build();
    let (idle, lent) = (pool.take().unwrap(), pool.take().unwrap());
    let runtime = current_thread();
    let waits = [(); 3].map(|()| {
        let pool = pool.clone();
        runtime.spawn(move || matches!(pool.take(), Err(TakeError::Closed)))
    });
    runtime.run_until_idle();
    drop(idle); // which the first of them has
    assert!(pool.close() && !pool.close() && pool.is_closed());
    runtime.run_until_idle();
    assert_eq!(waits.map(|task| task.join().unwrap()), [false, true, true]);
    assert!(matches!(pool.take(), Err(TakeError::Closed)));
    assert!(matches!(pool.try_take(), Err(TakeError::Closed)));
    assert_eq!((tally.dropped(), pool.len()), (1, 1));
    drop(lent);
    assert!(pool.is_empty());
    tally.assert_even(2);
}

#[test]
fn the_last_of_its_clones_closes_a_pool() {
    let tally = Tally::new();
    let pool = counted(&tally, 2).build();
    let other = pool.clone();
    let (idle, lent) = (pool.take().unwrap(), pool.take().unwrap());
    drop(pool);
    drop(idle);
    assert_eq!((other.is_closed(), other.idle()), (false, 1));
    drop(other);
    assert_eq!(tally.dropped(), 1);
    lent.number();
    drop(lent);
    tally.assert_even(2);
}

#[test]
#[should_panic(expected = "a pool without a place")]
fn a_pool_has_at_least_one_place() {
    drop(Pool::builder(0, || ()).build());
}

#[test]
fn who_is_cancelled_leaves_the_queue_and_takes_what_is_there() {
    let runtime = current_thread();
    let pool = Pool::builder(1, || 5).build();
    let item = pool.take().unwrap();
    let waits = || {
        let pool = pool.clone();
        let task = runtime.spawn(move || pool.take().map(|item| *item));
        runtime.run_until_idle();
        task
    };
    let (gives_up, next) = (waits(), waits());
    gives_up.cancel();
    runtime.run_until_idle();
    let refused = gives_up.join().unwrap().unwrap_err();
    assert!(matches!(refused, TakeError::Refused(refused) if refused.reason() == Reason::Cancelled));
    drop(item);
    runtime.run_until_idle();
    assert_eq!(next.join().unwrap().unwrap(), 5);
    let other = pool.clone();
    let takes = runtime.spawn(move || other.take().map(|item| *item));
    takes.cancel();
    runtime.run_until_idle();
    assert_eq!(takes.join().unwrap().unwrap(), 5);
}

/// What it is given is an item, or a place.
#[test]
fn what_was_given_to_one_who_is_killed_comes_to_the_next() {
    for (detaches, selects) in [(false, false), (false, true), (true, false), (true, true)] {
        let tally = Tally::new();
        let runtime = current_thread();
        let pool = counted(&tally, 1).build();
        let item = pool.take().unwrap();
        let [dies, next] = [(); 2].map(|()| {
            let pool = pool.clone();
            let task = runtime.spawn(move || match selects {
                false => pool.take().unwrap().number(),
                true => select! { item = recv(&pool) => item.unwrap().number() }.unwrap(),
            });
            runtime.run_until_idle();
            task
        });
        if detaches {
            drop(Pooled::detach(item));
        } else {
            drop(item);
        }
        dies.kill();
        runtime.run_until_idle();
        assert!(dies.join().is_err());
        assert_eq!(next.join().unwrap(), u64::from(detaches));
        assert_eq!((pool.len(), pool.idle()), (1, 1));
        drop(pool);
        tally.assert_even(1 + usize::from(detaches));
    }
}

#[test]
fn what_was_given_to_a_future_that_is_dropped_comes_to_the_next() {
    let tally = Tally::new();
    let pool = counted(&tally, 1).build();
    let item = pool.take().unwrap();
    {
        let mut dropped = Box::pin(pool.take_async());
        let mut next = pin!(pool.take_async());
        assert!(poll(dropped.as_mut()).is_pending() && poll(next.as_mut()).is_pending());
        drop(item);
        assert!(poll(next.as_mut()).is_pending());
        drop(dropped);
        let Poll::Ready(Ok(item)) = poll(next.as_mut()) else { panic!("it was handed on") };
        let mut dropped = Box::pin(pool.take_async());
        assert!(poll(dropped.as_mut()).is_pending());
        drop(Pooled::detach(item));
    }
    assert_eq!((pool.len(), pool.idle()), (0, 0));
    drop(pool.take().unwrap());
    drop(pool);
    tally.assert_even(2);
}

#[test]
fn futures_take_and_wake_whoever_has_polled_them_last() {
    let pool = Pool::builder(1, || 5).build();
    let item = pool.take().unwrap();
    let mut future = Box::pin(pool.take_async());
    assert!(poll(future.as_mut()).is_pending());
    let (sender, mut receiver) = chan::oneshot::channel();
    let returns = thread::spawn(move || {
        receiver.recv().unwrap();
        drop(item);
    });
    let taken = block_on(async {
        assert!(
            std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await.is_pending()
        );
        sender.send(()).unwrap();
        *future.await.unwrap()
    });
    assert_eq!(taken.unwrap(), 5);
    returns.join().unwrap();
}

#[test]
fn a_deadline_is_on_the_clock_of_the_runtime() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let test = || {
        let pool = Pool::builder(1, || 5).build();
        let item = pool.take_timeout(Duration::ZERO).unwrap();
        let start = now();
        assert!(matches!(pool.take_timeout(Duration::from_secs(3600)), Err(TakeError::Timeout)));
        assert!(matches!(pool.take_timeout(Duration::ZERO), Err(TakeError::Timeout)));
        assert!((3600..3601).contains(&(now() - start).as_secs()));
        let returns = spawn(move || {
            sinew_sched::sleep(Duration::from_secs(60));
            drop(item);
        });
        assert!(pool.take_timeout(Duration::from_secs(3600)).is_ok());
        assert!((3660..3661).contains(&(now() - start).as_secs()));
        returns.join().unwrap();
    };
    runtime.run(test).unwrap();
}

#[test]
fn a_select_takes_an_item_or_leaves_it() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let test = || {
        let pool = Pool::builder(1, || 5).build();
        let (words, said) = chan::bounded(1);
        let item = select! {
            item = recv(&pool) => item.ok(),
            _ = recv(&said) => None,
        };
        let item = item.unwrap().unwrap();
        words.send("other").unwrap();
        let word = select! {
            _ = recv(&pool) => None,
            word = recv(&said) => word.ok(),
        };
        assert_eq!(word.unwrap(), Some("other"));
        let late = select! {
            _ = recv(&pool) => false,
            _ = recv(&said) => false,
            _ = sleep(Duration::from_secs(5)) => true,
        };
        assert!(late.unwrap());
        let other = pool.clone();
        let waits = spawn(move || select! { item = recv(&other) => *item.unwrap(), () = cancelled() => 0 });
        yield_now();
        drop(item);
        assert_eq!(waits.join().unwrap().unwrap(), 5);
        assert_eq!(pool.idle(), 1);
    };
    runtime.run(test).unwrap();
}
