//! How channels end, and who sees what then.
//!
//! | ended by | receivers see, when they have received everything | senders see |
//! |---|---|---|
//! | `close`, the last sender, the last receiver | `Closed` | `Closed` |
//! | `close_err` | `Failed` | `Closed` |
//! | `reject` | `Closed` | `Rejected` |
//! | `cancel` | `Cancelled` | `Cancelled` |

use std::collections::VecDeque;
use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{Select, recv, send};
use sinew_sched::Runtime;

use crate::channels::{Bounded, Kind, Running, Way, by_hand, for_kinds};
use crate::support::{Counted, Tally, with_runtime};

const CAPACITIES: [usize; 3] = [0, 1, 5];

/// How a channel is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    CloseSender,
    CloseReceiver,
    DropSender,
    DropReceiver,
    CloseErr,
    Reject,
    CancelSender,
    CancelReceiver,
}

use How::{
    CancelReceiver, CancelSender, CloseErr, CloseReceiver, CloseSender, DropReceiver, DropSender, Reject,
};

const ALL: [How; 8] =
    [CloseSender, CloseReceiver, DropSender, DropReceiver, CloseErr, Reject, CancelSender, CancelReceiver];

/// Both ends of a channel, or what is left of them.
struct Ends<K> {
    sender: Option<Sender<Counted, K>>,
    receiver: Option<Receiver<Counted, K>>,
}

impl<K> Ends<K> {
    fn open<C: Kind<Ends = K>>(capacity: usize) -> Ends<K> {
        let (sender, receiver) = C::open(capacity);
        Ends { sender: Some(sender), receiver: Some(receiver) }
    }

    fn sender(&self) -> &Sender<Counted, K> {
        self.sender.as_ref().unwrap()
    }

    fn receiver(&self) -> &Receiver<Counted, K> {
        self.receiver.as_ref().unwrap()
    }

    /// Ends the channel; false if it was ended before.
    fn end(&mut self, how: How) -> bool {
        match how {
            CloseSender => self.sender().close(),
            CloseReceiver => self.receiver().close(),
            CloseErr => self.sender().close_err("the disk is full"),
            Reject => self.receiver().reject("enough of it"),
            CancelSender => self.sender().cancel(),
            CancelReceiver => self.receiver().cancel(),
            DropSender => self.sender.take().is_some(),
            DropReceiver => self.receiver.take().is_some(),
        }
    }
}

impl How {
    fn is_seen_by_sender(self, why: &Unsent) -> bool {
        match self {
            CloseSender | CloseReceiver | DropSender | DropReceiver | CloseErr => {
                matches!(why, Unsent::Closed)
            }
            Reject => matches!(why, Unsent::Rejected(error) if error.to_string() == "enough of it"),
            CancelSender | CancelReceiver => matches!(why, Unsent::Cancelled),
        }
    }

    fn is_seen_by_receiver(self, error: &RecvError) -> bool {
        match self {
            CloseSender | CloseReceiver | DropSender | DropReceiver | Reject => {
                matches!(error, RecvError::Closed)
            }
            CloseErr => matches!(error, RecvError::Failed(error) if error.to_string() == "the disk is full"),
            CancelSender | CancelReceiver => matches!(error, RecvError::Cancelled),
        }
    }

    /// That `number` came back, with the reason.
    #[track_caller]
    fn refuses<T>(self, sent: Result<T, SendError<Counted>>, number: u64) {
        let Err(SendError { item, why }) = sent else { panic!("{self:?}: sent {number}") };
        assert_eq!(item.number(), number);
        assert!(self.is_seen_by_sender(&why), "{self:?}: {why:?}");
    }

    #[track_caller]
    fn has_ended<T>(self, received: Result<T, RecvError>) {
        let Err(error) = received else { panic!("{self:?}: received") };
        assert!(self.is_seen_by_receiver(&error), "{self:?}: {error:?}");
    }
}

/// Every way to send finds that the channel has ended, and gives the item back.
async fn nothing_is_sent<K: Send>(way: Way, how: How, tally: Tally, sender: Sender<Counted, K>) {
    assert!(sender.is_closed());
    how.refuses(way.send(&sender, tally.value(1)).await, 1);
    how.refuses(sender.try_send(tally.value(2)), 2);
    how.refuses(sender.force_send(tally.value(3)), 3);
    how.refuses(sender.send_timeout(tally.value(4), Duration::ZERO), 4);
    let mut items: VecDeque<_> = (5..8).map(|n| tally.value(n)).collect();
    let why = sender.send_all(&mut items).unwrap_err();
    assert!(how.is_seen_by_sender(&why));
    assert!(items.iter().map(Counted::number).eq(5..8), "what was not sent is still there");
    let mut item = Some(tally.value(8));
    select! { sent = send(&sender, &mut item) => how.refuses(sent, 8) }.unwrap();
    assert!(item.is_none(), "the case gave it back");
    let mut item = Some(tally.value(9));
    let polled = select! { sent = send(&sender, &mut item) => Some(sent), default => None };
    how.refuses(polled.unwrap().expect("it need not wait"), 9);
}

