//! Channels are queues: whatever several parties do at once could have been done one call after the other.
//!
//! Random calls by tasks, threads and futures are recorded, and an order is looked for that explains what they returned.
#![cfg(not(any(loom, shuttle)))]

#[path = "support/channels.rs"]
mod channels;
#[path = "support/history.rs"]
mod history;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use channels::{Kind, Running, Step, Way, for_kinds};
use history::{Call, Entry, Outcome, explain};
use sinew_sched::chan::{Many, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_sched::{Runtime, now};
use support::{SEED, next, rounds, with_runtime};

/// The calls `(who, call, outcome)` one after the other, but for those with the same number of a group, which overlap.
fn history(calls: &[(u64, Call, Outcome)]) -> Vec<Entry> {
    let entry = |(who, (group, call, outcome)): (usize, &(u64, Call, Outcome))| Entry {
        who,
        call: *call,
        outcome: *outcome,
        began: group * 2,
        ended: group * 2 + 1,
    };
    calls.iter().enumerate().map(entry).collect()
}

mod the_checker {
    use super::Call::{Close, ForceSend, Recv, RecvLate, Send, SendLate, TryRecv, TrySend};
    use super::Outcome::{Done, Ended, Item, Not};
    use super::{Call, Outcome, explain, history};

    type Calls<'a> = &'a [(u64, Call, Outcome)];

    #[track_caller]
    fn accepts(capacity: usize, calls: Calls<'_>) {
        assert!(explain(capacity, &history(calls)).is_some());
    }

    #[track_caller]
    fn rejects(capacity: usize, calls: Calls<'_>) {
        assert!(explain(capacity, &history(calls)).is_none());
    }

    #[test]
    fn accepts_what_a_queue_does() {
        accepts(1, &[(1, Send(1), Done), (2, TrySend(2), Not), (3, Recv, Item(1)), (4, TryRecv, Not)]);
        accepts(2, &[(1, Recv, Item(2)), (1, Recv, Item(1)), (1, Send(1), Done), (1, Send(2), Done)]);
        accepts(1, &[(1, Send(1), Done), (2, Send(2), Done), (2, Recv, Item(1)), (3, Recv, Item(2))]);
        accepts(2, &[(1, Send(1), Done), (2, Close, Done), (3, Recv, Item(1)), (4, Recv, Ended)]);
        accepts(1, &[(1, Send(1), Done), (2, ForceSend(2), Item(1)), (3, Close, Done), (4, Close, Not)]);
        accepts(1, &[(1, Close, Done), (1, Send(1), Done), (2, Send(2), Ended), (3, RecvLate, Item(1))]);
    }

    #[test]
    fn accepts_what_a_rendezvous_does() {
        accepts(0, &[(1, Send(1), Done), (1, TryRecv, Item(1)), (2, TryRecv, Not), (3, TrySend(2), Not)]);
        accepts(0, &[(1, TrySend(1), Done), (1, Recv, Item(1)), (2, ForceSend(3), Item(3))]);
        accepts(0, &[(1, Send(1), Ended), (1, Close, Done), (1, Recv, Ended)]);
        accepts(0, &[(1, Send(1), Done), (1, Close, Done), (1, Recv, Item(1)), (2, Recv, Ended)]);
    }

    #[test]
    fn rejects_a_lost_item() {
        let lost =
            [(1, Send(1), Done), (1, Send(2), Done), (2, Close, Done), (3, Recv, Item(1)), (4, Recv, Ended)];
        rejects(3, &lost);
        rejects(0, &[(1, Send(1), Done), (1, TryRecv, Not), (2, Close, Done)]);
    }

    #[test]
    fn rejects_a_duplicated_item() {
        rejects(3, &[(1, Send(1), Done), (2, Recv, Item(1)), (2, Recv, Item(1))]);
        rejects(0, &[(1, Send(1), Done), (1, Recv, Item(1)), (1, Recv, Item(1))]);
    }

    #[test]
    fn rejects_an_item_that_was_not_sent() {
        rejects(3, &[(1, Send(1), Done), (1, Recv, Item(2))]);
        rejects(3, &[(1, TrySend(1), Not), (1, Recv, Item(1))]);
        rejects(0, &[(1, Send(1), Ended), (1, Recv, Item(1)), (1, Close, Done)]);
    }

    #[test]
    fn rejects_items_out_of_order() {
        rejects(3, &[(1, Send(1), Done), (2, Send(2), Done), (3, Recv, Item(2)), (4, Recv, Item(1))]);
        rejects(2, &[(1, Send(1), Done), (2, Send(2), Done), (3, ForceSend(3), Item(2)), (4, Recv, Item(1))]);
    }

    #[test]
    fn rejects_more_than_the_capacity() {
        rejects(1, &[(1, Send(1), Done), (2, Send(2), Done), (3, Recv, Item(1)), (4, Recv, Item(2))]);
        rejects(2, &[(1, Send(1), Done), (1, Send(2), Done), (1, TrySend(3), Done)]);
        rejects(1, &[(1, Send(1), Done), (2, ForceSend(2), Done)]);
        rejects(0, &[(1, Send(1), Done), (2, Recv, Item(1))]);
    }

    #[test]
    fn rejects_a_refusal_although_there_was_room() {
        rejects(2, &[(1, Send(1), Done), (2, TrySend(2), Not)]);
        rejects(1, &[(1, SendLate(1), Not)]);
        rejects(2, &[(1, Send(1), Done), (2, ForceSend(2), Item(1))]);
        rejects(1, &[(1, Send(1), Done), (2, TryRecv, Not)]);
        rejects(1, &[(1, Send(1), Done), (2, RecvLate, Not), (3, Recv, Item(1))]);
    }

    #[test]
    fn rejects_an_item_after_the_end() {
        rejects(2, &[(1, Close, Done), (2, Send(1), Done), (3, Recv, Item(1))]);
        rejects(2, &[(1, Send(1), Done), (2, Close, Done), (3, Recv, Ended), (4, Recv, Item(1))]);
        rejects(0, &[(1, Close, Done), (2, Send(1), Done), (2, Recv, Item(1))]);
        rejects(0, &[(1, Recv, Ended), (1, Close, Done), (2, Send(1), Done), (2, Recv, Item(1))]);
    }

    #[test]
    fn rejects_an_end_that_nobody_made_or_two_did() {
        rejects(2, &[(1, Recv, Ended), (2, Close, Done)]);
        rejects(0, &[(1, Send(1), Ended)]);
        rejects(2, &[(1, Close, Done), (1, Close, Done)]);
        rejects(2, &[(1, Close, Not), (2, Send(1), Done)]);
        rejects(2, &[(1, Close, Done), (2, TryRecv, Not)]);
        rejects(0, &[(1, Close, Done), (2, TrySend(1), Not)]);
    }

    #[test]
    fn rejects_that_two_meet_of_whom_neither_waits() {
        rejects(0, &[(1, TrySend(1), Done), (1, TryRecv, Item(1))]);
        rejects(0, &[(1, ForceSend(1), Done), (1, TryRecv, Item(1))]);
    }
}

/// What the parties of one history share.
#[derive(Default)]
struct Record {
    clock: AtomicU64,
    /// How many calls have ended.
    calls: AtomicUsize,
    items: AtomicU32,
    go: AtomicBool,
}

impl Record {
    fn stamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn entry(&self, who: usize, call: Call, outcome: Outcome, began: u64) -> Entry {
        let ended = self.stamp();
        self.calls.fetch_add(1, Ordering::Relaxed);
        Entry { who, call, outcome, began, ended }
    }

    /// A call that a party with these ends can make.
    fn random_call(&self, seed: &mut u64, sends: bool, receives: bool) -> Call {
        let sending = sends && (!receives || next(seed).is_multiple_of(2));
        let item = || self.items.fetch_add(1, Ordering::Relaxed);
        match (next(seed) % 32, sending) {
            (0, _) => Call::Close,
            (1..16, true) => Call::Send(item()),
            (16..22, true) => Call::TrySend(item()),
            (22..27, true) => Call::ForceSend(item()),
            (_, true) => Call::SendLate(item()),
            (1..18, false) => Call::Recv,
            (18..25, false) => Call::TryRecv,
            (_, false) => Call::RecvLate,
        }
    }
}

fn sent(outcome: Result<(), SendError<u32>>, item: u32) -> Outcome {
    match outcome {
        Ok(()) => Outcome::Done,
        Err(SendError { item: back, why }) => {
            assert_eq!(back, item, "what comes back is what was sent");
            match why {
                Unsent::Full | Unsent::TimedOut => Outcome::Not,
                Unsent::Closed => Outcome::Ended,
                why => panic!("{why:?}"),
            }
        }
    }
}

fn received(outcome: Result<Option<u32>, RecvError>) -> Outcome {
    match outcome {
        Ok(Some(item)) => Outcome::Item(item),
        Ok(None) => Outcome::Not,
        Err(RecvError::Closed) => Outcome::Ended,
        Err(error) => panic!("{error:?}"),
    }
}

fn closed(first: bool) -> Outcome {
    if first { Outcome::Done } else { Outcome::Not }
}

/// Does a call that needs the sending end.
fn call_sender<K>(
    sender: &Sender<u32, K>,
    way: Way,
    call: Call,
) -> impl Future<Output = Outcome> + Send + use<'_, K> {
    let outcome = match call {
        Call::Send(item) => {
            let sends = way.send(sender, item);
            return Step::Doing(async move { sent(sends.await, item) });
        }
        Call::SendLate(item) => sent(sender.send_until(item, now()), item),
        Call::TrySend(item) => sent(sender.try_send(item), item),
        Call::ForceSend(item) => match sender.force_send(item) {
            Ok(mut displaced) => displaced.next().map_or(Outcome::Done, Outcome::Item),
            Err(error) => sent(Err(error), item),
        },
        Call::Close => closed(sender.close()),
        call => unreachable!("{call:?}"),
    };
    Step::Done(Some(outcome))
}

