//! Channels that are bounded by weight: exact, first come first served, and what is too heavy comes back.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{self, Receiver, RecvError, SendError, Sender, Unsent};
use sinew_chan::select;
use sinew_chan::select::{recv, send, sleep};
use sinew_sched::{ManualClock, Reason, Runtime, block_on, spawn, spawn_future, yield_now};

const SOON: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(1000);

/// Runs `test` as a task, with one worker and with several, on a clock that jumps.
fn in_tasks(test: fn()) {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
        runtime.run(test).unwrap();
    }
}

/// An item weighs its own number.
fn channel(capacity: usize) -> (Sender<usize>, Receiver<usize>) {
    chan::weighted(capacity, |item| *item)
}

/// Sends in a task, which waits when this returns.
fn start_send(sender: &Sender<usize>, item: usize) -> sinew_sched::JoinHandle<Result<(), SendError<usize>>> {
    let sender = sender.clone();
    let sends = spawn(move || sender.send(item));
    sinew_sched::sleep(SOON); // on this clock: until everybody waits
    sends
}

#[test]
fn the_weight_inside_is_exact_and_an_item_weighs_at_least_one() {
    let (sender, receiver) = channel(10);
    for (item, fits) in [(4, true), (0, true), (6, false), (5, true), (1, false), (0, false)] {
        match sender.try_send(item) {
            Ok(()) => assert!(fits),
            Err(refused) => assert!(!fits && matches!(refused.why, Unsent::Full) && refused.item == item),
        }
    }
    assert_eq!((sender.len(), sender.weight(), sender.capacity()), (3, 10, 10));
    assert!(receiver.try_iter().eq([4, 0, 5]));
    assert_eq!((receiver.len(), receiver.weight()), (0, 0));
}

#[test]
fn the_weight_of_many_who_send_and_receive_is_never_exceeded() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        let sends: Vec<_> = (0..4)
            .map(|task| {
                let sender = sender.clone();
                spawn(move || {
                    for n in 0..200 {
                        sender.send((task + n) % 11).unwrap();
                        assert!(sender.weight() <= 10);
                    }
                })
            })
            .collect();
        drop(sender);
        let receives: Vec<_> =
            [receiver.clone(), receiver].map(|receiver| spawn(move || receiver.iter().sum::<usize>())).into();
        sends.into_iter().for_each(|sends| sends.join().unwrap());
        let received: usize = receives.into_iter().map(|receives| receives.join().unwrap()).sum();
        let sent: usize = (0..4).flat_map(|task| (0..200).map(move |n| (task + n) % 11)).sum();
        assert_eq!(received, sent);
    });
}

#[test]
fn what_is_too_heavy_comes_back_at_once_however_it_is_sent() {
    fn is_too_heavy(error: SendError<usize>) {
        assert!(matches!(error.why, Unsent::TooHeavy { weight: 11, capacity: 10 }), "{error}");
        assert_eq!(error.item, 11);
    }
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        for inside in [None, Some(9)] {
            inside.into_iter().for_each(|item| sender.send(item).unwrap());
            is_too_heavy(sender.send(11).unwrap_err());
            is_too_heavy(sender.try_send(11).unwrap_err());
            is_too_heavy(sender.send_timeout(11, LONG).unwrap_err());
            is_too_heavy(sender.force_send(11).unwrap_err());
            is_too_heavy(block_on(sender.send_async(11)).unwrap().unwrap_err());
            let mut item = Some(11);
            select! { sent = send(&sender, &mut item) => is_too_heavy(sent.unwrap_err()) }.unwrap();
            let mut items = VecDeque::from([0, 11, 1]);
            let why = sender.send_all(&mut items).unwrap_err();
            assert!(matches!(why, Unsent::TooHeavy { .. }) && items == [11, 1]);
            assert!(receiver.try_iter().eq(inside.into_iter().chain([0])));
        }
        sender.close();
        is_too_heavy(sender.send(11).unwrap_err());
    });
    let (sender, _receiver) = channel(0);
    assert!(matches!(sender.send(0).unwrap_err().why, Unsent::TooHeavy { weight: 1, capacity: 0 }));
}

#[test]
fn a_light_item_does_not_pass_a_heavy_one_that_waits() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        sender.send(8).unwrap();
        let heavy = start_send(&sender, 9);
        let light = start_send(&sender, 1);
        assert!(matches!(sender.try_send(1).unwrap_err().why, Unsent::Full));
        assert_eq!(receiver.recv().unwrap(), 8);
        heavy.join().unwrap().unwrap();
        light.join().unwrap().unwrap();
        assert!(receiver.try_iter().eq([9, 1]));
    });
}