/// Every way to receive finds what is left, and then that the channel has ended, as often as it is asked.
async fn the_rest_is_received<K: Send>(way: Way, how: How, left: u64, receiver: Receiver<Counted, K>) {
    assert!(receiver.is_closed());
    assert_eq!(receiver.len(), left as usize);
    for number in 0..left {
        let item = match number % 4 {
            0 => way.recv(&receiver).await.unwrap(),
            1 => receiver.try_recv().unwrap().unwrap(),
            2 => receiver.recv_timeout(Duration::ZERO).unwrap(),
            _ => select! { item = recv(&receiver) => item.unwrap() }.unwrap(),
        };
        assert_eq!(item.number(), number, "in the order in which they were sent");
    }
    for _ in 0..2 {
        how.has_ended(way.recv(&receiver).await);
        how.has_ended(receiver.try_recv());
        how.has_ended(receiver.recv_timeout(Duration::ZERO));
        how.has_ended(receiver.recv_many(&mut Vec::new(), 3));
        select! { item = recv(&receiver) => how.has_ended(item) }.unwrap();
        let polled = select! { item = recv(&receiver) => Some(item), default => None };
        how.has_ended(polled.unwrap().expect("it need not wait"));
        assert!(receiver.iter().next().is_none() && receiver.try_iter().next().is_none());
    }
}

fn everybody_sees<C: Kind>(runtime: &Runtime) {
    let tally = Tally::new();
    for (how, capacity) in ALL.into_iter().flat_map(|how| CAPACITIES.map(|capacity| (how, capacity))) {
        for way in Way::ALL {
            let mut ends = Ends::open::<C>(capacity);
            let left = capacity.min(4) as u64;
            (0..left).for_each(|n| ends.sender().try_send(tally.value(n)).unwrap());
            assert!(!ends.sender().is_closed());
            assert!(ends.end(how), "it was open");
            let Ends { sender, receiver } = ends;
            let sends =
                sender.map(|sender| way.start(runtime, nothing_is_sent(way, how, tally.clone(), sender)));
            sends.into_iter().for_each(Running::join);
            let receives = |receiver| way.start(runtime, the_rest_is_received(way, how, left, receiver));
            receiver.map(receives).into_iter().for_each(Running::join);
        }
    }
    tally.assert_even(tally.made());
}

#[test]
fn after_the_end_nothing_is_sent_and_what_is_inside_is_received_before_the_reason() {
    with_runtime(Runtime::builder().workers(2), |runtime| for_kinds!(C => everybody_sees::<C>(runtime)));
}

fn first_wins<C: Kind>() {
    let calls = [CloseSender, CloseReceiver, CloseErr, Reject, CancelSender, CancelReceiver];
    for (first, second) in calls.into_iter().flat_map(|first| calls.map(|second| (first, second))) {
        for capacity in CAPACITIES {
            let mut ends = Ends::open::<C>(capacity);
            assert!(ends.end(first));
            assert!(!ends.end(second) && !ends.end(first), "{first:?}, {second:?}: it was ended before");
            assert!(ends.sender().is_closed() && ends.receiver().is_closed());
            first.refuses(ends.sender().try_send(Tally::new().value(1)), 1);
            first.has_ended(ends.receiver().try_recv());
            let Ends { sender, receiver } = ends;
            drop(receiver);
            first.refuses(sender.unwrap().try_send(Tally::new().value(1)), 1);
        }
    }
}

#[test]
fn the_first_to_end_a_channel_says_how() {
    for_kinds!(C => first_wins::<C>());
}

#[test]
fn whoever_waits_to_receive_is_told_of_the_end() {
    by_hand(|runtime, _| {
        for (how, capacity) in ALL.into_iter().flat_map(|how| CAPACITIES.map(|capacity| (how, capacity))) {
            if how == DropReceiver {
                continue; // whoever waits has one
            }
            let mut ends = Ends::open::<Bounded>(capacity);
            let [in_task, in_future, in_select] = std::array::from_fn(|_| ends.receiver().clone());
            let mut tasks = vec![
                runtime.spawn(move || how.has_ended(in_task.recv())),
                runtime.spawn_future(async move { how.has_ended(in_future.recv_async().await) }),
                runtime.spawn(move || {
                    let (_open, other) = Bounded::open::<u8>(1);
                    select! {
                        item = recv(&in_select) => how.has_ended(item),
                        _ = recv(&other) => panic!("nobody sends there"),
                        item = recv(&in_select) => how.has_ended(item),
                    }
                    .unwrap();
                }),
            ];
            // One waiter more than are told under one lock.
            for _ in 0..14 {
                let receiver = ends.receiver().clone();
                tasks.push(runtime.spawn(move || how.has_ended(receiver.recv())));
            }
            let receiver = ends.receiver().clone();
            let thread = std::thread::spawn(move || how.has_ended(receiver.recv()));
            runtime.run_until_idle();
            assert!(tasks.iter().all(|task| !task.is_finished()), "all wait");
            assert!(ends.end(how));
            runtime.run_until_idle();
            assert!(tasks.iter().all(|task| task.is_finished()), "{how:?}, capacity {capacity}: told");
            tasks.into_iter().for_each(|task| task.join().unwrap());
            thread.join().unwrap();
        }
    });
}

