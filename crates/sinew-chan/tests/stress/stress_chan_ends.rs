//! Channels that are ended while everybody uses them: what was accepted is received before the reason, what was refused
//! comes back, whoever waits is told once, and all see the same reason.

use sinew_chan::chan::{Many, Receiver, RecvError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{recv, send};
use sinew_sched::Runtime;

use crate::channels::{Bounded, Kind, Running, Way, for_kinds};
use crate::ledger::{Consumer, Ledger, Producer};
use crate::support::{Counted, SEED, Watchdog, next, rounds, with_runtimes};

/// How a channel is ended: by a number, since the reason that its users see is compared.
fn end<K>(sender: &Sender<Counted, K>, receiver: &Receiver<Counted, K>, how: u64) -> bool {
    match how % 4 {
        0 => sender.close(),
        1 => sender.close_err("failed"),
        2 => receiver.reject("rejected"),
        _ => receiver.cancel(),
    }
}

fn why_not_sent(how: u64, why: &Unsent) -> bool {
    match how % 4 {
        0 | 1 => matches!(why, Unsent::Closed),
        2 => matches!(why, Unsent::Rejected(error) if error.to_string() == "rejected"),
        _ => matches!(why, Unsent::Cancelled),
    }
}

fn why_ended(how: u64, error: &RecvError) -> bool {
    match how % 4 {
        0 | 2 => matches!(error, RecvError::Closed),
        1 => matches!(error, RecvError::Failed(error) if error.to_string() == "failed"),
        _ => matches!(error, RecvError::Cancelled),
    }
}

/// Sends until the channel has ended; returns why.
async fn sends(way: Way, sender: Sender<Counted>, mut producer: Producer, mut seed: u64) -> Option<Unsent> {
    let blocks = matches!(way, Way::Task | Way::Thread);
    while let Some(item) = producer.next() {
        let outcome = match next(&mut seed) % 8 {
            0 => sender.try_send(item),
            1 if blocks => {
                let mut item = Some(item);
                select! { sent = send(&sender, &mut item) => sent }.unwrap()
            }
            _ => way.send(&sender, item).await,
        };
        match producer.sent(outcome) {
            Ok(()) => (),
            Err(Unsent::Full) => way.pause().await,
            Err(why) => {
                assert!(sender.is_closed());
                return Some(why);
            }
        }
    }
    None
}

/// Receives until the channel has ended; returns why.
async fn receives(way: Way, receiver: Receiver<Counted>, mut consumer: Consumer, mut seed: u64) -> RecvError {
    let blocks = matches!(way, Way::Task | Way::Thread);
    loop {
        let outcome = match next(&mut seed) % 8 {
            0 => receiver.try_recv(),
            1 if blocks => select! { item = recv(&receiver) => item }.unwrap().map(Some),
            _ => way.recv(&receiver).await.map(Some),
        };
        match outcome {
            Ok(Some(item)) => consumer.received(item),
            Ok(None) => way.pause().await,
            Err(error) => {
                assert!(receiver.is_closed());
                return error;
            }
        }
    }
}

/// Ends the channel after a while; true if it was the first.
async fn ends(way: Way, sender: Sender<Counted>, receiver: Receiver<Counted>, how: u64, pauses: u64) -> bool {
    for _ in 0..pauses {
        way.pause().await;
    }
    let first = end(&sender, &receiver, how);
    assert!(sender.is_closed() && receiver.is_closed());
    first
}

fn ended_meanwhile<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let each = 60;
    let ledger = Ledger::new(3, each);
    let (sender, receiver) = C::open(capacity);
    let sending: Vec<_> = (0..3)
        .map(|number| {
            let (way, seed) = (Way::nth(next(seed)), next(seed));
            way.start(runtime, sends(way, sender.clone(), ledger.producer(number), seed))
        })
        .collect();
    let receiving: Vec<_> = (0..3)
        .map(|_| {
            let (way, seed) = (Way::nth(next(seed)), next(seed));
            way.start(runtime, receives(way, receiver.clone(), ledger.consumer(), seed))
        })
        .collect();
    let how = [next(seed), next(seed)];
    let ending = how.map(|how| {
        let (way, pauses) = (Way::nth(next(seed)), next(seed) % 40);
        way.start(runtime, ends(way, sender.clone(), receiver.clone(), how, pauses))
    });
    let first = ending.map(Running::join);
    assert!(first[0] != first[1], "one of them is the first");
    let how = how[usize::from(first[1])];
    for error in receiving.into_iter().map(Running::join) {
        assert!(why_ended(how, &error), "{how}: {error:?}");
    }
    for why in sending.into_iter().filter_map(Running::join) {
        assert!(why_not_sent(how, &why), "{how}: {why:?}");
    }
    let mut consumer = ledger.consumer();
    assert!(why_ended(how, &receiver.try_recv().map(|_| ()).unwrap_err()), "all was received before");
    receiver.try_iter().for_each(|item| consumer.received(item));
    drop((sender, receiver));
    ledger.settle(false);
}

