//! Receives from a channel of tasks that are given up: the task is still the next.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::{self, RecvError, ordered};
use sinew_chan::select;
use sinew_chan::select::{cancelled, recv};
use sinew_chan::sync::Mutex;
use sinew_sched::{CurrentThread, Reason, block_on, now, sleep, spawn, yield_now};

use crate::support::{self, current_thread, gated, next, poll, rounds, with_manual_clock, with_runtimes};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `receives` in a task and kills it after `meanwhile`, which has given it what it waits for.
fn killed<T: Send + 'static>(
    runtime: &CurrentThread,
    receiver: &Arc<Mutex<ordered::Receiver<T>>>,
    selects: bool,
    meanwhile: impl FnOnce(),
) {
    let receiver = receiver.clone();
    let dies = runtime.spawn(move || {
        let mut receiver = receiver.lock().unwrap();
        match selects {
            false => receiver.recv().is_ok(),
            true => select! { outcome = recv(&mut *receiver) => outcome.is_ok() }.unwrap(),
        }
    });
    runtime.run_until_idle();
    meanwhile();
    dies.kill();
    runtime.run_until_idle();
    assert!(dies.join().is_err());
}

#[test]
fn a_receive_whose_time_passes_keeps_the_task() {
    with_manual_clock(|| {
        let (sender, mut receiver) = ordered::channel(4);
        let start = now();
        assert!(matches!(receiver.recv_timeout(HOUR), Err(RecvError::Timeout)));
        for n in [2, 1] {
            sender.spawn(move || (sleep(n * HOUR), n).1).unwrap();
        }
        assert!(matches!(receiver.recv_timeout(HOUR / 2), Err(RecvError::Timeout)));
        assert_eq!((sender.len(), receiver.len()), (1, 2));
        assert!(matches!(receiver.recv_timeout(HOUR), Err(RecvError::Timeout)));
        assert_eq!(receiver.recv_timeout(HOUR).unwrap().unwrap(), 2);
        assert_eq!(receiver.recv_timeout(Duration::ZERO).unwrap().unwrap(), 1);
        assert!((3 * HOUR..3 * HOUR + HOUR / 60).contains(&(now() - start)));
    });
}

#[test]
fn a_receive_that_is_cancelled_keeps_the_task_and_one_that_need_not_wait_succeeds() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(4);
    for sent in [false, true] {
        if sent {
            sender.try_send(runtime.spawn(|| sleep(HOUR))).unwrap();
        }
        let waits = runtime.spawn(move || (receiver.recv().unwrap_err(), receiver));
        runtime.run_until_idle();
        waits.cancel();
        runtime.run_until_idle();
        let (error, back) = waits.join().unwrap();
        assert!(matches!(error, RecvError::Refused(refused) if refused.reason() == Reason::Cancelled));
        receiver = back;
        assert_eq!(receiver.len(), usize::from(sent));
    }
    let (sender, mut receiver) = ordered::channel(4);
    sender.try_send(runtime.spawn(|| 5)).unwrap();
    runtime.run_until_idle();
    let receives = runtime.spawn(move || receiver.recv().unwrap().unwrap());
    receives.cancel();
    runtime.run_until_idle();
    assert_eq!(receives.join().unwrap(), 5);
}

/// It is given the handle and killed, then waits for the task and is killed before it ends, and after.
#[test]
fn a_receive_that_is_killed_keeps_the_task() {
    for selects in [false, true] {
        let runtime = current_thread();
        let (sender, receiver) = ordered::channel(4);
        let receiver = Arc::new(Mutex::new(receiver));
        let len = || receiver.try_lock().unwrap().len();
        let (gate, first) = gated(&runtime);
        killed(&runtime, &receiver, selects, || sender.try_send(first).unwrap());
        sender.try_send(runtime.spawn(|| 1)).unwrap();
        assert_eq!((sender.len(), len()), (1, 2));
        killed(&runtime, &receiver, selects, || ());
        assert_eq!(len(), 2);
        killed(&runtime, &receiver, selects, || {
            gate.send(0).unwrap();
            assert!(runtime.step(), "the task ends");
        });
        assert_eq!(len(), 2);
        let mut receiver = receiver.try_lock().unwrap();
        assert!(receiver.try_recv().unwrap().unwrap().is_ok_and(|result| result == 0));
        assert!(receiver.try_recv().unwrap().unwrap().is_ok_and(|result| result == 1));
    }
}

#[test]
fn a_future_that_is_dropped_keeps_the_task() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(4);
    let (gate, first) = gated(&runtime);
    {
        let mut future = pin!(receiver.recv_async());
        assert!(poll(future.as_mut()).is_pending());
        sender.try_send(first).unwrap(); // and the future has it
    }
    assert_eq!((sender.len(), receiver.len()), (0, 1));
    {
        let mut future = pin!(receiver.recv_async());
        assert!(poll(future.as_mut()).is_pending());
        gate.send(5).unwrap();
        runtime.run_until_idle();
    }
    assert_eq!(receiver.try_recv().unwrap().unwrap().unwrap(), 5);
}

