//! Stops, drains and kills (`docs/semantics.md`, L).

mod kit;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{
    Hooked, Notes, Work, act, block, compute, keeper, local, noted, noting, spin_until, wait, with_node,
    with_nodes,
};
use sinew_kernel::{Actor, ActorRef, Ctx, ExitReason, Flow, Unsent};
use sinew_sched::sleep;

// L4, D3
#[test]
fn a_stop_lets_the_message_finish_and_the_rest_become_dead_letters() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
        let key = block(&actor);
        (0..5).for_each(|n| actor.tell(Work::Number(n)).unwrap());
        actor.stop();
        key.open();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "passed", "stopping", "dropped"]);
        assert_eq!(node.dead_letter_count() - before, 5);
    });
}

// L5, D4
#[test]
fn a_drain_handles_what_is_there_and_lets_nothing_in() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let (actor, numbers) = keeper();
        let actor = node.spawn(actor).unwrap();
        let key = block(&actor);
        (0..500).for_each(|n| actor.tell(Work::Number(n)).unwrap());
        actor.drain();
        key.open();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(*numbers.lock().unwrap(), (0..500).collect::<Vec<_>>());
        assert_eq!(node.dead_letter_count(), before);
        let error = actor.tell(Work::Number(1)).unwrap_err();
        assert!(matches!(error.why, Unsent::Stopped(ExitReason::Shutdown)), "{error}");
    });
}

// L6
#[test]
fn an_actor_can_stop_drain_and_kill_itself() {
    with_nodes(|node| {
        type End = fn(&ActorRef<Work>);
        let ends: [(End, ExitReason, usize); 3] = [
            (ActorRef::stop, ExitReason::Shutdown, 0),
            (ActorRef::drain, ExitReason::Shutdown, 100),
            (ActorRef::kill, ExitReason::Killed, 0),
        ];
        for (end, reason, handled) in ends {
            let (actor, numbers) = keeper();
            let actor = node.spawn(actor).unwrap();
            let key = block(&actor);
            let ended = act(move |ctx| {
                end(&ctx.me());
                Flow::Continue
            });
            actor.tell(ended).unwrap();
            (0..100).for_each(|n| actor.tell(Work::Number(n)).unwrap());
            key.open();
            assert_eq!(actor.join().unwrap(), reason);
            assert_eq!(numbers.lock().unwrap().len(), handled);
        }
    });
}

// L7
#[test]
fn an_actor_that_was_stopped_before_it_ran_starts_and_ends() {
    let (node, _clock, actor, notes) = noted();
    actor.tell(Work::Number(1)).unwrap();
    actor.stop();
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(*notes.lock().unwrap(), ["started", "stopping", "dropped"]);
    assert_eq!(node.dead_letter_count(), 1);
}

// L8
#[test]
fn an_actor_that_was_killed_before_it_ran_never_starts() {
    let (node, _clock, actor, notes) = noted();
    actor.tell(Work::Number(1)).unwrap();
    actor.kill();
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Killed);
    assert_eq!(*notes.lock().unwrap(), ["dropped"]);
    assert_eq!(node.dead_letter_count(), 1);
}

// L9
#[test]
fn a_kill_unwinds_a_blocked_handler_and_skips_the_stopping_hook() {
    with_nodes(|node| {
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
        let _key = block(&actor);
        actor.kill();
        assert_eq!(actor.join().unwrap(), ExitReason::Killed);
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "dropped"]);
    });
}

// L9
#[test]
fn a_killed_actor_that_computes_handles_nothing_after_its_message() {
    with_nodes(|node| {
        let (actor, numbers) = keeper();
        let actor = node.spawn(actor).unwrap();
        let computing = compute(&actor);
        (0..10).for_each(|n| actor.tell(Work::Number(n)).unwrap());
        actor.kill();
        drop(computing);
        assert_eq!(actor.join().unwrap(), ExitReason::Killed);
        assert!(numbers.lock().unwrap().is_empty());
    });
}

