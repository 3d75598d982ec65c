//! Broadcast channels: every receiver sees every item, and what becomes of those that are too slow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::broadcast::{Receiver, RecvError, Sender, Slow, channel};
use sinew_chan::chan::{SendError, Unsent};
use sinew_chan::select;
use sinew_chan::select::{recv, send, sleep};
use sinew_sched::{JoinHandle, ManualClock, Reason, Runtime, block_on, spawn, spawn_future, yield_now};

const SOON: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(1000);
const ALL: [Slow; 3] = [Slow::Block, Slow::Lag, Slow::Drop];

/// Runs `test` as a task, with one worker and with several, on a clock that jumps.
fn in_tasks(test: fn()) {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
        runtime.run(test).unwrap();
    }
}

/// On the clock that jumps: until everybody waits.
fn all_wait() {
    sinew_sched::sleep(SOON);
}

/// Sends in a task, which waits when this returns.
fn start_send(sender: &Sender<u32>, item: u32) -> JoinHandle<Result<(), SendError<u32>>> {
    let sender = sender.clone();
    let sends = spawn(move || sender.send(item));
    all_wait();
    sends
}

/// All that a receiver sees without waiting.
fn seen(receiver: &Receiver<u32>) -> Vec<u32> {
    std::iter::from_fn(|| receiver.try_recv().unwrap()).collect()
}

