//! Channels for one value: it arrives once, also after waits that were given up.

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{self, RecvError, Unsent, oneshot};
use sinew_chan::select;
use sinew_chan::select::{cancelled, recv, sleep};
use sinew_chan::sync::Mutex;
use sinew_sched::{ManualClock, Reason, Runtime, block_on, now, spawn, spawn_future};

use crate::support::{Tally, current_thread, poll, with_runtimes};

#[test]
fn each_of_many_single_values_arrives() {
    with_runtimes(|runtime| {
        let sum = runtime.run(|| {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..200).map(|_| oneshot::channel()).unzip();
            let mut tasks = Vec::new();
            for (n, mut receiver) in receivers.into_iter().enumerate() {
                tasks.push(match n % 3 {
                    0 => spawn(move || receiver.recv().unwrap()),
                    1 => spawn_future(async move { receiver.recv_async().await.unwrap() }),
                    _ => spawn(move || select! { value = recv(&mut receiver) => value.unwrap() }.unwrap()),
                });
            }
            let sends = |(n, sender): (u64, oneshot::Sender<u64>)| spawn(move || sender.send(n)).detach();
            (0..).zip(senders).for_each(sends);
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum.unwrap(), 19_900);
    });
}

#[test]
fn threads_and_tasks_hand_values_over() {
    with_runtimes(|runtime| {
        let (sender, mut receiver) = oneshot::channel();
        let receives = thread::spawn(move || receiver.recv().unwrap());
        runtime.run(|| sender.send(5).unwrap()).unwrap();
        assert_eq!(receives.join().unwrap(), 5);
        let (sender, mut receiver) = oneshot::channel();
        let receives = runtime.spawn(move || receiver.recv().unwrap());
        sender.send(6).unwrap();
        assert_eq!(receives.join().unwrap(), 6);
    });
}

#[test]
fn each_end_of_a_channel_sees_that_the_other_is_gone() {
    let runtime = current_thread();
    let (sender, mut receiver) = oneshot::channel::<()>();
    let waits = runtime.spawn(move || matches!(receiver.recv(), Err(RecvError::Closed)));
    runtime.run_until_idle();
    drop(sender);
    runtime.run_until_idle();
    assert!(waits.is_finished() && waits.join().unwrap());
    let (sender, receiver) = oneshot::channel();
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    let unsent = sender.send(5).unwrap_err();
    assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 5);
}

#[test]
fn a_value_that_nobody_receives_is_dropped_once() {
    let tally = Tally::new();
    let (sender, receiver) = oneshot::channel();
    sender.send(tally.value(1)).unwrap();
    assert_eq!(tally.dropped(), 0);
    drop(receiver);
    tally.assert_even(1);
    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    drop(sender.send(tally.value(2)).unwrap_err());
    tally.assert_even(2);
}

#[test]
fn what_was_sent_before_the_channel_was_closed_is_received() {
    let (sender, mut receiver) = oneshot::channel();
    sender.send(5).unwrap();
    receiver.close();
    assert_eq!(receiver.recv().unwrap(), 5);
    assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
    let (sender, mut receiver) = oneshot::channel();
    receiver.close();
    assert!(sender.is_closed());
    assert!(matches!(receiver.recv(), Err(RecvError::Closed)), "nobody can send any more");
    assert_eq!(sender.send(6).unwrap_err().item, 6);
    assert!(matches!(receiver.try_recv(), Err(RecvError::Closed)));
}

#[test]
fn a_receiver_that_is_cancelled_receives_later_and_a_value_that_is_there_at_once() {
    let runtime = current_thread();
    let (sender, mut receiver) = oneshot::channel();
    let waits = runtime.spawn(move || {
        let refused = receiver.recv().unwrap_err();
        assert!(matches!(refused, RecvError::Refused(refused) if refused.reason() == Reason::Cancelled));
        receiver
    });
    runtime.run_until_idle();
    waits.cancel();
    runtime.run_until_idle();
    let mut receiver = waits.join().unwrap();
    sender.send(5).unwrap();
    assert_eq!(receiver.recv().unwrap(), 5);
    let (sender, mut receiver) = oneshot::channel();
    sender.send(5).unwrap();
    let receives = runtime.spawn(move || receiver.recv().unwrap());
    receives.cancel();
    runtime.run_until_idle();
    assert_eq!(receives.join().unwrap(), 5);
}

