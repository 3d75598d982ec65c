//! A small program of several locks and threads, too large for loom: shuttle tries random schedules of it.

use sinew_core::Instant;
use sinew_sync::{Arc, model, thread};

use super::{Condvar, Mutex, Semaphore};

struct Bounded {
    items: Mutex<Vec<usize>>,
    not_full: Condvar,
    not_empty: Condvar,
    putters: Semaphore,
}

/// A bounded queue of a mutex and two conditions; two put items in, two take them out, and one gives up all the time.
#[test]
fn a_bounded_queue_loses_nothing_to_one_who_gives_up() {
    const EACH: usize = 3;
    const PAST: Instant = Instant::from_nanos(0);
    model("sync_bounded_queue", || {
        let queue = Arc::new(Bounded {
            items: Mutex::new(Vec::new()),
            not_full: Condvar::new(),
            not_empty: Condvar::new(),
            putters: Semaphore::new(2),
        });
        let spawn = |body: fn(&Bounded) -> usize| {
            let queue = queue.clone();
            thread::spawn(move || body(&queue))
        };
        let put = |queue: &Bounded| {
            for item in 1..=EACH {
                let _permit = queue.putters.acquire(1).unwrap();
                let items = queue.not_full.wait_while(queue.items.lock().unwrap(), |items| !items.is_empty());
                let mut items = items.unwrap();
                items.push(item);
                drop(items);
                queue.not_empty.notify_one();
            }
            0
        };
        let take = |queue: &Bounded| {
            let mut sum = 0;
            for _ in 1..=EACH {
                let items = queue.not_empty.wait_while(queue.items.lock().unwrap(), |items| items.is_empty());
                let mut items = items.unwrap();
                sum += items.pop().unwrap();
                queue.not_full.notify_one();
            }
            sum
        };
        let give_up = |queue: &Bounded| {
            for _ in 1..=EACH {
                drop(queue.putters.acquire_until(2, PAST));
                for condition in [&queue.not_empty, &queue.not_full] {
                    let Ok(guard) = queue.items.lock_until(PAST) else { continue };
                    let (_, result) = condition.wait_until(guard, PAST).unwrap();
                    if !result.timed_out() {
                        condition.notify_one(); // it was meant for somebody who stays
                    }
                }
            }
            0
        };
        let threads = [spawn(put), spawn(put), spawn(take), spawn(take), spawn(give_up)];
        let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 2 * (1..=EACH).sum::<usize>());
        assert!(queue.items.try_lock().is_some());
        assert_eq!(queue.putters.available(), 2);
    });
}
