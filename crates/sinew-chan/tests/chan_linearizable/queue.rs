//! Queues with a capacity, and places where two meet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_sched::Runtime;

use crate::channels::{Kind, Running, Step, Way, for_kinds};
use crate::history::{Entry, Outcome, Spec};
use crate::support::next;
use crate::{Record, Recorded, are_explained, first};

/// What was called. Items are numbers, each sent at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Send(u32),
    /// Sends until a time that has passed.
    SendLate(u32),
    TrySend(u32),
    ForceSend(u32),
    Recv,
    /// Receives until a time that has passed.
    RecvLate,
    TryRecv,
    Close,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Queue {
    capacity: usize,
    items: VecDeque<u32>,
    closed: bool,
}

impl Queue {
    fn new(capacity: usize) -> Queue {
        Queue { capacity, items: VecDeque::new(), closed: false }
    }

    /// Does one call at a channel with room for at least one item. False if it gives something else.
    fn does(&mut self, entry: &Entry<Call>) -> bool {
        let full = self.items.len() == self.capacity;
        match (entry.call, entry.outcome) {
            (Call::Send(_) | Call::SendLate(_) | Call::TrySend(_) | Call::ForceSend(_), Outcome::Ended) => {
                self.closed
            }
            (
                Call::Send(item) | Call::SendLate(item) | Call::TrySend(item) | Call::ForceSend(item),
                Outcome::Done,
            ) => {
                self.items.push_back(item);
                !self.closed && !full
            }
            (Call::SendLate(_) | Call::TrySend(_), Outcome::Not) => !self.closed && full,
            (Call::ForceSend(item), Outcome::Item(oldest)) => {
                self.items.push_back(item);
                !self.closed && full && self.items.pop_front() == Some(oldest)
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Item(item)) => {
                self.items.pop_front() == Some(item)
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Ended) => {
                self.closed && self.items.is_empty()
            }
            (Call::RecvLate | Call::TryRecv, Outcome::Not) => !self.closed && self.items.is_empty(),
            (Call::Close, Outcome::Done) => !std::mem::replace(&mut self.closed, true),
            (Call::Close, Outcome::Not) => self.closed,
            _ => false,
        }
    }

    /// Does a call that meets no other at a channel that holds nothing.
    fn does_alone(&mut self, entry: &Entry<Call>) -> bool {
        match (entry.call, entry.outcome) {
            (Call::Close, Outcome::Done) => !std::mem::replace(&mut self.closed, true),
            (Call::Close, Outcome::Not) => self.closed,
            (_, Outcome::Ended) => self.closed,
            (Call::ForceSend(item), Outcome::Item(back)) => !self.closed && item == back,
            (Call::SendLate(_) | Call::TrySend(_) | Call::RecvLate | Call::TryRecv, Outcome::Not) => {
                !self.closed
            }
            _ => false,
        }
    }
}

impl Spec for Queue {
    type Call = Call;

    fn after(&self, entry: &Entry<Call>) -> Vec<Queue> {
        let mut after = self.clone();
        let done = if self.capacity == 0 { after.does_alone(entry) } else { after.does(entry) };
        done.then_some(after).into_iter().collect()
    }

    /// Only at a channel that holds nothing: one of them has to wait there when the other comes.
    fn meet(&self, sends: &Entry<Call>, receives: &Entry<Call>) -> bool {
        let (item, waits) = match sends.call {
            Call::Send(item) | Call::SendLate(item) => (item, true),
            Call::TrySend(item) | Call::ForceSend(item) => (item, false),
            _ => return false,
        };
        let receiver_waits = match receives.call {
            Call::Recv | Call::RecvLate => true,
            Call::TryRecv => false,
            _ => return false,
        };
        let outcomes = sends.outcome == Outcome::Done && receives.outcome == Outcome::Item(item);
        self.capacity == 0 && !self.closed && outcomes && (waits || receiver_waits)
    }
}

mod the_checker {
    use super::Call::{Close, ForceSend, Recv, RecvLate, Send, SendLate, TryRecv, TrySend};
    use super::{Call, Queue};
    use crate::history::Outcome::{Done, Ended, Item, Not};
    use crate::history::{Outcome, explain, history};

    type Calls<'a> = &'a [(u64, Call, Outcome)];

    #[track_caller]
    fn accepts(capacity: usize, calls: Calls<'_>) {
        assert!(explain(&Queue::new(capacity), &history(calls)).is_some());
    }

