//! As in the models of [`crate::sync`], whoever may have to wait is a thread that nobody joins before it can go on.

use std::time::Duration;

use sinew_core::Instant;
use sinew_sched::raw::{Attempt, Enrolled, Node, Waiting};
use sinew_sync::{Arc, model_bounded, thread};

use super::{Receiver, RecvError, Sender, Slow, channel};
use crate::chan::Unsent;

const PAST: Instant = Instant::from_nanos(0);

/// Receives all there is to see: the items, and how many were missed.
fn receives(receiver: Receiver<u64>) -> thread::JoinHandle<(Vec<u64>, u64)> {
    thread::spawn(move || {
        let (mut items, mut missed) = (Vec::new(), 0);
        loop {
            match receiver.recv() {
                Ok(item) => items.push(item),
                Err(RecvError::Lagged(count)) => missed += count,
                Err(_) => return (items, missed),
            }
        }
    })
}

fn is_unused(sender: &Sender<u64>) -> bool {
    sender.is_empty() && sender.receiver_count() == 0
}

#[test]
fn what_is_sent_wakes_every_receiver() {
    model_bounded("broadcast_send_wakes_all", 3, || {
        let (sender, receiver) = channel(2, Slow::Block);
        let threads = [receiver.clone(), receiver].map(|receiver| {
            thread::spawn(move || assert_eq!((receiver.recv().unwrap(), receiver.recv().unwrap()), (1, 2)))
        });
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_unused(&sender));
    });
}

#[test]
fn a_sender_waits_for_the_slowest() {
    model_bounded("broadcast_waits_for_the_slowest", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        let other = receives(receiver.clone());
        let sends = thread::spawn(move || [1, 2].map(|item| sender.send(item).unwrap()));
        for item in [1, 2] {
            assert_eq!(receiver.recv().unwrap(), item);
            assert!(receiver.len() <= 1);
        }
        sends.join().unwrap();
        assert_eq!(other.join().unwrap(), (vec![1, 2], 0));
    });
}

#[test]
fn closing_tells_senders_and_receivers() {
    model_bounded("broadcast_close", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        let closes = sender.clone();
        let sends = thread::spawn(move || match sender.send(1) {
            Ok(()) => vec![1],
            Err(unsent) => {
                assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 1);
                vec![]
            }
        });
        let received = receives(receiver);
        closes.close();
        assert_eq!(received.join().unwrap(), (sends.join().unwrap(), 0));
    });
}

#[test]
fn closing_tells_a_sender_that_comes_to_wait() {
    model_bounded("broadcast_close_when_full", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        sender.send(1).unwrap();
        let sends = {
            let sender = sender.clone();
            thread::spawn(move || assert!(matches!(sender.send(2).unwrap_err().why, Unsent::Closed)))
        };
        sender.close();
        sends.join().unwrap();
        assert!(receiver.iter().eq([1]));
    });
}

#[test]
fn of_two_who_close_both_find_it_closed() {
    model_bounded("broadcast_close_twice", 3, || {
        let (sender, receiver) = channel::<u64>(1, Slow::Block);
        let other = {
            let sender = sender.clone();
            thread::spawn(move || {
                sender.close();
                assert!(sender.is_closed());
            })
        };
        sender.close();
        assert!(sender.is_closed());
        other.join().unwrap();
        drop(receiver);
    });
}

#[test]
fn the_last_receiver_that_goes_lets_those_go_who_wait_for_it() {
    model_bounded("broadcast_last_receiver_goes", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        sender.send(1).unwrap();
        let goes = thread::spawn(move || drop(receiver));
        let unsent = sender.send(2).unwrap_err();
        assert!(matches!(unsent.why, Unsent::NoReceiver) && unsent.item == 2);
        goes.join().unwrap();
        assert!(is_unused(&sender));
    });
}

/// The one who gives up has the first place in the queue, or the second.
#[test]
fn a_sender_that_gives_up_has_sent_or_has_its_item() {
    model_bounded("broadcast_withdraw_send", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        sender.send(1).unwrap();
        let gives_up = {
            let sender = sender.clone();
            thread::spawn(move || match sender.send_timeout(2, Duration::ZERO) {
                Ok(()) => 2,
                Err(unsent) => {
                    assert!(matches!(unsent.why, Unsent::Timeout) && unsent.item == 2);
                    0
                }
            })
        };
        let stays = thread::spawn(move || sender.send(3).unwrap());
        let received: u64 = receiver.iter().sum();
        stays.join().unwrap();
        assert_eq!(received, 1 + 3 + gives_up.join().unwrap());
    });
}

#[test]
fn a_receiver_that_gives_up_has_its_item_or_leaves_it() {
    model_bounded("broadcast_withdraw_recv", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        let receiver = Arc::new(receiver);
        let gives_up = {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv_until(PAST).ok())
        };
        sender.send(1).unwrap();
        let received = gives_up.join().unwrap();
        assert_eq!(receiver.try_recv().unwrap().or(received), Some(1));
    });
}

/// Two share a receiver. The one that unwinds takes nothing, but may have been given the item.
#[test]
fn what_one_that_unwinds_was_given_comes_to_the_next() {
    model_bounded("broadcast_put_back", 3, || {
        let (sender, receiver) = channel(1, Slow::Block);
        let receiver = Arc::new(receiver);
        let unwinds = {
            let receiver = receiver.clone();
            thread::spawn(move || {
                let (recv, node) = (receiver.operation(), Node::new(0));
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                if unsafe { recv.enroll(&node) } == Enrolled::Queued {
                    // SAFETY: it was enrolled just now.
                    drop(unsafe { Waiting::new(&recv, &node) });
                }
            })
        };
        let stays = thread::spawn(move || assert_eq!(receiver.recv().unwrap(), 1));
        sender.send(1).unwrap();
        unwinds.join().unwrap();
        stays.join().unwrap();
        assert!(is_unused(&sender));
    });
}

#[test]
fn a_receiver_sees_an_item_or_that_it_missed_it() {
    model_bounded("broadcast_lag", 3, || {
        let (sender, receiver) = channel(1, Slow::Lag);
        let received = receives(receiver);
        (1..=3).for_each(|item| sender.send(item).unwrap());
        sender.close();
        let (items, missed) = received.join().unwrap();
        assert_eq!(items.len() as u64 + missed, 3);
        assert!(items.is_sorted() && items.last() == Some(&3));
        assert!(is_unused(&sender));
    });
}

#[test]
fn a_receiver_sees_every_item_or_is_cut_off() {
    model_bounded("broadcast_cut_off", 3, || {
        let (sender, receiver) = channel(1, Slow::Drop);
        let received = thread::spawn(move || {
            let mut count = 0;
            loop {
                match receiver.recv() {
                    Ok(item) => assert_eq!(item, count),
                    Err(error) => return (count, matches!(error, RecvError::CutOff)),
                }
                count += 1;
            }
        });
        let sent = (0..3).take_while(|item| sender.send(*item).is_ok()).count() as u64;
        sender.close();
        let (count, cut_off) = received.join().unwrap();
        assert!(count <= sent && (cut_off || count == 3));
        assert!(is_unused(&sender));
    });
}
