//! Actors that are futures: what crates above build on.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ActorRef, ChildSpec, ExitReason, Flow, Kind, Message, Node, NodeRef, Payload, Strategy};
use sinew_sched::sleep_async;

use crate::kit::{local, rounds, with_nodes};

fn tell(actor: &ActorRef<Message>, kind: u32) {
    actor.tell(Message::new(actor.id(), Kind(kind), Payload::default())).unwrap();
}

/// Adds up the kinds of its messages, and stops at zero.
async fn add_up(inbox: Inbox, sum: Arc<AtomicU64>) -> Flow {
    inbox.started();
    loop {
        match inbox.recv().await.kind {
            Kind(0) => return Flow::Stop,
            Kind(kind) => sum.fetch_add(kind.into(), Ordering::Relaxed),
        };
    }
}

#[test]
fn every_message_is_received_once_whoever_sends_it() {
    with_nodes(|node| {
        let sum = Arc::new(AtomicU64::new(0));
        let added = sum.clone();
        let actor = node.actor().mailbox(16).spawn_polled(|inbox| add_up(inbox, added)).unwrap();
        let (senders, each) = (4, rounds(20_000) as u64);
        std::thread::scope(|scope| {
            for _ in 0..senders {
                scope.spawn(|| (1..=each).for_each(|n| tell(&actor, n as u32)));
            }
        });
        tell(&actor, 0);
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        assert_eq!(sum.load(Ordering::Relaxed), senders * each * (each + 1) / 2);
    });
}

#[test]
fn messages_wait_while_it_waits_for_something_else_and_do_not_wake_it() {
    let (node, clock) = local();
    let polls = Arc::new(AtomicUsize::new(0));
    let (counted, (sender, order)) = (polls.clone(), mpsc::channel());
    let actor = node.actor().spawn_polled(|inbox| async move {
        inbox.started();
        assert_eq!(inbox.recv().await.kind, Kind(1));
        let mut sleep = std::pin::pin!(sleep_async(Duration::from_secs(1)));
        std::future::poll_fn(|context| {
            counted.fetch_add(1, Ordering::Relaxed);
            sleep.as_mut().poll(context)
        })
        .await;
        loop {
            sender.send(inbox.recv().await.kind.0).unwrap();
        }
    });
    let actor = actor.unwrap();
    tell(&actor, 1);
    node.run_until_idle();
    let before = polls.load(Ordering::Relaxed);
    for kind in 2..5 {
        tell(&actor, kind);
        node.run_until_idle();
    }
    assert_eq!(polls.load(Ordering::Relaxed), before, "it was not woken");
    assert!(order.try_recv().is_err());
    clock.advance(Duration::from_millis(1_001));
    node.run_until_idle();
    assert_eq!([2, 3, 4].map(|_| order.try_recv().unwrap()), [2, 3, 4]);
    tell(&actor, 5);
    node.run_until_idle();
    assert_eq!(order.try_recv().unwrap(), 5, "and it is woken again");
}

/// Notes when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An actor that waits for its second message for ever.
fn waiting(node: NodeRef, dropped: &Arc<AtomicUsize>) -> ActorRef<Message> {
    let held = Dropped(dropped.clone());
    let actor = node.actor().spawn_polled(|inbox| async move {
        let _held = held;
        inbox.started();
        loop {
            inbox.recv().await;
        }
    });
    actor.unwrap()
}

#[test]
fn a_stop_and_a_kill_end_it_where_it_waits_and_drop_it_once() {
    with_nodes(|node| {
        type End = fn(&ActorRef<Message>);
        let ends: [(End, ExitReason); 3] = [
            (ActorRef::stop, ExitReason::Shutdown),
            (ActorRef::kill, ExitReason::Killed),
            (ActorRef::drain, ExitReason::Shutdown),
        ];
        for (end, reason) in ends {
            let dropped = Arc::new(AtomicUsize::new(0));
            let actor = waiting(**node, &dropped);
            tell(&actor, 1);
            end(&actor);
            assert_eq!((actor.join().unwrap(), dropped.load(Ordering::Relaxed)), (reason, 1));
        }
    });
}

