//! Those who wait at a channel and give up: cancelled, killed, out of time, dropped. What they sent comes back or was
//! received, what was on its way to them goes to the next, and nobody else is lost by it.
//!
//! One thread runs the tasks when the test says so: that a task waits, or was given something and does not know yet, is
//! no matter of luck here.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sinew_chan::chan::{Many, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{cancelled, recv, send, until};
use sinew_sched::{
    CurrentThread, Elapsed, JoinHandle, Raised, Reason, Refused, Runtime, block_on, deadline, now,
    spawn_future, timeout,
};

use crate::channels::{Bounded, Kind, by_hand, for_kinds, poll_once};
use crate::support::{Counted, Tally};

const CAPACITIES: [usize; 3] = [0, 1, 5];
const LATER: Duration = Duration::from_secs(60);

/// A channel in which there is no room, with its items numbered from zero.
fn full<C: Kind>(capacity: usize, tally: &Tally) -> (Sender<Counted, C::Ends>, Receiver<Counted, C::Ends>) {
    let (sender, receiver) = C::open(capacity);
    (0..capacity as u64).for_each(|n| sender.try_send(tally.value(n)).unwrap());
    (sender, receiver)
}

/// What is in a channel.
fn numbers<K>(receiver: &Receiver<Counted, K>) -> Vec<u64> {
    receiver.try_iter().map(|item| item.number()).collect()
}

/// The channel works as if nobody had given up: a sender and a receiver meet.
#[track_caller]
fn works<K: Send + 'static>(
    runtime: &CurrentThread,
    tally: &Tally,
    sender: Sender<Counted, K>,
    receiver: Receiver<Counted, K>,
) {
    assert!(numbers(&receiver).is_empty());
    let item = tally.value(77);
    let sends = runtime.spawn(move || sender.send(item).unwrap());
    let receives = runtime.spawn(move || receiver.recv().unwrap().number());
    runtime.run_until_idle();
    assert_eq!(ended(receives).unwrap(), 77);
    ended(sends).unwrap();
}

/// Starts `body`, which waits.
#[track_caller]
fn waits<T: Send + 'static>(
    runtime: &CurrentThread,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let task = runtime.spawn(body);
    runtime.run_until_idle();
    assert!(!task.is_finished(), "it waits");
    task
}

/// What became of a task that has ended.
#[track_caller]
fn ended<T>(task: JoinHandle<T>) -> Result<T, Raised> {
    assert!(task.is_finished(), "it has ended");
    task.join()
}

fn is_cancelled(refused: &Refused) -> bool {
    refused.reason() == Reason::Cancelled
}

fn cancelled_send<C: Kind>(runtime: &CurrentThread) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, receiver) = full::<C>(capacity, &tally);
        let item = tally.value(9);
        let task = waits(runtime, move || (sender.send(item).unwrap_err(), sender));
        task.cancel();
        runtime.run_until_idle();
        let (SendError { item, why }, sender) = ended(task).unwrap();
        assert!(matches!(why, Unsent::Refused(refused) if is_cancelled(&refused)));
        assert_eq!(item.number(), 9);
        assert!(numbers(&receiver).into_iter().eq(0..capacity as u64));
        works(runtime, &tally, sender, receiver);
        drop(item);
        tally.assert_even(capacity + 2);
    }
}

#[test]
fn a_send_that_is_cancelled_while_it_waits_returns_its_item() {
    by_hand(|runtime, _| for_kinds!(C => cancelled_send::<C>(runtime)));
}

fn cancelled_recv<C: Kind>(runtime: &CurrentThread) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, receiver) = C::open(capacity);
        let task = waits(runtime, move || (receiver.recv().map(|_: Counted| ()).unwrap_err(), receiver));
        task.cancel();
        runtime.run_until_idle();
        let (error, receiver) = ended(task).unwrap();
        assert!(matches!(error, RecvError::Refused(refused) if is_cancelled(&refused)));
        works(runtime, &tally, sender, receiver);
        tally.assert_even(1);
    }
}

#[test]
fn a_receive_that_is_cancelled_while_it_waits_takes_nothing() {
    by_hand(|runtime, _| for_kinds!(C => cancelled_recv::<C>(runtime)));
}

