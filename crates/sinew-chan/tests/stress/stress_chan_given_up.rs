//! Waits at channels that are given up while the other side is about to serve them: an item came back or was received,
//! never both, and none is lost.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{recv, send, sleep};
use sinew_sched::{JoinHandle, Runtime, deadline, now};

use crate::channels::{Bounded, Kind, Running, Way, for_kinds, poll_once};
use crate::ledger::{Consumer, Ledger, Producer};
use crate::support::{Counted, SEED, Watchdog, next, rounds, spin_until, with_runtimes};

const CAPACITIES: [usize; 4] = [0, 1, 2, 8];

fn moment(seed: &mut u64) -> Duration {
    Duration::from_micros(next(seed) % 60)
}

/// Sends in a task, by calls that wait, until it is told to stop.
fn sends(sender: &Sender<Counted>, mut producer: Producer, mut seed: u64) {
    while let Some(item) = producer.next() {
        let outcome = match next(&mut seed) % 4 {
            0 => sender.send_timeout(item, moment(&mut seed)),
            1 => {
                let mut item = Some(item);
                let sent = select! { sent = send(sender, &mut item) => sent };
                sent.unwrap_or_else(|refused| {
                    Err(SendError { item: item.expect("it is as it was"), why: refused.into() })
                })
            }
            _ => sender.send(item),
        };
        match producer.sent(outcome) {
            Ok(()) | Err(Unsent::Timeout) => (),
            Err(Unsent::Refused(_) | Unsent::Closed) => return,
            Err(why) => panic!("{why:?}"),
        }
    }
}

/// Receives in a task, by calls that wait, until it is told to stop.
fn receives(receiver: &Receiver<Counted>, mut consumer: Consumer, mut seed: u64) {
    let (_open, other) = Bounded::open::<u8>(1);
    loop {
        let outcome = match next(&mut seed) % 6 {
            0 => receiver.recv_timeout(moment(&mut seed)).map(Some),
            1 => select! {
                item = recv(receiver) => item.map(Some),
                _ = recv(&other) => panic!("nobody sends there"),
                item = recv(receiver) => item.map(Some),
            }
            .unwrap_or_else(|refused| Err(refused.into())),
            2 => select! {
                item = recv(receiver) => item.map(Some),
                _ = sleep(moment(&mut seed)) => Ok(None),
            }
            .unwrap_or_else(|refused| Err(refused.into())),
            3 => deadline(now() + moment(&mut seed), || receiver.recv().map(Some)).unwrap_or(Ok(None)),
            _ => receiver.recv().map(Some),
        };
        match outcome {
            Ok(Some(item)) => consumer.received(item),
            Ok(None) | Err(RecvError::Timeout) => (),
            Err(RecvError::Refused(_) | RecvError::Closed) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Senders and receivers of which some are stopped by `stop`, at moments that nobody chose; the rest is received at the end.
/// What several receivers give back may come in another order.
fn stopped<C: Kind<Ends = Many>>(
    runtime: &Runtime,
    capacity: usize,
    seed: &mut u64,
    stop: fn(&JoinHandle<()>),
) {
    let (senders, receivers, each) = (4, 4, 30);
    let ledger = Ledger::new(senders, each);
    let (sender, receiver) = C::open(capacity);
    let mut tasks: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..senders {
        let (sender, producer, seed) = (sender.clone(), ledger.producer(number), next(seed));
        tasks.push(runtime.spawn(move || sends(&sender, producer, seed)));
    }
    drop(sender);
    for _ in 0..receivers {
        let (receiver, consumer, seed) = (receiver.clone(), ledger.careless_consumer(), next(seed));
        tasks.push(runtime.spawn(move || receives(&receiver, consumer, seed)));
    }
    for _ in 0..5 {
        for _ in 0..next(seed) % 30 {
            std::thread::yield_now();
        }
        stop(&tasks[next(seed) as usize % tasks.len()]);
    }
    let mut consumer = ledger.careless_consumer();
    while let Ok(item) = receiver.recv() {
        consumer.received(item);
    }
    tasks.into_iter().for_each(|task| drop(task.join()));
    // One that was killed may have given something back after the last look.
    receiver.try_iter().for_each(|item| consumer.received(item));
    drop(receiver);
    ledger.settle(false);
}

#[test]
fn waits_that_are_cancelled_lose_nothing() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for (capacity, _) in CAPACITIES.into_iter().flat_map(|c| (0..rounds(25)).map(move |round| (c, round)))
        {
            for_kinds!(C: Many => stopped::<C>(runtime, capacity, &mut seed, |task| task.cancel()));
        }
    });
}

#[test]
fn waits_that_are_killed_lose_nothing() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for (capacity, _) in CAPACITIES.into_iter().flat_map(|c| (0..rounds(25)).map(move |round| (c, round)))
        {
            for_kinds!(C: Many => stopped::<C>(runtime, capacity, &mut seed, |task| task.kill()));
        }
    });
}

/// Polls a few times, and gives up.
async fn a_few_polls<T>(
    way: Way,
    mut future: Pin<&mut (impl Future<Output = T> + Send)>,
    polls: u64,
) -> Option<T> {
    for _ in 0..polls {
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => way.pause().await,
        }
    }
    None
}