#[test]
fn a_stop_ends_it_by_a_cancel_where_it_waits_for_something_else() {
    let node = Node::builder().stop_timeout(Duration::from_millis(1)).build().unwrap();
    let actor = node.actor().spawn_polled(|inbox| async move {
        inbox.started();
        std::future::pending::<()>().await;
        Flow::Stop
    });
    let actor = actor.unwrap();
    actor.stop();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
}

#[test]
fn a_drain_lets_it_handle_what_is_in_its_mailbox() {
    let (node, _clock) = local();
    let sum = Arc::new(AtomicU64::new(0));
    let added = sum.clone();
    let actor = node.actor().spawn_polled(|inbox| add_up(inbox, added)).unwrap();
    (1..=10).for_each(|n| tell(&actor, n));
    actor.drain();
    node.run_until_idle();
    assert_eq!(sum.load(Ordering::Relaxed), 55);
    assert_eq!(node.actor_count(), 0);
}

#[test]
fn a_panic_is_an_error_and_its_message_counts_as_failed() {
    let (node, _clock) = local();
    let actor = node.actor().spawn_polled(|inbox| async move {
        inbox.started();
        inbox.recv().await;
        panic!("no such message");
    });
    let actor = actor.unwrap();
    tell(&actor, 1);
    node.run_until_idle();
    let reason = actor.join().unwrap().to_string();
    assert!(reason.starts_with("error: no such message"), "{reason}");
    let totals = node.snapshot().totals;
    assert_eq!((totals.handled, totals.failed), (0, 1));
}

#[test]
fn it_is_told_of_children_and_timers_by_messages() {
    let (node, clock) = local();
    let (sender, kinds) = mpsc::channel();
    let actor = node.actor().spawn_polled(|inbox| async move {
        inbox.started();
        inbox.ctx().set_timer(Duration::from_secs(1), false).unwrap();
        inbox.ctx().child().spawn_raw((), |(), _, _| Flow::Stop).unwrap();
        for _ in 0..2 {
            sender.send(inbox.recv().await.kind).unwrap();
        }
        Flow::Stop
    });
    let actor = actor.unwrap();
    node.run_until_idle();
    let child = *node.actor_ids().iter().find(|id| **id != actor.id()).unwrap();
    node.send(child, Kind(1), Payload::default()).unwrap();
    node.run_until_idle();
    assert_eq!(kinds.try_recv().unwrap(), Kind::CHILD_EXIT);
    clock.advance(Duration::from_millis(1_001));
    node.run_until_idle();
    assert_eq!(kinds.try_recv().unwrap(), Kind::TIMER);
}

#[test]
fn a_supervisor_waits_until_it_says_that_it_has_started_and_restarts_it() {
    let (node, clock) = local();
    let starts = Arc::new(AtomicUsize::new(0));
    let started = starts.clone();
    let child = ChildSpec::polled("child", move |inbox: Inbox| {
        let started = started.clone();
        async move {
            sleep_async(Duration::from_secs(1)).await;
            inbox.started();
            started.fetch_add(1, Ordering::Relaxed);
            inbox.recv().await;
            Flow::fail("as it was told")
        }
    });
    node.supervisor(Strategy::OneForOne).child(child.name("child")).spawn().unwrap();
    node.run_until_idle();
    assert_eq!(starts.load(Ordering::Relaxed), 0);
    for restart in 1..4 {
        clock.advance(Duration::from_millis(1_001));
        node.run_until_idle();
        assert_eq!(starts.load(Ordering::Relaxed), restart);
        node.send(node.lookup("child").unwrap(), Kind(1), Payload::default()).unwrap();
        node.run_until_idle();
        clock.advance(Duration::from_secs(60)); // outside of the window of restarts
    }
}
