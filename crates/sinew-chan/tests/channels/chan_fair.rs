//! Who waits at a channel is served in turn: if k - 1 wait before it, it gets the k-th item that is sent from then on, or
//! sends the k-th that is received. Whoever comes later does not overtake it, and those who give up do not count.

use sinew_chan::chan::{Many, Receiver, RecvError, Sender};
use sinew_chan::select;
use sinew_chan::select::{Select, recv, send};
use sinew_sched::{CurrentThread, JoinHandle};

use crate::channels::{Bounded, Kind, by_hand, for_kinds};

/// Starts who receives one item, in one of several ways, and waits until it waits.
fn receives(
    runtime: &CurrentThread,
    way: usize,
    receiver: &Receiver<u64>,
) -> JoinHandle<Result<u64, RecvError>> {
    let receiver = receiver.clone();
    let task = match way % 4 {
        0 => runtime.spawn(move || receiver.recv()),
        1 => runtime.spawn_future(async move { receiver.recv_async().await }),
        2 => runtime.spawn(move || {
            let (_open, other) = Bounded::open::<u8>(1);
            select! { item = recv(&receiver) => item, _ = recv(&other) => panic!("nobody sends") }?
        }),
        _ => runtime.spawn(move || {
            let twice = [&receiver, &receiver];
            let select =
                twice.into_iter().fold(Select::new(), |select, receiver| select.case(recv(receiver), |i| i));
            select.wait()?
        }),
    };
    runtime.run_until_idle();
    assert!(!task.is_finished(), "it waits");
    task
}

/// Starts who sends one item, in one of several ways, and waits until it waits.
fn sends(runtime: &CurrentThread, way: usize, sender: &Sender<u64>, item: u64) -> JoinHandle<bool> {
    let sender = sender.clone();
    let task = match way % 3 {
        0 => runtime.spawn(move || sender.send(item).is_ok()),
        1 => runtime.spawn_future(async move { sender.send_async(item).await.is_ok() }),
        _ => runtime.spawn(move || {
            let mut item = Some(item);
            select! { sent = send(&sender, &mut item) => sent.is_ok() }.unwrap_or(false)
        }),
    };
    runtime.run_until_idle();
    assert!(!task.is_finished(), "it waits");
    task
}

fn receivers_in_turn<C: Kind<Ends = Many>>(runtime: &CurrentThread, gives_up: fn(usize) -> bool) {
    for capacity in [0, 1, 5, 16] {
        let (sender, receiver) = C::open(capacity);
        let tasks: Vec<_> = (0..12).map(|way| receives(runtime, way, &receiver)).collect();
        let (gone, stay): (Vec<_>, Vec<_>) = tasks.into_iter().enumerate().partition(|(n, _)| gives_up(*n));
        gone.iter().for_each(|(_, task)| task.kill());
        runtime.run_until_idle();
        gone.into_iter().for_each(|(_, task)| assert!(task.join().is_err()));
        for item in 0..stay.len() as u64 {
            sender.try_send(item).unwrap();
            assert!(matches!(receiver.try_recv(), Ok(None)), "who comes later does not overtake");
        }
        runtime.run_until_idle();
        for (turn, (_, task)) in stay.into_iter().enumerate() {
            assert_eq!(task.join().unwrap().unwrap(), turn as u64, "capacity {capacity}");
        }
    }
}

#[test]
fn receivers_are_served_in_the_order_in_which_they_wait() {
    by_hand(|runtime, _| receivers_in_turn::<Bounded>(runtime, |_| false));
}

#[test]
fn receivers_that_give_up_leave_their_turn_to_the_next() {
    by_hand(|runtime, _| {
        receivers_in_turn::<Bounded>(runtime, |n| n % 2 == 0);
        receivers_in_turn::<Bounded>(runtime, |n| n % 3 == 1);
        receivers_in_turn::<Bounded>(runtime, |n| n < 11);
        receivers_in_turn::<Bounded>(runtime, |n| n > 0);
    });
}

fn senders_in_turn<C: Kind<Ends = Many>>(runtime: &CurrentThread, gives_up: fn(u64) -> bool) {
    for capacity in [0, 1, 5] {
        let (sender, receiver) = C::open(capacity);
        (0..capacity as u64).for_each(|item| sender.try_send(item).unwrap());
        let tasks: Vec<_> = (0..12).map(|n| (n as u64, sends(runtime, n, &sender, 100 + n as u64))).collect();
        let (gone, stay): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(n, _)| gives_up(*n));
        gone.iter().for_each(|(_, task)| task.kill());
        runtime.run_until_idle();
        gone.into_iter().for_each(|(_, task)| assert!(task.join().is_err()));
        for turn in 0..capacity + stay.len() {
            let expected = if turn < capacity { turn as u64 } else { 100 + stay[turn - capacity].0 };
            assert_eq!(receiver.try_recv().unwrap(), Some(expected), "capacity {capacity}");
            let waiting = stay.len().saturating_sub(turn + 1);
            assert!(waiting == 0 || sender.try_send(999).is_err(), "who comes later does not overtake");
        }
        runtime.run_until_idle();
        stay.into_iter().for_each(|(_, task)| assert!(task.join().unwrap()));
    }
}

#[test]
fn senders_are_served_in_the_order_in_which_they_wait() {
    by_hand(|runtime, _| for_kinds!(C: Many => senders_in_turn::<C>(runtime, |_| false)));
}

#[test]
fn senders_that_give_up_leave_their_turn_to_the_next() {
    by_hand(|runtime, _| {
        for_kinds!(C: Many => senders_in_turn::<C>(runtime, |n| n % 2 == 0));
        for_kinds!(C: Many => senders_in_turn::<C>(runtime, |n| n % 3 == 1));
        for_kinds!(C: Many => senders_in_turn::<C>(runtime, |n| n < 11));
    });
}

/// Each of many cases that could all happen does, in as many selects as there are cases.
fn none_is_preferred<C: Kind>(cases: usize) {
    let channels: Vec<_> = (0..cases).map(|_| C::open(cases)).collect();
    channels.iter().for_each(|(sender, _)| (0..cases).for_each(|n| sender.try_send(n).unwrap()));
    let mut happened = vec![0; cases];
    for _ in 0..cases {
        let mut select = Select::new();
        for (number, (_, receiver)) in channels.iter().enumerate() {
            select = select.case(recv(receiver), move |item| item.map(|_| number));
        }
        happened[select.wait().unwrap().unwrap()] += 1;
    }
    assert!(happened.iter().all(|times| *times == 1), "{happened:?}");
}

#[test]
fn none_of_the_cases_of_a_select_is_preferred() {
    for_kinds!(C => [1, 2, 3, 8, 9, 100].into_iter().for_each(none_is_preferred::<C>));
}
