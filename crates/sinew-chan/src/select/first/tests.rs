//! Models of a select against whatever can happen to its cases meanwhile.

use sinew_core::Instant;
use sinew_sched::raw::Case;
use sinew_sync::{Arc, model_bounded, thread};

use super::*;
use crate::chan::{self, Receiver, Sender};
use crate::select;
use crate::select::{Until, acquire, lock, recv, send, until};
use crate::sync::{Mutex, Semaphore};

const PAST: Instant = Instant::from_nanos(0);

/// Receives from either; says from which, and what.
fn recv_either(receivers: &[Receiver<u32>; 2]) -> (usize, Option<u32>) {
    let [first, second] = receivers;
    select! {
        item = recv(first) => (0, item.ok()),
        item = recv(second) => (1, item.ok()),
    }
    .unwrap()
}

/// Sends to either; says to which.
fn send_either(senders: &[Sender<u32>; 2], item: u32) -> usize {
    let (mut one, mut other) = (Some(item), Some(item));
    let sent = select! {
        sent = send(&senders[0], &mut one) => (0, sent.is_ok()),
        sent = send(&senders[1], &mut other) => (1, sent.is_ok()),
    };
    let (number, sent) = sent.unwrap();
    assert_eq!((one.is_some(), other.is_some()), (number == 1, number == 0), "the other item stays");
    assert!(sent);
    number
}

fn two(capacities: [usize; 2]) -> ([Sender<u32>; 2], [Receiver<u32>; 2]) {
    let [(first, one), (second, other)] = capacities.map(chan::bounded);
    ([first, second], [one, other])
}

/// A receiver that selects gets one of two items, and the other is still there.
#[test]
fn a_select_takes_one_item_and_leaves_the_other() {
    for capacities in [[0, 0], [0, 1], [1, 1]] {
        model_bounded("select_two_senders", 2, move || {
            let (senders, receivers) = two(capacities);
            let [first, second] =
                senders.clone().map(|sender| thread::spawn(move || sender.send(1).unwrap()));
            let (taken, item) = recv_either(&receivers);
            assert_eq!(item, Some(1));
            assert_eq!(receivers[1 - taken].recv().unwrap(), 1);
            assert!(receivers.iter().all(|receiver| receiver.try_recv().unwrap().is_none()));
            first.join().unwrap();
            second.join().unwrap();
            drop(senders);
        });
    }
}

#[test]
fn a_select_is_woken_by_a_close() {
    model_bounded("select_against_close", 2, || {
        let (senders, receivers) = two([0, 1]);
        let [first, second] = senders;
        let closes = thread::spawn(move || first.close());
        let sends = thread::spawn(move || second.send(1).unwrap());
        let (number, item) = recv_either(&receivers);
        assert_eq!(item, (number == 1).then_some(1));
        closes.join().unwrap();
        sends.join().unwrap();
        assert_eq!(receivers[1].try_iter().count(), 1 - number, "the item was received once");
    });
}

#[test]
fn a_select_is_woken_by_the_end_of_a_sender() {
    model_bounded("select_against_drop", 3, || {
        let (senders, receivers) = two([0, 1]);
        let goes = thread::spawn(move || drop(senders));
        assert_eq!(recv_either(&receivers).1, None);
        goes.join().unwrap();
    });
}

/// One that sends to either and one that receives from either, in the same order.
#[test]
fn two_selects_meet_once() {
    model_bounded("select_against_select", 4, || {
        let (senders, receivers) = two([0, 0]);
        let sends = {
            let senders = senders.clone();
            thread::spawn(move || send_either(&senders, 5))
        };
        let (taken, item) = recv_either(&receivers);
        assert_eq!((sends.join().unwrap(), item), (taken, Some(5)));
        assert!(receivers.iter().all(|receiver| receiver.try_recv().unwrap().is_none()));
        drop(senders);
    });
}

/// Two that each would receive from the one or send to the other, crosswise: one sends and the other receives.
#[test]
fn two_selects_that_want_each_other_both_ways_meet_once() {
    model_bounded("select_crossed", 4, || {
        let (senders, receivers) = two([0, 0]);
        let either = |sender: &Sender<u32>, receiver: &Receiver<u32>, item: u32| {
            let mut item = Some(item);
            let received = select! {
                sent = send(sender, &mut item) => { sent.unwrap(); None }
                got = recv(receiver) => Some(got.unwrap()),
            };
            received.unwrap()
        };
        let other = {
            let (sender, receiver) = (senders[1].clone(), receivers[0].clone());
            thread::spawn(move || either(&sender, &receiver, 2))
        };
        let received = either(&senders[0], &receivers[1], 1);
        match (received, other.join().unwrap()) {
            (Some(2), None) | (None, Some(1)) => (),
            other => panic!("{other:?}"),
        }
        drop((senders, receivers));
    });
}

