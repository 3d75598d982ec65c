//! Channels under load: what was sent is received once, whole, and in the order of each sender; and nobody sleeps for ever.
//!
//! Tasks, threads and futures send and receive in all ways, at channels of all capacities.

use std::collections::VecDeque;
use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{recv, send};
use sinew_sched::Runtime;

use crate::channels::{Bounded, Element, Kind, Running, Way, for_kinds, for_sizes, with_large_stacks};
use crate::ledger::{Consumer, Ledger, Producer};
use crate::support::{Counted, SEED, next, rounds, with_runtimes};

/// Sends all items of `producer`, by random calls; one that was refused is made up for by the next.
async fn sends<K: Send>(way: Way, sender: Sender<Counted, K>, mut producer: Producer, mut seed: u64) {
    let blocks = matches!(way, Way::Task | Way::Thread);
    while let Some(item) = producer.next() {
        let outcome = match next(&mut seed) % 8 {
            0 => sender.try_send(item),
            1 if blocks => sender.send_timeout(item, Duration::from_micros(next(&mut seed) % 50)),
            1 => sender.send_timeout(item, Duration::ZERO),
            2 if blocks => {
                let mut item = Some(item);
                select! { sent = send(&sender, &mut item) => sent }.unwrap()
            }
            _ => way.send(&sender, item).await,
        };
        match producer.sent(outcome) {
            Ok(()) => (),
            Err(Unsent::Full | Unsent::Timeout) => way.pause().await,
            Err(why) => panic!("{why:?}"),
        }
    }
}