#[test]
fn every_receiver_sees_every_item_in_order() {
    in_tasks(|| {
        for capacity in [1, 3, 64] {
            let (sender, receiver) = channel(capacity, Slow::Block);
            let mut receivers: Vec<_> = (0..5).map(|_| receiver.clone()).collect();
            receivers.push(receiver);
            let tasks: Vec<_> = receivers
                .into_iter()
                .map(|receiver| spawn(move || assert!(receiver.iter().eq(0..500))))
                .collect();
            (0..500).for_each(|n| sender.send(n).unwrap());
            drop(sender);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

#[test]
fn items_are_iterated_over_without_waiting_and_by_value() {
    for slow in ALL {
        let (sender, receiver) = channel(2, slow);
        let other = receiver.clone();
        (1..=2).for_each(|n| sender.send(n).unwrap());
        assert!(receiver.try_iter().eq([1, 2]) && receiver.try_iter().next().is_none());
        assert!(receiver.is_empty(), "{slow:?}");
        if slow == Slow::Lag {
            sender.send(3).unwrap();
            assert!(other.try_iter().eq([2, 3]), "what it has missed is passed over");
        }
        drop(other);
        sender.send(4).unwrap();
        drop(sender);
        let left: Vec<u32> = receiver.into_iter().collect();
        assert!(left.ends_with(&[4]));
    }
}

#[test]
fn a_receiver_sees_what_is_sent_after_it_subscribed_and_a_clone_what_its_original_will() {
    for slow in ALL {
        let (sender, first) = channel(8, slow);
        sender.send(1).unwrap();
        let second = sender.subscribe();
        sender.send(2).unwrap();
        assert_eq!(first.recv().unwrap(), 1);
        let clone = first.clone();
        sender.send(3).unwrap();
        assert_eq!([&first, &second, &clone].map(Receiver::len), [2, 2, 2]);
        assert_eq!((sender.len(), sender.capacity(), sender.receiver_count()), (2, 8, 3));
        for receiver in [first, second, clone] {
            assert_eq!(seen(&receiver), [2, 3]);
            assert!(receiver.is_empty());
        }
        assert!(sender.is_empty());
    }
}

#[test]
fn a_sender_waits_for_the_slowest_and_no_longer() {
    in_tasks(|| {
        let (sender, fast) = channel(2, Slow::Block);
        let slow = fast.clone();
        (1..=2).for_each(|n| sender.try_send(n).unwrap());
        let refused = sender.try_send(3).unwrap_err();
        assert!(matches!(refused.why, Unsent::Full) && refused.item == 3);
        let waits = [3, 4].map(|item| start_send(&sender, item));
        assert_eq!(seen(&fast), [1, 2]);
        all_wait();
        assert_eq!(seen(&fast), [], "the slow one has seen nothing");
        assert_eq!(slow.recv().unwrap(), 1);
        assert_eq!((seen(&fast), slow.len()), (vec![3], 2));
        assert!(matches!(sender.try_send(5).unwrap_err().why, Unsent::Full), "one waits");
        drop(slow);
        waits.into_iter().for_each(|waits| waits.join().unwrap().unwrap());
        assert_eq!(seen(&fast), [4]);
    });
}

#[test]
fn a_receiver_that_lags_learns_how_many_it_missed_and_goes_on_with_the_oldest() {
    let (sender, receiver) = channel(3, Slow::Lag);
    let fast = receiver.clone();
    for n in 0..10 {
        sender.try_send(n).unwrap();
        assert_eq!(fast.recv().unwrap(), n);
    }
    assert_eq!((receiver.len(), sender.len()), (3, 3));
    let clone = receiver.clone();
    for receiver in [&receiver, &clone] {
        assert!(matches!(receiver.recv(), Err(RecvError::Lagged(7))));
        assert_eq!(seen(receiver), [7, 8, 9]);
    }
    (10..14).for_each(|n| sender.send(n).unwrap());
    assert_eq!(receiver.iter().next(), Some(11), "an iterator passes over what was missed");
    assert_eq!(sender.receiver_count(), 3);
}

#[test]
fn a_receiver_that_would_miss_an_item_is_cut_off() {
    let (sender, slow) = channel(2, Slow::Drop);
    let fast = slow.clone();
    (1..=2).for_each(|n| sender.send(n).unwrap());
    assert_eq!(seen(&fast), [1, 2]);
    assert_eq!(sender.receiver_count(), 2);
    sender.send(3).unwrap();
    assert_eq!((sender.receiver_count(), sender.len(), slow.len()), (1, 1, 0));
    for receiver in [&slow, &slow.clone(), &slow] {
        assert!(matches!(receiver.recv(), Err(RecvError::CutOff)));
        assert_eq!(receiver.iter().next(), None);
    }
    assert_eq!(seen(&fast), [3]);
    drop(fast);
    let unsent = sender.send(4).unwrap_err();
    assert!(matches!(unsent.why, Unsent::NoReceiver) && unsent.item == 4);
    drop(slow);
    let again = sender.subscribe();
    sender.send(5).unwrap();
    assert_eq!(seen(&again), [5]);
}

#[test]
fn a_send_that_cut_all_off_was_not_heard_though_the_channel_ends_meanwhile() {
    /// Ends its channel when it is dropped.
    #[derive(Clone)]
    struct Ends(Option<Arc<Sender<Ends>>>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.iter().for_each(|sender| assert!(sender.cancel()));
        }
    }
    let (sender, receiver) = channel(1, Slow::Drop);
    let sender = Arc::new(sender);
    sender.send(Ends(Some(sender.clone()))).unwrap();
    let unsent = sender.send(Ends(None)).unwrap_err();
    assert!(matches!(unsent.why, Unsent::NoReceiver));
    assert!(sender.is_closed() && matches!(receiver.recv(), Err(RecvError::CutOff)));
    assert!(matches!(sender.send(Ends(None)).unwrap_err().why, Unsent::Cancelled));
}

#[test]
fn what_nobody_would_see_comes_back_and_who_subscribes_later_sees_the_rest() {
    in_tasks(|| {
        for slow in ALL {
            let (sender, receiver) = channel(1, slow);
            drop(receiver);
            let unsent = sender.send(1).unwrap_err();
            assert!(matches!(unsent.why, Unsent::NoReceiver) && unsent.item == 1);
            assert!(!sender.is_closed() && sender.receiver_count() == 0);
            let receiver = sender.subscribe();
            sender.send(2).unwrap();
            assert_eq!(seen(&receiver), [2]);
        }
        let (sender, receiver) = channel(1, Slow::Block);
        sender.send(1).unwrap();
        let waits = [2, 3].map(|item| start_send(&sender, item));
        drop(receiver);
        for (waits, item) in waits.into_iter().zip([2, 3]) {
            let unsent = waits.join().unwrap().unwrap_err();
            assert!(matches!(unsent.why, Unsent::NoReceiver) && unsent.item == item);
        }
    });
}

#[test]
fn a_closed_channel_is_seen_to_its_end_by_everybody() {
    in_tasks(|| {
        for slow in ALL {
            let (sender, receiver) = channel(2, slow);
            let waits = receiver.clone();
            let waits = spawn(move || (waits.recv().unwrap(), waits.recv()));
            sender.send(1).unwrap();
            all_wait();
            assert!(sender.close_err("disk full") && !sender.close());
            let unsent = sender.send(2).unwrap_err();
            assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 2);
            let (first, end) = waits.join().unwrap();
            assert_eq!((first, receiver.recv().unwrap()), (1, 1));
            for end in [end, receiver.recv(), sender.subscribe().recv()] {
                assert!(matches!(end, Err(RecvError::Failed(error)) if error.to_string() == "disk full"));
            }
        }
        let (sender, receiver) = channel(1, Slow::Block);
        sender.send(1).unwrap();
        let waits = start_send(&sender, 2);
        assert!(receiver.reject("enough") && receiver.is_closed());
        assert!(matches!(waits.join().unwrap().unwrap_err().why, Unsent::Rejected(_)));
        assert!(receiver.iter().eq([1]));
        let (sender, receiver) = channel::<u32>(1, Slow::Block);
        let last = sender.clone();
        drop(sender);
        assert!(!receiver.is_closed());
        drop(last);
        assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
        let (sender, receiver) = channel::<u32>(1, Slow::Block);
        assert!(receiver.cancel());
        assert!(matches!(receiver.recv(), Err(RecvError::Cancelled)));
        assert!(matches!(sender.send(1).unwrap_err().why, Unsent::Cancelled));
    });
}

#[test]
fn those_who_share_a_receiver_compete_in_their_order() {
    in_tasks(|| {
        let (sender, receiver) = channel(4, Slow::Block);
        let (shared, other) = (Arc::new(receiver.clone()), receiver);
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let shared = shared.clone();
                let task = spawn(move || shared.recv().unwrap());
                all_wait();
                task
            })
            .collect();
        (0..3).for_each(|n| sender.send(n).unwrap());
        assert!(tasks.into_iter().map(|task| task.join().unwrap()).eq(0..3));
        assert_eq!((seen(&shared), seen(&other)), (vec![], vec![0, 1, 2]));
    });
}

