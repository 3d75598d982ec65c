//! As in the models of [`crate::sync`], whoever may have to wait is a thread that nobody joins before it can go on. An
//! item weighs its own number.

use sinew_core::Instant;
use sinew_sched::raw::{Attempt, Case, Enrolled, Node, Waiting};
use sinew_sync::{model_bounded, thread};

use crate::chan::{Receiver, RecvError, Sender, Unsent, weighted};

const PAST: Instant = Instant::from_nanos(0);

fn channel(capacity: usize) -> (Sender<usize>, Receiver<usize>) {
    weighted(capacity, |item| *item)
}

fn sends(sender: &Sender<usize>, item: usize) -> thread::JoinHandle<()> {
    let sender = sender.clone();
    thread::spawn(move || sender.send(item).unwrap())
}

/// Begins to receive, and unwinds as soon as it waits. What it has received nevertheless.
fn unwinds(receiver: &Receiver<usize>) -> thread::JoinHandle<Option<usize>> {
    let receiver = receiver.clone();
    thread::spawn(move || {
        let (recv, node) = (receiver.operation(), Node::new(0));
        // SAFETY: the node is new, and `Waiting` takes it out before it goes.
        match unsafe { recv.enroll(&node) } {
            // SAFETY: it was enrolled just now.
            Enrolled::Queued => drop(unsafe { Waiting::new(&recv, &node) }),
            Enrolled::Done => return None,
            _ => return recv.attempt().then(|| recv.output().ok()).flatten(),
        }
        None
    })
}

#[test]
fn a_receiver_is_woken_by_what_is_sent() {
    model_bounded("weighted_send_wakes", 3, || {
        let (sender, receiver) = channel(3);
        let receives = thread::spawn(move || [receiver.recv().unwrap(), receiver.recv().unwrap()]);
        sender.send(2).unwrap();
        sender.send(3).unwrap();
        assert_eq!(receives.join().unwrap(), [2, 3]);
        assert_eq!((sender.len(), sender.weight()), (0, 0));
    });
}

#[test]
fn senders_are_let_in_as_far_as_there_is_room() {
    model_bounded("weighted_recv_wakes", 3, || {
        let (sender, receiver) = channel(3);
        sender.send(2).unwrap();
        let senders = [sends(&sender, 3), sends(&sender, 1)];
        let mut items = [0; 3];
        for item in &mut items {
            *item = receiver.recv().unwrap();
            assert!(receiver.weight() <= 3);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(items[0], 2);
        assert_eq!(items.into_iter().sum::<usize>(), 6);
    });
}

#[test]
fn closing_tells_all_who_wait() {
    model_bounded("weighted_close", 3, || {
        let (sender, receiver) = channel(1);
        sender.send(1).unwrap();
        let senders = [sender.clone(), sender.clone()].map(|sender| {
            thread::spawn(move || {
                let unsent = sender.send(1).unwrap_err();
                assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 1);
            })
        });
        sender.close();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(receiver.iter().eq([1]));
    });
}

#[test]
fn a_heavy_item_that_is_given_up_lets_the_light_one_behind_it_pass() {
    model_bounded("weighted_withdraw_send", 3, || {
        let (sender, receiver) = channel(2);
        sender.send(1).unwrap();
        let heavy = {
            let sender = sender.clone();
            thread::spawn(move || {
                let unsent = sender.send_until(2, PAST).unwrap_err();
                assert!(matches!(unsent.why, Unsent::Timeout));
            })
        };
        let light = sends(&sender, 1);
        heavy.join().unwrap();
        light.join().unwrap();
        assert_eq!((receiver.len(), receiver.weight()), (2, 2));
    });
}

#[test]
fn a_receiver_that_gives_up_has_its_item_or_leaves_it() {
    model_bounded("weighted_withdraw_recv", 3, || {
        let (sender, receiver) = channel(2);
        let gives_up = {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv_until(PAST).ok())
        };
        sender.send(2).unwrap();
        let received = gives_up.join().unwrap();
        assert_eq!(receiver.try_recv().unwrap().or(received), Some(2));
        assert_eq!(sender.weight(), 0);
    });
}

/// Although the channel is closed while the item is kept for the one that unwinds.
#[test]
fn what_is_kept_for_one_that_unwinds_comes_to_the_next() {
    model_bounded("weighted_put_back", 3, || {
        let (sender, receiver) = channel(2);
        let unwinds = unwinds(&receiver);
        let stays = thread::spawn(move || receiver.recv());
        sender.send(2).unwrap();
        drop(sender);
        let stays = stays.join().unwrap();
        match unwinds.join().unwrap() {
            None => assert_eq!(stays.unwrap(), 2),
            Some(_) => assert!(matches!(stays, Err(RecvError::Closed))),
        }
    });
}

/// Two may wait for the two items that one takes the place of.
#[test]
fn a_receiver_whose_item_was_displaced_begins_again() {
    model_bounded("weighted_forced", 3, || {
        let (sender, receiver) = channel(2);
        let receivers = [receiver.clone(), receiver.clone()]
            .map(|receiver| thread::spawn(move || receiver.recv().unwrap_or_default()));
        sender.send(1).unwrap();
        sender.send(1).unwrap();
        let displaced: usize = sender.force_send(2).unwrap().sum();
        sender.close();
        let received = receivers.map(|receiver| receiver.join().unwrap());
        let left: usize = receiver.iter().sum();
        assert_eq!(displaced + received.into_iter().sum::<usize>() + left, 4);
    });
}

#[test]
fn a_receiver_that_waits_is_woken_by_what_is_forced_in() {
    model_bounded("weighted_forced_wakes", 3, || {
        let (sender, receiver) = channel(1);
        let received = thread::spawn(move || receiver.recv().unwrap());
        assert_eq!(sender.force_send(1).unwrap().count(), 0);
        assert_eq!(received.join().unwrap(), 1);
    });
}

#[test]
fn nobody_takes_what_is_kept_for_another() {
    model_bounded("weighted_kept", 3, || {
        let (sender, receiver) = channel(1);
        let (recv, node) = (receiver.operation(), Node::new(0));
        // SAFETY: the node is new, and is told below.
        assert_eq!(unsafe { recv.enroll(&node) }, Enrolled::Queued);
        let hasty = {
            let receiver = receiver.clone();
            thread::spawn(move || assert_eq!(receiver.try_recv().unwrap(), None))
        };
        sender.send(1).unwrap();
        hasty.join().unwrap();
        // SAFETY: it was enrolled above, and was told.
        assert!(node.is_told() && unsafe { recv.settle(&node) });
        assert_eq!(recv.output().unwrap(), 1);
    });
}
