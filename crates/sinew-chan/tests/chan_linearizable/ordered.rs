//! Channels of tasks, whose results come in the order in which they were sent.
//!
//! A receive is two calls: `Pull` takes the next handle out of the channel, to the receiver, which makes room; the rest
//! waits for the end of that task. The end of a task is a call, too, of whoever lets it end. A send that was given up is a
//! call that finds that it has to wait, and one that has sent or not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::{RecvError, SendError, Unsent, oneshot, ordered};
use sinew_fiber::Raised;
use sinew_sched::{JoinHandle, Runtime};

use crate::channels::{Running, Way};
use crate::history::{Entry, Outcome, Spec};
use crate::support::next;
use crate::{Lent, Record, Recorded, are_explained, briefly, first};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// Sends the handle of a task.
    Send(u32),
    /// Until a time that has passed.
    SendLate(u32),
    TrySend(u32),
    /// The task ends, at some time after this.
    Ends(u32),
    Pull,
    Recv,
    RecvLate,
    TryRecv,
    /// Ends the channel so that receivers see this.
    End(Outcome),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Tasks {
    capacity: usize,
    handles: VecDeque<u32>,
    /// The handle that the receiver has.
    head: Option<u32>,
    /// The tasks that have ended.
    ended: u64,
    end: Option<Outcome>,
}

impl Tasks {
    fn new(capacity: usize) -> Tasks {
        Tasks { capacity, handles: VecDeque::new(), head: None, ended: 0, end: None }
    }

    fn does(&mut self, call: Call, outcome: Outcome) -> bool {
        let full = self.handles.len() == self.capacity;
        let has_ended = self.head.is_some_and(|task| self.ended & 1 << task != 0);
        let nothing = self.head.is_none() && self.handles.is_empty();
        match (call, outcome) {
            (Call::Send(task) | Call::SendLate(task) | Call::TrySend(task), Outcome::Done) => {
                self.handles.push_back(task);
                self.end.is_none() && !full
            }
            (Call::Send(_) | Call::SendLate(_) | Call::TrySend(_), Outcome::Not) => {
                self.end.is_none() && full
            }
            (Call::Send(_) | Call::SendLate(_) | Call::TrySend(_), Outcome::Cancelled) => {
                self.end == Some(Outcome::Cancelled)
            }
            (Call::Send(_) | Call::SendLate(_) | Call::TrySend(_), Outcome::Ended) => {
                matches!(self.end, Some(Outcome::Ended | Outcome::Failed))
            }
            (Call::Ends(task), _) => {
                self.ended |= 1 << task;
                true
            }
            (Call::Pull, _) => {
                self.head = self.head.or_else(|| self.handles.pop_front());
                true
            }
            (Call::Recv | Call::RecvLate | Call::TryRecv, outcome) => {
                let explained = match outcome {
                    Outcome::Item(task) => self.head == Some(task) && has_ended,
                    Outcome::Not | Outcome::GaveUp => {
                        !has_ended && (self.head.is_some() || nothing && self.end.is_none())
                    }
                    end => nothing && self.end == Some(end),
                };
                if matches!(outcome, Outcome::Item(_)) {
                    self.head = None;
                }
                explained
            }
            (Call::End(how), Outcome::Done) => self.end.replace(how).is_none(),
            (Call::End(_), Outcome::Not) => self.end.is_some(),
            _ => false,
        }
    }
}

impl Spec for Tasks {
    type Call = Call;

    fn after(&self, entry: &Entry<Call>) -> Vec<Tasks> {
        let after = |outcome| {
            let mut after = self.clone();
            after.does(entry.call, outcome).then_some(after)
        };
        match (entry.call, entry.outcome) {
            (Call::Send(_), Outcome::GaveUp) => {
                after(Outcome::Done).into_iter().chain([self.clone()]).collect()
            }
            (_, outcome) => after(outcome).into_iter().collect(),
        }
    }
}

/// With the parts of receives, and of sends that were given up.
fn as_specified(entries: Vec<Entry<Call>>) -> Vec<Entry<Call>> {
    let parts = |entry: Entry<Call>| match (entry.call, entry.outcome) {
        (Call::Recv | Call::RecvLate | Call::TryRecv, _) => vec![Entry { call: Call::Pull, ..entry }, entry],
        (Call::Send(_), Outcome::GaveUp) => vec![Entry { outcome: Outcome::Not, ..entry }, entry],
        _ => vec![entry],
    };
    entries.into_iter().flat_map(parts).collect()
}

