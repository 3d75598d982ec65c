//! Models of a pool. Its items are numbers; what is checked is that none is lost, and none is there twice.

use sinew_core::Instant;
use sinew_sched::raw::Waiting;
use sinew_sync::{Arc, model_bounded, thread};

use super::*;
use crate::chan::Pool;

const PAST: Instant = Instant::from_nanos(0);

/// Counts the items that it has created and destroyed.
#[derive(Clone)]
struct Counts(Arc<[AtomicUsize; 2]>);

impl Counts {
    fn new() -> Counts {
        Counts(Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]))
    }

    /// A pool whose `create` fails the first time, if it is to.
    fn pool(&self, capacity: usize, fails: bool) -> Pool<usize> {
        let (created, destroyed) = (self.clone(), self.clone());
        let create = move || match created.0[0].fetch_add(1, Ordering::Relaxed) {
            0 if fails => Err("the first one fails"),
            number => Ok(number),
        };
        let destroy = move |_| _ = destroyed.0[1].fetch_add(1, Ordering::Relaxed);
        Pool::try_builder(capacity, create).destroy(destroy).build()
    }

    fn get(&self) -> [usize; 2] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

fn spawn(pool: &Pool<usize>, body: impl FnOnce(&Pool<usize>) + Send + 'static) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || body(&pool))
}

#[test]
fn an_item_that_comes_back_wakes_who_waits_for_it() {
    model_bounded("pool_return_wakes", 3, || {
        let counts = Counts::new();
        let pool = counts.pool(1, false);
        let item = pool.take().unwrap();
        let waits = spawn(&pool, |pool| drop(pool.take().unwrap()));
        drop(item);
        waits.join().unwrap();
        assert_eq!((pool.idle(), pool.len()), (1, 1));
        drop(pool);
        assert_eq!(counts.get(), [1, 1]);
    });
}

#[test]
fn an_item_is_lent_to_one_at_a_time() {
    model_bounded("pool_lends_to_one", 3, || {
        let counts = Counts::new();
        let pool = counts.pool(1, false);
        let lent = Arc::new(AtomicUsize::new(0));
        let uses = |lent: Arc<AtomicUsize>| {
            move |pool: &Pool<usize>| {
                let item = pool.take().unwrap();
                assert_eq!(lent.fetch_add(1, Ordering::Relaxed), 0);
                lent.fetch_sub(1, Ordering::Relaxed);
                drop(item);
            }
        };
        let other = spawn(&pool, uses(lent.clone()));
        uses(lent)(&pool);
        other.join().unwrap();
        assert_eq!((pool.idle(), pool.len()), (1, 1));
        drop(pool);
        assert_eq!(counts.get(), [1, 1]);
    });
}

#[test]
fn a_place_in_which_nothing_was_created_is_the_next_ones() {
    model_bounded("pool_failed_create_lets_the_next_try", 3, || {
        let counts = Counts::new();
        let pool = counts.pool(1, true);
        let other = spawn(&pool, |pool| drop(pool.take()));
        let taken = pool.take();
        drop(taken);
        other.join().unwrap();
        assert_eq!((pool.idle(), pool.len()), (1, 1));
        drop(pool);
        assert_eq!(counts.get(), [2, 1]);
    });
}

#[test]
fn who_gives_up_has_the_item_or_leaves_it() {
    model_bounded("pool_return_against_withdrawal", 3, || {
        let counts = Counts::new();
        let pool = counts.pool(1, false);
        let item = pool.take().unwrap();
        let gives_up = spawn(&pool, |pool| drop(pool.take_until(PAST)));
        drop(item);
        gives_up.join().unwrap();
        assert_eq!((pool.idle(), pool.len()), (1, 1));
    });
}

/// What comes back is an item, or only its place.
#[test]
fn what_was_given_to_one_who_unwinds_comes_to_the_next() {
    for detaches in [false, true] {
        model_bounded("pool_unwind_hands_on", 3, move || {
            let counts = Counts::new();
            let pool = counts.pool(1, false);
            let item = pool.take().unwrap();
            let unwinds = spawn(&pool, |pool| {
                let (take, node) = (TakeCase::new(&pool.places), Node::new(0));
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                if unsafe { take.enroll(&node) } == Enrolled::Queued {
                    // SAFETY: it was enrolled just now.
                    drop(unsafe { Waiting::new(&take, &node) });
                }
            });
            let stays = spawn(&pool, |pool| drop(pool.take().unwrap()));
            if detaches {
                Pooled::detach(item);
            } else {
                drop(item);
            }
            unwinds.join().unwrap();
            stays.join().unwrap();
            assert_eq!((pool.idle(), pool.len()), (1, 1));
        });
    }
}

#[test]
fn a_pool_that_is_closed_keeps_nobody_waiting_and_nothing() {
    model_bounded("pool_close", 3, || {
        let counts = Counts::new();
        let pool = counts.pool(1, false);
        let item = pool.take().unwrap();
        let waits = spawn(&pool, |pool| drop(pool.take()));
        let closes = spawn(&pool, |pool| assert!(pool.close()));
        drop(item);
        waits.join().unwrap();
        closes.join().unwrap();
        assert_eq!((pool.idle(), pool.len()), (0, 0));
        assert_eq!(counts.get(), [1, 1]);
    });
}
