//! Turns of actors, and ones that block (`docs/semantics.md`, B).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use sinew_kernel::{ActorRef, Exit, Flow, Kind, Node, Payload, Policy};
use sinew_sched::{Runtime, Sysmon};

use crate::kit::{self, Hooked, keeper, local, wait, with_nodes};

// B1, B2
#[test]
fn links_monitors_and_stops_work_while_an_actor_is_blocked() {
    let (node, _clock) = local();
    let (actor, _) = keeper();
    let blocked = node.spawn(actor).unwrap();
    let (work, key, _entered) = wait();
    blocked.tell(work).unwrap();
    node.run_until_idle();
    let id = blocked.id();
    let (exits, told) = mpsc::channel::<Exit>();
    let watcher = Hooked::<u64>::new(|_, _| Flow::Continue)
        .started(move |(), ctx| {
            ctx.trap_exits(true);
            ctx.link(id).unwrap();
            ctx.monitor(id);
            Flow::Continue
        })
        .exit_of(move |exit, _| {
            exits.send(exit).unwrap();
            Flow::Continue
        });
    node.spawn(watcher).unwrap();
    node.run_until_idle();
    blocked.stop();
    node.run_until_idle();
    assert!(!blocked.is_dead(), "it is at a message");
    key.open();
    node.run_until_idle();
    assert!(blocked.is_dead());
    assert_eq!(told.try_iter().filter(|exit| exit.actor == id).count(), 2, "a link and a monitor");
}

// B3
#[test]
fn a_blocked_actor_is_not_entered_again() {
    with_nodes(|node| {
        let inside = Arc::new(AtomicU64::new(0));
        let most = Arc::new(AtomicU64::new(0));
        let (count, highest) = (inside.clone(), most.clone());
        let actor = Hooked::<u64>::new(move |_, _| {
            let now = count.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(now, Ordering::SeqCst);
            sinew_sched::yield_now();
            count.fetch_sub(1, Ordering::SeqCst);
            Flow::Continue
        });
        let actor = node.spawn(actor).unwrap();
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let actor = actor.clone();
                node.handle().spawn(move || (0..200).for_each(|n| actor.tell(n).unwrap()))
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        actor.drain();
        actor.join().unwrap();
        assert_eq!(most.load(Ordering::SeqCst), 1);
    });
}

// B4: turns are counted, not time.
#[test]
fn a_flooded_actor_lets_every_other_have_a_turn_after_each_message() {
    let (node, _clock) = local();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut actors = Vec::new();
    for name in 0..5_u64 {
        let turns = turns.clone();
        let actor = node.spawn(Hooked::<u64>::new(move |_, _| {
            turns.lock().unwrap().push(name);
            Flow::Continue
        }));
        actors.push(actor.unwrap());
    }
    node.run_until_idle();
    drop(node.runtime().spawn(move || {
        (0..1_000).for_each(|n| actors[0].try_tell(n).unwrap()); // which never gives way
        for quiet in &actors[1..] {
            (0..10).for_each(|n| quiet.tell(n).unwrap());
        }
    }));
    node.run_until_idle();
    let turns = turns.lock().unwrap();
    assert_eq!(turns.len(), 1_040);
    for quiet in 1..5 {
        let tenth = turns.iter().enumerate().filter(|(_, name)| **name == quiet).nth(9).unwrap().0;
        assert!(tenth <= 55, "the tenth turn of {quiet} was number {tenth}");
    }
}

// B5: turns are counted, not time.
#[test]
fn a_busy_worker_takes_an_actor_that_a_thread_outside_has_made_ready_every_61_turns() {
    // Without sysmon: a temporary worker could take the actor over, and be preempted before it runs it.
    let runtime = Runtime::builder().workers(1).sysmon(Sysmon::off());
    let node = Node::builder().runtime(runtime).build().unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    let count = turns.clone();
    let busy = node.spawn(Hooked::<u64>::new(move |_, ctx| {
        count.fetch_add(1, Ordering::SeqCst);
        ctx.me().tell(0).unwrap();
        Flow::Continue
    }));
    busy.unwrap().tell(0).unwrap();
    let quiet: Vec<_> = (0..5)
        .map(|_| {
            let turns = turns.clone();
            let quiet = Hooked::<mpsc::Sender<u64>>::new(move |told, _| {
                told.send(turns.load(Ordering::SeqCst)).unwrap();
                Flow::Continue
            });
            node.spawn(quiet).unwrap()
        })
        .collect();
    let tell_all = || -> Vec<mpsc::Receiver<u64>> {
        let tell = |quiet: &ActorRef<mpsc::Sender<u64>>| {
            let (sender, told) = mpsc::channel();
            quiet.tell(sender).unwrap();
            told
        };
        quiet.iter().map(tell).collect()
    };
    // An actor that has not started waits for its first turn, and those that have are made ready behind it.
    for told in tell_all() {
        told.recv().unwrap();
    }
    for _ in 0..kit::rounds(5_000) {
        let told = tell_all();
        let ready = turns.load(Ordering::SeqCst);
        for (place, told) in (1..).zip(told) {
            let later = told.recv().unwrap().saturating_sub(ready);
            assert!(later <= 61 * place, "number {place} had its turn after {later} of the busy actor");
        }
    }
}

/// An actor or a task sends a number to a full mailbox again and again.
type Sends = fn(&ActorRef<u64>) -> bool;

// B6: sends are counted, not time.
#[test]
fn a_sender_whose_messages_are_refused_or_dropped_lets_the_receiver_run() {
    let by_id = |to: &ActorRef<u64>| to.node().send(to.id(), Kind(1), Payload::value(1_u64)).is_ok();
    let ways: [(Policy, Sends); 6] = [
        (Policy::Refuse, |to| to.tell(1).is_ok()),
        (Policy::Refuse, |to| to.try_tell(1).is_ok()),
        (Policy::Refuse, by_id),
        (Policy::Park, |to| to.try_tell(1).is_ok()),
        (Policy::DropNewest, |to| to.tell(1).is_ok()),
        (Policy::DropOldest, |to| to.tell(1).is_ok()),
    ];
    for (way, (policy, sends)) in ways.into_iter().enumerate() {
        for by_actor in [true, false] {
            let (node, _clock) = local();
            let handled = Arc::new(AtomicU64::new(0));
            let count = handled.clone();
            let full = node.actor().mailbox(1).policy(policy).spawn(Hooked::<u64>::new(move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
                Flow::Continue
            }));
            let full = full.unwrap();
            node.run_until_idle();
            // How often it has to send until the receiver has handled one.
            let (done, sent) = mpsc::channel();
            let insists = move || {
                sends(&full);
                let until = (1..1_000).find(|_| {
                    sends(&full);
                    handled.load(Ordering::Relaxed) > 0
                });
                done.send(until).unwrap();
            };
            if by_actor {
                node.spawn(Hooked::<()>::new(|(), _| Flow::Continue).started(move |(), _| {
                    insists();
                    Flow::Continue
                }))
                .unwrap();
            } else {
                node.runtime().spawn(insists).detach();
            }
            node.run_until_idle();
            let sent = sent.recv().unwrap().unwrap_or_else(|| panic!("way {way}: the receiver starves"));
            assert!(sent <= 129, "way {way}: after {sent} messages");
        }
    }
}