// L10
#[test]
fn a_stop_that_takes_too_long_cancels_and_the_reason_stays_that_of_the_stop() {
    // With something else ready or not when the handler returns.
    for busy in [false, true] {
        let (node, clock, actor, notes) = noted();
        let (work, _key, _entered) = wait();
        actor.tell(work).unwrap();
        node.run_until_idle();
        actor.stop();
        node.run_until_idle();
        assert!(!actor.is_dead());
        clock.advance(Duration::from_secs(6));
        if busy {
            (0..3)
                .for_each(|_| drop(node.runtime().spawn(|| (0..10).for_each(|_| sinew_sched::yield_now()))));
        }
        node.run_until_idle();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "refused", "stopping", "dropped"]);
    }
}

// L10
#[test]
fn one_that_takes_too_long_is_cancelled_also_if_thousands_were_stopped_after_it() {
    let (node, clock, actor, _notes) = noted();
    let (work, _key, _entered) = wait();
    actor.tell(work).unwrap();
    node.run_until_idle();
    actor.stop();
    for _ in 0..3 {
        let others: Vec<_> = (0..1000).map(|_| node.spawn(noting(&Notes::default())).unwrap()).collect();
        others.iter().for_each(ActorRef::stop);
        node.run_until_idle();
        assert!(others.iter().all(ActorRef::is_dead));
    }
    assert!(!actor.is_dead());
    assert_eq!(node.snapshot().totals.timers, 1, "those that have ended are forgotten");
    clock.advance(Duration::from_secs(6));
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
}

// L9
#[test]
fn a_kill_goes_before_a_stop_that_came_first() {
    let (node, _clock, actor, notes) = noted();
    node.run_until_idle();
    actor.stop();
    actor.kill();
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Killed);
    assert_eq!(*notes.lock().unwrap(), ["started", "dropped"]);
}

// L10
#[test]
fn a_sleep_that_a_stop_cuts_short_is_no_failure() {
    let (node, clock, actor, notes) = noted();
    let asleep = act(|_| {
        sleep(Duration::from_secs(3600));
        Flow::Continue
    });
    actor.tell(asleep).unwrap();
    node.run_until_idle();
    actor.stop();
    node.run_until_idle();
    clock.advance(Duration::from_secs(6));
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(*notes.lock().unwrap(), ["started", "handle", "stopping", "dropped"]);
}

// L11
#[test]
fn an_actor_that_shrugs_off_a_cancel_is_killed() {
    let (node, clock, actor, notes) = noted();
    let deaf = act(|_| {
        let (_key, mut gate) = sinew_sched::chan::oneshot::channel::<()>();
        // Refused by the cancel, again and again, which is not told to the one that waits inside the shield.
        sinew_fiber::shield(|| drop(gate.recv_timeout(Duration::from_secs(7))));
        let (_key, again) = kit::gate();
        again.pass();
        Flow::Continue
    });
    actor.tell(deaf).unwrap();
    node.run_until_idle();
    actor.stop();
    node.run_until_idle();
    for _ in 0..4 {
        clock.advance(Duration::from_secs(6));
        node.run_until_idle();
    }
    assert!(actor.is_dead());
    assert_eq!(notes.lock().unwrap().last(), Some(&"dropped"));
}

// L12
#[test]
fn a_start_that_blocks_can_be_stopped_and_killed() {
    for kill in [false, true] {
        let (node, clock) = local();
        clock.hold(true);
        let actor = Hooked::<u64>::new(|_, _| Flow::Continue).started(|(), _| {
            sleep(Duration::from_secs(3600));
            Flow::Continue
        });
        let actor = node.spawn(actor).unwrap();
        node.run_until_idle();
        if kill {
            actor.kill()
        } else {
            actor.stop()
        }
        node.run_until_idle();
        clock.advance(Duration::from_secs(6));
        node.run_until_idle();
        let reason = if kill { ExitReason::Killed } else { ExitReason::Shutdown };
        assert_eq!(actor.join().unwrap(), reason);
    }
}

