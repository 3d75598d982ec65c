//! Models of a ring: one place, so that everybody has to wait for everybody.

use sinew_core::Instant;
use sinew_sched::raw::{Attempt, Node, Waiting};
use sinew_sync::{Arc, model, model_bounded, thread};

use crate::chan::{Receiver, RecvError, Sender, bounded};

/// A deadline that has passed stands for whatever makes a waiter give up.
const PAST: Instant = Instant::from_nanos(0);

fn recv_in_a_thread(receiver: &Receiver<u32>) -> thread::JoinHandle<Result<u32, RecvError>> {
    let receiver = receiver.clone();
    thread::spawn(move || receiver.recv())
}

fn send_in_a_thread(sender: &Sender<u32>, item: u32) -> thread::JoinHandle<bool> {
    let sender = sender.clone();
    thread::spawn(move || sender.send(item).is_ok())
}

#[test]
fn a_receiver_that_waits_is_woken_by_an_item() {
    model("ring_send_wakes", || {
        let (sender, receiver) = bounded(1);
        let received = recv_in_a_thread(&receiver);
        sender.send(1).unwrap();
        assert_eq!(received.join().unwrap().unwrap(), 1);
    });
}

#[test]
fn a_sender_that_waits_is_woken_by_room() {
    model("ring_recv_wakes", || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let sent = send_in_a_thread(&sender, 2);
        assert_eq!(receiver.recv().unwrap(), 1);
        assert_eq!(receiver.recv().unwrap(), 2);
        assert!(sent.join().unwrap());
    });
}

#[test]
fn items_are_received_in_order_through_full_and_empty() {
    model_bounded("ring_in_order", 3, || {
        let (sender, receiver) = bounded(1);
        let sends = thread::spawn(move || (1..=3).for_each(|item| sender.send(item).unwrap()));
        (1..=3).for_each(|item| assert_eq!(receiver.recv().unwrap(), item));
        assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
        sends.join().unwrap();
    });
}

#[test]
fn closing_wakes_both_sides() {
    model_bounded("ring_close", 3, || {
        let (sender, receiver) = bounded::<u32>(1);
        let received = recv_in_a_thread(&receiver);
        sender.close();
        assert!(received.join().unwrap().is_err());
        let (sender, _receiver) = bounded(1);
        sender.send(1).unwrap();
        let sent = send_in_a_thread(&sender, 2);
        sender.close();
        assert!(!sent.join().unwrap());
    });
}

/// A sender that waits for a place, and one that tries to get it when it becomes free.
#[test]
fn the_place_that_a_sender_waits_for_is_filled_once() {
    model_bounded("ring_refill", 3, || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let waits = send_in_a_thread(&sender, 2);
        let hasty = thread::spawn(move || sender.try_send(3).is_ok());
        let mut items = vec![receiver.recv().unwrap(), receiver.recv().unwrap()];
        assert!(waits.join().unwrap());
        let passed = hasty.join().unwrap();
        items.extend(receiver.try_iter());
        items.sort_unstable();
        assert_eq!(items, if passed { vec![1, 2, 3] } else { vec![1, 2] });
    });
}

/// Sent by whoever closes, or by another.
#[test]
fn what_was_sent_before_the_close_is_received() {
    model("ring_close_drains", || {
        let (sender, receiver) = bounded(1);
        let received = thread::spawn(move || receiver.iter().count());
        sender.send(1).unwrap();
        sender.close();
        assert_eq!(received.join().unwrap(), 1);
    });
    model_bounded("ring_close_drains", 3, || {
        let (sender, receiver) = bounded(1);
        let sends = send_in_a_thread(&sender, 1);
        let received = thread::spawn(move || receiver.iter().count() == 1);
        sender.close();
        assert_eq!(sends.join().unwrap(), received.join().unwrap());
    });
}

/// A sender that waits, and a receiver that makes room when it has seen the close: nothing is sent any more.
#[test]
fn a_sender_that_waits_sends_nothing_after_the_close() {
    model_bounded("ring_close_refuses", 3, || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let sent = send_in_a_thread(&sender, 2);
        let closes = thread::spawn(move || sender.close());
        let was_closed = receiver.is_closed();
        assert_eq!(receiver.recv().unwrap(), 1);
        closes.join().unwrap();
        assert!(!(sent.join().unwrap() && was_closed));
    });
}

#[test]
fn of_two_who_close_both_find_it_closed() {
    model("ring_close_twice", || {
        let (sender, receiver) = bounded::<u32>(1);
        let other = thread::spawn(move || {
            receiver.close();
            assert!(receiver.is_closed());
        });
        sender.close();
        assert!(sender.try_send(1).is_err());
        other.join().unwrap();
    });
}