#[test]
fn the_checker_knows_what_a_channel_of_tasks_does() {
    use Call::{End, Ends, Recv, Send, TryRecv, TrySend};
    use Outcome::{Cancelled, Done, Ended, Failed, GaveUp, Item, Not};

    use crate::history::{explain, history};

    let explained = |calls: &[_]| explain(&Tasks::new(1), &as_specified(history(calls))).is_some();
    assert!(explained(&[(1, Send(1), Done), (2, TryRecv, Not), (3, Ends(1), Done), (4, Recv, Item(1))]));
    assert!(explained(&[(1, Send(1), Done), (2, TryRecv, Not), (3, Send(2), Done), (4, TrySend(3), Not)]));
    assert!(explained(&[(1, Recv, Item(1)), (1, Send(1), Done), (1, TrySend(2), Done), (1, Ends(1), Done)]));
    assert!(explained(&[(1, Send(1), Done), (2, End(Failed), Done), (3, Send(2), Ended), (3, TryRecv, Not)]));
    assert!(explained(&[(1, End(Cancelled), Done), (2, TryRecv, Cancelled), (3, TrySend(1), Cancelled)]));
    assert!(!explained(&[(1, Send(1), Done), (2, Recv, Item(1))]), "it has not ended");
    assert!(!explained(&[(1, Ends(1), Done), (2, Send(1), Done), (3, TryRecv, Not)]), "it has ended");
    assert!(!explained(&[(1, Send(1), Done), (2, TrySend(2), Done)]), "it was full");
    assert!(!explained(&[(1, Send(1), Done), (2, End(Ended), Done), (3, TryRecv, Ended)]), "one is left");
    assert!(!explained(&[(1, Send(1), GaveUp)]), "it need not wait");
    let out_of_order = [
        (1, Ends(1), Done),
        (2, Ends(2), Done),
        (3, Send(1), Done),
        (4, Recv, GaveUp),
        (4, Send(2), Done),
        (5, Recv, Item(2)),
    ];
    assert!(!explained(&out_of_order));
}

fn sent(outcome: Result<(), SendError<JoinHandle<u32>>>) -> Outcome {
    match outcome.map_err(|unsent| unsent.why) {
        Ok(()) => Outcome::Done,
        Err(Unsent::Full | Unsent::Timeout | Unsent::Refused(_)) => Outcome::Not,
        Err(Unsent::Closed) => Outcome::Ended,
        Err(Unsent::Cancelled) => Outcome::Cancelled,
        Err(why) => panic!("{why:?}"),
    }
}

fn received(outcome: Result<Option<Result<u32, Raised>>, RecvError>) -> Outcome {
    match outcome {
        Ok(Some(task)) => Outcome::Item(task.unwrap()),
        Ok(None) | Err(RecvError::Timeout | RecvError::Refused(_)) => Outcome::Not,
        Err(RecvError::Closed) => Outcome::Ended,
        Err(RecvError::Failed(_)) => Outcome::Failed,
        Err(RecvError::Cancelled) => Outcome::Cancelled,
    }
}

/// The tasks of a history: each ends when its gate goes.
struct Gated {
    number: u32,
    task: JoinHandle<u32>,
    gate: oneshot::Sender<()>,
}

fn gated(runtime: &Runtime, number: u32) -> Gated {
    let (gate, mut opened) = oneshot::channel();
    let task = runtime.spawn(move || {
        let _ = opened.recv();
        number
    });
    Gated { number, task, gate }
}

/// The first of those who end: the tasks.
const ENDS: usize = 10;

/// Lets the tasks end, in some order.
fn opens(record: &Record<Call>, mut gates: Vec<(u32, oneshot::Sender<()>)>, mut seed: u64) {
    while !gates.is_empty() {
        (0..next(&mut seed) % 3).for_each(|_| std::thread::yield_now());
        let (number, gate) = gates.swap_remove(next(&mut seed) as usize % gates.len());
        let (call, outcome) = (Call::Ends(number), Outcome::Done);
        let who = ENDS + number as usize; // one that is let go first may end last
        record.note(Entry { who, call, outcome, began: record.stamp(), ended: u64::MAX });
        drop(gate);
    }
}