#[test]
fn what_was_accepted_is_received_before_the_reason_that_all_see() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for capacity in [0, 1, 2, 8, 64] {
            for _ in 0..rounds(25) {
                for_kinds!(C: Many => ended_meanwhile::<C>(runtime, capacity, &mut seed));
            }
        }
    });
}

/// Nobody receives, so the senders wait or are about to; and the other way round.
fn all_wait<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64, senders_wait: bool) {
    let ledger = Ledger::new(20, capacity + 1);
    let (sender, receiver) = C::open(capacity);
    let how = next(seed);
    let waiting: Vec<Running<()>> = (0..20)
        .map(|number| {
            let (way, seed) = (Way::nth(next(seed) % 5), next(seed));
            if senders_wait {
                let (sender, producer) = (sender.clone(), ledger.producer(number));
                way.start(runtime, async move {
                    let why = sends(way, sender, producer, seed).await;
                    assert!(why.is_none_or(|why| why_not_sent(how, &why)));
                })
            } else {
                let (receiver, consumer) = (receiver.clone(), ledger.consumer());
                way.start(runtime, async move {
                    let error = receives(way, receiver, consumer, seed).await;
                    assert!(why_ended(how, &error));
                })
            }
        })
        .collect();
    for _ in 0..next(seed) % 40 {
        std::thread::yield_now();
    }
    assert!(end(&sender, &receiver, how));
    waiting.into_iter().for_each(Running::join);
    let mut consumer = ledger.consumer();
    receiver.try_iter().for_each(|item| consumer.received(item));
    assert!(ledger.received() <= capacity, "no more than there is room for");
    drop((sender, receiver));
    ledger.settle(false);
}

#[test]
fn all_who_wait_or_are_about_to_are_told_of_the_end() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for (capacity, senders_wait) in [0, 1, 2, 8].into_iter().flat_map(|c| [(c, true), (c, false)]) {
            for _ in 0..rounds(10) {
                for_kinds!(C: Many => all_wait::<C>(runtime, capacity, &mut seed, senders_wait));
            }
        }
    });
}

/// One side goes while the other goes on: what is left inside is dropped once.
fn one_side_goes<C: Kind>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let ledger = Ledger::new(1, 50);
    let (sender, receiver) = C::open(capacity);
    let (from, to, stops) = (Way::nth(next(seed)), Way::nth(next(seed)), next(seed) % 50);
    let mut producer = ledger.producer(0);
    let sends = from.start(runtime, async move {
        while let Some(item) = producer.next() {
            match producer.sent(from.send(&sender, item).await) {
                Ok(()) => (),
                Err(Unsent::Closed) => return,
                Err(why) => panic!("{why:?}"),
            }
        }
    });
    let mut consumer = ledger.consumer();
    let receives = to.start(runtime, async move {
        for _ in 0..stops {
            match to.recv(&receiver).await {
                Ok(item) => consumer.received(item),
                Err(RecvError::Closed) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    sends.join();
    receives.join();
    ledger.settle(true);
}

#[test]
fn whoever_is_left_alone_at_a_channel_ends() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for capacity in [0, 1, 2, 8] {
            for _ in 0..rounds(20) {
                for_kinds!(C => one_side_goes::<C>(runtime, capacity, &mut seed));
            }
        }
    });
}

/// More threads than there are cores, all of which send all the time: some are stopped in the middle of that when the
/// channel is closed, and a receiver that sees that it is must have seen all that they sent.
fn sends_meanwhile<C: Kind<Ends = Many>>() {
    std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        for _ in 0..4 {
            let (sender, receiver) = C::open::<u8>(1 << 16);
            receivers.push(receiver.clone());
            let sends = scope.spawn(move || {
                while match sender.try_send(1) {
                    Ok(()) => true,
                    Err(refused) => matches!(refused.why, Unsent::Full),
                } {}
            });
            scope.spawn(move || {
                let last = loop {
                    match receiver.try_recv() {
                        Ok(None) => std::thread::yield_now(),
                        Ok(Some(_)) => (),
                        Err(error) => break error,
                    }
                };
                assert!(matches!(last, RecvError::Closed));
                sends.join().unwrap();
                assert!(receiver.try_recv().is_err() && receiver.is_empty(), "sent after the end was seen");
            });
        }
        std::thread::yield_now();
        receivers.iter().for_each(|receiver| assert!(receiver.close()));
    });
}

#[test]
fn nothing_is_sent_after_somebody_saw_the_end() {
    let _watchdog = Watchdog::new("threads".to_owned());
    for _ in 0..rounds(20) {
        for_kinds!(C: Many => sends_meanwhile::<C>());
    }
}

/// The ends are cloned and dropped all the time: only the last one counts.
#[test]
fn ends_that_come_and_go_do_not_close_the_channel() {
    with_runtimes(|runtime| {
        let (sender, receiver) = Bounded::open::<usize>(1);
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let ends = (sender.clone(), receiver.clone());
                runtime.spawn(move || {
                    for n in 0..rounds(200) {
                        let (sender, receiver) = ends.clone();
                        sender.send(n).unwrap();
                        drop(sender);
                        receiver.recv().unwrap();
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert!(!receiver.is_closed());
        drop(sender);
        assert!(receiver.is_closed() && receiver.is_empty());
    });
}
