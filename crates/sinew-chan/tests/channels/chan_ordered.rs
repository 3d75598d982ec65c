//! Channels of tasks: results in the order of the tasks, none lost, and no task that nobody hears of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{RecvError, Unsent, oneshot, ordered};
use sinew_chan::select;
use sinew_chan::select::send;
use sinew_sched::{Reason, block_on, sleep, sleep_async, spawn, spawn_future, yield_now};

use crate::support::{Tally, current_thread, gated, poll, with_manual_clock, with_runtimes};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn results_come_in_the_order_of_the_tasks() {
    with_runtimes(|runtime| {
        let test = || {
            for capacity in [1, 3, 64] {
                let (sender, mut receiver) = ordered::channel(capacity);
                let feeds = spawn(move || {
                    for n in 0..200u64 {
                        let body = move || {
                            (0..n * 7 % 11).for_each(|_| yield_now());
                            n
                        };
                        sender.spawn(body).unwrap();
                    }
                });
                assert!(receiver.iter().map(|result| result.unwrap()).eq(0..200), "capacity {capacity}");
                feeds.join().unwrap();
            }
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn tasks_are_sent_and_joined_by_threads() {
    with_runtimes(|runtime| {
        let (sender, receiver) = ordered::channel(2);
        let receives =
            thread::spawn(move || receiver.into_iter().map(|result| result.unwrap()).collect::<Vec<_>>());
        for n in 0..50 {
            sender.send(runtime.spawn(move || n)).unwrap();
        }
        drop(sender);
        assert!(receives.join().unwrap().into_iter().eq(0..50));
    });
}

#[test]
fn who_sends_waits_while_the_channel_is_full() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(2);
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let feeds = runtime.spawn(move || {
        for n in 0..5 {
            let count = count.clone();
            sender.spawn(move || (count.fetch_add(1, Ordering::Relaxed), n).1).unwrap();
        }
    });
    runtime.run_until_idle();
    assert_eq!((started.load(Ordering::Relaxed), receiver.len(), receiver.capacity()), (3, 2, 2));
    for n in 0..5 {
        assert_eq!(receiver.try_recv().unwrap().unwrap().unwrap(), n);
        runtime.run_until_idle();
        assert_eq!(started.load(Ordering::Relaxed), 5.min(n + 4));
    }
    feeds.join().unwrap();
    assert!(matches!(receiver.try_recv(), Err(RecvError::Closed)));
}

#[test]
fn a_task_that_takes_long_holds_up_those_behind_it() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(4);
    let (gate, first) = gated(&runtime);
    sender.try_send(first).unwrap();
    sender.try_send(runtime.spawn(|| 1)).unwrap();
    runtime.run_until_idle();
    assert_eq!((sender.len(), receiver.len()), (2, 2));
    assert!(receiver.try_recv().unwrap().is_none());
    assert_eq!((sender.len(), receiver.len()), (1, 2));
    gate.send(0).unwrap();
    runtime.run_until_idle();
    assert_eq!(receiver.try_recv().unwrap().unwrap().unwrap(), 0);
    assert_eq!(receiver.try_recv().unwrap().unwrap().unwrap(), 1);
    assert!(receiver.try_recv().unwrap().is_none() && receiver.is_empty());
}

#[test]
fn a_task_that_fails_says_how_and_the_others_go_on() {
    with_runtimes(|runtime| {
        let test = || {
            let (sender, mut receiver) = ordered::channel(4);
            for n in 0..3 {
                sender.spawn(move || assert!(n != 1, "the middle one")).unwrap();
            }
            assert!(receiver.recv().unwrap().is_ok());
            assert!(receiver.recv().unwrap().unwrap_err().to_string().contains("the middle one"));
            assert!(receiver.recv().unwrap().is_ok());
        };
        runtime.run(test).unwrap();
    });
}

#[test]
fn futures_receive_and_wake_whoever_has_polled_them_last() {
    with_runtimes(|runtime| {
        let (sender, mut receiver) = ordered::channel(2);
        let feeds = runtime.spawn_future(async move {
            for n in 0..50 {
                let task = spawn_future(async move { (sleep_async(Duration::ZERO).await, n).1 });
                sender.send_async(task).await.unwrap();
            }
        });
        let receives = runtime.spawn_future(async move {
            let mut results = Vec::new();
            while let Ok(result) = receiver.recv_async().await {
                results.push(result.unwrap());
            }
            results
        });
        feeds.join().unwrap();
        assert!(receives.join().unwrap().into_iter().eq(0..50));

        let (sender, mut receiver) = ordered::channel(2);
        let (gate, mut opened) = oneshot::channel();
        sender.send(runtime.spawn(move || opened.recv().unwrap())).unwrap();
        let mut future = Box::pin(receiver.recv_async());
        assert!(poll(future.as_mut()).is_pending());
        let opens = async {
            assert!(
                std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await.is_pending()
            );
            gate.send(5).unwrap();
            future.await
        };
        assert_eq!(block_on(opens).unwrap().unwrap().unwrap(), 5);
    });
}

#[test]
fn a_task_that_cannot_be_sent_is_cancelled_and_joined() {
    with_manual_clock(|| {
        let tally = Tally::new();
        let body = |tally: &Tally| {
            let value = tally.value(1);
            move || (sleep(HOUR), drop(value)).0
        };
        let (sender, receiver) = ordered::channel(1);
        sender.spawn(|| ()).unwrap();
        let late = sender.spawn_timeout(body(&tally), HOUR / 2).unwrap_err();
        assert!(matches!(late.why, Unsent::Timeout) && late.item.unwrap_err().is_cancelled());
        assert_eq!(tally.dropped(), 1, "it has ended");

        let (other, counts) = (sender.clone(), tally.clone());
        let gives_up = spawn(move || {
            let unsent = other.spawn(body(&counts)).unwrap_err();
            assert!(matches!(&unsent.why, Unsent::Refused(why) if why.reason() == Reason::Cancelled));
            (unsent.item.unwrap_err().is_cancelled(), counts.dropped())
        });
        yield_now();
        gives_up.cancel();
        assert_eq!(gives_up.join().unwrap(), (true, 2));

        let (other, counts) = (sender.clone(), tally.clone());
        let waits = spawn(move || other.spawn(body(&counts)).unwrap_err());
        yield_now();
        drop(receiver);
        let closed = waits.join().unwrap();
        assert!(matches!(closed.why, Unsent::Closed) && closed.item.unwrap_err().is_cancelled());
        assert!(sender.spawn(|| ()).unwrap_err().item.is_ok(), "it was over before it noticed");
        tally.assert_even(3);
    });
}

#[test]
fn a_sender_that_is_killed_cancels_the_task_that_it_could_not_send() {
    let runtime = current_thread();
    let (sender, receiver) = ordered::channel(1);
    sender.try_send(runtime.spawn(|| ())).unwrap();
    let tally = Tally::new();
    let value = tally.value(1);
    let dies = runtime.spawn(move || sender.spawn(move || (sleep(HOUR), drop(value)).0).is_ok());
    runtime.run_until_idle();
    dies.kill();
    runtime.run_until_idle();
    assert!(dies.join().is_err());
    tally.assert_even(1);
    drop(receiver);
}

#[test]
fn a_receiver_that_goes_cancels_what_it_has_not_received() {
    with_runtimes(|runtime| {
        let tally = Tally::new();
        let counts = tally.clone();
        let test = move || {
            let (sender, mut receiver) = ordered::channel(3);
            for n in 0..3 {
                let value = counts.value(n);
                sender.spawn(move || (sleep(HOUR), drop(value)).0).unwrap();
            }
            assert!(
                matches!(receiver.recv_timeout(Duration::from_micros(10)), Err(RecvError::Timeout)),
                "one is its head"
            );
            assert_eq!((sender.len(), receiver.len()), (2, 3));
            drop(receiver);
            assert!(sender.is_closed() && sender.is_empty());
        };
        runtime.run(test).unwrap();
        while tally.dropped() < 3 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_handle_that_was_not_sent_comes_back() {
    let runtime = current_thread();
    let (sender, receiver) = ordered::channel(1);
    sender.try_send(runtime.spawn(|| 1)).unwrap();
    let full = sender.try_send(runtime.spawn(|| 2)).unwrap_err();
    runtime.run_until_idle();
    assert!(matches!(full.why, Unsent::Full));
    assert_eq!(full.item.join().unwrap(), 2);
    let (other, third) = (sender.clone(), runtime.spawn(|| 3));
    let late = runtime.spawn(move || other.send_timeout(third, Duration::from_micros(1)).unwrap_err());
    while !late.is_finished() {
        runtime.run_until_idle();
    }
    let late = late.join().unwrap();
    assert!(matches!(late.why, Unsent::Timeout) && late.item.join().unwrap() == 3);
    assert!(receiver.reject("no more"));
    let rejected = sender.send(runtime.spawn(|| 4)).unwrap_err();
    runtime.run_until_idle();
    assert!(matches!(&rejected.why, Unsent::Rejected(why) if why.to_string() == "no more"));
    assert_eq!(rejected.item.join().unwrap(), 4, "it was not cancelled");
}

#[test]
fn a_future_that_has_not_sent_gives_the_handle_back_or_cancels_the_task() {
    let runtime = current_thread();
    let (sender, _receiver) = ordered::channel(1);
    sender.try_send(runtime.spawn(|| 0)).unwrap();
    let mut gives_back = Box::pin(sender.send_async(runtime.spawn(|| 1)));
    assert!(poll(gives_back.as_mut()).is_pending());
    let back = gives_back.as_mut().cancel().unwrap();
    runtime.run_until_idle();
    assert_eq!(back.join().unwrap(), 1);
    let tally = Tally::new();
    let value = tally.value(1);
    let task = runtime.spawn(move || {
        sleep(HOUR);
        drop(value);
        2
    });
    runtime.run_until_idle();
    let mut dropped = Box::pin(sender.send_async(task));
    assert!(poll(dropped.as_mut()).is_pending());
    drop(dropped);
    runtime.run_until_idle();
    tally.assert_even(1);
}

#[test]
fn a_select_sends_a_task_or_leaves_its_handle() {
    with_manual_clock(|| {
        let (sender, mut receiver) = ordered::channel(1);
        let mut task = Some(spawn(|| 1));
        select! { sent = send(&sender, &mut task) => sent.unwrap() }.unwrap();
        assert!(task.is_none());
        task = Some(spawn(|| 2));
        let timed_out = select! {
            _ = send(&sender, &mut task) => false,
            _ = select::sleep(HOUR) => true,
        };
        assert!(timed_out.unwrap());
        let waits = spawn(move || {
            let sent = select! { sent = send(&sender, &mut task) => sent };
            sent.unwrap().unwrap();
            let (mut late, _) = (Some(spawn(|| 3)), sender.close());
            let ended = select! { sent = send(&sender, &mut late) => sent };
            let back = ended.unwrap().unwrap_err();
            assert!(matches!(back.why, Unsent::Closed) && late.is_none());
            back.item.join().unwrap()
        });
        sleep(HOUR); // it waits
        assert_eq!(receiver.recv().unwrap().unwrap(), 1);
        assert_eq!(receiver.recv().unwrap().unwrap(), 2, "it was not cancelled when it was not sent");
        assert_eq!(waits.join().unwrap(), 3);
        assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
    });
}

#[test]
fn those_that_have_ended_are_iterated_over_up_to_the_first_that_has_not() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(4);
    let (gate, task) = gated(&runtime);
    for task in [runtime.spawn(|| 1), task, runtime.spawn(|| 3)] {
        sender.try_send(task).unwrap();
    }
    runtime.run_until_idle();
    assert!(receiver.try_iter().map(Result::unwrap).eq([1]));
    gate.send(2).unwrap();
    runtime.run_until_idle();
    assert!(receiver.try_iter().map(Result::unwrap).eq([2, 3]));
    assert_eq!(receiver.try_iter().count(), 0);
}

#[test]
fn a_channel_that_has_ended_is_received_first() {
    let runtime = current_thread();
    type Ends = fn(&ordered::Sender<u64>, &ordered::Receiver<u64>) -> bool;
    let ends: [Ends; 4] = [
        |sender, _| sender.close(),
        |sender, _| sender.close_err("disk full"),
        |sender, _| sender.cancel(),
        |_, receiver| receiver.cancel(),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let (sender, mut receiver) = ordered::channel(4);
        sender.try_send(runtime.spawn(|| 5)).unwrap();
        assert!(end(&sender, &receiver) && !receiver.close() && receiver.is_closed());
        runtime.run_until_idle();
        assert_eq!(receiver.recv().unwrap().unwrap(), 5);
        let ended = receiver.recv().unwrap_err();
        match n {
            0 => assert!(matches!(ended, RecvError::Closed)),
            1 => assert!(matches!(ended, RecvError::Failed(why) if why.to_string() == "disk full")),
            _ => assert!(matches!(ended, RecvError::Cancelled)),
        }
    }
}

#[test]
fn an_iteration_unwinds_when_its_task_is_cancelled() {
    let runtime = current_thread();
    let (_sender, receiver) = ordered::channel::<()>(1);
    let iterates = runtime.spawn(move || receiver.into_iter().count());
    runtime.run_until_idle();
    iterates.cancel();
    runtime.run_until_idle();
    assert!(iterates.join().unwrap_err().is_cancelled());
}

#[test]
#[should_panic(expected = "at least one")]
fn a_channel_for_no_task_is_refused() {
    drop(ordered::channel::<()>(0));
}
