//! What it costs to give up a wait for room.

use std::cell::Cell;

use sinew_chan::chan::oneshot;

use super::Ticket;
use crate::mailbox::{Mail, Policy, Put, Stop, Taken};

thread_local! {
    /// Comparisons of tickets on this thread.
    pub(super) static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

/// An event of a lane that is not used.
struct NoEvent;

impl From<Stop> for NoEvent {
    fn from(_: Stop) -> NoEvent {
        NoEvent
    }
}

/// A full mailbox of one message, and the tickets of so many senders that wait for room in it.
fn full(senders: u64) -> (Mail<u64, NoEvent>, Vec<Ticket>) {
    let mut mail = Mail::new(1, Policy::Park);
    assert!(matches!(mail.put(0, || 0), Put::In { .. }));
    let tickets = (1..=senders).map(|number| {
        let ticket = Ticket::new(number);
        mail.wait(ticket, number, oneshot::channel().0);
        ticket
    });
    let tickets = tickets.collect();
    (mail, tickets)
}

/// Has the senders give up in the order of `tickets`, each at a cost of few comparisons.
fn give_up(mail: &mut Mail<u64, NoEvent>, tickets: impl Iterator<Item = Ticket>) {
    /// A node of a `BTreeMap` has at most 11 keys, and at least 5 unless it is the root: a path to one of 20 000 has
    /// at most 7 nodes.
    const MOST: u64 = 11 * 7;
    for ticket in tickets {
        let before = COMPARISONS.get();
        assert!(mail.withdraw(ticket).is_some_and(|(message, _)| message == ticket.0));
        let cost = COMPARISONS.get() - before;
        assert!(cost <= MOST, "{cost} comparisons to find {ticket:?}");
    }
    assert!(!mail.has_waiting());
}

#[test]
fn a_sender_gives_up_at_the_same_cost_however_many_wait() {
    const SENDERS: u64 = 20_000;
    let (mut mail, tickets) = full(SENDERS);
    give_up(&mut mail, tickets.into_iter());
    let (mut mail, tickets) = full(SENDERS);
    give_up(&mut mail, tickets.into_iter().rev());
}

#[test]
fn senders_are_let_in_as_they_came_without_those_that_gave_up() {
    let (mut mail, tickets) = full(100);
    tickets.iter().skip(1).step_by(2).for_each(|ticket| drop(mail.withdraw(*ticket)));
    assert!(mail.withdraw(tickets[1]).is_none(), "it has given up already");
    let mut seen = Vec::new();
    while let Some(message) = next(&mut mail) {
        seen.push(message);
    }
    let expected: Vec<u64> = [0].into_iter().chain((1..=100).step_by(2)).collect();
    assert_eq!(seen, expected);
    assert!(mail.withdraw(tickets[0]).is_none(), "it was let in");
}

/// Takes the next message, and lets in the sender that waits first.
fn next(mail: &mut Mail<u64, NoEvent>) -> Option<u64> {
    let (taken, admitted) = mail.take(0, &mut Default::default(), false);
    admitted.tell();
    if let Taken::One(message, _) = taken { Some(message) } else { None }
}
