//! Models of the mailbox and of the end of an actor: see `sinew_sync::model`. `MODELS.md` says what each of them catches.
//!
//! The task of an actor is a thread here, and its state word a flag: whoever wakes it sets the flag, and its turn ends by
//! waiting for that. Cells are those of production, of a node whose runtime never runs.

mod bus;
mod end;
pub(crate) mod services;

use std::collections::VecDeque;

use sinew_chan::chan::oneshot;
use sinew_core::ExitReason;
use sinew_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Arc, Mutex, ShortLock, model, statics};

use crate::ActorRef;
use crate::actor::{Actor, Flow};
use crate::cell::AnyCell;
use crate::ctx::Ctx;
use crate::event::{Event, Exit, MonitorId, Relation};
use crate::lifecycle::Lifecycle;
use crate::mailbox::{Mail, Policy, Put, Refused, Stop, Taken, Ticket};
use crate::node::{LocalNode, Node};

/// What the lane is for a request to stop.
const STOP: u32 = 100;

impl From<Stop> for u32 {
    fn from(_: Stop) -> u32 {
        STOP
    }
}

/// A mailbox, and what wakes its actor.
struct Mailbox {
    mail: ShortLock<Mail<u32, u32>>,
    begun: AtomicU32,
    woken: AtomicBool,
    actor: Mutex<Option<Thread>>,
    /// The last ticket; changed under the lock of the mailbox.
    tickets: statics::AtomicU64,
}

impl Mailbox {
    fn new(capacity: u32, policy: Policy) -> Arc<Mailbox> {
        Arc::new(Mailbox {
            mail: ShortLock::new(Mail::new(capacity, policy)),
            begun: AtomicU32::new(0),
            woken: AtomicBool::new(true),
            actor: Mutex::new(None),
            tickets: statics::AtomicU64::new(0),
        })
    }

    /// Returns the ticket of a sender that has the lock of the mailbox.
    fn ticket(&self) -> Ticket {
        Ticket::new(self.tickets.fetch_add(1, statics::Ordering::Relaxed))
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        let actor = self.actor.lock().clone();
        actor.into_iter().for_each(|actor| actor.unpark());
    }

    /// The turn is over, until somebody wakes the actor.
    fn idle(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// The turn blocks, and uses up what woke it.
    fn blocks(&self) {
        let admitted = {
            let mut mail = self.mail.lock();
            mail.stay_awake();
            mail.admit(self.begun.load(Ordering::Relaxed))
        };
        admitted.tell();
        thread::yield_now();
        self.woken.store(false, Ordering::Relaxed);
    }

    fn begin(&self) {
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Sends, and waits if there is no room. The message, if it comes back.
    fn send(&self, message: u32) -> Option<u32> {
        let mut mail = self.mail.lock();
        match mail.put(message, || self.begun.load(Ordering::Relaxed)) {
            Put::In { wake, .. } => {
                drop(mail);
                if wake {
                    self.wake();
                }
                None
            }
            Put::Full(message) => {
                let (sender, mut receiver) = oneshot::channel();
                mail.wait(self.ticket(), message, sender);
                drop(mail);
                receiver.recv().unwrap()
            }
            Put::Closed(message) => Some(message),
            Put::Instead(..) | Put::Dropped(_) => unreachable!("it parks"),
        }
    }

    /// Puts something into the lane, in one of the ways that there are.
    fn tell(&self, put: impl FnOnce(&mut Mail<u32, u32>) -> bool) {
        let wake = put(&mut self.mail.lock());
        if wake {
            self.wake();
        }
    }

    /// Turns until so many messages and events were handled; every second one blocks.
    fn run(&self, messages: usize, more: bool) -> Vec<u32> {
        *self.actor.lock() = Some(thread::current());
        let mut handled = Vec::new();
        let mut batch = VecDeque::new();
        let mut blocked = false;
        self.idle();
        while handled.len() < messages {
            let mut last = false;
            let first = batch.pop_front().or_else(|| self.mail.lock().pop(|| more, &mut last));
            let (message, last) = match first {
                Some(message) => (message, last),
                None => {
                    let (taken, admitted) = {
                        let mut mail = self.mail.lock();
                        let (begun, capacity) =
                            (self.begun.load(Ordering::Relaxed), mail.capacity() as usize);
                        let admits = mail.has_waiting() && mail.is_half_free(begun);
                        let taken = mail.take(begun, &mut batch, more);
                        assert!(mail.len(begun) <= capacity);
                        assert!(!mail.has_waiting() || !mail.has_room());
                        assert!(!admits || !mail.has_waiting() || mail.len(begun) + 1 >= capacity);
                        taken
                    };
                    admitted.tell();
                    match taken {
                        Taken::Batch => continue,
                        Taken::One(message, last) => (message, last),
                        Taken::Nothing => {
                            self.idle();
                            blocked = false;
                            continue;
                        }
                        Taken::Event(event) => (event, false),
                        Taken::End => unreachable!("nobody closes"),
                    }
                }
            };
            self.begin();
            handled.push(message);
            if handled.len() % 2 == 0 {
                blocked = true;
                self.blocks();
            }
            if last && !blocked && handled.len() < messages {
                self.idle();
            }
        }
        handled
    }
}

fn everything_arrives(name: &str, capacity: u32, more: bool) {
    model(name, move || {
        let mail = Mailbox::new(capacity, Policy::Park);
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let mail = mail.clone();
                thread::spawn(move || {
                    for n in 0..3 {
                        assert_eq!(mail.send(sender * 10 + n), None);
                    }
                })
            })
            .collect();
        let handled = mail.run(6, more);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        for sender in 0..2 {
            let own: Vec<u32> = handled.iter().copied().filter(|n| n / 10 == sender).collect();
            assert_eq!(own, (0..3).map(|n| sender * 10 + n).collect::<Vec<_>>());
        }
    });
}

