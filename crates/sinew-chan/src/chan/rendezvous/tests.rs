//! Models of a rendezvous.

use sinew_core::Instant;
use sinew_sched::raw::{Attempt, Enrolled, Node, Waiting};
use sinew_sync::{model, model_bounded, thread};

use crate::chan::{RecvError, rendezvous};

/// A deadline that has passed stands for whatever makes a waiter give up.
const PAST: Instant = Instant::from_nanos(0);

#[test]
fn two_who_meet_exchange_an_item() {
    model_bounded("rendezvous_exchange", 4, || {
        let (sender, receiver) = rendezvous();
        let sends = thread::spawn(move || (1..=2).for_each(|item| sender.send(item).unwrap()));
        assert_eq!((receiver.recv().unwrap(), receiver.recv().unwrap()), (1, 2));
        assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
        sends.join().unwrap();
    });
}

#[test]
fn closing_lets_nobody_wait() {
    model_bounded("rendezvous_close", 3, || {
        let (sender, receiver) = rendezvous();
        let sends = {
            let sender = sender.clone();
            thread::spawn(move || sender.send(1).is_ok())
        };
        let receives = thread::spawn(move || receiver.recv().is_ok());
        sender.close();
        assert_eq!(sends.join().unwrap(), receives.join().unwrap());
    });
}

#[test]
fn a_party_that_gives_up_has_met_the_other_or_not() {
    model("rendezvous_withdrawal", || {
        let (sender, receiver) = rendezvous();
        let sends = thread::spawn(move || sender.send_until(1, PAST).is_ok());
        let received = receiver.recv_until(PAST).is_ok();
        assert_eq!(sends.join().unwrap(), received);
    });
}

/// A receiver that was given an item and unwinds, against another that comes to wait.
#[test]
fn an_item_that_is_given_back_reaches_the_next_receiver() {
    model_bounded("rendezvous_put_back", 3, || {
        let (sender, receiver) = rendezvous();
        let unwinds = {
            let receiver = receiver.clone();
            thread::spawn(move || {
                let recv = receiver.operation();
                let node = Node::new(0);
                // SAFETY: the node is new, and `Waiting` takes it out before it goes.
                match unsafe { recv.enroll(&node) } {
                    // SAFETY: it was enrolled just now.
                    Enrolled::Queued => drop(unsafe { Waiting::new(&recv, &node) }), // as an unwind does
                    Enrolled::Done => return true,
                    _ => (),
                }
                false
            })
        };
        let receives = thread::spawn(move || receiver.recv().is_ok());
        sender.send(1).unwrap();
        let taken = unwinds.join().unwrap();
        drop(sender);
        assert_eq!(receives.join().unwrap(), !taken);
    });
}