#[test]
fn a_future_that_was_forgotten_does_not_keep_the_next_from_being_woken() {
    let runtime = current_thread();
    let (sender, mut receiver) = ordered::channel(4);
    let (gate, first) = gated(&runtime);
    sender.try_send(first).unwrap();
    let mut future = Box::pin(receiver.recv_async());
    assert!(poll(future.as_mut()).is_pending());
    std::mem::forget(future);
    let receives = runtime.spawn(move || (receiver.recv().unwrap().unwrap(), receiver));
    runtime.run_until_idle();
    gate.send(5).unwrap();
    runtime.run_until_idle();
    assert!(receives.is_finished());
    let (five, mut receiver) = receives.join().unwrap();
    assert_eq!(five, 5);
    let (gate, second) = gated(&runtime);
    sender.try_send(second).unwrap();
    let mut future = Box::pin(receiver.recv_async());
    assert!(poll(future.as_mut()).is_pending());
    std::mem::forget(future);
    drop(receiver); // the task runs still, and is let go
    drop(gate);
    runtime.run_until_idle();
}

#[test]
fn a_select_waits_for_the_handle_and_for_the_task_or_keeps_both() {
    with_manual_clock(|| {
        let (sender, mut receiver) = ordered::channel(4);
        let (words, said) = chan::bounded(1);
        let feeds = {
            let (sender, words) = (sender.clone(), words.clone());
            spawn(move || {
                sleep(HOUR);
                sender.spawn(|| (sleep(2 * HOUR), 5).1).unwrap();
                sleep(HOUR);
                words.send("other").unwrap();
            })
        };
        let start = now();
        let word = select! {
            _ = recv(&mut receiver) => None,
            word = recv(&said) => word.ok(),
        };
        assert_eq!(word.unwrap(), Some("other"));
        assert_eq!((sender.len(), receiver.len()), (0, 1), "it was waiting for the task");
        let result = select! {
            result = recv(&mut receiver) => result.unwrap().ok(),
            _ = recv(&said) => None,
        };
        assert_eq!(result.unwrap(), Some(5));
        assert!((3 * HOUR..3 * HOUR + HOUR / 60).contains(&(now() - start)));
        feeds.join().unwrap();
        drop(sender);
        let ended = select! { result = recv(&mut receiver) => matches!(result, Err(RecvError::Closed)) };
        assert!(ended.unwrap());
    });
}

#[test]
fn a_select_of_two_channels_loses_nothing() {
    with_runtimes(|runtime| {
        let test = || {
            let feed = || {
                let (sender, receiver) = ordered::channel(3);
                let feeds = spawn(move || {
                    for n in 0..100 {
                        sender.spawn(move || ((0..n % 5).for_each(|_| yield_now()), n).1).unwrap();
                    }
                    sender // and so the channel is open until it is joined
                });
                (feeds, receiver)
            };
            let ((feeds, mut first), (others, mut second)) = (feed(), feed());
            let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
            while firsts.len() + seconds.len() < 200 {
                select! {
                    result = recv(&mut first) => firsts.extend(result.into_iter().flatten()),
                    result = recv(&mut second) => seconds.extend(result.into_iter().flatten()),
                }
                .unwrap();
            }
            assert!(firsts.into_iter().eq(0..100) && seconds.into_iter().eq(0..100));
            drop((feeds.join().unwrap(), others.join().unwrap()));
        };
        runtime.run(test).unwrap();
    });
}

/// Receives that are given up in all ways, and yet every result comes once, in order.
#[test]
fn whatever_gives_up_no_result_is_lost() {
    with_runtimes(|runtime| {
        let count = rounds(300) as u64;
        let (sender, mut receiver) = ordered::channel(5);
        let feeds = runtime.spawn(move || {
            for n in 0..count {
                sender.spawn(move || ((0..n * 5 % 13).for_each(|_| yield_now()), n).1).unwrap();
            }
        });
        let mut seed = support::SEED;
        let mut results = Vec::new();
        loop {
            let kind = next(&mut seed) % 5;
            let receives = runtime.spawn(move || {
                let result = match kind {
                    0 => receiver.recv_timeout(Duration::from_micros(20)).map(Some),
                    1 => receiver.try_recv(),
                    2 => select! { result = recv(&mut receiver) => result.map(Some), () = cancelled() => Ok(None) }
                        .unwrap(),
                    3 => block_on(receiver.recv_async()).map_or(Ok(None), |result| result.map(Some)),
                    _ => receiver.recv().map(Some),
                };
                (result, receiver)
            });
            if next(&mut seed).is_multiple_of(3) {
                receives.cancel();
            }
            let (result, back) = receives.join().unwrap();
            receiver = back;
            match result {
                Ok(result) => results.extend(result.map(|result| result.unwrap())),
                Err(RecvError::Timeout | RecvError::Refused(_)) => (),
                Err(_) => break,
            }
        }
        assert!(results.into_iter().eq(0..count));
        feeds.join().unwrap();
    });
}
