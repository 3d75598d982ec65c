//! Models of a bus: items whose order a lock of others decides, and subscribers who wait.

use std::task::{Context, Poll, Wake, Waker};

use sinew_sync::{Arc, Mutex, model, thread};

use crate::bus::{Bus, Told};

/// Numbers that are told in their order, as names are.
#[derive(Default)]
struct Counter {
    last: Mutex<u32>,
    bus: Bus<u32>,
}

impl Counter {
    /// Tells the next number.
    fn count(&self) {
        let mut told = Told::default();
        let mut last = self.last.lock();
        *last += 1;
        self.bus.put(|| *last, &mut told);
    }
}

fn counts(counter: &Arc<Counter>, times: u32) -> thread::JoinHandle<()> {
    let counter = counter.clone();
    thread::spawn(move || (0..times).for_each(|_| counter.count()))
}

/// A subscriber that waits is woken for what it was given.
#[test]
fn bus_wakes_whom_it_tells() {
    model("bus_wakes_whom_it_tells", || {
        let counter = Arc::new(Counter::default());
        let subscribers = [counter.bus.subscribe(), counter.bus.subscribe()]
            .map(|numbers| thread::spawn(move || [numbers.recv().unwrap(), numbers.recv().unwrap()]));
        counts(&counter, 2).join().unwrap();
        for subscriber in subscribers {
            assert_eq!(subscriber.join().unwrap(), [1, 2]);
        }
    });
}

/// Whoever subscribes under the lock gets what comes after what it has seen there, all of it and in order.
#[test]
fn bus_tells_in_the_order_of_the_lock() {
    model("bus_tells_in_the_order_of_the_lock", || {
        let counter = Arc::new(Counter::default());
        let others = [counts(&counter, 2), counts(&counter, 2)];
        let (seen, numbers) = {
            let last = counter.last.lock();
            (*last, counter.bus.subscribe())
        };
        for number in seen + 1..=4 {
            assert_eq!(numbers.recv().unwrap(), number);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(matches!(numbers.try_recv(), Ok(None)));
    });
}

/// A waker that uses the node.
struct Counts(Arc<Counter>);

impl Wake for Counts {
    fn wake(self: std::sync::Arc<Self>) {
        drop(self.0.bus.subscribe());
        self.0.count();
    }
}

/// Whoever wakes a subscriber holds no lock: because it has told something, or because it has found out that nobody is to be told
/// any more.
#[test]
fn bus_wakes_under_no_lock() {
    model("bus_wakes_under_no_lock", || {
        let counter = Arc::new(Counter::default());
        let numbers = counter.bus.subscribe();
        let waker = Waker::from(std::sync::Arc::new(Counts(counter.clone())));
        let mut next = Box::pin(numbers.recv_async());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let other = counts(&counter, 1);
        let closes = {
            let numbers = numbers.clone();
            thread::spawn(move || numbers.close())
        };
        counter.count();
        other.join().unwrap();
        closes.join().unwrap();
        assert!(matches!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(_)));
        assert_eq!(*counter.last.lock(), 3);
    });
}