/// Receives by random calls until the senders are gone.
async fn receives<K: Send>(way: Way, receiver: Receiver<Counted, K>, mut consumer: Consumer, mut seed: u64) {
    let blocks = matches!(way, Way::Task | Way::Thread);
    loop {
        let outcome = match next(&mut seed) % 8 {
            0 => receiver.try_recv(),
            1 if blocks => receiver.recv_timeout(Duration::from_micros(next(&mut seed) % 50)).map(Some),
            1 => receiver.recv_timeout(Duration::ZERO).map(Some),
            2 if blocks => select! { item = recv(&receiver) => item }.unwrap().map(Some),
            3 if blocks => {
                let mut items = Vec::new();
                let many = receiver.recv_many(&mut items, 5);
                items.into_iter().for_each(|item| consumer.received(item));
                many.map(|_| None)
            }
            _ => way.recv(&receiver).await.map(Some),
        };
        match outcome {
            Ok(Some(item)) => consumer.received(item),
            Ok(None) | Err(RecvError::Timeout) => way.pause().await,
            Err(RecvError::Closed) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

const CAPACITIES: [usize; 6] = [0, 1, 2, 3, 7, 64];

/// So many senders and receivers, in random ways.
fn crowd<C: Kind<Ends = Many>>(runtime: &Runtime, senders: usize, receivers: usize, each: usize) {
    let mut seed = SEED ^ (senders * 16 + receivers) as u64;
    for capacity in CAPACITIES {
        let ledger = Ledger::new(senders, each);
        let (sender, receiver) = C::open(capacity);
        let sending = (0..senders).map(|number| {
            let (way, seed) = (Way::nth(next(&mut seed)), next(&mut seed));
            way.start(runtime, sends(way, sender.clone(), ledger.producer(number), seed))
        });
        let sending: Vec<Running<()>> = sending.collect();
        drop(sender);
        let receiving = (0..receivers).map(|_| {
            let (way, seed) = (Way::nth(next(&mut seed)), next(&mut seed));
            way.start(runtime, receives(way, receiver.clone(), ledger.consumer(), seed))
        });
        let receiving: Vec<Running<()>> = receiving.collect();
        drop(receiver);
        sending.into_iter().chain(receiving).for_each(Running::join);
        ledger.settle(false);
    }
}

#[test]
fn what_many_send_in_all_ways_is_received_once_and_in_order() {
    with_runtimes(|runtime| {
        for (senders, receivers) in [(4, 4), (6, 1), (1, 6), (3, 2)] {
            for_kinds!(C: Many => crowd::<C>(runtime, senders, receivers, rounds(40)));
        }
    });
}

#[test]
fn what_one_sends_in_all_ways_is_received_once_and_in_order() {
    fn pairs<C: Kind>(runtime: &Runtime) {
        let mut seed = SEED;
        for capacity in CAPACITIES {
            for (from, to) in Way::ALL.into_iter().flat_map(|from| Way::ALL.map(|to| (from, to))) {
                let ledger = Ledger::new(1, rounds(40));
                let (sender, receiver) = C::open(capacity);
                let sends = sends(from, sender, ledger.producer(0), next(&mut seed));
                let sends = from.start(runtime, sends);
                let receives = receives(to, receiver, ledger.consumer(), next(&mut seed));
                let receives = to.start(runtime, receives);
                sends.join();
                receives.join();
                ledger.settle(false);
            }
        }
    }
    with_runtimes(|runtime| for_kinds!(C => pairs::<C>(runtime)));
}

/// A full channel has its place refilled all the time, while others want the same place: nothing but blocking calls.
#[test]
fn more_senders_than_there_is_room_for_fill_each_place_once() {
    with_runtimes(|runtime| {
        for capacity in [1, 2, 3] {
            let (senders, each) = (6, rounds(600));
            let ledger = Ledger::new(senders, each);
            let (sender, receiver) = Bounded::open(capacity);
            let sending = (0..senders).map(|number| {
                let (mut producer, sender) = (ledger.producer(number), sender.clone());
                let way = [Way::Task, Way::Thread, Way::Future][number % 3];
                way.start(runtime, async move {
                    while let Some(item) = producer.next() {
                        producer.sent(way.send(&sender, item).await).unwrap();
                        assert!(sender.len() <= capacity, "capacities are exact");
                    }
                })
            });
            let mut running: Vec<Running<()>> = sending.collect();
            drop(sender);
            for way in [Way::Thread, Way::Task] {
                let (receiver, mut consumer) = (receiver.clone(), ledger.consumer());
                running.push(way.start(runtime, async move {
                    while let Ok(item) = way.recv(&receiver).await {
                        consumer.received(item);
                    }
                }));
            }
            drop(receiver);
            running.into_iter().for_each(Running::join);
            ledger.settle(false);
        }
    });
}

/// Two who answer each other: a wake-up that is lost is not made up for by another.
#[test]
fn two_who_answer_each_other_never_miss_an_answer() {
    fn answers<C: Kind>(runtime: &Runtime, capacity: usize, one: Way, other: Way) {
        let (ask, asked) = C::open::<usize>(capacity);
        let (answer, answered) = C::open::<usize>(capacity);
        let answers = other.start(runtime, async move {
            while let Ok(n) = other.recv(&asked).await {
                other.send(&answer, n + 1).await.unwrap();
            }
        });
        let asks = one.start(runtime, async move {
            for n in 0..rounds(60) {
                one.send(&ask, n).await.unwrap();
                assert_eq!(one.recv(&answered).await.unwrap(), n + 1);
            }
        });
        asks.join();
        answers.join();
    }
    with_runtimes(|runtime| {
        for (one, other) in Way::ALL.into_iter().flat_map(|one| Way::ALL.map(|other| (one, other))) {
            for_kinds!(C => [0, 1, 2].map(|capacity| answers::<C>(runtime, capacity, one, other)).as_slice());
        }
    });
}

/// One who looks and one who waits.
#[test]
fn who_only_looks_wakes_who_waits() {
    fn looks<C: Kind>(runtime: &Runtime, capacity: usize) {
        let count = rounds(150);
        let (sender, receiver) = C::open(capacity);
        let sends = runtime.spawn(move || (0..count).for_each(|n| sender.send(n).unwrap()));
        let mut expected = 0;
        while expected < count {
            match receiver.try_recv().unwrap() {
                Some(n) => {
                    assert_eq!(n, expected);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sends.join().unwrap();
        let (sender, receiver) = C::open(capacity);
        let receives =
            runtime.spawn(move || (0..count).for_each(|n| assert_eq!(receiver.recv().unwrap(), n)));
        for mut n in 0..count {
            while let Err(refused) = sender.try_send(n) {
                assert!(matches!(refused.why, Unsent::Full));
                n = refused.item;
                std::thread::yield_now();
            }
        }
        receives.join().unwrap();
    }
    with_runtimes(|runtime| for_kinds!(C => CAPACITIES.into_iter().for_each(|c| looks::<C>(runtime, c))));
}

#[test]
fn items_of_all_sizes_arrive_whole() {
    fn carries<C: Kind, T: Element>(runtime: &Runtime) {
        for capacity in [0, 1, 3, 16] {
            let (sender, receiver) = C::open::<T>(capacity);
            let way = Way::nth(capacity as u64 + 1);
            let sends = Way::Task.start(runtime, async move {
                for n in 0..200 {
                    sender.send(T::make(n)).unwrap();
                }
            });
            let receives = way.start(runtime, async move {
                for n in 0..200 {
                    assert_eq!(way.recv(&receiver).await.unwrap().number(), n);
                }
            });
            sends.join();
            receives.join();
        }
    }
    with_large_stacks(|runtime| {
        for _ in 0..rounds(2) {
            for_sizes!(T => for_kinds!(C => carries::<C, T>(runtime)));
        }
    });
}

/// Those who force their way drop the oldest: what they displace is not received, and the rest is.
#[test]
fn what_is_forced_in_is_received_or_displaced() {
    with_runtimes(|runtime| {
        for capacity in [0, 1, 2, 5] {
            let (senders, each) = (3, rounds(200));
            let ledger = Ledger::new(senders, each);
            let (sender, receiver) = Bounded::open(capacity);
            let sending = (0..senders).map(|number| {
                let (mut producer, sender) = (ledger.producer(number), sender.clone());
                // What is displaced was received by who displaced it.
                let mut displaces = ledger.careless_consumer();
                let way = Way::nth(number as u64);
                way.start(runtime, async move {
                    while let Some(item) = producer.next() {
                        let oldest = sender.force_send(item).unwrap();
                        producer.sent(Ok(())).unwrap();
                        if let Some(oldest) = oldest.into_iter().next() {
                            displaces.received(oldest);
                            way.pause().await;
                        }
                    }
                })
            });
            let sending: Vec<Running<()>> = sending.collect();
            drop(sender);
            let mut consumer = ledger.consumer();
            while let Ok(item) = receiver.recv() {
                consumer.received(item);
            }
            sending.into_iter().for_each(Running::join);
            ledger.settle(false);
        }
    });
}

#[test]
fn many_at_once_are_sent_and_received_in_order() {
    with_runtimes(|runtime| {
        for capacity in CAPACITIES {
            let (senders, each) = (3, rounds(200));
            let ledger = Ledger::new(senders, each);
            let (sender, receiver) = Bounded::open(capacity);
            let sending: Vec<_> = (0..senders)
                .map(|number| {
                    let (mut producer, sender) = (ledger.producer(number), sender.clone());
                    runtime.spawn(move || {
                        loop {
                            let mut items = VecDeque::new();
                            while items.len() < 9
                                && let Some(item) = producer.next()
                            {
                                items.push_back(item);
                                producer.sent(Ok(())).unwrap();
                            }
                            if items.is_empty() {
                                return;
                            }
                            sender.send_all(&mut items).unwrap();
                        }
                    })
                })
                .collect();
            drop(sender);
            let mut consumer = ledger.consumer();
            let mut items = Vec::new();
            while let Ok(count) = receiver.recv_many(&mut items, 6) {
                assert!(count == items.len() && (1..=6).contains(&count));
                items.drain(..).for_each(|item| consumer.received(item));
            }
            sending.into_iter().for_each(|task| task.join().unwrap());
            ledger.settle(false);
        }
    });
}