/// Whoever puts something in wakes the actor if that has seen an empty mailbox, and a sender that waits gets room.
#[test]
fn mailbox_wakes_its_actor() {
    everything_arrives("mailbox_wakes_its_actor", 8, false);
}

#[test]
fn mailbox_wakes_its_actor_in_batches() {
    everything_arrives("mailbox_wakes_its_actor_in_batches", 8, true);
}

#[test]
fn mailbox_of_one_forgets_no_sender() {
    everything_arrives("mailbox_of_one_forgets_no_sender", 1, false);
}

#[test]
fn mailbox_of_two_forgets_no_sender() {
    everything_arrives("mailbox_of_two_forgets_no_sender", 2, true);
}

#[test]
fn mailbox_of_two_lets_nobody_pass() {
    everything_arrives("mailbox_of_two_lets_nobody_pass", 2, false);
}

/// Puts something into the lane, and says whether the actor has to be woken.
type Tell = fn(&mut Mail<u32, u32>) -> bool;

/// Whatever comes by the lane wakes the actor as well.
#[test]
fn mailbox_wakes_its_actor_for_events() {
    model("mailbox_wakes_its_actor_for_events", || {
        let ways: [Tell; 3] = [
            |mail| mail.put_event(STOP).unwrap(),
            |mail| mail.put_event_first(STOP).unwrap(),
            |mail| mail.put_stop(Stop::Now).unwrap(),
        ];
        for put in ways {
            let mail = Mailbox::new(8, Policy::Park);
            let teller = {
                let mail = mail.clone();
                thread::spawn(move || mail.tell(put))
            };
            assert_eq!(mail.run(1, false), [STOP]);
            teller.join().unwrap();
        }
    });
}

/// Senders that wait against the end of the actor, and against giving up: each message is handled, left, or given back.
#[test]
fn mailbox_sender_against_death() {
    model("mailbox_sender_against_death", || {
        let mail = Mailbox::new(1, Policy::Park);
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let mail = mail.clone();
                thread::spawn(move || mail.send(sender).into_iter().collect::<Vec<_>>())
            })
            .collect();
        let quitter = {
            let mail = mail.clone();
            thread::spawn(move || {
                let (sender, mut receiver) = oneshot::channel();
                let put = {
                    let mut state = mail.mail.lock();
                    match state.put(7, || 0) {
                        Put::Full(message) => {
                            let ticket = mail.ticket();
                            state.wait(ticket, message, sender);
                            Err(ticket)
                        }
                        put => Ok(put),
                    }
                };
                match put {
                    Ok(Put::Closed(message)) => vec![message],
                    Ok(_) => vec![],
                    Err(ticket) => {
                        let withdrawn = mail.mail.lock().withdraw(ticket);
                        match withdrawn {
                            Some((message, _)) => vec![message],
                            None => receiver.recv().unwrap().into_iter().collect(),
                        }
                    }
                }
            })
        };
        let mut batch = VecDeque::new();
        let mut found = Vec::new();
        let (taken, admitted) = mail.mail.lock().take(0, &mut batch, false);
        admitted.tell();
        if let Taken::One(message, _) = taken {
            found.push(message);
        }
        let (refused, left) = {
            let mut mail = mail.mail.lock();
            (mail.close(), mail.drain())
        };
        refused.map(Refused::tell);
        found.extend(left.into_iter().flat_map(|(queue, _)| queue));
        for sender in senders.into_iter().chain([quitter]) {
            found.extend(sender.join().unwrap());
        }
        found.sort_unstable();
        assert_eq!(found, [0, 1, 7], "each is in one place");
    });
}