#[test]
fn an_item_on_its_way_to_one_that_is_given_up_is_seen_by_the_next() {
    in_tasks(|| {
        for _ in 0..50 {
            let (sender, receiver) = channel(4, Slow::Block);
            let shared = Arc::new(receiver);
            let receives = shared.clone();
            let killed = spawn(move || receives.recv());
            yield_now();
            (1..=2).for_each(|n| sender.send(n).unwrap());
            killed.kill();
            let first = killed.join().map_or(0, |received| received.unwrap());
            assert_eq!(first + seen(&shared).iter().sum::<u32>(), 3);
        }
        let (sender, receiver) = channel(4, Slow::Lag);
        let mut context = Context::from_waker(Waker::noop());
        let mut given_up = pin!(Some(receiver.recv_async()));
        let mut next = pin!(receiver.recv_async());
        assert!(given_up.as_mut().as_pin_mut().unwrap().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_pending());
        sender.send(1).unwrap();
        assert!(next.as_mut().poll(&mut context).is_pending());
        given_up.set(None);
        assert!(matches!(next.poll(&mut context), Poll::Ready(Ok(1))));
        let mut given_up = pin!(Some(receiver.recv_async()));
        assert!(given_up.as_mut().as_pin_mut().unwrap().poll(&mut context).is_pending());
        (2..9).for_each(|n| sender.send(n).unwrap());
        given_up.set(None);
        let clone = receiver.clone();
        for receiver in [&receiver, &clone] {
            assert_eq!(receiver.len(), 5);
            assert_eq!(receiver.recv().unwrap(), 2);
            assert!(matches!(receiver.recv(), Err(RecvError::Lagged(2))));
            assert_eq!(seen(receiver), [5, 6, 7, 8]);
        }
        let (sender, receiver) = channel(4, Slow::Block);
        let mut given_up = Box::pin(receiver.recv_async());
        assert!(given_up.as_mut().poll(&mut context).is_pending());
        sender.send(1).unwrap();
        drop(given_up);
        assert_eq!(receiver.len(), 1);
        drop(receiver);
        assert_eq!(seen(&sender.subscribe()), [], "it goes with its receiver");
    });
}

