//! Selects under load: exactly one case happens, what the others would have sent or received is as it was, and nobody
//! sleeps for ever.

use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, SendError, Sender};
use sinew_chan::select;
use sinew_chan::select::{Select, recv, send, sleep, until};
use sinew_sched::{Runtime, now};

use crate::channels::{Bounded, Kind, Running, Way, for_kinds};
use crate::ledger::{Consumer, Ledger, Producer};
use crate::support::{Counted, SEED, next, rounds, spin_until, with_runtimes};

type Ends = (Sender<Counted>, Receiver<Counted>);

/// Those who can select: tasks and threads.
fn blocking_way(number: usize) -> Way {
    [Way::Task, Way::Thread, Way::Task][number % 3]
}

/// Takes part in exchanges on two channels, in both directions at once, until they are closed.
fn exchanges([a, b]: &[Ends; 2], own: usize, each: usize, ledger: &Ledger, alone: bool) {
    let (mut producer, mut consumer) = (ledger.producer(own), ledger.careless_consumer());
    let mut items = [producer.next(), producer.next()];
    loop {
        let numbers = items.each_ref().map(|item| item.as_ref().map(Counted::number));
        let [first, second] = &mut items;
        let (place, outcome) = select! {
            sent = send(&a.0, first) => (0, Err(sent)),
            item = recv(&a.1) => (0, Ok(item)),
            sent = send(&b.0, second) => (1, Err(sent)),
            item = recv(&b.1) => (1, Ok(item)),
        }
        .unwrap();
        match outcome {
            Ok(Ok(item)) => {
                let from = item.number() as usize / each;
                assert!(!alone || from != own, "nobody meets itself");
                consumer.received(item);
            }
            Ok(Err(RecvError::Closed)) => break,
            Ok(Err(error)) => panic!("{error:?}"),
            Err(sent) => {
                sent.unwrap();
                ledger.was_sent(numbers[place].expect("there was an item"));
                assert!(items[place].is_none(), "it was sent");
                items[place] = producer.next();
            }
        }
    }
    items.into_iter().flatten().for_each(|item| ledger.came_back(item));
}

fn crossed<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize) {
    let (parties, each) = (4, rounds(200));
    let ledger = Ledger::new(parties, each);
    let channels: [Ends; 2] = std::array::from_fn(|_| C::open(capacity));
    let running: Vec<Running<()>> = (0..parties)
        .map(|own| {
            let (channels, ledger) = (channels.clone(), ledger.clone());
            let exchanges = async move { exchanges(&channels, own, each, &ledger, capacity == 0) };
            blocking_way(own).start(runtime, exchanges)
        })
        .collect();
    spin_until(|| ledger.received() == parties * each);
    channels.iter().for_each(|(sender, _)| assert!(sender.close()));
    running.into_iter().for_each(Running::join);
    drop(channels);
    ledger.settle(false);
}

#[test]
fn selects_that_send_and_receive_on_the_same_channels_meet_others_and_not_themselves() {
    with_runtimes(|runtime| {
        for capacity in [0, 1, 3] {
            for_kinds!(C: Many => crossed::<C>(runtime, capacity));
        }
    });
}

/// Sends one of as many items as there are channels, again and again.
fn sends_one_of_many(senders: &[Sender<Counted>], producer: &mut Producer, times: usize) {
    for _ in 0..times {
        let mut items: Vec<_> = senders.iter().map(|_| producer.next()).collect();
        let numbers: Vec<_> = items.iter().flatten().map(Counted::number).collect();
        let mut select = Select::new();
        for ((sender, item), number) in senders.iter().zip(&mut items).zip(numbers) {
            select = select.case(send(sender, item), move |sent| (number, sent));
        }
        let (number, sent) = select.wait().unwrap();
        sent.unwrap();
        producer.was_sent(number);
        assert_eq!(items.iter().flatten().count(), senders.len() - 1, "one was sent");
        items.into_iter().flatten().for_each(|item| producer.came_back(item));
    }
}

