//! Turns of actors, and ones that block (`docs/semantics.md`, B).

mod kit;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use kit::{Hooked, keeper, local, wait, with_nodes};
use sinew_kernel::{Exit, Flow};

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