/// Does a call that needs the receiving end.
fn call_receiver<K>(
    receiver: &Receiver<u32, K>,
    way: Way,
    call: Call,
) -> impl Future<Output = Outcome> + Send + use<'_, K> {
    let outcome = match call {
        Call::Recv => {
            let receives = way.recv(receiver);
            return Step::Doing(async move { received(receives.await.map(Some)) });
        }
        Call::RecvLate => received(receiver.recv_until(now())),
        Call::TryRecv => received(receiver.try_recv()),
        Call::Close => closed(receiver.close()),
        call => unreachable!("{call:?}"),
    };
    Step::Done(Some(outcome))
}

/// One who calls, at the ends that it has.
struct Party<K> {
    who: usize,
    way: Way,
    sender: Option<Sender<u32, K>>,
    receiver: Option<Receiver<u32, K>>,
    calls: usize,
    /// Whether it closes the channel when it has made its calls, and receives what is left.
    closes: bool,
}

impl<K: Send + 'static> Party<K> {
    async fn calls(self, record: Arc<Record>, mut seed: u64) -> Vec<Entry> {
        while !record.go.load(Ordering::Acquire) {
            self.way.pause().await;
        }
        let Party { who, way, sender, receiver, calls, closes } = self;
        let mut entries = Vec::new();
        for _ in 0..calls {
            match next(&mut seed) % 8 {
                0 => way.pause().await,
                pause => (0..pause * 4).for_each(|_| std::hint::spin_loop()),
            }
            let call = record.random_call(&mut seed, sender.is_some(), receiver.is_some());
            let began = record.stamp();
            let outcome = match (call, &sender, &receiver) {
                (Call::Recv | Call::RecvLate | Call::TryRecv, _, Some(receiver)) => {
                    call_receiver(receiver, way, call).await
                }
                (_, Some(sender), _) => call_sender(sender, way, call).await,
                (_, _, Some(receiver)) => call_receiver(receiver, way, call).await,
                _ => unreachable!("a party has an end"),
            };
            entries.push(record.entry(who, call, outcome, began));
        }
        if closes {
            let began = record.stamp();
            let first = sender.as_ref().map(Sender::close).or(receiver.as_ref().map(Receiver::close));
            entries.push(record.entry(who, Call::Close, closed(first == Some(true)), began));
            receiver.iter().for_each(|receiver| drain(&record, who, receiver, &mut entries));
        }
        entries
    }
}