/// Receives from whichever has something, until one has ended.
fn receives_from_many(receivers: &[Receiver<Counted>], consumer: &mut Consumer) {
    loop {
        let mut select = Select::new();
        for receiver in receivers {
            select = select.case(recv(receiver), |item| item);
        }
        match select.wait().unwrap() {
            Ok(item) => consumer.received(item),
            Err(RecvError::Closed) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn many_cases<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, cases: usize) {
    let (parties, times) = (2, rounds(20));
    let ledger = Ledger::new(parties, cases * times);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..cases).map(|_| C::open(capacity)).unzip();
    let mut sending: Vec<Running<()>> = Vec::new();
    let mut receiving: Vec<Running<()>> = Vec::new();
    for own in 0..parties {
        let (senders, mut producer) = (senders.clone(), ledger.producer(own));
        let sends = async move { sends_one_of_many(&senders, &mut producer, times) };
        sending.push(blocking_way(own).start(runtime, sends));
        // The order is that of one channel each.
        let (receivers, mut consumer) = (receivers.clone(), ledger.careless_consumer());
        let receives = async move { receives_from_many(&receivers, &mut consumer) };
        receiving.push(blocking_way(own + 1).start(runtime, receives));
    }
    sending.into_iter().for_each(Running::join);
    drop(senders);
    receiving.into_iter().for_each(Running::join);
    let mut consumer = ledger.careless_consumer();
    receivers.iter().flat_map(Receiver::try_iter).for_each(|item| consumer.received(item));
    drop(receivers);
    ledger.settle(false);
}

#[test]
fn selects_of_many_cases_meet_each_other() {
    with_runtimes(|runtime| {
        for (capacity, cases) in [0, 1].into_iter().flat_map(|c| [(c, 2), (c, 8), (c, 9), (c, 64), (c, 100)])
        {
            for_kinds!(C: Many => many_cases::<C>(runtime, capacity, cases));
        }
    });
}

/// Selects on two channels until one of them ends.
fn selects_until_the_end(
    [a, b]: &[Ends; 2],
    mut producer: Producer,
    mut consumer: Consumer,
    ends: fn(&RecvError) -> bool,
) {
    let mut item = producer.next();
    loop {
        let number = item.as_ref().map(Counted::number);
        let outcome = select! {
            item = recv(&a.1) => Ok(item),
            item = recv(&b.1) => Ok(item),
            sent = send(&b.0, &mut item) => Err(sent),
            item = recv(&a.1) => Ok(item),
        };
        match outcome.unwrap() {
            Ok(Ok(item)) => consumer.received(item),
            Ok(Err(error)) => {
                assert!(ends(&error), "{error:?}");
                break;
            }
            Err(Ok(())) => {
                producer.was_sent(number.expect("there was an item"));
                item = producer.next();
            }
            Err(Err(SendError { item, .. })) => {
                producer.came_back(item);
                break;
            }
        }
    }
    item.into_iter().for_each(|item| producer.came_back(item));
}

fn against_the_end<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let ledger = Ledger::new(3, 20);
    let channels: [Ends; 2] = std::array::from_fn(|_| C::open(capacity));
    let how = next(seed) % 3;
    let sees: fn(&RecvError) -> bool = match how {
        0 => |error| matches!(error, RecvError::Closed),
        1 => |error| matches!(error, RecvError::Failed(_)),
        _ => |error| matches!(error, RecvError::Cancelled),
    };
    let running: Vec<Running<()>> = (0..3)
        .map(|own| {
            let (channels, producer, consumer) = (channels.clone(), ledger.producer(own), ledger.consumer());
            let selects = async move { selects_until_the_end(&channels, producer, consumer, sees) };
            blocking_way(own).start(runtime, selects)
        })
        .collect();
    for _ in 0..next(seed) % 30 {
        std::thread::yield_now();
    }
    let (sender, _) = &channels[next(seed) as usize % 2];
    let first = match how {
        0 => sender.close(),
        1 => sender.close_err("failed"),
        _ => sender.cancel(),
    };
    assert!(first);
    running.into_iter().for_each(Running::join);
    let mut consumer = ledger.consumer();
    channels.iter().flat_map(|(_, receiver)| receiver.try_iter()).for_each(|item| consumer.received(item));
    drop(channels);
    ledger.settle(false);
}

#[test]
fn selects_that_race_with_the_end_of_a_channel_end_with_its_reason() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for capacity in [0, 1, 8] {
            for _ in 0..rounds(60) {
                for_kinds!(C: Many => against_the_end::<C>(runtime, capacity, &mut seed));
            }
        }
    });
}

/// Selects that run out of time while they are about to be served.
fn against_time<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let (parties, each) = (3, rounds(200));
    let ledger = Ledger::new(parties, each);
    let (sender, receiver) = C::open(capacity);
    let mut running: Vec<Running<()>> = Vec::new();
    for own in 0..parties {
        let (sender, mut producer, mut seed) = (sender.clone(), ledger.producer(own), next(seed));
        running.push(blocking_way(own).start(runtime, async move {
            while let Some(item) = producer.next() {
                let mut item = Some(item);
                let time = Duration::from_micros(next(&mut seed) % 40);
                let sent = select! {
                    sent = send(&sender, &mut item) => Some(sent),
                    _ = sleep(time) => None,
                };
                match sent.unwrap() {
                    Some(sent) => producer.sent(sent).unwrap(),
                    None => producer.came_back(item.expect("it is as it was")),
                }
            }
        }));
        let (receiver, mut consumer) = (receiver.clone(), ledger.consumer());
        running.push(blocking_way(own + 1).start(runtime, async move {
            loop {
                let time = now() + Duration::from_micros(next(&mut seed) % 40);
                let item = select! {
                    item = recv(&receiver) => item.map(Some),
                    item = recv(&receiver) => item.map(Some),
                    _ = until(time) => Ok(None),
                };
                match item.unwrap() {
                    Ok(item) => item.into_iter().for_each(|item| consumer.received(item)),
                    Err(RecvError::Closed) => return,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }));
    }
    drop((sender, receiver));
    running.into_iter().for_each(Running::join);
    ledger.settle(false);
}

#[test]
fn selects_that_run_out_of_time_lose_nothing() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for capacity in [0, 1, 3] {
            for_kinds!(C: Many => against_time::<C>(runtime, capacity, &mut seed));
        }
    });
}

/// A select on both directions of one channel, with nobody else there, waits until it is told to stop.
#[test]
fn a_select_alone_at_a_channel_that_holds_nothing_waits() {
    with_runtimes(|runtime| {
        for _ in 0..rounds(50) {
            let (sender, receiver) = Bounded::open(0);
            let ends = (sender.clone(), receiver.clone());
            let task = runtime.spawn(move || {
                let (mut item, mut nothing) = (Some(1), None);
                let met = select! {
                    _ = send(&ends.0, &mut item) => true,
                    _ = recv(&ends.1) => true,
                    _ = send(&ends.0, &mut nothing) => true,
                    _ = recv(&ends.1) => true,
                    _ = sleep(Duration::from_micros(50)) => false,
                };
                (met.unwrap(), item)
            });
            assert_eq!(task.join().unwrap(), (false, Some(1)));
        }
    });
}