#[test]
fn a_receiver_that_gives_up_has_its_item_or_leaves_it() {
    model("ring_withdraw_recv", || {
        let (sender, receiver) = bounded(1);
        let received = {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv_until(PAST).is_ok())
        };
        sender.send(1).unwrap();
        assert_eq!(received.join().unwrap(), receiver.try_recv().unwrap().is_none());
    });
}

#[test]
fn a_sender_that_gives_up_has_sent_its_item_or_keeps_it() {
    model("ring_withdraw_send", || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let kept = thread::spawn(move || sender.send_until(2, PAST).err().map(|unsent| unsent.item));
        assert_eq!(receiver.recv().unwrap(), 1);
        match kept.join().unwrap() {
            Some(item) => assert_eq!((item, receiver.try_recv().is_err()), (2, true)),
            None => assert_eq!(receiver.recv().unwrap(), 2),
        }
    });
}

/// A receiver that was given an item and unwinds, against another that comes to wait.
#[test]
fn an_item_that_is_given_back_reaches_the_next_receiver() {
    model_bounded("ring_put_back", 3, || {
        let (sender, receiver) = bounded(1);
        let unwinds = {
            let receiver = receiver.clone();
            thread::spawn(move || {
                let recv = receiver.operation();
                let node = Node::new(0);
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                if unsafe { recv.enroll(&node) } == sinew_sched::raw::Enrolled::Queued {
                    // SAFETY: it was enrolled just now.
                    drop(unsafe { Waiting::new(&recv, &node) }); // as an unwind does
                }
            })
        };
        let received = recv_in_a_thread(&receiver);
        sender.send(1).unwrap();
        unwinds.join().unwrap();
        assert_eq!(received.join().unwrap().unwrap(), 1);
    });
}

#[test]
fn what_is_forced_in_drops_the_oldest_once() {
    model("ring_forced", || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let dropped = thread::spawn(move || sender.force_send(2).unwrap());
        let first = receiver.recv().unwrap();
        match dropped.join().unwrap().next() {
            Some(1) => assert_eq!(first, 2),
            None => assert_eq!((first, receiver.try_recv().unwrap()), (1, Some(2))),
            other => panic!("{other:?} was dropped"),
        }
    });
}

#[test]
fn a_receiver_that_waits_is_woken_by_what_is_forced_in() {
    model("ring_forced_wakes", || {
        let (sender, receiver) = bounded(1);
        let received = recv_in_a_thread(&receiver);
        assert_eq!(sender.force_send(1).unwrap().count(), 0);
        assert_eq!(received.join().unwrap().unwrap(), 1);
    });
}

/// More than fits into one segment, and a receiver that leaves the segments behind meanwhile.
#[test]
fn a_ring_that_grows_is_received_in_order() {
    model_bounded("ring_grows", 3, || {
        let (sender, receiver) = bounded(5);
        let sends = thread::spawn(move || (1..=5).for_each(|item| sender.send(item).unwrap()));
        (1..=5).for_each(|item| assert_eq!(receiver.recv().unwrap(), item));
        sends.join().unwrap();
    });
}

/// A sender that needs a segment, against a receiver that leaves one: it gets that one or another, and neither is written
/// before it was read.
#[test]
fn a_segment_is_used_again_after_its_items_were_taken() {
    model("ring_grows_into_the_spare", || {
        let (sender, receiver) = bounded(6);
        (1..=3).for_each(|item| sender.try_send(item).unwrap());
        assert_eq!(receiver.try_recv().unwrap(), Some(1));
        let sends = thread::spawn(move || (4..=5).for_each(|item| sender.try_send(item).unwrap()));
        let mut items = vec![receiver.recv().unwrap(), receiver.recv().unwrap()];
        sends.join().unwrap();
        items.extend(receiver.try_iter());
        assert_eq!(items, [2, 3, 4, 5]);
    });
}

/// Nothing of a channel outlives it.
#[test]
fn items_that_nobody_receives_are_dropped_with_the_channel() {
    model("ring_dropped", || {
        let item = Arc::new(());
        let (sender, receiver) = bounded(2);
        sender.send(item.clone()).unwrap();
        sender.send(item.clone()).unwrap();
        let goes = thread::spawn(move || drop(receiver));
        drop(sender);
        goes.join().unwrap();
        assert_eq!(Arc::strong_count(&item), 1);
    });
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn items_behind_one_that_panics_are_dropped_with_the_ring() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use sinew_sync::atomic::{AtomicUsize, Ordering};

    use super::Ring;
    use crate::chan::slot::Slot;
    use crate::chan::{Flavour, Tried};
    use sinew_sched::raw::Waiter;

    struct Item(usize, Arc<AtomicUsize>);

    impl Drop for Item {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            assert_ne!(self.0, 1, "dropped");
        }
    }

    let (ring, dropped) = (Ring::new(4), Arc::new(AtomicUsize::new(0)));
    for n in 0..4 {
        assert_eq!(ring.try_send(&Slot::of(Item(n, dropped.clone())), Waiter::wake), Tried::Done);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(ring))).is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}
