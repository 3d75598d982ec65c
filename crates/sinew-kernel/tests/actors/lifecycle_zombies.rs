//! Actors that do not end when they are killed (`docs/semantics.md`, L).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sinew_kernel::{ActorRef, Ctx, Exit, ExitReason, Flow, JoinError, Node};
use sinew_sched::{ManualClock, Runtime};

use crate::kit::{Hooked, Watchdog, Work, act, block, compute, keeper, spin_until, wait};

/// A node with so many workers, whose clock is moved by hand.
fn held(workers: usize) -> (Node, ManualClock) {
    let clock = ManualClock::new();
    clock.hold(true);
    let runtime = Runtime::builder().workers(workers).manual_clock(&clock);
    (Node::builder().runtime(runtime).build().unwrap(), clock)
}

fn advance_until_dead<M: Send + 'static>(actor: &ActorRef<M>, clock: &ManualClock, step: Duration) {
    while let Err(JoinError::Timeout(_)) = actor.join_timeout(Duration::from_millis(1)) {
        clock.advance(step);
    }
}

// L15, T7
#[test]
fn a_zombie_is_reported_and_its_end_is_told_once() {
    // The node's own work must not depend on the worker that is stuck, whichever that is.
    for round in 0..8 {
        let _watchdog = Watchdog::new(format!("round {round}"));
        let (node, clock) = held(2);
        let (actor, numbers) = keeper();
        let zombie = node.actor().name("stuck").spawn(actor).unwrap();
        let (exits, told) = mpsc::channel::<Exit>();
        let id = zombie.id();
        let (ready, is_ready) = mpsc::channel();
        let watcher = Hooked::<u64>::new(|_, _| Flow::Continue)
            .started(move |(), ctx| {
                ctx.monitor(id);
                ready.send(()).unwrap();
                Flow::Continue
            })
            .exit_of(move |exit, _| {
                exits.send(exit).unwrap();
                Flow::Continue
            });
        let watcher = node.spawn(watcher).unwrap();
        is_ready.recv().unwrap();
        let computing = compute(&zombie);
        zombie.tell(Work::Number(1)).unwrap();
        zombie.kill();
        let early = zombie.join_timeout(Duration::from_millis(10));
        assert!(matches!(early, Err(JoinError::Timeout(_))), "it has its time: {early:?}");
        advance_until_dead(&zombie, &clock, Duration::from_secs(6));
        assert_eq!(zombie.join().unwrap(), ExitReason::Killed);
        assert_eq!(node.zombies(), [id]);
        assert_eq!(told.recv().unwrap().reason, ExitReason::Killed);
        // Its name is free for the one that takes its place.
        let (replacement, _) = keeper();
        node.actor().name("stuck").spawn(replacement).unwrap();
        drop(computing);
        spin_until(|| node.zombies().is_empty());
        watcher.drain();
        watcher.join().unwrap();
        assert!(told.try_recv().is_err(), "its end was told twice");
        assert!(numbers.lock().unwrap().is_empty());
        assert_eq!(node.dead_letter_count(), 1);
    }
}

/// Holds up whoever drops it until it is told to go on.
struct Heavy {
    entered: mpsc::Sender<()>,
    go: Arc<AtomicBool>,
}

impl Drop for Heavy {
    fn drop(&mut self) {
        let _ = self.entered.send(()); // not everybody wants to know
        spin_until(|| self.go.load(Ordering::Acquire));
    }
}

// L22
#[test]
fn messages_that_a_zombie_leaves_behind_hold_up_neither_its_end_nor_any_timer() {
    for by_timer in [false, true] {
        let _watchdog = Watchdog::new(format!("with a timer's message: {by_timer}"));
        // One for the zombie, one for what it leaves behind, and one for everybody else.
        let (node, clock) = held(3);
        let go = Arc::new(AtomicBool::new(false));
        let (drops, is_dropped) = mpsc::channel();
        let mut heavy = Some(act({
            let heavy = Heavy { entered: drops, go: go.clone() };
            move |_| {
                drop(heavy);
                Flow::Continue
            }
        }));
        let in_mailbox = if by_timer { None } else { heavy.take() };
        let zombie = node.spawn(keeper().0).unwrap();
        let timed = act(move |ctx: &mut Ctx<Work>| {
            if let Some(heavy) = heavy {
                ctx.send_after(Duration::from_secs(3600), heavy).unwrap();
            }
            Flow::Continue
        });
        zombie.tell(timed).unwrap();
        let computing = compute(&zombie);
        in_mailbox.into_iter().for_each(|heavy| zombie.tell(heavy).unwrap());
        zombie.kill();
        advance_until_dead(&zombie, &clock, Duration::from_secs(6));
        is_dropped.recv().unwrap();
        // It is being dropped, and time goes on.
        let (rings, rang) = mpsc::channel();
        let ringing = Hooked::<()>::new(move |(), _| {
            rings.send(()).unwrap();
            Flow::Stop
        })
        .started(|(), ctx| {
            ctx.send_after(Duration::from_secs(1), ()).unwrap();
            Flow::Continue
        });
        let ringing = node.spawn(ringing).unwrap();
        advance_until_dead(&ringing, &clock, Duration::from_secs(1));
        rang.recv().unwrap();
        drop(computing);
        go.store(true, Ordering::Release);
        assert!(is_dropped.recv().is_err(), "it was dropped twice");
    }
}