#[test]
fn one_item_that_leaves_lets_in_as_many_as_fit() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        sender.send(10).unwrap();
        let senders = [3, 3, 3, 3].map(|item| start_send(&sender, item));
        assert_eq!(receiver.recv().unwrap(), 10);
        assert_eq!((receiver.len(), receiver.weight()), (3, 9));
        assert_eq!(receiver.recv().unwrap(), 3);
        assert_eq!((receiver.len(), receiver.weight()), (3, 9));
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
    });
}

#[test]
fn a_heavy_item_that_is_given_up_lets_those_behind_it_pass() {
    in_tasks(|| {
        for way in 0..4 {
            let (sender, receiver) = channel(10);
            sender.send(8).unwrap();
            let gives_up = sender.clone();
            let heavy = spawn(move || match way {
                0 => gives_up.send(9),
                1 => gives_up.send_timeout(9, Duration::from_secs(1)),
                2 => block_on(gives_up.send_async(9)).unwrap(),
                _ => {
                    let mut item = Some(9);
                    select! {
                        sent = send(&gives_up, &mut item) => sent,
                        _ = sleep(Duration::from_secs(1)) => Err(gives_up.try_send(9).unwrap_err()),
                    }
                    .unwrap()
                }
            });
            sinew_sched::sleep(SOON);
            let light = start_send(&sender, 2);
            assert_eq!(sender.len(), 1);
            match way {
                0 => heavy.cancel(),
                2 => heavy.kill(),
                _ => (),
            }
            light.join().unwrap().unwrap();
            match heavy.join() {
                Ok(sent) => assert_eq!(sent.unwrap_err().item, 9),
                Err(_) => assert_eq!(way, 2, "it was killed"),
            }
            assert!(receiver.try_iter().eq([8, 2]));
        }
    });
}

#[test]
fn as_many_of_the_oldest_go_as_are_needed() {
    let (sender, receiver) = channel(10);
    for (item, displaced) in [(1, vec![]), (2, vec![]), (7, vec![]), (3, vec![1, 2]), (10, vec![7, 3])] {
        let gone = sender.force_send(item).unwrap();
        assert_eq!(gone.len(), displaced.len());
        assert!(gone.eq(displaced));
    }
    assert!(receiver.try_iter().eq([10]));
}

#[test]
fn room_that_was_made_for_one_that_is_forced_in_is_used_by_those_who_wait() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        sender.send(8).unwrap();
        sender.send(1).unwrap();
        let waits = start_send(&sender, 3);
        assert!(sender.force_send(2).unwrap().eq([8]));
        waits.join().unwrap().unwrap();
        assert!(receiver.try_iter().eq([1, 2, 3]));
    });
}

#[test]
fn an_item_is_weighed_once_and_a_scale_that_panics_harms_nobody() {
    in_tasks(|| {
        let weighed = Arc::new(AtomicUsize::new(0));
        let count = weighed.clone();
        let (sender, receiver) = chan::weighted(10, move |item: &usize| {
            count.fetch_add(1, Ordering::Relaxed);
            assert_ne!(*item, 7, "no sevens");
            *item
        });
        sender.send(10).unwrap();
        let waits = start_send(&sender, 9);
        assert!(sender.try_send(3).is_err());
        assert_eq!(weighed.load(Ordering::Relaxed), 3);
        assert!(catch_unwind(AssertUnwindSafe(|| sender.send(7))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| sender.force_send(7))).is_err());
        assert_eq!((receiver.recv().unwrap(), receiver.recv().unwrap()), (10, 9));
        waits.join().unwrap().unwrap();
        let mut items: VecDeque<_> = [5, 4, 3, 2, 1].into();
        let receives = spawn(move || receiver.iter().count());
        sender.send_all(&mut items).unwrap();
        assert_eq!(weighed.load(Ordering::Relaxed), 3 + 2 + 5);
        drop(sender);
        assert_eq!(receives.join().unwrap(), 5);
    });
}

#[test]
fn receivers_that_wait_are_served_in_their_order() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let receivers: Vec<_> = (0..4)
            .map(|number| {
                let (receiver, order) = (receiver.clone(), order.clone());
                let receives = spawn(move || {
                    let item = receiver.recv().unwrap();
                    order.lock().unwrap().push(number);
                    item
                });
                sinew_sched::sleep(SOON);
                receives
            })
            .collect();
        for item in 1..=4 {
            sender.send(item).unwrap();
            assert_eq!(receiver.try_recv().unwrap(), None, "it is kept for one that waits");
            sinew_sched::sleep(SOON);
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
        assert!(receivers.into_iter().map(|receiver| receiver.join().unwrap()).eq(1..=4));
    });
}