#[test]
fn items_on_their_way_to_several_that_are_given_up_keep_their_order() {
    let mut context = Context::from_waker(Waker::noop());
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (sender, receiver) = channel(1, Slow::Lag);
        let mut given_up = [(); 3].map(|()| Some(Box::pin(receiver.recv_async())));
        for future in given_up.iter_mut().flatten() {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        (1..=5).for_each(|n| sender.send(n).unwrap());
        order.into_iter().for_each(|n| given_up[n] = None);
        assert_eq!(receiver.len(), 4);
        assert!([1, 2, 3].iter().all(|n| receiver.recv().unwrap() == *n), "{order:?}");
        assert!(matches!(receiver.recv(), Err(RecvError::Lagged(1))));
        assert_eq!(receiver.recv().unwrap(), 5);
    }
}

#[test]
fn waits_end_in_time_and_when_their_task_is_cancelled() {
    in_tasks(|| {
        let (sender, receiver) = channel(1, Slow::Block);
        assert!(matches!(receiver.recv_timeout(LONG), Err(RecvError::Timeout)));
        sender.send(1).unwrap();
        let late = sender.send_timeout(2, LONG).unwrap_err();
        assert!(matches!(late.why, Unsent::Timeout) && late.item == 2);
        let waits = start_send(&sender, 3);
        let behind = start_send(&sender, 4);
        waits.cancel();
        let unsent = waits.join().unwrap().unwrap_err();
        assert!(matches!(unsent.why, Unsent::Refused(refused) if refused.reason() == Reason::Cancelled));
        assert_eq!((receiver.recv().unwrap(), receiver.recv().unwrap()), (1, 4));
        behind.join().unwrap().unwrap();
        let waits = spawn(move || receiver.recv());
        all_wait();
        waits.cancel();
        let refused = waits.join().unwrap();
        assert!(matches!(refused, Err(RecvError::Refused(refused)) if refused.reason() == Reason::Cancelled));
    });
}

#[test]
fn futures_threads_and_selects_send_and_receive() {
    in_tasks(|| {
        let (sender, receiver) = channel(4, Slow::Block);
        let (in_future, in_thread) = (receiver.clone(), receiver.clone());
        let in_future = spawn_future(async move {
            let mut sum = 0;
            while let Ok(item) = in_future.recv_async().await {
                sum += item;
            }
            sum
        });
        let in_thread = thread::spawn(move || in_thread.iter().sum::<u32>());
        let sends = sender.clone();
        let sends = spawn_future(async move {
            for n in 1..=100 {
                sends.send_async(n).await.unwrap();
            }
        });
        let selects = spawn(move || {
            for n in 1..=100 {
                let mut item = Some(n);
                select! { sent = send(&sender, &mut item) => sent.unwrap() }.unwrap();
                assert!(item.is_none());
            }
        });
        let mut sum = 0;
        while let Ok(item) = select! { item = recv(&receiver) => item }.unwrap() {
            sum += item;
        }
        sends.join().unwrap();
        selects.join().unwrap();
        assert_eq!([sum, in_future.join().unwrap(), in_thread.join().unwrap()], [10_100; 3]);
    });
}