/// Sends by futures, some of which are dropped and some asked for their item before they are ready.
async fn sends_or_drops<K: Send>(
    way: Way,
    sender: Sender<Counted, K>,
    mut producer: Producer,
    mut seed: u64,
) {
    while let Some(item) = producer.next() {
        let number = item.number();
        let mut sends = Box::pin(sender.send_async(item));
        match a_few_polls(way, sends.as_mut(), next(&mut seed) % 4).await {
            Some(sent) => producer.sent(sent).unwrap(),
            None if next(&mut seed).is_multiple_of(4) => (),
            None => match sends.as_mut().cancel() {
                Some(item) => {
                    assert_eq!(item.number(), number);
                    producer.came_back(item);
                }
                None => producer.sent(Ok(())).unwrap(),
            },
        }
    }
}

/// Receives by futures, some of which are dropped before they are ready.
async fn receives_or_drops<K: Send>(
    way: Way,
    receiver: Receiver<Counted, K>,
    mut consumer: Consumer,
    mut seed: u64,
) {
    loop {
        let mut receives = Box::pin(receiver.recv_async());
        match a_few_polls(way, receives.as_mut(), next(&mut seed) % 4).await {
            Some(Ok(item)) => consumer.received(item),
            Some(Err(RecvError::Closed)) => return,
            Some(Err(error)) => panic!("{error:?}"),
            None => drop(receives),
        }
        if next(&mut seed).is_multiple_of(8) {
            way.pause().await;
        }
    }
}

fn dropped<C: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let (senders, receivers, each) = (3, 3, 40);
    let ledger = Ledger::new(senders, each);
    let (sender, receiver) = C::open(capacity);
    let mut running: Vec<Running<()>> = Vec::new();
    for number in 0..senders {
        let (way, seed) = (Way::nth(next(seed)), next(seed));
        running.push(way.start(runtime, sends_or_drops(way, sender.clone(), ledger.producer(number), seed)));
    }
    drop(sender);
    for _ in 0..receivers {
        let (way, seed) = (Way::nth(next(seed)), next(seed));
        let receives = receives_or_drops(way, receiver.clone(), ledger.careless_consumer(), seed);
        running.push(way.start(runtime, receives));
    }
    running.into_iter().for_each(Running::join);
    let mut consumer = ledger.careless_consumer();
    receiver.try_iter().for_each(|item| consumer.received(item));
    drop(receiver);
    ledger.settle(false);
}

#[test]
fn futures_that_are_dropped_lose_nothing() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for (capacity, _) in CAPACITIES.into_iter().flat_map(|c| (0..rounds(5)).map(move |round| (c, round)))
        {
            for_kinds!(C: Many => dropped::<C>(runtime, capacity, &mut seed));
        }
    });
}

/// What a future gives back comes just when another receiver has found nothing.
fn given_back<C: Kind<Ends = Many>>(capacity: usize) {
    let (sender, receiver) = C::open(capacity);
    let other = receiver.clone();
    let (begun, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds(1500) {
                spin_until(|| begun.load(Ordering::Acquire) == round);
                assert_eq!(other.recv().unwrap(), round);
                received.store(round, Ordering::Release);
            }
        });
        let mut seed = SEED;
        for round in 1..=rounds(1500) {
            let mut receives = Box::pin(receiver.recv_async());
            assert!(poll_once(receives.as_mut()).is_pending());
            sender.try_send(round).unwrap();
            begun.store(round, Ordering::Release);
            (0..next(&mut seed) % 64).for_each(|_| std::hint::spin_loop());
            drop(receives);
            spin_until(|| received.load(Ordering::Acquire) == round);
        }
    });
}

#[test]
fn who_is_about_to_wait_finds_what_is_given_back() {
    let _watchdog = Watchdog::new("two threads".to_owned());
    for_kinds!(C: Many => [0, 1, 3].into_iter().for_each(given_back::<C>));
}

/// One future after the other is dropped between one sender and one receiver, who keep their order.
fn dropped_in_order<C: Kind>(runtime: &Runtime, capacity: usize, seed: &mut u64) {
    let ledger = Ledger::new(1, 60);
    let (sender, receiver) = C::open(capacity);
    let (from, to) = (Way::nth(next(seed)), Way::nth(next(seed)));
    let sends = from.start(runtime, sends_or_drops(from, sender, ledger.producer(0), next(seed)));
    let receives = to.start(runtime, receives_or_drops(to, receiver, ledger.consumer(), next(seed)));
    sends.join();
    receives.join();
    ledger.settle(false);
}

#[test]
fn one_receiver_that_drops_its_futures_gets_everything_in_order() {
    with_runtimes(|runtime| {
        let mut seed = SEED;
        for (capacity, _) in CAPACITIES.into_iter().flat_map(|c| (0..rounds(5)).map(move |round| (c, round)))
        {
            for_kinds!(C => dropped_in_order::<C>(runtime, capacity, &mut seed));
        }
    });
}