fn cancelled_select<C: Kind>(runtime: &CurrentThread, listens: bool) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, full_one) = full::<C>(capacity, &tally);
        let (open, receiver) = C::open::<Counted>(capacity);
        let mut item = Some(tally.value(9));
        let task = waits(runtime, move || {
            let outcome = if listens {
                select! {
                    _ = send(&sender, &mut item) => "sent",
                    _ = recv(&receiver) => "received",
                    _ = cancelled() => "cancelled",
                }
            } else {
                select! {
                    _ = send(&sender, &mut item) => "sent",
                    _ = recv(&receiver) => "received",
                }
            };
            (outcome, item, sender, receiver)
        });
        task.cancel();
        runtime.run_until_idle();
        let (outcome, item, sender, receiver) = ended(task).unwrap();
        match outcome {
            Ok(arm) => assert!(listens && arm == "cancelled"),
            Err(refused) => assert!(!listens && is_cancelled(&refused)),
        }
        assert_eq!(item.as_ref().map(Counted::number), Some(9), "it is as it was");
        assert!(numbers(&full_one).into_iter().eq(0..capacity as u64));
        works(runtime, &tally, sender, full_one);
        works(runtime, &tally, open, receiver);
        drop(item);
        tally.assert_even(capacity + 3);
    }
}

#[test]
fn a_select_that_is_cancelled_while_it_waits_does_nothing() {
    by_hand(|runtime, _| for_kinds!(C => cancelled_select::<C>(runtime, false)));
}

#[test]
fn a_select_with_a_case_for_it_sees_the_cancel() {
    by_hand(|runtime, _| for_kinds!(C => cancelled_select::<C>(runtime, true)));
}

#[test]
fn a_cancelled_task_does_what_needs_no_wait() {
    by_hand(|runtime, _| {
        let (sender, receiver) = Bounded::open(2);
        let task = runtime.spawn(move || {
            sender.send(1).unwrap();
            let mut second = Some(2);
            select! { sent = send(&sender, &mut second) => sent.unwrap() }.unwrap();
            assert!(matches!(sender.send(3).unwrap_err().why, Unsent::Refused(_)));
            assert_eq!(receiver.recv().unwrap(), 1);
            assert_eq!(select! { item = recv(&receiver) => item.unwrap() }.unwrap(), 2);
            assert!(matches!(receiver.recv(), Err(RecvError::Refused(_))));
            select! { _ = cancelled() => (), _ = recv(&receiver) => panic!("it is empty") }.unwrap();
        });
        task.cancel();
        runtime.run_until_idle();
        ended(task).unwrap();
    });
}

/// How a receiver waits.
#[derive(Clone, Copy, Debug)]
enum Receives {
    Alone,
    InTime,
    InSelect,
    InManyCases,
}

const RECEIVES: [Receives; 4] =
    [Receives::Alone, Receives::InTime, Receives::InSelect, Receives::InManyCases];

impl Receives {
    fn recv<K>(self, receiver: &Receiver<Counted, K>) -> Result<Counted, RecvError> {
        match self {
            Receives::Alone => receiver.recv(),
            Receives::InTime => receiver.recv_timeout(LATER),
            Receives::InSelect => {
                let (_open, other) = Bounded::open::<u8>(0);
                select! { item = recv(receiver) => item, _ = recv(&other) => panic!("nobody sends") }?
            }
            Receives::InManyCases => {
                let (_open, other) = Bounded::open::<u8>(1);
                let mut select = sinew_chan::select::Select::new();
                for _ in 0..10 {
                    select = select.case(recv(&other), |_| panic!("nobody sends"));
                    select = select.case(recv(receiver), |item| item);
                }
                select.wait()?
            }
        }
    }
}

#[test]
fn a_receiver_that_was_given_an_item_and_cancelled_has_it() {
    by_hand(|runtime, _| {
        for (capacity, way) in CAPACITIES.into_iter().flat_map(|c| RECEIVES.map(|way| (c, way))) {
            let tally = Tally::new();
            let (sender, receiver) = Bounded::open(capacity);
            let task = waits(runtime, move || way.recv(&receiver).unwrap().number());
            sender.try_send(tally.value(5)).unwrap();
            task.cancel();
            runtime.run_until_idle();
            assert_eq!(ended(task).unwrap(), 5, "{way:?}");
            tally.assert_even(1);
        }
    });
}