/// A message whose destructor says that it runs, and does not return before it is told to.
fn heavy() -> (Work, mpsc::Receiver<()>, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let (entered, is_dropped) = mpsc::channel();
    let heavy = Heavy { entered, go: go.clone() };
    let message = act(move |_| {
        drop(heavy);
        Flow::Continue
    });
    (message, is_dropped, go)
}

/// Has an actor end by itself with a message in its mailbox whose destructor does not return before it is told to.
fn left_behind(node: &Node) -> (ActorRef<Work>, Arc<AtomicBool>) {
    let actor = node.spawn(keeper().0).unwrap();
    let key = block(&actor);
    actor.tell(act(|_| Flow::Stop)).unwrap();
    let (left, is_dropped, go) = heavy();
    actor.tell(left).unwrap();
    key.open();
    is_dropped.recv().unwrap();
    (actor, go)
}

// L24
#[test]
fn an_actor_that_cannot_drop_what_is_left_in_its_mailbox_is_stopped_and_killed_like_any_other() {
    for stops in [false, true] {
        let _watchdog = Watchdog::new(format!("by a stop: {stops}"));
        let (node, clock) = held(2);
        let (actor, go) = left_behind(&node);
        assert!(!actor.is_dead());
        if stops {
            actor.stop()
        } else {
            actor.kill()
        }
        advance_until_dead(&actor, &clock, Duration::from_secs(6));
        assert_eq!(node.zombies(), [actor.id()]);
        assert_eq!(node.dead_letter_count(), 1);
        go.store(true, Ordering::Release);
        spin_until(|| node.zombies().is_empty());
    }
}

// H9
#[test]
fn messages_that_are_left_behind_hold_up_no_shutdown() {
    for running in [false, true] {
        let _watchdog = Watchdog::new(format!("in a handler: {running}"));
        let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
        let (actor, go, _computing) = if running {
            let actor = node.spawn(keeper().0).unwrap();
            let computing = compute(&actor);
            let (left, _, go) = heavy();
            actor.tell(left).unwrap();
            (actor, go, Some(computing))
        } else {
            let (actor, go) = left_behind(&node);
            (actor, go, None)
        };
        let joins = actor.clone();
        let joiner = std::thread::spawn(move || joins.join().unwrap());
        let report = node.shutdown(Duration::from_millis(50));
        assert_eq!(report.left, 1);
        joiner.join().unwrap();
        go.store(true, Ordering::Release);
    }
}

#[test]
fn one_that_failed_and_is_given_up_in_its_destructor_has_failed_once() {
    let _watchdog = Watchdog::new("a destructor".to_owned());
    let (node, clock) = held(2);
    let (entered, has_entered) = mpsc::channel();
    let go = Arc::new(AtomicBool::new(false));
    let heavy = Heavy { entered, go: go.clone() };
    let actor = Hooked::<()>::new(|(), _| panic!("on purpose")).dropped(|| drop(heavy));
    let actor = node.spawn(actor).unwrap();
    actor.tell(()).unwrap();
    has_entered.recv().unwrap();
    actor.kill();
    advance_until_dead(&actor, &clock, Duration::from_secs(6));
    go.store(true, Ordering::Release);
    spin_until(|| node.zombies().is_empty());
    let totals = node.snapshot().totals;
    assert_eq!((totals.handled, totals.failed, totals.accepted()), (0, 1, 1));
}

#[test]
fn one_that_was_given_up_in_the_middle_of_a_batch_handles_no_more_of_it() {
    let _watchdog = Watchdog::new("a batch".to_owned());
    let (node, clock) = held(2);
    let (actor, numbers) = keeper();
    let actor = node.spawn(actor).unwrap();
    let (first, key, at_first) = wait();
    actor.tell(first).unwrap();
    at_first.recv().unwrap();
    // Taken in one batch when the first is over.
    let go = Arc::new(AtomicBool::new(false));
    let (entered, has_entered) = mpsc::channel();
    let wait_for = go.clone();
    let computes = act(move |_| {
        entered.send(()).unwrap();
        spin_until(|| wait_for.load(Ordering::Acquire));
        Flow::Continue
    });
    actor.tell(computes).unwrap();
    (0..8).for_each(|number| actor.tell(Work::Number(number)).unwrap());
    key.open();
    has_entered.recv().unwrap();
    actor.kill();
    advance_until_dead(&actor, &clock, Duration::from_secs(6));
    go.store(true, Ordering::Release);
    spin_until(|| node.zombies().is_empty());
    assert!(numbers.lock().unwrap().is_empty());
    let totals = node.snapshot().totals;
    assert_eq!((totals.accepted(), totals.dead_letters), (10, 8), "{totals:?}");
}