pub(crate) struct Idle;

impl Actor for Idle {
    type Msg = u32;

    fn handle(&mut self, _: u32, _: &mut Ctx<u32>) -> Flow {
        Flow::Continue
    }
}

/// A model with a node. It runs on a thread that never ends: what the node leaves in that thread's own memory is given back under
/// locks that are the checker's, for which it is too late then. And there is one such model at a time: what a process has once, as
/// its memory for stacks, is under locks of the checker's as well, which are for one model only.
pub(crate) fn model_of_node(name: &'static str, body: impl Fn() + Send + Sync + 'static) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        model(name, body);
        done.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_done.recv().expect("the model failed");
}

/// A node whose actors never run. It is leaked: to end it would run them.
pub(crate) fn node() -> &'static LocalNode {
    Box::leak(Box::new(Node::builder().build_current_thread().unwrap()))
}

/// The same with room for so many actors.
pub(crate) fn node_for(actors: usize) -> &'static LocalNode {
    Box::leak(Box::new(Node::builder().max_actors(actors).build_current_thread().unwrap()))
}

/// The exits that an actor was told.
pub(crate) fn exits(actor: &ActorRef<u32>) -> Vec<Exit> {
    let mut exits = Vec::new();
    let mut state = actor.0.lock();
    while let Some(event) = state.mail.take_event() {
        if let crate::cell::Lane::Event(Event::Exit(exit)) = event {
            exits.push(exit);
        }
    }
    exits
}

/// A link and a monitor against an end, which two make at once: one exit each, and one end.
#[test]
fn end_against_link_and_monitor() {
    model_of_node("end_against_link_and_monitor", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        one.0.lock().life.more().traps = true;
        let lifecycle = node.lifecycle();
        let ends: Vec<_> = (0..2)
            .map(|_| {
                let other = other.clone();
                thread::spawn(move || crate::end::bury(&*other.0, &ExitReason::Killed))
            })
            .collect();
        let linked = crate::links::link(node.0, one.id(), other.id()).is_ok();
        let MonitorId(monitor) = crate::links::monitor(&*one.0, other.id());
        ends.into_iter().for_each(|end| end.join().unwrap());
        let exits = exits(&one);
        let count = |relation| exits.iter().filter(|exit| exit.relation == relation).count();
        assert_eq!(count(Relation::Monitor(MonitorId(monitor))), 1);
        assert!(count(Relation::Link) <= 1 && (!linked || count(Relation::Link) == 1));
        assert!(matches!(lifecycle.try_recv(), Ok(Some(Lifecycle::Ended { .. }))));
        assert!(matches!(lifecycle.try_recv(), Ok(None)));
        assert!(one.0.lock().life.more().monitored.is_empty());
        assert!(one.0.lock().life.more().links.is_empty());
    });
}

/// A message by name against a stop and the end: it is accepted and left, or comes back; and the name is free at the end.
#[test]
fn send_against_stop_and_lookup() {
    model_of_node("send_against_stop_and_lookup", || {
        let node = node();
        let actor = node.actor().name("it").spawn(Idle).unwrap();
        let sender = {
            let node = **node;
            thread::spawn(move || {
                let found = node.lookup("it");
                let sent = found.is_some_and(|id| {
                    node.send(id, sinew_core::Kind(1), crate::Payload::value(1_u32)).is_ok()
                });
                u64::from(sent)
            })
        };
        let stopper = {
            let cell = actor.0.clone();
            thread::spawn(move || {
                cell.drain();
                cell.close(ExitReason::Shutdown)
            })
        };
        crate::end::bury(&*actor.0, &ExitReason::Killed);
        assert!(node.lookup("it").is_none());
        assert!(node.actor().name("it").spawn(Idle).is_ok(), "the name is free");
        let reason = if stopper.join().unwrap() { ExitReason::Shutdown } else { ExitReason::Killed };
        assert!(actor.is_dead());
        assert_eq!(actor.0.reason(), reason);
        let accepted = sender.join().unwrap();
        // What was sent to the second of the name is in its mailbox.
        let second = node.lookup("it").and_then(|id| node.0.table.get(id)).unwrap();
        let queued = second.see().queued as u64;
        assert_eq!(node.dead_letter_count() + queued, accepted);
    });
}