    #[track_caller]
    fn rejects(capacity: usize, calls: Calls<'_>) {
        assert!(explain(&Queue::new(capacity), &history(calls)).is_none());
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

fn sent(outcome: Result<(), SendError<u32>>, item: u32) -> Outcome {
    match outcome {
        Ok(()) => Outcome::Done,
        Err(SendError { item: back, why }) => {
            assert_eq!(back, item, "what comes back is what was sent");
            match why {
                Unsent::Full | Unsent::Timeout => Outcome::Not,
                Unsent::Closed => Outcome::Ended,
                why => panic!("{why:?}"),
            }
        }
    }
}

fn received(outcome: Result<Option<u32>, RecvError>) -> Outcome {
    match outcome {
        Ok(Some(item)) => Outcome::Item(item),
        Ok(None) | Err(RecvError::Timeout) => Outcome::Not,
        Err(RecvError::Closed) => Outcome::Ended,
        Err(error) => panic!("{error:?}"),
    }
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
        Call::SendLate(item) => sent(sender.send_timeout(item, Duration::ZERO), item),
        Call::TrySend(item) => sent(sender.try_send(item), item),
        Call::ForceSend(item) => match sender.force_send(item) {
            Ok(mut displaced) => displaced.next().map_or(Outcome::Done, Outcome::Item),
            Err(error) => sent(Err(error), item),
        },
        Call::Close => first(sender.close()),
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
        Call::RecvLate => received(receiver.recv_timeout(Duration::ZERO).map(Some)),
        Call::TryRecv => received(receiver.try_recv()),
        Call::Close => first(receiver.close()),
        call => unreachable!("{call:?}"),
    };
    Step::Done(Some(outcome))
}

/// A call that a party with these ends can make.
fn random_call(record: &Record<Call>, seed: &mut u64, sends: bool, receives: bool) -> Call {
    let sending = sends && (!receives || next(seed).is_multiple_of(2));
    match (next(seed) % 32, sending) {
        (0, _) => Call::Close,
        (1..16, true) => Call::Send(record.item()),
        (16..22, true) => Call::TrySend(record.item()),
        (22..27, true) => Call::ForceSend(record.item()),
        (_, true) => Call::SendLate(record.item()),
        (1..18, false) => Call::Recv,
        (18..25, false) => Call::TryRecv,
        (_, false) => Call::RecvLate,
    }
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
    async fn calls(self, record: Arc<Record<Call>>, mut seed: u64) {
        record.start(self.way).await;
        let Party { who, way, sender, receiver, calls, closes } = self;
        for _ in 0..calls {
            record.dawdle(way, &mut seed).await;
            let call = random_call(&record, &mut seed, sender.is_some(), receiver.is_some());
            let calling = record.begins(who, call);
            calling.gave(match (call, &sender, &receiver) {
                (Call::Recv | Call::RecvLate | Call::TryRecv, _, Some(receiver)) => {
                    call_receiver(receiver, way, call).await
                }
                (_, Some(sender), _) => call_sender(sender, way, call).await,
                (_, _, Some(receiver)) => call_receiver(receiver, way, call).await,
                _ => unreachable!("a party has an end"),
            });
        }
        if closes {
            let close = || sender.as_ref().map(Sender::close).or(receiver.as_ref().map(Receiver::close));
            record.calls(who, Call::Close, || first(close() == Some(true)));
            receiver.iter().for_each(|receiver| drain(&record, who, receiver));
        }
    }
}

/// Receives what is left in a channel that is closed.
fn drain<K>(record: &Record<Call>, who: usize, receiver: &Receiver<u32, K>) {
    while let Outcome::Item(_) = record.calls(who, Call::TryRecv, || received(receiver.try_recv())) {}
}

/// Starts `parties` and lets them go.
fn start<K: Send + 'static>(
    runtime: &Runtime,
    record: &Arc<Record<Call>>,
    seed: &mut u64,
    parties: Vec<Party<K>>,
) -> Vec<Running<()>> {
    let starts = |party: Party<K>| {
        let way = party.way;
        way.start(runtime, party.calls(record.clone(), next(seed)))
    };
    let running = parties.into_iter().map(starts).collect();
    record.go();
    running
}

/// What happens when three or four who do everything meet at a channel.
fn many<K: Kind<Ends = Many>>(runtime: &Runtime, round: usize, seed: &mut u64) -> (Queue, Recorded<Call>) {
    let capacity = round % 4;
    let (sender, receiver) = K::open::<u32>(capacity);
    let record = Record::new();
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
    let recorded = move || {
        record.wait_while_busy(&parties);
        record.calls(count, Call::Close, || first(sender.close()));
        parties.into_iter().for_each(Running::join);
        drain(&record, count, &receiver);
        as_promised::<K>(record.entries())
    };
    (Queue::new(capacity), Box::new(recorded))
}

/// What happens between one who sends and one who receives.
fn pair<K: Kind>(runtime: &Runtime, round: usize, seed: &mut u64) -> (Queue, Recorded<Call>) {
    let capacity = round % 4;
    let (sender, receiver) = K::open::<u32>(capacity);
    let record = Record::new();
    let (sends, receives) = (Way::nth(next(seed)), Way::nth(next(seed)));
    let (calls, closes) = (6, true);
    let sends = Party { who: 0, way: sends, sender: Some(sender), receiver: None, calls, closes };
    let receives = Party { who: 1, way: receives, sender: None, receiver: Some(receiver), calls, closes };
    let parties = start(runtime, &record, seed, vec![sends, receives]);
    let recorded = move || {
        parties.into_iter().for_each(Running::join);
        as_promised::<K>(record.entries())
    };
    (Queue::new(capacity), Box::new(recorded))
}

/// What has to be explained: in a weighted channel an item that is kept for one who waits is neither there for others nor
/// gone.
fn as_promised<K: Kind>(mut entries: Vec<Entry<Call>>) -> Vec<Entry<Call>> {
    let looks = |entry: &Entry<Call>| matches!(entry.call, Call::TryRecv | Call::RecvLate);
    entries.retain(|entry| K::NAME != "Weighted" || entry.outcome != Outcome::Not || !looks(entry));
    entries
}

#[test]
fn what_several_do_to_a_channel_at_once_could_have_been_done_in_turn() {
    for_kinds!(K: Many => are_explained(K::NAME, 100, many::<K>));
}

#[test]
fn what_a_sender_and_a_receiver_do_at_once_could_have_been_done_in_turn() {
    for_kinds!(K => are_explained(K::NAME, 60, pair::<K>));
}
