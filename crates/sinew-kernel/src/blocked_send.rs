//! A send that blocks: how a sender waits for room in a [mailbox](crate::mailbox).
//!
//! The sender leaves its message in the mailbox, with a ticket and the sending end of a channel,
//! and waits at the other end. Under the lock of the receiving actor the message is then in one of
//! three places, so it is neither lost nor sent twice:
//!
//! - *Waiting*, until one of the others: the sender can take it back by its ticket.
//! - *Let in*: the actor has moved it into the queue, and answers `None` when the lock is free.
//! - *Given back*: the mailbox was closed, and the answer is the message.
//!
//! A sender whose time is up, or that is cancelled, takes its message back. If it is too late for
//! that, the answer is on its way, and the sender waits for it. A sender that unwinds takes the
//! message out as well, and drops it: it was not sent.
//!
//! Models: `mailbox_of_one_forgets_no_sender`, `mailbox_of_two_forgets_no_sender`,
//! `mailbox_sender_against_death`, `end_against_senders`, `end_against_ask_that_waits_for_room`.

use std::mem;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_fiber::raw::may_await;
use sinew_fiber::shield;
use sinew_sched::raw::Limit;
use sinew_sched::turn;

use crate::cell::{Cell, Entry, WAITING};
use crate::error::Unsent;
use crate::mailbox::{Put, Ticket};
use crate::waits;

/// Puts a message into a mailbox that was full, when there is room.
#[cold]
pub(crate) fn wait_for_room<M: Send + 'static>(
    cell: &Cell<M>,
    entry: Entry<M>,
    timeout: Option<Duration>,
) -> Result<(), (Entry<M>, Unsent)> {
    if turn::current() == Some(cell.head.task()) {
        return Err((entry, Unsent::ToItself));
    }
    if let Err(refused) = may_await() {
        return Err((entry, Unsent::Refused(refused)));
    }
    let deadline = timeout.map(|timeout| sinew_sched::now() + timeout);
    let (sender, mut receiver) = oneshot::channel();
    let ticket = {
        let mut state = cell.lock();
        // There may be room by now.
        match state.mail.put(entry, || cell.head.begun()) {
            Put::In { wake, .. } => {
                drop(state);
                if wake {
                    cell.head.wake();
                }
                return Ok(());
            }
            Put::Full(entry) => {
                let ticket = Ticket::new(cell.head.node.next_number()); // under the lock: in the order of arrival
                state.mail.wait(ticket, entry, sender);
                cell.set_flag(WAITING);
                ticket
            }
            Put::Closed(entry) => {
                let reason = state.life.reason();
                return Err((entry, Unsent::Stopped(reason)));
            }
            Put::Instead(..) | Put::Dropped(_) => unreachable!("the policy is to park"),
        }
    };
    let place = Place { cell, ticket };
    let limit = deadline.map(Limit::Until);
    let received = receiver.recv_as(limit, waits::on(waits::SEND, cell.head.id));
    mem::forget(place);
    let why = match received {
        Ok(answer) => return answered(cell, answer),
        Err(RecvError::Timeout) => Unsent::Timeout(timeout.unwrap_or_default()),
        Err(RecvError::Refused(refused)) => Unsent::Refused(refused),
        Err(_) => Unsent::Stopped(cell.reason()),
    };
    match withdraw(cell, ticket) {
        Some(entry) => Err((entry, why)),
        // It was let in or given back this moment: whoever did so is about to say which.
        None => match shield(|| receiver.recv()) {
            Ok(answer) => answered(cell, answer),
            Err(_) => Ok(()),
        },
    }
}

/// Takes back the message of a sender that waits. None if it was let in or given back.
fn withdraw<M: Send + 'static>(cell: &Cell<M>, ticket: Ticket) -> Option<Entry<M>> {
    let mut state = cell.lock();
    let withdrawn = state.mail.withdraw(ticket);
    cell.set_flags(&state.mail);
    drop(state);
    withdrawn.map(|(entry, _)| entry)
}

/// The place of a sender that waits. If the wait unwinds, the message is dropped: it was not sent.
struct Place<'a, M: Send + 'static> {
    cell: &'a Cell<M>,
    ticket: Ticket,
}

impl<M: Send + 'static> Drop for Place<'_, M> {
    fn drop(&mut self) {
        if let Some(entry) = withdraw(self.cell, self.ticket) {
            self.cell.head.discard(entry);
        }
    }
}

fn answered<M: Send + 'static>(cell: &Cell<M>, answer: Option<Entry<M>>) -> Result<(), (Entry<M>, Unsent)> {
    match answer {
        None => Ok(()),
        Some(entry) => Err((entry, Unsent::Stopped(cell.reason()))),
    }
}
