//! Saves that report by a message, with a disk that takes its time.

use std::sync::mpsc;
use std::time::Duration;

use sinew_sched::{ManualClock, Runtime};

use super::super::{Store, StoreError};
use super::slow::{busy, wait_until_queued};
use super::{Folder, open};
use crate::{Actor, ActorRef, Ctx, Flow, JoinError, Node, Reply};

/// Saves each number under its own key, and passes on the outcomes.
struct Saves(mpsc::Sender<(u32, Result<(), StoreError>)>);

enum Msg {
    Save(u32, usize),
    Saved(u32, Result<(), StoreError>),
    Ping(Reply<()>),
}

impl Actor for Saves {
    type Msg = Msg;

    fn handle(&mut self, msg: Msg, ctx: &mut Ctx<Msg>) -> Flow {
        match msg {
            Msg::Save(n, len) => {
                ctx.save_then(&n.to_string(), vec![7; len], move |saved| Msg::Saved(n, saved)).unwrap();
            }
            Msg::Saved(n, saved) => self.0.send((n, saved)).unwrap(),
            Msg::Ping(reply) => reply.send(()),
        }
        Flow::Continue
    }
}

type Outcomes = mpsc::Receiver<(u32, Result<(), StoreError>)>;

fn saves(node: &Node) -> (ActorRef<Msg>, Outcomes) {
    let (sender, outcomes) = mpsc::channel();
    (node.actor().name("it").spawn(Saves(sender)).unwrap(), outcomes)
}

#[test]
fn an_actor_handles_messages_while_its_saves_wait_for_the_disk_and_they_share_a_commit() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let node = Node::builder().store(store.clone()).build().unwrap();
    let (actor, outcomes) = saves(&node);
    (0..3).for_each(|n| actor.tell(Msg::Save(n, 1)).unwrap());
    actor.ask(Msg::Ping).unwrap(); // the disk is still busy
    assert_eq!(store.stats().queued, 3);
    assert!(outcomes.try_recv().is_err());
    let before = store.stats().commits;
    gate.open();
    for n in 0..3 {
        assert!(matches!(outcomes.recv().unwrap(), (saved, Ok(())) if saved == n));
    }
    first.join().unwrap();
    assert_eq!(store.stats().commits - before, 2, "that of another caller, and one for all three");
}

#[test]
fn an_actor_that_is_drained_is_told_of_its_saves_before_it_ends() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let node = Node::builder().store(store.clone()).build().unwrap();
    let (actor, outcomes) = saves(&node);
    (0..3).for_each(|n| actor.tell(Msg::Save(n, 1)).unwrap());
    actor.drain();
    wait_until_queued(&store, 3);
    assert!(matches!(actor.join_timeout(Duration::ZERO), Err(JoinError::Timeout(_))));
    gate.open();
    actor.join().unwrap();
    assert_eq!(outcomes.try_iter().map(|(n, _)| n).collect::<Vec<_>>(), [0, 1, 2]);
    first.join().unwrap();
}

#[test]
fn an_actor_that_waits_for_its_saves_can_be_stopped() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let node = Node::builder().store(store.clone()).build().unwrap();
    for end in [ActorRef::stop, ActorRef::cancel, ActorRef::kill] {
        let (actor, outcomes) = saves(&node);
        let queued = store.stats().queued;
        actor.tell(Msg::Save(1, 1)).unwrap();
        actor.drain();
        wait_until_queued(&store, queued + 1);
        end(&actor);
        actor.join().unwrap();
        assert!(outcomes.recv().is_err());
    }
    gate.open();
    first.join().unwrap();
}

#[test]
fn a_save_that_reports_waits_for_room_in_the_queue() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder().max_value(1000).queue(2000));
    let node = Node::builder().store(store.clone()).build().unwrap();
    let (actor, outcomes) = saves(&node);
    (0..3).for_each(|n| actor.tell(Msg::Save(n, 800)).unwrap());
    wait_until_queued(&store, 2);
    gate.open();
    assert_eq!(outcomes.iter().take(3).map(|(n, _)| n).collect::<Vec<_>>(), [0, 1, 2]);
    first.join().unwrap();
}

#[test]
fn a_save_that_fails_is_reported() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    faults.set(|_| Err(std::io::ErrorKind::StorageFull.into()));
    let node = Node::builder().store(store).build().unwrap();
    let (actor, outcomes) = saves(&node);
    actor.tell(Msg::Save(1, 1)).unwrap();
    let (_, outcome) = outcomes.recv().unwrap();
    assert!(matches!(outcome, Err(StoreError::Failed { .. } | StoreError::Broken { .. })), "{outcome:?}");
    faults.clear();
}

#[test]
fn a_manual_clock_stands_still_until_an_actor_is_told_of_its_save() {
    let folder = Folder::new();
    let (store, gate, first) = busy(&folder, Store::builder());
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock);
    let node = Node::builder().runtime(runtime).store(store.clone()).build().unwrap();
    let (actor, outcomes) = saves(&node);
    actor.tell(Msg::Save(1, 1)).unwrap();
    wait_until_queued(&store, 1);
    let asked = actor.clone();
    let waits = node.handle().spawn(move || {
        sinew_sched::sleep(Duration::from_secs(3600));
        asked.ask(Msg::Ping).unwrap();
    });
    actor.ask(Msg::Ping).unwrap();
    assert_eq!(clock.now().as_nanos(), 0);
    gate.open();
    waits.join().unwrap();
    assert!(outcomes.try_recv().is_ok(), "it was told before the hour passed");
    first.join().unwrap();
}