/// Receives what is left in a channel that is closed.
fn drain<K>(record: &Record, who: usize, receiver: &Receiver<u32, K>, entries: &mut Vec<Entry>) {
    loop {
        let began = record.stamp();
        let outcome = received(receiver.try_recv());
        entries.push(record.entry(who, Call::TryRecv, outcome, began));
        if !matches!(outcome, Outcome::Item(_)) {
            return;
        }
    }
}

/// Waits for the end of a history.
type Recorded = Box<dyn FnOnce() -> Vec<Entry>>;

/// How many histories are recorded at the same time, each at a channel of its own.
const AT_ONCE: usize = 8;

/// Starts `parties` and lets them go.
fn start<K: Send + 'static>(
    runtime: &Runtime,
    record: &Arc<Record>,
    seed: &mut u64,
    parties: Vec<Party<K>>,
) -> Vec<Running<Vec<Entry>>> {
    let starts = |party: Party<K>| {
        let way = party.way;
        way.start(runtime, party.calls(record.clone(), next(seed)))
    };
    let running = parties.into_iter().map(starts).collect();
    record.go.store(true, Ordering::Release);
    running
}

/// What happens when three or four who do everything meet at a channel, which is closed when they do not get on.
fn many<K: Kind<Ends = Many>>(runtime: &Runtime, capacity: usize, seed: &mut u64) -> Recorded {
    let (sender, receiver) = K::open::<u32>(capacity);
    let record = Arc::new(Record::default());
    let count = 3 + next(seed) as usize % 2;
    let party = |who| Party {
        who,
        way: Way::nth(next(seed)),
        sender: Some(sender.clone()),
        receiver: Some(receiver.clone()),
        calls: 11 / count,
        closes: false,
    };
    let parties = (0..count).map(party).collect();
    let parties = start(runtime, &record, seed, parties);
    Box::new(move || {
        let (mut calls, mut looks) = (0, 0);
        while looks < 50 && !parties.iter().all(Running::is_finished) {
            std::thread::yield_now();
            let now = record.calls.load(Ordering::Relaxed);
            looks = if now == calls { looks + 1 } else { 0 };
            calls = now;
        }
        let mut entries = Vec::new();
        let began = record.stamp();
        let outcome = closed(sender.close());
        entries.push(record.entry(count, Call::Close, outcome, began));
        entries.extend(parties.into_iter().flat_map(Running::join));
        drain(&record, count, &receiver, &mut entries);
        entries
    })
}

