//! Pools: never more items than places, first come first served, and whatever panics, each item is destroyed once.
#![cfg(not(any(loom, shuttle)))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sinew_sched::chan::{self, Pool, PoolBuilder, Pooled, TakeError};
use sinew_sched::select::{cancelled, recv, sleep};
use sinew_sched::{CurrentThread, ManualClock, Reason, Runtime, block_on, now, select, spawn, yield_now};
use support::{Counted, Tally, next, rounds, with_runtimes};

fn current_thread() -> CurrentThread {
    Runtime::builder().build_current_thread().unwrap()
}

/// A pool of items that are counted; the numbers are in the order in which they are created.
fn counted(tally: &Tally, capacity: usize) -> PoolBuilder<Counted> {
    let (tally, number) = (tally.clone(), AtomicUsize::new(0));
    Pool::builder(capacity, move || tally.value(number.fetch_add(1, Ordering::Relaxed) as u64))
}

/// A hook that panics as long as it is told to.
#[derive(Clone, Default)]
struct Faulty(Arc<AtomicBool>);

impl Faulty {
    fn set(&self, faulty: bool) {
        self.0.store(faulty, Ordering::Relaxed);
    }

    fn check(&self) {
        assert!(!self.0.load(Ordering::Relaxed), "a faulty hook");
    }
}