async fn sends(
    (who, way): (usize, Way),
    record: Arc<Record<Call>>,
    sender: ordered::Sender<u32>,
    tasks: Vec<(u32, JoinHandle<u32>)>,
    mut seed: u64,
) {
    record.start(way).await;
    for (number, task) in tasks {
        record.dawdle(way, &mut seed).await;
        match next(&mut seed) % 32 {
            0 => {
                record.calls(who, Call::End(Outcome::Ended), || first(sender.close()));
            }
            1 => {
                record.calls(who, Call::End(Outcome::Failed), || first(sender.close_err("failed")));
            }
            2 => {
                record.calls(who, Call::End(Outcome::Cancelled), || first(sender.cancel()));
            }
            3..8 => {
                record.calls(who, Call::TrySend(number), || sent(sender.try_send(task)));
            }
            8..12 => {
                record.calls(who, Call::SendLate(number), || sent(sender.send_timeout(task, Duration::ZERO)));
            }
            12..16 => {
                let calling = record.begins(who, Call::Send(number));
                if let Some(outcome) = briefly(way, sender.send_async(task)).await {
                    calling.gave(sent(outcome));
                }
            }
            _ => {
                let calling = record.begins(who, Call::Send(number));
                let sends = way.does(task, |task| sender.send(task), |task| sender.send_async(task));
                calling.gave(sent(sends.await));
            }
        }
    }
}

async fn receives(
    (who, way): (usize, Way),
    record: Arc<Record<Call>>,
    mut receiver: Lent<ordered::Receiver<u32>>,
    mut seed: u64,
) {
    record.start(way).await;
    let receiver = receiver.get();
    for _ in 0..5 {
        record.dawdle(way, &mut seed).await;
        match next(&mut seed) % 16 {
            0..3 => {
                record.calls(who, Call::TryRecv, || received(receiver.try_recv()));
            }
            3..6 => {
                record
                    .calls(who, Call::RecvLate, || received(receiver.recv_timeout(Duration::ZERO).map(Some)));
            }
            6..10 => {
                let calling = record.begins(who, Call::Recv);
                if let Some(outcome) = briefly(way, receiver.recv_async()).await {
                    calling.gave(received(outcome.map(Some)));
                }
            }
            _ => {
                let calling = record.begins(who, Call::Recv);
                let receives =
                    way.does(&mut *receiver, ordered::Receiver::recv, ordered::Receiver::recv_async);
                calling.gave(received(receives.await.map(Some)));
            }
        }
    }
}

/// Two who send, one who receives, and one who lets the tasks end.
fn tasks(runtime: &Runtime, round: usize, seed: &mut u64) -> (Tasks, Recorded<Call>) {
    let capacity = 1 + round % 3;
    let (sender, receiver) = ordered::channel(capacity);
    let (receiver, left) = Lent::new(receiver);
    let record = Record::new();
    let mut gates = Vec::new();
    let mut parties: Vec<Running<()>> = (0..2)
        .map(|who| {
            let tasks = (0..3).map(|n| gated(runtime, who as u32 * 3 + n));
            let tasks = tasks.map(|Gated { number, task, gate }| {
                gates.push((number, gate));
                (number, task)
            });
            let (way, tasks) = (Way::nth(next(seed)), tasks.collect());
            way.start(runtime, sends((who, way), record.clone(), sender.clone(), tasks, next(seed)))
        })
        .collect();
    let way = Way::nth(next(seed));
    parties.push(way.start(runtime, receives((2, way), record.clone(), receiver, next(seed))));
    let opens = {
        let (record, seed) = (record.clone(), next(seed));
        std::thread::spawn(move || opens(&record, gates, seed))
    };
    record.go();
    record.disturb(&parties, seed);
    let recorded = move || {
        opens.join().unwrap();
        record.wait_while_busy(&parties);
        record.calls(3, Call::End(Outcome::Ended), || first(sender.close()));
        parties.into_iter().for_each(Running::end);
        let mut receiver = left.lock().unwrap().take().expect("it was left behind");
        while let Outcome::Item(_) = record.calls(3, Call::Recv, || received(receiver.recv().map(Some))) {}
        as_specified(record.entries())
    };
    (Tasks::new(capacity), Box::new(recorded))
}

#[test]
fn what_is_done_to_a_channel_of_tasks_at_once_could_have_been_done_in_turn() {
    are_explained("Ordered", 40, tasks);
}