/// What a select that gives up was being given is received by it, or is still there.
#[test]
fn a_select_that_gives_up_loses_nothing() {
    model_bounded("select_gives_up", 4, || {
        let (senders, receivers) = two([1, 1]);
        let sends = thread::spawn({
            let sender = senders[0].clone();
            move || sender.send(1).unwrap()
        });
        let cases: [&dyn Attempt; 3] =
            [&recv(&receivers[0]), &recv(&receivers[1]), &AfterEnrolling(until(PAST))];
        let won = wait(&cases).unwrap();
        sends.join().unwrap();
        assert_eq!(receivers[0].try_recv().unwrap().is_some(), won == 2);
        drop(senders);
    });
}

/// A time that has passed, which is noticed only when the select waits.
struct AfterEnrolling(Until);

impl sinew_sched::raw::Awaited for AfterEnrolling {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises it of this.
        unsafe { self.0.withdraw(node) }
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for AfterEnrolling {
    fn attempt(&self) -> bool {
        false
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of this.
        unsafe { self.0.enroll(node) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, _: &mut dyn FnMut()) {}

    fn what(&self) -> What {
        self.0.what()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}

/// A select that unwinds while it is enrolled, against a sender: the item reaches the next receiver.
#[test]
fn a_select_that_unwinds_hands_its_item_on() {
    model_bounded("select_unwinds", 3, || {
        let (senders, receivers) = two([0, 0]);
        let receives = {
            let receiver = receivers[0].clone();
            thread::spawn(move || receiver.recv().ok())
        };
        let sends = {
            let sender = senders[0].clone();
            thread::spawn(move || sender.send(1).unwrap())
        };
        let taken = {
            let cases: [&dyn Attempt; 2] = [&recv(&receivers[0]), &recv(&receivers[1])];
            let group = Group::new();
            // SAFETY: the group outlives the nodes.
            let nodes = [0, 1].map(|number| unsafe { Node::in_group(&raw const group, number) });
            let enlisted = Enlisted::new(&cases, &nodes, &group);
            // SAFETY: the nodes are new, and `enlisted` takes out those that are queued before they go.
            let enroll = |number: usize| unsafe { cases[number].enroll(&nodes[number]) };
            let enrolled = rotated(2, enlisted.start).map(enroll);
            let mut taken = false;
            for enrolled in enrolled {
                match enrolled {
                    Enrolled::Queued => enlisted.enrolled.set(enlisted.enrolled.get() + 1),
                    Enrolled::Done => taken = true,
                    _ => (),
                }
                if enrolled != Enrolled::Queued {
                    break;
                }
            }
            taken // and the select unwinds
        };
        sends.join().unwrap();
        drop(senders);
        assert_eq!(receives.join().unwrap().is_some(), !taken);
    });
}

#[test]
fn a_lock_that_a_select_does_not_take_is_free() {
    model_bounded("select_of_locks", 2, || {
        let locks = Arc::new([Mutex::new(0), Mutex::new(0)]);
        let others = [0, 1].map(|number| {
            let locks = locks.clone();
            thread::spawn(move || *locks[number].lock().unwrap() += 1)
        });
        let taken = select! {
            mut value = lock(&locks[0]) => { *value += 1; 0 }
            mut value = lock(&locks[1]) => { *value += 1; 1 }
        };
        let taken = taken.unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!([0, 1].map(|number| *locks[number].lock().unwrap()), [2 - taken, 1 + taken]);
    });
}

#[test]
fn permits_that_a_select_does_not_take_go_to_others() {
    model_bounded("select_of_permits", 3, || {
        let permits = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
        let adds = {
            let permits = permits.clone();
            thread::spawn(move || permits.iter().for_each(|permits| permits.add_permits(1)))
        };
        let taken = select! {
            permit = acquire(&permits[0], 1) => { permit.forget(); 0 }
            permit = acquire(&permits[1], 1) => { permit.forget(); 1 }
        };
        let taken = taken.unwrap();
        adds.join().unwrap();
        assert_eq!(permits.each_ref().map(Semaphore::available), [taken, 1 - taken]);
    });
}

/// A select of an item and a lock, or of a lock and an item, when both come: what it does not take is there.
#[test]
fn a_lock_that_comes_with_an_item_is_taken_or_free() {
    for lock_first in [false, true] {
        model_bounded("select_lock_or_item", 4, move || {
            let mutex = Arc::new(Mutex::new(()));
            let (sender, receiver) = chan::bounded(1);
            let held = mutex.lock().unwrap();
            let selects = {
                let (mutex, receiver) = (mutex.clone(), receiver.clone());
                thread::spawn(move || {
                    let (lock, recv) = (lock(&mutex), recv(&receiver));
                    let cases: [&dyn Attempt; 2] = if lock_first { [&lock, &recv] } else { [&recv, &lock] };
                    let locked = (wait(&cases).unwrap() == 0) == lock_first;
                    if locked {
                        drop(lock.output());
                    }
                    locked
                })
            };
            sender.send(1).unwrap();
            drop(held);
            let locked = selects.join().unwrap();
            assert!(mutex.try_lock().is_some());
            assert_eq!(receiver.try_recv().unwrap().is_some(), locked);
        });
    }
}