fn panics(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
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
fn who_cannot_create_says_why_and_the_next_one_tries() {
    for panics in [false, true] {
        let runtime = current_thread();
        let (go, gone) = chan::bounded::<bool>(1);
        let create = move || match gone.recv().unwrap() {
            true => Ok(7),
            false if panics => panic!("no item"),
            false => Err("no item"),
        };
        let pool = Pool::try_builder(1, create).build();
        let [fails, waits] = [(); 2].map(|()| {
            let pool = pool.clone();
            let task = runtime.spawn(move || pool.take().map(|item| *item));
            runtime.run_until_idle();
            task
        });
        assert_eq!((pool.len(), pool.idle()), (1, 0));
        go.send(false).unwrap();
        runtime.run_until_idle();
        match fails.join() {
            Ok(failed) => {
                let error = failed.unwrap_err();
                assert!(!panics && matches!(&error, TakeError::Failed(why) if why.to_string() == "no item"));
            }
            Err(raised) => assert!(panics, "{raised}"),
        }
        go.send(true).unwrap();
        runtime.run_until_idle();
        assert_eq!(waits.join().unwrap().unwrap(), 7);
        assert_eq!((pool.len(), pool.idle(), pool.created()), (1, 1, 1));
    }
}

#[test]
fn an_item_whose_reset_panics_is_destroyed_and_the_next_one_has_its_place() {
    let (tally, faulty) = (Tally::new(), Faulty::default());
    let check = faulty.clone();
    let pool = counted(&tally, 1).reset(move |_| check.check()).build();
    let item = pool.take().unwrap();
    let runtime = current_thread();
    let other = pool.clone();
    let waits = runtime.spawn(move || other.take().unwrap().number());
    runtime.run_until_idle();
    faulty.set(true);
    assert!(panics(|| drop(item)), "who drops it hears of it");
    faulty.set(false);
    assert_eq!(tally.dropped(), 1);
    runtime.run_until_idle();
    assert_eq!(waits.join().unwrap(), 1);
    assert_eq!((pool.len(), pool.idle()), (1, 1));
    drop(pool);
    tally.assert_even(2);
}

#[test]
fn a_destroy_that_panics_has_destroyed_and_the_others_are_destroyed_too() {
    let (tally, destroyed) = (Tally::new(), Arc::new(Mutex::new(Vec::new())));
    let log = destroyed.clone();
    let destroy = move |item: Counted| {
        log.lock().unwrap().push(item.number());
        panic!("a faulty hook");
    };
    let pool = counted(&tally, 4).destroy(destroy).build();
    let mut items: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
    let lent = items.pop().unwrap();
    drop(items);
    assert!(panics(|| drop(pool.close())));
    assert_eq!(*destroyed.lock().unwrap(), [2, 1, 0]);
    assert_eq!((pool.len(), pool.idle()), (1, 0));
    assert!(panics(|| drop(lent)));
    assert_eq!(*destroyed.lock().unwrap(), [2, 1, 0, 3]);
    assert!(pool.is_empty());
    tally.assert_even(4);
}

#[test]
fn hooks_that_panic_while_their_caller_unwinds_do_not_end_the_process() {
    with_runtimes(|runtime| {
        let tally = Tally::new();
        let pool = counted(&tally, 2)
            .reset(|_| panic!("a faulty reset"))
            .destroy(|_| panic!("a faulty destroy"))
            .build();
        let unwinds = pool.clone();
        let task = runtime.spawn(move || {
            let _items = (unwinds.take().unwrap(), unwinds.take().unwrap());
            panic!("the first panic");
        });
        let raised = task.join().map(|()| ()).unwrap_err();
        assert!(raised.to_string().contains("the first panic"), "{raised}");
        assert_eq!((pool.len(), tally.dropped()), (0, 2));
        let killed = pool.clone();
        let task = runtime.spawn(move || {
            let _item = killed.take().unwrap();
            sinew_sched::sleep(Duration::from_secs(3600));
        });
        while pool.is_empty() {
            thread::yield_now();
        }
        task.kill();
        assert!(task.join().is_err());
        drop(pool);
        tally.assert_even(3);
    });
}

#[test]
fn an_item_that_is_detached_is_nobodys_and_one_that_is_discarded_is_destroyed() {
    let (tally, destroyed) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
    let count = destroyed.clone();
    let destroy = move |_: Counted| drop(count.fetch_add(1, Ordering::Relaxed));
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

/// Each hook asks the pool something, which takes its lock.
#[test]
fn hooks_and_destructors_may_use_the_pool() {
    struct Item(Arc<OnceLock<Pool<Item>>>);
    impl Drop for Item {
        fn drop(&mut self) {
            self.0.get().unwrap().len();
        }
    }
    let place = Arc::new(OnceLock::<Pool<Item>>::new());
    let asks = || {
        let place = place.clone();
        move || drop(place.get().unwrap().idle())
    };
    let (create, reset, destroy, inner) = (asks(), asks(), asks(), place.clone());
    let make = move || {
        create();
        Item(inner.clone())
    };
    let pool = Pool::builder(1, make).reset(move |_| reset()).destroy(move |_| destroy()).build();
    let pool = place.get_or_init(|| pool);
    drop(pool.take().unwrap());
    Pooled::discard(pool.take().unwrap());
    drop(pool.take().unwrap());
    pool.close();
    assert!(pool.is_empty());
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
        let item = pool.take_timeout(Duration::ZERO).unwrap().unwrap();
        let start = now();
        assert!(pool.take_timeout(Duration::from_secs(3600)).unwrap().is_none());
        assert!(pool.take_until(now()).unwrap().is_none());
        assert!((3600..3601).contains(&(now() - start).as_secs()));
        let returns = spawn(move || {
            sinew_sched::sleep(Duration::from_secs(60));
            drop(item);
        });
        assert!(pool.take_timeout(Duration::from_secs(3600)).unwrap().is_some());
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

/// Whoever takes returns, panics, gives up or is killed; hooks fail now and then; and the counts come out even.
#[test]
fn each_item_is_destroyed_once_whatever_happens() {
    with_runtimes(|runtime| {
        let (tally, destroyed) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
        let (made, count, calls) = (tally.clone(), destroyed.clone(), Arc::new(AtomicUsize::new(1)));
        let fails = move || calls.fetch_add(1, Ordering::Relaxed) % 17 == 0;
        let (creates, resets) = (fails.clone(), fails);
        let create = move || match creates() {
            true => Err("now and then"),
            false => Ok(made.value(0)),
        };
        let pool = Pool::try_builder(3, create)
            .reset(move |_| assert!(!resets(), "now and then"))
            .destroy(move |item| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                drop(item);
                assert!(number % 5 != 0, "now and then");
            })
            .build();
        let mut seed = support::SEED;
        let mut tasks = Vec::new();
        for _ in 0..rounds(400) {
            let (pool, kind) = (pool.clone(), next(&mut seed) % 6);
            let body = move || {
                let item = match kind {
                    0 => pool.take_timeout(Duration::from_micros(50)).ok().flatten(),
                    1 => select! { item = recv(&pool) => item.ok(), () = cancelled() => None }.unwrap(),
                    2 => block_on(pool.take_async()).ok().and_then(Result::ok),
                    _ => pool.take().ok(),
                };
                yield_now();
                assert!(kind != 3, "a body that panics");
                if kind == 4 { item.map(Pooled::detach) } else { None }
            };
            let task = runtime.spawn(body);
            match next(&mut seed) % 6 {
                0 => task.cancel(),
                1 => task.kill(),
                _ => (),
            }
            tasks.push(task);
        }
        let detached = tasks.into_iter().filter_map(|task| task.join().ok().flatten()).count();
        assert_eq!(pool.len(), pool.idle(), "all places are free, or have an item that is idle");
        let _ = catch_unwind(AssertUnwindSafe(|| pool.close()));
        assert!(pool.is_empty() && detached > 0);
        let made = pool.created();
        tally.assert_even(made);
        assert_eq!(destroyed.load(Ordering::Relaxed), made - detached);
    });
}
