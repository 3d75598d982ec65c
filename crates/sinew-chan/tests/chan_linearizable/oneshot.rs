//! A channel for one value.

use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_sched::Runtime;

use crate::channels::{Running, Way};
use crate::history::{Entry, Outcome, Spec};
use crate::support::next;
use crate::{Lent, Record, Recorded, are_explained, briefly, first};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Send(u32),
    /// The sender goes without having sent.
    Go,
    /// The sender asks whether the channel is closed.
    Looks,
    Recv,
    /// Receives until a time that has passed.
    RecvLate,
    TryRecv,
    Close,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct OneValue {
    value: Option<u32>,
    /// The sender is gone.
    gone: bool,
    closed: bool,
}

impl OneValue {
    fn does(&mut self, call: Call, outcome: Outcome) -> bool {
        let settled = self.gone || self.closed;
        match (call, outcome) {
            (Call::Send(value), Outcome::Done) => {
                (self.value, self.gone) = (Some(value), true);
                !self.closed
            }
            (Call::Send(_), Outcome::Ended) => {
                self.gone = true;
                self.closed
            }
            (Call::Go, Outcome::Done) => {
                self.gone = true;
                true
            }
            (Call::Looks, Outcome::Done) => self.closed,
            (Call::Looks, Outcome::Not) => !self.closed,
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Item(value)) => {
                self.value.take() == Some(value)
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Ended) => self.value.is_none() && settled,
            // Whatever was given up had to wait, and has changed nothing.
            (Call::Recv | Call::RecvLate | Call::TryRecv, Outcome::Not | Outcome::GaveUp) => {
                self.value.is_none() && !settled
            }
            (Call::Close, Outcome::Done) => {
                self.closed = true;
                true
            }
            _ => false,
        }
    }
}

impl Spec for OneValue {
    type Call = Call;

    fn after(&self, entry: &Entry<Call>) -> Vec<OneValue> {
        let mut after = self.clone();
        after.does(entry.call, entry.outcome).then_some(after).into_iter().collect()
    }
}

#[test]
fn the_checker_knows_what_a_channel_for_one_value_does() {
    use Call::{Close, Go, Looks, Recv, Send, TryRecv};
    use Outcome::{Done, Ended, GaveUp, Item, Not};

    use crate::history::{explain, history};

    let explained = |calls: &[_]| explain(&OneValue::default(), &history(calls)).is_some();
    assert!(explained(&[(1, TryRecv, Not), (2, Send(1), Done), (3, Close, Done), (4, Recv, Item(1))]));
    assert!(explained(&[(1, Recv, GaveUp), (1, Send(1), Done), (2, Recv, Item(1)), (3, Recv, Ended)]));
    assert!(explained(&[(1, Close, Done), (1, Looks, Not), (2, Send(1), Ended), (3, TryRecv, Ended)]));
    assert!(!explained(&[(1, Send(1), Done), (2, TryRecv, Not)]), "there was a value");
    assert!(!explained(&[(1, Send(1), Done), (2, TryRecv, Ended)]), "there was a value");
    assert!(!explained(&[(1, Send(1), Done), (2, Recv, Item(1)), (3, Recv, Item(1))]), "received twice");
    assert!(!explained(&[(1, Close, Done), (2, Send(1), Done)]), "sent after the end");
    assert!(!explained(&[(1, Go, Done), (2, Recv, GaveUp)]), "it need not wait");
    assert!(!explained(&[(1, Recv, Ended), (2, Go, Done)]), "nobody is gone");
}

fn received(outcome: Result<Option<u32>, RecvError>) -> Outcome {
    match outcome {
        Ok(Some(value)) => Outcome::Item(value),
        Ok(None) | Err(RecvError::Timeout | RecvError::Refused(_)) => Outcome::Not,
        Err(RecvError::Closed) => Outcome::Ended,
        Err(error) => panic!("{error:?}"),
    }
}

async fn sends(way: Way, record: Arc<Record<Call>>, sender: oneshot::Sender<u32>, mut seed: u64) {
    record.start(way).await;
    for _ in 0..next(&mut seed) % 4 {
        record.dawdle(way, &mut seed).await;
        record.calls(0, Call::Looks, || first(sender.is_closed()));
    }
    if next(&mut seed).is_multiple_of(4) {
        record.calls(0, Call::Go, || {
            drop(sender);
            Outcome::Done
        });
    } else {
        record.calls(0, Call::Send(1), || sender.send(1).map_or(Outcome::Ended, |()| Outcome::Done));
    }
}

async fn receives(
    way: Way,
    record: Arc<Record<Call>>,
    mut receiver: Lent<oneshot::Receiver<u32>>,
    mut seed: u64,
) {
    record.start(way).await;
    let receiver = receiver.get();
    for _ in 0..1 + next(&mut seed) % 5 {
        record.dawdle(way, &mut seed).await;
        match next(&mut seed) % 16 {
            0 => {
                record.calls(1, Call::Close, || {
                    receiver.close();
                    Outcome::Done
                });
            }
            1..5 => {
                record.calls(1, Call::RecvLate, || received(receiver.recv_timeout(Duration::ZERO).map(Some)));
            }
            5..8 => {
                record.calls(1, Call::TryRecv, || received(receiver.try_recv()));
            }
            8..11 => {
                let calling = record.begins(1, Call::Recv);
                if let Some(outcome) = briefly(way, receiver.recv_async()).await {
                    calling.gave(received(outcome.map(Some)));
                }
            }
            _ => {
                let calling = record.begins(1, Call::Recv);
                let receives =
                    way.does(&mut *receiver, oneshot::Receiver::recv, oneshot::Receiver::recv_async);
                calling.gave(received(receives.await.map(Some)));
            }
        }
    }
}

fn one_value(runtime: &Runtime, _round: usize, seed: &mut u64) -> (OneValue, Recorded<Call>) {
    let (sender, receiver) = oneshot::channel();
    let (receiver, left) = Lent::new(receiver);
    let record = Record::new();
    let (from, to) = (Way::nth(next(seed)), Way::nth(next(seed)));
    let sends = from.start(runtime, sends(from, record.clone(), sender, next(seed)));
    let receives = [to.start(runtime, receives(to, record.clone(), receiver, next(seed)))];
    record.go();
    record.disturb(&receives, seed);
    let recorded = move || {
        sends.join();
        receives.into_iter().for_each(Running::end);
        let mut receiver = left.lock().unwrap().take().expect("it was left behind");
        while let Outcome::Item(_) = record.calls(2, Call::TryRecv, || received(receiver.try_recv())) {}
        record.entries()
    };
    (OneValue::default(), Box::new(recorded))
}

#[test]
fn what_is_done_to_one_value_at_once_could_have_been_done_in_turn() {
    are_explained("OneShot", 60, one_value);
}
