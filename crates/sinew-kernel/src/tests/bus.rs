//! Models of a bus: items whose order a lock of others decides, and subscribers who wait.

use std::task::{Context, Poll, Wake, Waker};

use sinew_chan::chan::Receiver;
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

struct Flag(sinew_sync::statics::AtomicBool);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, sinew_sync::statics::Ordering::Relaxed);
    }
}

/// A subscriber that waits is woken for what it was given.
#[test]
fn bus_wakes_whom_it_tells() {
    model("bus_wakes_whom_it_tells", || {
        let counter = Arc::new(Counter::default());
        let numbers = counter.bus.subscribe();
        let counts = counts(&counter, 1);
        let flag = std::sync::Arc::new(Flag(false.into()));
        let waker = Waker::from(flag.clone());
        let mut next = Box::pin(numbers.recv_async());
        let waits = next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        counts.join().unwrap();
        assert_eq!(waits, flag.0.load(sinew_sync::statics::Ordering::Relaxed));
        assert!(!waits || next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
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

/// A counter whose subscriber waits, with such a waker.
fn model_of_waker(name: &'static str, meanwhile: fn(&Arc<Counter>, Receiver<u32>)) {
    model(name, move || {
        let counter = Arc::new(Counter::default());
        let numbers = counter.bus.subscribe();
        let waker = Waker::from(std::sync::Arc::new(Counts(counter.clone())));
        let mut next = Box::pin(numbers.recv_async());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        meanwhile(&counter, numbers.clone());
        assert!(matches!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(_)));
        assert_eq!(*counter.last.lock(), 3, "it was woken once");
    });
}

/// Whoever tells something holds no lock when it wakes a subscriber.
#[test]
fn bus_wakes_under_no_lock() {
    model_of_waker("bus_wakes_under_no_lock", |counter, _| {
        let other = counts(counter, 1);
        counter.count();
        other.join().unwrap();
    });
}

/// Nor does it when it finds that a channel has ended, and comes before whoever is about to tell those who wait there.
#[test]
fn bus_lets_go_under_no_lock() {
    model_of_waker("bus_lets_go_under_no_lock", |counter, numbers| {
        let closes = {
            let numbers = numbers.clone();
            thread::spawn(move || numbers.close())
        };
        while !numbers.is_closed() {
            thread::yield_now();
        }
        (0..2).for_each(|_| counter.count());
        closes.join().unwrap();
    });
}