#[test]
fn a_select_that_does_not_send_or_receive_changes_nothing() {
    in_tasks(|| {
        let (sender, receiver) = channel(1, Slow::Block);
        let (_quiet, never) = channel::<u32>(1, Slow::Block);
        sender.send(1).unwrap();
        let mut item = Some(2);
        let timed_out = select! {
            _ = send(&sender, &mut item) => false,
            _ = recv(&never) => false,
            _ = sleep(LONG) => true,
        };
        assert!(timed_out.unwrap());
        assert_eq!((item, seen(&receiver)), (Some(2), vec![1]));
        sender.send(3).unwrap();
        let mut cancelled = pin!(sender.send_async(4));
        assert!(cancelled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(cancelled.cancel(), Some(4));
        assert_eq!(seen(&receiver), [3]);
    });
}

struct Counted {
    dropped: Arc<AtomicUsize>,
    cloned: Arc<AtomicUsize>,
    panics: bool,
}

impl Clone for Counted {
    fn clone(&self) -> Counted {
        assert!(!self.panics, "no copies");
        self.cloned.fetch_add(1, Ordering::Relaxed);
        let (dropped, cloned) = (self.dropped.clone(), self.cloned.clone());
        Counted { dropped, cloned, panics: false }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_item_is_copied_for_all_but_the_last_and_dropped_when_nobody_will_see_it() {
    for slow in ALL {
        let (dropped, cloned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = || (cloned.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed));
        let item = |panics| Counted { dropped: dropped.clone(), cloned: cloned.clone(), panics };
        let (sender, first) = channel(2, slow);
        let second = first.clone();
        sender.send(item(false)).unwrap();
        drop(first.recv().unwrap());
        assert_eq!(count(), (1, 1));
        drop(second.recv().unwrap());
        assert_eq!(count(), (1, 2), "the last one gets the original");
        sender.send(item(true)).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| first.recv())).is_err());
        assert!(first.try_recv().unwrap().is_none(), "it has seen it");
        drop(second);
        assert_eq!(count(), (1, 3));
        (0..2).for_each(|_| sender.send(item(false)).unwrap());
        match slow {
            Slow::Block => assert!(sender.try_send(item(false)).is_err()),
            Slow::Lag => sender.send(item(false)).unwrap(),
            Slow::Drop => assert!(sender.send(item(false)).is_err()),
        }
        assert_eq!(count().1, if slow == Slow::Drop { 6 } else { 4 });
        drop(first);
        assert_eq!(count(), (1, 6));
    }
}

/// A destructor or a copy that uses the channel would hang, or find it changed, if it ran under its lock.
#[test]
fn what_is_copied_and_dropped_may_use_the_channel() {
    struct Uses(Option<Sender<Uses>>);
    impl Uses {
        fn looks(&self) -> Option<Sender<Uses>> {
            self.0.clone().inspect(|sender| assert!(sender.len() <= 1 && sender.receiver_count() <= 3))
        }
    }
    impl Clone for Uses {
        fn clone(&self) -> Uses {
            Uses(self.looks())
        }
    }
    impl Drop for Uses {
        fn drop(&mut self) {
            self.looks();
        }
    }
    for slow in ALL {
        let (sender, receiver) = channel(1, slow);
        let (other, third) = (receiver.clone(), receiver.clone());
        sender.send(Uses(Some(sender.clone()))).unwrap();
        drop((receiver.recv(), third));
        drop(sender.try_send(Uses(Some(sender.clone()))));
        drop(other);
        drop(receiver);
        drop(sender.send(Uses(Some(sender.clone()))));
    }
}

#[test]
fn receivers_that_come_and_go_while_items_are_sent_see_them_without_gaps() {
    in_tasks(|| {
        let (sender, receiver) = channel(4, Slow::Block);
        let comes_and_goes: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                spawn(move || {
                    for _ in 0..50 {
                        let receiver = sender.subscribe();
                        let mut last = None;
                        for _ in 0..3 {
                            let Ok(item) = receiver.recv_timeout(LONG) else { break };
                            assert!(last.is_none_or(|last| last + 1 == item));
                            last = Some(item);
                            drop(receiver.clone());
                        }
                    }
                })
            })
            .collect();
        let sees_all = spawn(move || assert!(receiver.iter().eq(0..1000)));
        (0..1000).for_each(|n| sender.send(n).unwrap());
        comes_and_goes.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(sender.receiver_count(), 1);
        drop(sender);
        sees_all.join().unwrap();
    });
}

#[test]
fn a_thread_and_a_blocked_future_wait_for_each_other() {
    let (sender, receiver) = channel(1, Slow::Block);
    let sends = thread::spawn(move || (1..=100).for_each(|n: u32| sender.send(n).unwrap()));
    let mut sum = 0;
    while let Ok(item) = block_on(receiver.recv_async()).unwrap() {
        sum += item;
    }
    sends.join().unwrap();
    assert_eq!(sum, 5050);
}