#[test]
fn a_value_for_a_receiver_that_is_killed_is_still_there() {
    for selects in [false, true] {
        let runtime = current_thread();
        let (sender, receiver) = oneshot::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let taken = receiver.clone();
        let dies = runtime.spawn(move || {
            let mut receiver = taken.lock().unwrap();
            match selects {
                false => receiver.recv().unwrap(),
                true => select! { value = recv(&mut *receiver) => value.unwrap() }.unwrap(),
            }
        });
        runtime.run_until_idle();
        sender.send(5).unwrap();
        dies.kill();
        runtime.run_until_idle();
        assert!(dies.join().is_err());
        assert_eq!(receiver.try_lock().unwrap().try_recv().unwrap(), Some(5));
    }
}

#[test]
fn a_value_for_a_future_that_is_dropped_is_still_there() {
    let (sender, mut receiver) = oneshot::channel();
    {
        let mut future = pin!(receiver.recv_async());
        assert!(poll(future.as_mut()).is_pending());
        sender.send(5).unwrap();
    }
    assert_eq!(receiver.try_recv().unwrap(), Some(5));
}

#[test]
fn a_future_that_was_forgotten_does_not_keep_the_next_from_being_woken() {
    let (sender, mut receiver) = oneshot::channel();
    let mut future = Box::pin(receiver.recv_async());
    assert!(poll(future.as_mut()).is_pending());
    std::mem::forget(future);
    let runtime = current_thread();
    let receives = runtime.spawn(move || receiver.recv().unwrap());
    runtime.run_until_idle();
    sender.send(5).unwrap();
    runtime.run_until_idle();
    assert!(receives.is_finished());
    assert_eq!(receives.join().unwrap(), 5);
}

#[test]
fn a_future_wakes_whoever_has_polled_it_last() {
    let (sender, mut receiver) = oneshot::channel();
    let mut future = Box::pin(receiver.recv_async());
    assert!(poll(future.as_mut()).is_pending());
    let sends = thread::spawn(move || sender.send(5));
    assert_eq!(block_on(future).unwrap().unwrap(), 5);
    sends.join().unwrap().unwrap();
}

#[test]
fn a_deadline_is_on_the_clock_of_the_runtime() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let test = || {
        let (sender, mut receiver) = oneshot::channel();
        let start = now();
        assert!(receiver.try_recv().unwrap().is_none());
        assert!(matches!(receiver.recv_timeout(Duration::from_secs(3600)), Err(RecvError::Timeout)));
        assert!(matches!(receiver.recv_timeout(Duration::ZERO), Err(RecvError::Timeout)));
        assert!((3600..3601).contains(&(now() - start).as_secs()));
        let sends = spawn(move || {
            sinew_sched::sleep(Duration::from_secs(60));
            sender.send(5)
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(3600)).unwrap(), 5);
        assert!((3660..3661).contains(&(now() - start).as_secs()));
        sends.join().unwrap().unwrap();
    };
    runtime.run(test).unwrap();
}

#[test]
fn a_select_that_takes_something_else_leaves_the_value() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let test = || {
        let (sender, mut receiver) = oneshot::channel();
        let (words, said) = chan::bounded(1);
        words.send("other").unwrap();
        let seen = select! {
            _ = recv(&mut receiver) => None,
            word = recv(&said) => word.ok(),
        };
        assert_eq!(seen.unwrap(), Some("other"));
        let late = select! {
            _ = recv(&mut receiver) => false,
            _ = recv(&said) => false,
            _ = sleep(Duration::from_secs(5)) => true,
        };
        assert!(late.unwrap());
        sender.send(5).unwrap();
        let value = select! {
            value = recv(&mut receiver) => value.ok(),
            _ = recv(&said) => None,
        };
        assert_eq!(value.unwrap(), Some(5));
        let closed = select! { value = recv(&mut receiver) => matches!(value, Err(RecvError::Closed)) };
        assert!(closed.unwrap());
    };
    runtime.run(test).unwrap();
}

#[test]
fn a_select_of_a_task_that_is_cancelled_leaves_the_value() {
    let runtime = current_thread();
    let (sender, mut receiver) = oneshot::channel();
    let waits = runtime.spawn(move || {
        let is_cancelled = select! {
            _ = recv(&mut receiver) => false,
            () = cancelled() => true,
        };
        assert!(is_cancelled.unwrap());
        receiver
    });
    runtime.run_until_idle();
    waits.cancel();
    runtime.run_until_idle();
    sender.send(5).unwrap();
    assert_eq!(waits.join().unwrap().recv().unwrap(), 5);
}