#[test]
fn whoever_waits_to_send_is_told_of_the_end_and_has_its_item() {
    by_hand(|runtime, _| {
        let tally = Tally::new();
        for (how, capacity) in ALL.into_iter().flat_map(|how| CAPACITIES.map(|capacity| (how, capacity))) {
            if how == DropSender {
                continue; // whoever waits has one
            }
            let mut ends = Ends::open::<Bounded>(capacity);
            (0..capacity as u64).for_each(|n| ends.sender().try_send(tally.value(n)).unwrap());
            let [in_task, in_future, in_select] = std::array::from_fn(|_| ends.sender().clone());
            let items: [Counted; 3] = std::array::from_fn(|n| tally.value(100 + n as u64));
            let [first, second, third] = items;
            let mut tasks = vec![
                runtime.spawn(move || how.refuses(in_task.send(first), 100)),
                runtime.spawn_future(async move { how.refuses(in_future.send_async(second).await, 101) }),
                runtime.spawn(move || {
                    let mut item = Some(third);
                    select! { sent = send(&in_select, &mut item) => how.refuses(sent, 102) }.unwrap();
                }),
            ];
            for number in 103..117 {
                let (sender, item) = (ends.sender().clone(), tally.value(number));
                tasks.push(runtime.spawn(move || how.refuses(sender.send(item), number)));
            }
            let (sender, item) = (ends.sender().clone(), tally.value(200));
            let thread = std::thread::spawn(move || how.refuses(sender.send(item), 200));
            runtime.run_until_idle();
            assert!(tasks.iter().all(|task| !task.is_finished()), "all wait");
            assert!(ends.end(how));
            runtime.run_until_idle();
            assert!(tasks.iter().all(|task| task.is_finished()), "{how:?}, capacity {capacity}: told");
            tasks.into_iter().for_each(|task| task.join().unwrap());
            thread.join().unwrap();
            if let Some(receiver) = &ends.receiver {
                assert!(receiver.iter().map(|item| item.number()).eq(0..capacity as u64), "what was inside");
                how.has_ended(receiver.recv());
            }
        }
        tally.assert_even(tally.made());
    });
}

#[test]
fn a_channel_stays_open_until_the_last_of_a_side_goes() {
    for capacity in CAPACITIES {
        let (sender, receiver) = Bounded::open::<u8>(capacity);
        let (another, second) = (sender.clone(), receiver.clone());
        assert!(sender.same_channel(&another) && receiver.same_channel(&second));
        drop((sender, receiver));
        assert!(!another.is_closed() && !second.is_closed());
        drop(another);
        assert!(second.is_closed());
        let (sender, receiver) = Bounded::open::<u8>(capacity);
        let second = receiver.clone();
        drop(receiver);
        assert!(!sender.is_closed());
        drop(second);
        assert!(sender.is_closed() && matches!(sender.send(1).unwrap_err().why, Unsent::Closed));
    }
}

fn drops_what_is_inside<C: Kind>() {
    for capacity in [1, 5] {
        for senders_first in [true, false] {
            let tally = Tally::new();
            let (sender, receiver) = C::open(capacity);
            (0..capacity as u64 + 3).for_each(|n| drop(sender.force_send(tally.value(n))));
            assert_eq!(tally.dropped(), 3);
            if senders_first {
                drop((sender, receiver))
            } else {
                drop((receiver, sender))
            }
            tally.assert_even(capacity + 3);
        }
    }
}

#[test]
fn what_nobody_received_is_dropped_with_the_channel() {
    for_kinds!(C => drops_what_is_inside::<C>());
}

/// A select over so many receivers gives the end of the one that has one.
fn ended_among<C: Kind<Ends = Many>>(cases: usize) {
    for how in [CloseSender, CloseErr, CancelReceiver] {
        let mut all: Vec<_> = (0..cases).map(|_| Ends::open::<C>(1)).collect();
        for ended in [0, cases / 2, cases - 1] {
            all[ended] = Ends::open::<C>(1);
            assert!(all[ended].end(how));
            let mut select = Select::new();
            for (number, ends) in all.iter().enumerate() {
                select = select.case(recv(ends.receiver()), move |item| (number, item));
            }
            let (number, item) = select.wait().unwrap();
            assert_eq!(number, ended);
            how.has_ended(item);
            all[ended] = Ends::open::<C>(1);
        }
    }
}

#[test]
fn a_select_of_any_size_finds_the_channel_that_has_ended() {
    for_kinds!(C: Many => [1, 7, 8, 9, 64, 100].into_iter().for_each(ended_among::<C>));
}
