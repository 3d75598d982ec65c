//! The hooks of pools: whatever fails or panics, each item is destroyed once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{self, Pool, PoolBuilder, Pooled, TakeError};
use sinew_chan::select;
use sinew_chan::select::{cancelled, recv};
use sinew_sched::{block_on, yield_now};

use crate::support::{self, Counted, Tally, current_thread, next, rounds, with_runtimes};

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
    assert!(panics(|| _ = pool.close()));
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
        let raised = task.join().unwrap_err();
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
        move || _ = place.get().unwrap().idle()
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
                    0 => pool.take_timeout(Duration::from_micros(50)).ok(),
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