#[test]
fn an_item_on_its_way_to_one_that_is_killed_comes_to_the_next_in_order() {
    in_tasks(|| {
        for _ in 0..50 {
            let (sender, receiver) = channel(10);
            let receives = receiver.clone();
            let killed = spawn(move || receives.recv());
            yield_now();
            sender.send(1).unwrap();
            sender.send(2).unwrap();
            killed.kill();
            let first = killed.join().map_or(0, |received| received.unwrap());
            drop(sender);
            assert_eq!(first + receiver.iter().sum::<usize>(), 3);
        }
        let (sender, receiver) = channel(10);
        let mut future = pin!(Some(receiver.recv_async()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().as_pin_mut().unwrap().poll(&mut context).is_pending());
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        assert_eq!(receiver.try_recv().unwrap(), Some(1), "one of two is kept");
        assert_eq!((receiver.try_recv().unwrap(), receiver.weight()), (None, 2));
        future.set(None);
        assert_eq!(receiver.try_recv().unwrap(), Some(2));
        future.set(Some(receiver.recv_async()));
        let mut next = pin!(receiver.recv_async());
        assert!(future.as_mut().as_pin_mut().unwrap().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_pending());
        sender.send(3).unwrap();
        assert!(next.as_mut().poll(&mut context).is_pending());
        future.set(None);
        assert!(matches!(next.poll(&mut context), Poll::Ready(Ok(3))));
    });
}

#[test]
fn a_receiver_sees_that_it_is_closed_when_the_last_item_is_taken() {
    let (sender, receiver) = channel(10);
    let mut kept = pin!(receiver.recv_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(kept.as_mut().poll(&mut context).is_pending());
    sender.send(1).unwrap();
    drop(sender);
    assert_eq!(receiver.try_recv().unwrap(), None, "it may yet become free");
    let mut other = pin!(receiver.recv_async());
    assert!(other.as_mut().poll(&mut context).is_pending());
    assert!(matches!(kept.poll(&mut context), Poll::Ready(Ok(1))));
    assert!(matches!(other.poll(&mut context), Poll::Ready(Err(RecvError::Closed))));
}

#[test]
fn a_receiver_whose_item_was_displaced_waits_for_the_next() {
    let (sender, receiver) = channel(10);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(receiver.recv_async());
    let mut second = pin!(receiver.recv_async());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    sender.send(5).unwrap();
    sender.send(4).unwrap();
    assert!(sender.force_send(10).unwrap().eq([5, 4]));
    assert!(matches!(second.as_mut().poll(&mut context), Poll::Ready(Ok(10))));
    assert!(first.as_mut().poll(&mut context).is_pending());
    sender.send(1).unwrap();
    assert!(matches!(first.poll(&mut context), Poll::Ready(Ok(1))));
}

#[test]
fn waits_end_in_time_and_when_their_task_is_cancelled() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        assert!(matches!(receiver.recv_timeout(LONG), Err(RecvError::Timeout)));
        sender.send(10).unwrap();
        let late = sender.send_timeout(1, LONG).unwrap_err();
        assert!(matches!(late.why, Unsent::Timeout) && late.item == 1);
        let waits = start_send(&sender, 1);
        waits.cancel();
        let unsent = waits.join().unwrap().unwrap_err();
        assert!(matches!(unsent.why, Unsent::Refused(refused) if refused.reason() == Reason::Cancelled));
        assert_eq!((receiver.len(), receiver.recv().unwrap()), (1, 10));
    });
}

#[test]
fn closing_gives_senders_their_items_back_and_receivers_what_is_inside() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        sender.send(6).unwrap();
        let waits = [5, 1].map(|item| start_send(&sender, item));
        assert!(receiver.reject("enough"));
        for (waits, item) in waits.into_iter().zip([5, 1]) {
            let unsent = waits.join().unwrap().unwrap_err();
            assert!(matches!(unsent.why, Unsent::Rejected(_)) && unsent.item == item);
        }
        assert_eq!(receiver.recv().unwrap(), 6);
        assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
    });
}

#[test]
fn futures_threads_and_selects_send_and_receive() {
    in_tasks(|| {
        let (sender, receiver) = channel(10);
        let futures = sender.clone();
        let sends = spawn_future(async move {
            for n in 1..=100 {
                futures.send_async(n % 10 + 1).await.unwrap();
            }
        });
        let outside = thread::spawn(move || (1..=100).for_each(|n| sender.send(n % 10 + 1).unwrap()));
        let (mut received, mut count) = (0, 0);
        while let Ok(item) = select! { item = recv(&receiver) => item }.unwrap() {
            received += item;
            count += 1;
        }
        assert_eq!((received, count), (2 * 550, 200));
        sends.join().unwrap();
        outside.join().unwrap();
    });
}

#[test]
fn what_is_left_inside_is_dropped_with_the_channel() {
    let item = Arc::new(());
    let (sender, receiver) = chan::weighted(10, |_: &Arc<()>| 3);
    (0..3).for_each(|_| sender.send(item.clone()).unwrap());
    assert_eq!(Arc::strong_count(&item), 4);
    drop((sender, receiver));
    assert_eq!(Arc::strong_count(&item), 1);
}