#[test]
fn an_item_on_its_way_to_a_receiver_that_is_killed_goes_to_the_one_who_waits_next() {
    by_hand(|runtime, _| {
        for (capacity, way) in CAPACITIES.into_iter().flat_map(|c| RECEIVES.map(|way| (c, way))) {
            let tally = Tally::new();
            let (sender, receiver) = Bounded::open(capacity);
            let second = receiver.clone();
            let first = waits(runtime, move || way.recv(&receiver).map(|_| ()));
            let second = waits(runtime, move || way.recv(&second).unwrap().number());
            sender.try_send(tally.value(5)).unwrap();
            first.kill();
            runtime.run_until_idle();
            assert!(ended(first).is_err(), "{way:?}: it unwinds");
            assert_eq!(ended(second).unwrap(), 5, "{way:?}");
            tally.assert_even(1);
        }
    });
}

#[test]
fn an_item_on_its_way_to_a_receiver_that_is_killed_is_the_next_to_be_received() {
    by_hand(|runtime, _| {
        for (capacity, way) in CAPACITIES.into_iter().flat_map(|c| RECEIVES.map(|way| (c, way))) {
            let tally = Tally::new();
            let (sender, receiver) = Bounded::open(capacity);
            let waiting = receiver.clone();
            let task = waits(runtime, move || way.recv(&waiting).map(|_| ()));
            (0..=capacity as u64).for_each(|n| sender.try_send(tally.value(n)).unwrap());
            task.kill();
            runtime.run_until_idle();
            assert!(ended(task).is_err(), "{way:?}: it unwinds");
            assert_eq!(receiver.len(), capacity + 1, "that one is not counted against the room");
            assert!(sender.try_send(tally.value(9)).is_err(), "which there is none of");
            sender.close();
            assert_eq!(receiver.recv().unwrap().number(), 0, "{way:?}");
            assert!(numbers(&receiver).into_iter().eq(1..=capacity as u64), "{way:?}");
            assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
            tally.assert_even(capacity + 2);
        }
    });
}

fn killed_sender<C: Kind>(runtime: &CurrentThread, in_select: bool) {
    for capacity in CAPACITIES {
        for taken in [true, false] {
            let tally = Tally::new();
            let (sender, receiver) = full::<C>(capacity, &tally);
            let mut item = Some(tally.value(capacity as u64));
            let task = waits(runtime, move || {
                if in_select {
                    select! { sent = send(&sender, &mut item) => sent.map_err(drop) }.unwrap()
                } else {
                    sender.send(item.take().unwrap()).map_err(drop)
                }
            });
            let mut received = Vec::new();
            if taken {
                received.push(receiver.try_recv().unwrap().unwrap().number());
            }
            task.kill();
            runtime.run_until_idle();
            assert!(ended(task).is_err(), "it unwinds");
            received.extend(numbers(&receiver));
            let all = if taken { capacity + 1 } else { capacity };
            assert!(received.into_iter().eq(0..all as u64));
            tally.assert_even(capacity + 1);
        }
    }
}

/// The item is taken before the sender runs again, and then the sender is killed or its time passes: it unwinds all the
/// same.
#[test]
fn a_sender_may_unwind_although_its_item_was_sent_which_is_received_once() {
    by_hand(|runtime, clock| {
        for (capacity, kills) in CAPACITIES.into_iter().flat_map(|c| [(c, true), (c, false)]) {
            let tally = Tally::new();
            let (sender, receiver) = full::<Bounded>(capacity, &tally);
            let item = tally.value(capacity as u64);
            let sends = waits(runtime, move || timeout(LATER, || sender.send(item).map_err(drop)));
            let received: Vec<u64> = (0..=capacity).map(|_| receiver.recv().unwrap().number()).collect();
            assert!(received.into_iter().eq(0..=capacity as u64), "its item is the last");
            if kills {
                sends.kill();
            } else {
                clock.advance(LATER * 2);
            }
            runtime.run_until_idle();
            match ended(sends) {
                Err(raised) => assert!(kills && raised.is_cancelled()),
                Ok(outcome) => assert!(!kills && outcome == Err(Elapsed)),
            }
            assert!(matches!(receiver.recv(), Err(RecvError::Closed)), "nothing comes twice");
            tally.assert_even(capacity + 1);
        }
    });
}

#[test]
fn the_item_of_a_sender_that_is_killed_is_received_or_dropped() {
    by_hand(|runtime, _| {
        for_kinds!(C => killed_sender::<C>(runtime, false));
        for_kinds!(C => killed_sender::<C>(runtime, true));
    });
}