// L16
#[test]
fn a_million_stops_at_once_end_every_actor_once() {
    let count = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    with_node(2, |node| {
        let drops = Arc::new(AtomicU64::new(0));
        let actors: Vec<_> = (0..count)
            .map(|_| {
                let drops = drops.clone();
                let actor = Hooked::<u64>::new(|_, _| Flow::Continue).dropped(move || {
                    drops.fetch_add(1, Ordering::Relaxed);
                });
                node.spawn(actor).unwrap()
            })
            .collect();
        actors.iter().for_each(ActorRef::stop);
        for actor in &actors {
            assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        }
        spin_until(|| node.actor_count() == 0);
        assert_eq!(drops.load(Ordering::Relaxed), count);
    });
}

// L17, D1: whatever races, what was accepted is handled or a dead letter.
#[test]
fn a_storm_of_spawns_sends_stops_and_kills_loses_no_message() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let handled = Arc::new(AtomicU64::new(0));
        let storms: Vec<_> = (0..4)
            .map(|storm| {
                let (handled, node) = (handled.clone(), kit::ByRef::node_ref(node));
                node.handle().spawn(move || {
                    let mut accepted = 0;
                    for round in 0..kit::rounds(3_000) {
                        let handled = handled.clone();
                        let actor = Hooked::<u64>::new(move |_, _| {
                            handled.fetch_add(1, Ordering::Relaxed);
                            Flow::Continue
                        });
                        let actor = node.actor().mailbox(4).spawn(actor).unwrap();
                        let to = actor.clone();
                        let sender = node
                            .handle()
                            .spawn(move || (0..10).filter(|n| to.tell(*n).is_ok()).count() as u64);
                        if round % 5 == 0 {
                            sinew_sched::yield_now();
                        }
                        match (round + storm) % 4 {
                            0 => actor.stop(),
                            1 => actor.kill(),
                            2 => actor.drain(),
                            _ => {
                                actor.stop();
                                actor.kill();
                                actor.drain();
                            }
                        }
                        accepted += sender.join().unwrap();
                        actor.join().unwrap();
                    }
                    accepted
                })
            })
            .collect();
        let accepted: u64 = storms.into_iter().map(|storm| storm.join().unwrap()).sum();
        // A kill may take a message in hand with it: handlers here do not block, so none is lost.
        assert_eq!(handled.load(Ordering::Relaxed) + node.dead_letter_count() - before, accepted);
    });
}

#[test]
fn the_state_of_an_actor_is_dropped_before_its_end_is_told() {
    struct State(Arc<Mutex<Vec<bool>>>, Option<ActorRef<u64>>);
    impl Actor for State {
        type Msg = u64;
        fn started(&mut self, ctx: &mut Ctx<u64>) -> Flow {
            self.1 = Some(ctx.me());
            Flow::Stop
        }
        fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
            Flow::Continue
        }
    }
    impl Drop for State {
        fn drop(&mut self) {
            let is_dead = self.1.as_ref().is_some_and(ActorRef::is_dead);
            self.0.lock().unwrap().push(is_dead);
        }
    }
    let (node, _clock) = local();
    let was_dead = Arc::new(Mutex::new(Vec::new()));
    let actor = node.spawn(State(was_dead.clone(), None)).unwrap();
    node.run_until_idle();
    assert!(actor.is_dead());
    assert_eq!(*was_dead.lock().unwrap(), [false]);
}

#[test]
fn a_drain_of_a_single_message_ends_its_actor() {
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.spawn(actor).unwrap();
    actor.tell(Work::Number(1)).unwrap();
    actor.drain();
    node.run_until_idle();
    assert!(actor.is_dead());
    assert_eq!(*numbers.lock().unwrap(), [1]);
}
