//! Broadcast channels: every receiver sees every item, or what becomes of it if it is too slow.
//!
//! A receiver has a seat, which two parties may share. A receive that was given up is three calls: one that finds that it has
//! to wait, one that sees what it is given, if anything, and one that gives it back to the seat. A send that was given up
//! is a call that finds that it has to wait, and one that has sent or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::broadcast::{self, Receiver, RecvError, Sender, Slow};
use sinew_chan::chan::{SendError, Unsent};
use sinew_sched::Runtime;

use crate::channels::{Running, Way};
use crate::history::{Entry, Outcome, Spec};
use crate::support::next;
use crate::{Lent, Record, Recorded, are_explained, briefly, first};

/// What was called; by a receiver with the number of its seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Send(u32),
    /// Sends until a time that has passed.
    SendLate(u32),
    TrySend(u32),
    Recv(usize),
    /// Receives until a time that has passed.
    RecvLate(usize),
    TryRecv(usize),
    /// What a receive does that was given up.
    Hold(usize),
    Release(usize),
    /// The receiver goes; one that sees what is sent from now on comes.
    Leave(usize),
    Subscribe(usize),
    /// Ends the channel so that receivers see this.
    End(Outcome),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Seat {
    /// There is a receiver that was not cut off.
    live: bool,
    cut_off: bool,
    /// The place of the item that it sees next.
    next: usize,
    /// What came back, by the places of the items.
    returned: BTreeMap<usize, Outcome>,
    /// What receives have seen that are being given up, by who receives.
    held: BTreeMap<usize, (usize, Outcome)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Broadcast {
    capacity: usize,
    lags: bool,
    cuts_off: bool,
    /// All that was ever sent.
    sent: Vec<u32>,
    /// How many of them were overwritten.
    overwritten: usize,
    seats: Vec<Seat>,
    end: Option<Outcome>,
}

impl Broadcast {
    fn new(capacity: usize, slow: Slow, seats: usize) -> Broadcast {
        let (returned, held) = (BTreeMap::new(), BTreeMap::new());
        let seat = Seat { live: true, cut_off: false, next: 0, returned, held };
        let (lags, cuts_off) = (slow == Slow::Lag, slow == Slow::Drop);
        let (sent, overwritten, seats, end) = (Vec::new(), 0, vec![seat; seats], None);
        Broadcast { capacity, lags, cuts_off, sent, overwritten, seats, end }
    }

    /// The first item that somebody has not seen and can still see; none if nobody receives.
    fn oldest(&self) -> Option<usize> {
        let live = self.seats.iter().filter(|seat| seat.live);
        live.map(|seat| seat.next.max(self.overwritten)).min()
    }

    /// True if the next item has to wait for somebody who is slow, or pass over it.
    fn is_full(&self) -> bool {
        self.oldest().is_some_and(|oldest| self.sent.len() - oldest == self.capacity)
    }

    fn send(&mut self, item: u32) -> Outcome {
        if let Some(end) = self.end {
            return if end == Outcome::Cancelled { end } else { Outcome::Ended };
        }
        let oldest = self.oldest();
        if self.is_full() && self.lags {
            self.overwritten = oldest.map_or(0, |oldest| oldest + 1);
        } else if self.is_full() && self.cuts_off {
            let slowest = self.seats.iter_mut().filter(|seat| seat.live && Some(seat.next) == oldest);
            slowest.for_each(|seat| (seat.live, seat.cut_off) = (false, true));
        } else if self.is_full() {
            return Outcome::Not;
        }
        if self.oldest().is_none() {
            return Outcome::Unheard;
        }
        self.sent.push(item);
        Outcome::Done
    }

    /// What is seen next from a seat, and the place of that among the items; none if it has to wait.
    fn see(&mut self, number: usize) -> Option<(usize, Outcome)> {
        let (sent, overwritten) = (&self.sent, self.overwritten);
        let seat = &mut self.seats[number];
        if let Some(returned) = seat.returned.pop_first() {
            return Some(returned);
        }
        let place = seat.next;
        if seat.cut_off {
            return Some((place, Outcome::CutOff));
        }
        if place < overwritten {
            seat.next = overwritten;
            return Some((place, Outcome::Missed(overwritten - place)));
        }
        let item = sent.get(place)?;
        seat.next += 1;
        Some((place, Outcome::Item(*item)))
    }

    fn does(&mut self, entry: &Entry<Call>) -> bool {
        match (entry.call, entry.outcome) {
            (Call::Send(item) | Call::SendLate(item) | Call::TrySend(item), outcome) => {
                self.send(item) == outcome
            }
            (Call::Recv(seat) | Call::RecvLate(seat) | Call::TryRecv(seat), outcome) => {
                let seen = self.see(seat).map(|(_, seen)| seen);
                seen.or(self.end).unwrap_or(Outcome::Not) == outcome
            }
            (Call::Hold(seat), _) => {
                let seen = self.see(seat);
                self.seats[seat].held.extend(seen.map(|seen| (entry.who, seen)));
                true
            }
            (Call::Release(seat), _) => {
                let Seat { held, returned, .. } = &mut self.seats[seat];
                returned.extend(held.remove(&entry.who));
                true
            }
            (Call::Leave(seat), Outcome::Done) => {
                self.seats[seat].live = false;
                true
            }
            (Call::Subscribe(number), Outcome::Done) => {
                let seat = &mut self.seats[number];
                (seat.live, seat.cut_off, seat.next) = (true, false, self.sent.len());
                seat.returned.clear();
                true
            }
            (Call::End(how), Outcome::Done) => self.end.replace(how).is_none(),
            (Call::End(_), Outcome::Not) => self.end.is_some(),
            _ => false,
        }
    }
}

impl Spec for Broadcast {
    type Call = Call;

    fn after(&self, entry: &Entry<Call>) -> Vec<Broadcast> {
        let after = |outcome| {
            let mut after = self.clone();
            after.does(&Entry { outcome, ..*entry }).then_some(after)
        };
        match (entry.call, entry.outcome) {
            (Call::Send(_), Outcome::GaveUp) => {
                after(Outcome::Done).into_iter().chain([self.clone()]).collect()
            }
            (_, outcome) => after(outcome).into_iter().collect(),
        }
    }
}

/// With the parts of sends and receives that were given up.
fn as_specified(entries: Vec<Entry<Call>>) -> Vec<Entry<Call>> {
    let parts = |entry: Entry<Call>| match (entry.call, entry.outcome) {
        (Call::Recv(seat), Outcome::GaveUp) => vec![
            Entry { outcome: Outcome::Not, ..entry },
            Entry { call: Call::Hold(seat), ..entry },
            Entry { call: Call::Release(seat), ..entry },
        ],
        (Call::Send(_), Outcome::GaveUp) => vec![Entry { outcome: Outcome::Not, ..entry }, entry],
        _ => vec![entry],
    };
    entries.into_iter().flat_map(parts).collect()
}

#[test]
fn the_checker_knows_what_a_broadcast_does() {
    use Call::{End, Leave, Recv, Send, Subscribe, TryRecv, TrySend};
    use Outcome::{Cancelled, CutOff, Done, Ended, Failed, GaveUp, Item, Missed, Not, Unheard};

    use crate::history::{explain, history};

    let [blocks, lags, cuts_off] = [Slow::Block, Slow::Lag, Slow::Drop].map(|slow| {
        move |calls: &[_]| explain(&Broadcast::new(1, slow, 2), &as_specified(history(calls))).is_some()
    });
    assert!(blocks(&[
        (1, Send(1), Done),
        (2, Recv(0), Item(1)),
        (3, TrySend(2), Not),
        (4, Recv(1), Item(1))
    ]));
    assert!(blocks(&[(1, Send(1), Done), (2, Recv(0), Item(1)), (3, Send(2), Done), (3, Leave(1), Done)]));
    assert!(blocks(&[(1, Recv(0), GaveUp), (1, Send(1), Done), (2, Recv(1), Item(1)), (3, Send(2), Done)]));
    assert!(blocks(&[(1, Leave(0), Done), (2, Leave(1), Done), (3, Send(1), Unheard)]));
    assert!(blocks(&[
        (1, Send(1), Done),
        (2, Subscribe(1), Done),
        (3, Recv(0), Item(1)),
        (4, TryRecv(1), Not)
    ]));
    assert!(blocks(&[
        (1, Send(1), Done),
        (2, End(Failed), Done),
        (3, Recv(0), Item(1)),
        (4, Recv(0), Failed)
    ]));
    assert!(blocks(&[(1, End(Cancelled), Done), (2, Send(1), Cancelled), (2, Recv(1), Cancelled)]));
    assert!(lags(&[(1, Send(1), Done), (2, Send(2), Done), (3, Recv(0), Missed(1)), (4, Recv(0), Item(2))]));
    let cut_off = [
        (1, Send(1), Done),
        (2, Recv(0), Item(1)),
        (3, Send(2), Done),
        (4, Recv(1), CutOff),
        (5, Recv(0), Item(2)),
    ];
    assert!(cuts_off(&cut_off));
    assert!(cuts_off(&[(1, Send(1), Done), (2, Send(2), Unheard), (3, Recv(0), CutOff)]));
    assert!(!blocks(&[(1, Send(1), Done), (2, TrySend(2), Done)]), "it was full");
    assert!(!blocks(&[(1, Send(1), Done), (2, Recv(0), Item(1)), (3, Recv(0), Item(1))]), "seen twice");
    assert!(!blocks(&[(1, Send(1), Done), (2, TryRecv(1), Not)]), "not seen");
    assert!(!blocks(&[(1, Send(1), Done), (2, End(Ended), Done), (3, Recv(1), Ended)]), "not seen");
    assert!(!blocks(&[(1, End(Ended), Done), (2, End(Ended), Not), (3, Send(1), Done)]), "it was closed");
    assert!(!blocks(&[(1, Send(1), GaveUp)]), "it need not wait");
    assert!(!blocks(&[(1, Send(1), Done), (2, Recv(0), GaveUp)]), "it need not wait");
    assert!(!lags(&[(1, Send(1), Done), (2, Send(2), Done), (3, Recv(0), Missed(2))]), "one");
    assert!(!lags(&[(1, Send(1), Done), (2, Send(2), Done), (3, Recv(0), Item(2))]), "it is told");
    assert!(!cuts_off(&[(1, Send(1), Done), (2, Send(2), Done)]), "there was no room");
    assert!(!cuts_off(&[(1, Send(1), Done), (2, Recv(0), CutOff)]), "there was room");
}

fn sent(outcome: Result<(), SendError<u32>>) -> Outcome {
    match outcome.map_err(|unsent| unsent.why) {
        Ok(()) => Outcome::Done,
        Err(Unsent::Full | Unsent::Timeout | Unsent::Refused(_)) => Outcome::Not,
        Err(Unsent::Closed) => Outcome::Ended,
        Err(Unsent::Cancelled) => Outcome::Cancelled,
        Err(Unsent::NoReceiver) => Outcome::Unheard,
        Err(why) => panic!("{why:?}"),
    }
}

fn received(outcome: Result<Option<u32>, RecvError>) -> Outcome {
    match outcome {
        Ok(Some(item)) => Outcome::Item(item),
        Ok(None) | Err(RecvError::Timeout | RecvError::Refused(_)) => Outcome::Not,
        Err(RecvError::Lagged(missed)) => Outcome::Missed(missed as usize),
        Err(RecvError::CutOff) => Outcome::CutOff,
        Err(RecvError::Closed) => Outcome::Ended,
        Err(RecvError::Failed(_)) => Outcome::Failed,
        Err(RecvError::Cancelled) => Outcome::Cancelled,
    }
}

/// One who calls, and its number.
struct Party {
    who: usize,
    way: Way,
    record: Arc<Record<Call>>,
    sender: Sender<u32>,
}

impl Party {
    async fn sends(self, mut seed: u64) {
        let Party { who, way, record, sender } = self;
        record.start(way).await;
        for _ in 0..4 {
            record.dawdle(way, &mut seed).await;
            let item = record.item();
            match next(&mut seed) % 96 {
                0 => {
                    record.calls(who, Call::End(Outcome::Ended), || first(sender.close()));
                }
                1 => {
                    record.calls(who, Call::End(Outcome::Failed), || first(sender.close_err("failed")));
                }
                2 => {
                    record.calls(who, Call::End(Outcome::Cancelled), || first(sender.cancel()));
                }
                3..21 => {
                    record.calls(who, Call::TrySend(item), || sent(sender.try_send(item)));
                }
                21..37 => {
                    record
                        .calls(who, Call::SendLate(item), || sent(sender.send_timeout(item, Duration::ZERO)));
                }
                37..49 => {
                    let calling = record.begins(who, Call::Send(item));
                    if let Some(outcome) = briefly(way, sender.send_async(item)).await {
                        calling.gave(sent(outcome));
                    }
                }
                _ => {
                    let calling = record.begins(who, Call::Send(item));
                    let sends = way.does(item, |item| sender.send(item), |item| sender.send_async(item));
                    calling.gave(sent(sends.await));
                }
            }
        }
    }

    async fn receives(self, seat: usize, mut receiver: Lent<Arc<Receiver<u32>>>, mut seed: u64) {
        let Party { who, way, record, sender } = self;
        record.start(way).await;
        for _ in 0..4 {
            record.dawdle(way, &mut seed).await;
            let here = receiver.get();
            match next(&mut seed) % 64 {
                // Only one who has the seat for itself gives it up.
                0..4 if Arc::strong_count(here) == 1 => {
                    record.calls(who, Call::Leave(seat), || {
                        receiver.value = None;
                        Outcome::Done
                    });
                    record.calls(who, Call::Subscribe(seat), || {
                        receiver.value = Some(Arc::new(sender.subscribe()));
                        Outcome::Done
                    });
                }
                4 => {
                    record.calls(who, Call::End(Outcome::Cancelled), || first(here.cancel()));
                }
                5..17 => {
                    record.calls(who, Call::TryRecv(seat), || received(here.try_recv()));
                }
                17..27 => {
                    record.calls(who, Call::RecvLate(seat), || {
                        received(here.recv_timeout(Duration::ZERO).map(Some))
                    });
                }
                27..37 => {
                    let calling = record.begins(who, Call::Recv(seat));
                    if let Some(outcome) = briefly(way, here.recv_async()).await {
                        calling.gave(received(outcome.map(Some)));
                    }
                }
                _ => {
                    let calling = record.begins(who, Call::Recv(seat));
                    let receives = way.does(&**here, Receiver::recv, Receiver::recv_async);
                    calling.gave(received(receives.await.map(Some)));
                }
            }
        }
    }
}

/// One or two who send, and three who receive, two of them in one seat.
fn seats(slow: Slow, runtime: &Runtime, round: usize, seed: &mut u64) -> (Broadcast, Recorded<Call>) {
    let capacity = 1 + round % 2;
    let (sender, receiver) = broadcast::channel(capacity, slow);
    let record = Record::new();
    let party = |who, way| Party { who, way, record: record.clone(), sender: sender.clone() };
    let alone = Arc::new(receiver.clone());
    let shared = Arc::new(receiver);
    let mut left = Vec::new();
    let receivers = [(0, alone), (1, shared.clone()), (1, shared)];
    let mut parties: Vec<Running<()>> = Vec::new();
    for (seat, receiver) in receivers {
        let (receiver, home) = Lent::new(receiver);
        left.push((seat, home));
        let way = Way::nth(next(seed));
        let party = party(parties.len(), way);
        parties.push(way.start(runtime, party.receives(seat, receiver, next(seed))));
    }
    for _ in 0..1 + next(seed) % 2 {
        let way = Way::nth(next(seed));
        let party = party(parties.len(), way);
        parties.push(way.start(runtime, party.sends(next(seed))));
    }
    record.go();
    record.disturb(&parties, seed);
    let recorded = move || {
        record.wait_while_busy(&parties);
        let who = parties.len();
        record.calls(who, Call::End(Outcome::Ended), || first(sender.close()));
        parties.into_iter().for_each(Running::end);
        for (seat, home) in left {
            let Some(receiver) = home.lock().unwrap().take() else { continue };
            let receives = || record.calls(who, Call::TryRecv(seat), || received(receiver.try_recv()));
            while let Outcome::Item(_) | Outcome::Missed(_) = receives() {}
        }
        as_specified(record.entries())
    };
    (Broadcast::new(capacity, slow, 2), Box::new(recorded))
}

#[test]
fn what_is_done_to_a_broadcast_at_once_could_have_been_done_in_turn() {
    for slow in [Slow::Block, Slow::Lag, Slow::Drop] {
        are_explained(&format!("{slow:?}"), 20, |runtime, round, seed| seats(slow, runtime, round, seed));
    }
}