fn out_of_time<C: Kind>(runtime: &CurrentThread, clock: &sinew_sched::ManualClock) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, full_one) = full::<C>(capacity, &tally);
        let (open, receiver) = C::open::<Counted>(capacity);
        let item = tally.value(9);
        let task = waits(runtime, move || {
            let SendError { item, why } = sender.send_timeout(item, LATER).unwrap_err();
            assert!(matches!(why, Unsent::Timeout));
            assert!(matches!(receiver.recv_timeout(LATER), Err(RecvError::Timeout)));
            let mut item = Some(item);
            select! {
                _ = send(&sender, &mut item) => panic!("it is full"),
                _ = recv(&receiver) => panic!("it is empty"),
                _ = until(now() + LATER) => (),
            }
            .unwrap();
            let passed = deadline(now() + LATER, || drop(receiver.recv()));
            assert!(passed.is_err(), "it unwinds");
            let passed = deadline(now() + LATER, || select! { _ = recv(&receiver) => () });
            assert!(passed.is_err(), "it unwinds");
            assert_eq!(item.take().map(|item| item.number()), Some(9));
            (sender, receiver)
        });
        for _ in 0..5 {
            assert!(!task.is_finished());
            clock.advance(LATER + Duration::from_secs(1));
            runtime.run_until_idle();
        }
        let (sender, receiver) = ended(task).unwrap();
        assert!(numbers(&full_one).into_iter().eq(0..capacity as u64));
        works(runtime, &tally, sender, full_one);
        works(runtime, &tally, open, receiver);
        tally.assert_even(capacity + 3);
    }
}

#[test]
fn who_runs_out_of_time_has_its_item_and_waits_no_more() {
    by_hand(|runtime, clock| for_kinds!(C => out_of_time::<C>(runtime, clock)));
}

/// Futures that are polled once and dropped, some after they were given an item.
fn dropped_futures<C: Kind>(runtime: &CurrentThread) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, receiver) = C::open(capacity);
        {
            let mut first = pin!(receiver.recv_async());
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(first).is_pending());
        }
        {
            let mut first = Box::pin(receiver.recv_async());
            let mut second = Box::pin(receiver.recv_async());
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
            sender.try_send(tally.value(1)).unwrap();
            drop(first);
            assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Ok(item)) if item.number() == 1));
        }
        {
            let mut first = Box::pin(receiver.recv_async());
            assert!(poll_once(first.as_mut()).is_pending());
            sender.try_send(tally.value(2)).unwrap();
            drop(first);
            assert_eq!(numbers(&receiver), [2]);
        }
        (0..capacity as u64).for_each(|n| sender.try_send(tally.value(n)).unwrap());
        {
            let mut first = Box::pin(sender.send_async(tally.value(90)));
            let mut second = Box::pin(sender.send_async(tally.value(91)));
            let mut third = Box::pin(sender.send_async(tally.value(92)));
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
            assert!(poll_once(third.as_mut()).is_pending());
            assert_eq!(second.as_mut().cancel().map(|item| item.number()), Some(91));
            assert_eq!(third.as_mut().cancel().map(|item| item.number()), Some(92));
            let oldest = receiver.try_recv().unwrap().unwrap();
            assert_eq!(oldest.number(), if capacity == 0 { 90 } else { 0 });
            assert!(first.as_mut().cancel().is_none(), "it was sent");
            let never = sender.send_async(tally.value(93));
            drop(never);
        }
        let left: Vec<_> = (1..capacity as u64).chain((capacity > 0).then_some(90)).collect();
        assert_eq!(numbers(&receiver), left);
        works(runtime, &tally, sender, receiver);
        tally.assert_even(capacity + 7);
    }
}

#[test]
fn a_future_that_is_dropped_has_lost_nothing() {
    by_hand(|runtime, _| for_kinds!(C => dropped_futures::<C>(runtime)));
}

fn polled_by_two<C: Kind>(runtime: &CurrentThread) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, receiver) = full::<C>(capacity, &tally);
        let (open, empty) = C::open::<Counted>(capacity);
        let item = tally.value(9);
        let sends = runtime.spawn_future(async move {
            let mut sends = Box::pin(sender.send_async(item));
            assert!(poll_once(sends.as_mut()).is_pending());
            sends.await.unwrap();
        });
        let receives = runtime.spawn_future(async move {
            let mut receives = Box::pin(empty.recv_async());
            assert!(poll_once(receives.as_mut()).is_pending());
            receives.await.unwrap().number()
        });
        runtime.run_until_idle();
        assert!(receiver.try_recv().unwrap().is_some());
        open.try_send(tally.value(5)).unwrap();
        runtime.run_until_idle();
        ended(sends).unwrap();
        assert_eq!(ended(receives).unwrap(), 5);
        drop(receiver);
        tally.assert_even(capacity + 2);
    }
}