/// What happens between one who sends and one who receives.
fn pair<K: Kind>(runtime: &Runtime, capacity: usize, seed: &mut u64) -> Recorded {
    let (sender, receiver) = K::open::<u32>(capacity);
    let record = Arc::new(Record::default());
    let (sends, receives) = (Way::nth(next(seed)), Way::nth(next(seed)));
    let (calls, closes) = (6, true);
    let sends = Party { who: 0, way: sends, sender: Some(sender), receiver: None, calls, closes };
    let receives = Party { who: 1, way: receives, sender: None, receiver: Some(receiver), calls, closes };
    let parties = start(runtime, &record, seed, vec![sends, receives]);
    Box::new(move || parties.into_iter().flat_map(Running::join).collect())
}

/// Records histories at channels of several capacities, with few workers and many, and has each explained.
fn are_explained(name: &str, usual: usize, record: impl Fn(&Runtime, usize, &mut u64) -> Recorded) {
    for workers in [1, 2, 8] {
        with_runtime(Runtime::builder().workers(workers).safety_nets(false), |runtime| {
            let mut seed = SEED ^ workers as u64;
            for round in 0..rounds(usual) {
                let capacity = round % 4;
                let started = seed;
                let recorded: Vec<_> = (0..AT_ONCE).map(|_| record(runtime, capacity, &mut seed)).collect();
                for entries in recorded {
                    let mut entries = entries();
                    entries.sort_by_key(|entry| entry.began);
                    if name == "Weighted" {
                        // An item that is kept for one who waits is neither there for others nor gone.
                        entries.retain(|entry| {
                            !matches!(
                                (&entry.call, &entry.outcome),
                                (Call::TryRecv | Call::RecvLate, Outcome::Not)
                            )
                        });
                    }
                    if explain(capacity, &entries).is_none() {
                        let lines: Vec<_> = entries.iter().map(Entry::to_string).collect();
                        panic!(
                            "no order explains this, at {name} of capacity {capacity} with {workers} workers, \
                             from the seed {started} on:\n{}",
                            lines.join("\n")
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn what_several_do_to_a_channel_at_once_could_have_been_done_in_turn() {
    for_kinds!(K: Many => are_explained(K::NAME, 200, many::<K>));
}

#[test]
fn what_a_sender_and_a_receiver_do_at_once_could_have_been_done_in_turn() {
    for_kinds!(K => are_explained(K::NAME, 100, pair::<K>));
}