#[test]
fn a_future_wakes_whoever_polled_it_last() {
    by_hand(|runtime, _| for_kinds!(C => polled_by_two::<C>(runtime)));
}

/// Calls that would block, inside the poll of a future.
fn refused_in_polls<C: Kind>(capacity: usize, tally: &Tally) {
    let inside_poll = |refused: &Refused| refused.reason() == Reason::InsidePoll;
    let (sender, full_one) = full::<C>(capacity, tally);
    let (open, receiver) = C::open::<Counted>(capacity);
    let SendError { item, why } = sender.send(tally.value(9)).unwrap_err();
    assert!(matches!(why, Unsent::Refused(refused) if inside_poll(&refused)));
    assert!(matches!(receiver.recv(), Err(RecvError::Refused(refused)) if inside_poll(&refused)));
    let waited = receiver.recv_timeout(LATER);
    assert!(matches!(waited, Err(RecvError::Refused(refused)) if inside_poll(&refused)));
    let mut item = Some(item);
    let waited = select! { _ = send(&sender, &mut item) => (), _ = recv(&receiver) => () };
    assert!(waited.is_err_and(|refused| inside_poll(&refused)));
    assert_eq!(item.map(|item| item.number()), Some(9));
    assert!(open.try_send(tally.value(5)).is_ok() == (capacity > 0), "nobody waits");
    assert_eq!(receiver.try_recv().unwrap().is_some(), capacity > 0);
    assert!(numbers(&full_one).into_iter().eq(0..capacity as u64));
}

#[test]
fn inside_a_poll_what_would_block_is_refused_and_nothing_is_lost() {
    fn test() {
        for_kinds!(C => {
            for capacity in CAPACITIES {
                let tally = Tally::new();
                refused_in_polls::<C>(capacity, &tally);
                tally.assert_even(capacity + 2);
            }
        });
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| spawn_future(async { test() }).join().unwrap()).unwrap();
    runtime.run(|| block_on(async { test() }).unwrap()).unwrap();
    block_on(async { test() }).unwrap();
}

/// A task that waits in a future is cancelled: the future is dropped.
fn cancelled_future<C: Kind<Ends = Many>>(runtime: &CurrentThread) {
    for capacity in CAPACITIES {
        let tally = Tally::new();
        let (sender, receiver) = C::open::<Counted>(capacity);
        let waiting = receiver.clone();
        let task = runtime.spawn_future(async move { waiting.recv_async().await.map(|item| item.number()) });
        runtime.run_until_idle();
        sender.try_send(tally.value(3)).unwrap();
        task.kill();
        runtime.run_until_idle();
        match ended(task) {
            Ok(received) => assert_eq!(received.unwrap(), 3),
            Err(_) => assert_eq!(numbers(&receiver), [3]),
        }
        works(runtime, &tally, sender, receiver);
        tally.assert_even(2);
    }
}

#[test]
fn an_item_on_its_way_to_a_future_whose_task_is_killed_is_not_lost() {
    by_hand(|runtime, _| for_kinds!(C: Many => cancelled_future::<C>(runtime)));
}

#[test]
fn items_on_their_way_to_several_receivers_that_are_killed_keep_their_order() {
    by_hand(|runtime, _| {
        for capacity in CAPACITIES {
            let tally = Tally::new();
            let (sender, receiver) = Bounded::open(capacity);
            let tasks: Vec<_> = (0..4)
                .map(|n| {
                    let (way, waiting) = (RECEIVES[n], receiver.clone());
                    waits(runtime, move || way.recv(&waiting).map(|_| ()))
                })
                .collect();
            (0..4 + capacity as u64).for_each(|n| sender.try_send(tally.value(n)).unwrap());
            tasks.iter().for_each(|task| task.kill());
            runtime.run_until_idle();
            tasks.into_iter().for_each(|task| assert!(ended(task).is_err()));
            assert!(numbers(&receiver).into_iter().eq(0..4 + capacity as u64), "capacity {capacity}");
        }
    });
}
