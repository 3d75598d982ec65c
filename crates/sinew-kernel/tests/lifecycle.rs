//! How actors start and end (`docs/semantics.md`, L and B).

mod kit;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use kit::{Hooked, Watchdog, Work, gate, keeper, local, spin_until, wait, with_node, with_nodes};
use sinew_kernel::{
    Actor, ActorRef, Ctx, Exit, ExitReason, Flow, JoinError, Lifecycle, Node, SpawnError, Unsent, Why,
};
use sinew_sched::{ManualClock, Runtime, sleep};

type Notes = Arc<Mutex<Vec<&'static str>>>;

fn note(notes: &Notes, what: &'static str) {
    notes.lock().unwrap().push(what);
}

/// An actor that notes what is called, and stays in `handle` until its gate is opened.
fn noting(notes: &Notes) -> Hooked<Work> {
    let [a, b, c, d] = [(); 4].map(|()| notes.clone());
    Hooked::new(move |work, ctx| {
        note(&a, "handle");
        match work {
            Work::Number(_) => (),
            Work::Wait(entered, gate) => {
                let _ = entered.send(());
                note(&a, if gate.pass() { "passed" } else { "refused" });
            }
            Work::Do(body) => return body(ctx),
        }
        Flow::Continue
    })
    .started(move |(), _| {
        note(&b, "started");
        Flow::Continue
    })
    .stopping(move |_, _| note(&c, "stopping"))
    .dropped(move || note(&d, "dropped"))
}

fn act(body: impl FnOnce(&mut sinew_kernel::Ctx<Work>) -> Flow + Send + 'static) -> Work {
    Work::Do(Box::new(body))
}

fn message_of(reason: &ExitReason) -> &str {
    match reason {
        ExitReason::Error(failure) => &failure.message,
        _ => "",
    }
}

// L1, L2
#[test]
fn an_actor_starts_handles_stops_and_is_dropped_in_this_order() {
    with_nodes(|node| {
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
        actor.tell(Work::Number(1)).unwrap();
        actor.tell(act(|_| Flow::Stop)).unwrap();
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "handle", "stopping", "dropped"]);
        assert!(actor.is_dead());
    });
}

// L3
#[test]
fn an_actor_ends_for_the_reason_that_it_returns() {
    with_nodes(|node| {
        let (actor, _) = keeper();
        let actor = node.spawn(actor).unwrap();
        actor.tell(act(|_| Flow::Exit(ExitReason::Limit("time".into())))).unwrap();
        assert_eq!(actor.join().unwrap(), ExitReason::Limit("time".into()));
    });
}

// L4, D3
#[test]
fn a_stop_lets_the_message_finish_and_the_rest_become_dead_letters() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
        let (work, key, entered) = wait();
        actor.tell(work).unwrap();
        entered.recv().unwrap();
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
        let (work, key, entered) = wait();
        actor.tell(work).unwrap();
        entered.recv().unwrap();
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
            let (work, key, entered) = wait();
            actor.tell(work).unwrap();
            entered.recv().unwrap();
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
    let (node, _clock) = local();
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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
    let (node, _clock) = local();
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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
        let (work, _key, entered) = wait();
        actor.tell(work).unwrap();
        entered.recv().unwrap();
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
        let go = Arc::new(AtomicBool::new(false));
        let (entered, has_entered) = mpsc::channel();
        let wait_for = go.clone();
        actor
            .tell(act(move |_| {
                entered.send(()).unwrap();
                spin_until(|| wait_for.load(Ordering::Acquire));
                Flow::Continue
            }))
            .unwrap();
        has_entered.recv().unwrap();
        (0..10).for_each(|n| actor.tell(Work::Number(n)).unwrap());
        actor.kill();
        go.store(true, Ordering::Release);
        assert_eq!(actor.join().unwrap(), ExitReason::Killed);
        assert!(numbers.lock().unwrap().is_empty());
    });
}

// L10
#[test]
fn a_stop_that_takes_too_long_cancels_and_the_reason_stays_that_of_the_stop() {
    // With something else ready or not when the handler returns.
    for busy in [false, true] {
        let (node, clock) = local();
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
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
    let (node, clock) = local();
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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
    assert!(node.snapshot().totals.timers < 2000, "those that have ended are forgotten");
    clock.advance(Duration::from_secs(6));
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
}

// L9
#[test]
fn a_kill_goes_before_a_stop_that_came_first() {
    let (node, _clock) = local();
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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
    let (node, clock) = local();
    clock.hold(true);
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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
    let (node, clock) = local();
    clock.hold(true);
    let notes = Notes::default();
    let actor = node.spawn(noting(&notes)).unwrap();
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

// L13
#[test]
fn a_panic_anywhere_ends_its_actor_alone() {
    with_nodes(|node| {
        let (bystander, _) = keeper();
        let bystander = node.spawn(bystander).unwrap();

        let starting = Hooked::<u64>::new(|_, _| Flow::Continue).started(|(), _| panic!("in started"));
        let starting = node.spawn(starting).unwrap();
        let reason = starting.join().unwrap();
        assert_eq!(message_of(&reason), "in started");
        assert!(reason.to_string().contains("lifecycle.rs"), "{reason}");

        let notes = Notes::default();
        let handling = node.spawn(noting(&notes)).unwrap();
        handling.tell(act(|_| panic!("in handle"))).unwrap();
        assert_eq!(message_of(&handling.join().unwrap()), "in handle");
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "dropped"]);

        let stopping = Hooked::<u64>::new(|_, _| Flow::Stop).stopping(|_, _| panic!("in stopping"));
        let stopping = node.spawn(stopping).unwrap();
        stopping.tell(1).unwrap();
        assert_eq!(stopping.join().unwrap(), ExitReason::Normal);

        let dropping = Hooked::<u64>::new(|_, _| Flow::Stop).dropped(|| panic!("in drop"));
        let dropping = node.spawn(dropping).unwrap();
        dropping.tell(1).unwrap();
        assert_eq!(dropping.join().unwrap(), ExitReason::Normal);

        bystander.drain();
        assert_eq!(bystander.join().unwrap(), ExitReason::Shutdown);
        spin_until(|| node.actor_count() == 0);
    });
}

// L20
#[test]
fn a_failure_while_it_drains_is_its_reason() {
    with_nodes(|node| {
        let (actor, _) = keeper();
        let actor = node.spawn(actor).unwrap();
        let (work, key, entered) = wait();
        actor.tell(work).unwrap();
        entered.recv().unwrap();
        actor.tell(act(|_| panic!("late"))).unwrap();
        actor.drain();
        key.open();
        assert_eq!(message_of(&actor.join().unwrap()), "late");
    });
}

/// A message whose destructor panics.
struct Spiteful(Arc<AtomicU64>);

impl Drop for Spiteful {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if !std::thread::panicking() {
            panic!("in the destructor of a message");
        }
    }
}

// L14
#[test]
fn messages_whose_destructors_panic_do_not_hide_the_end_of_their_actor() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let dropped = Arc::new(AtomicU64::new(0));
        let (key, gate) = gate();
        let mut gate = Some(gate);
        let (entered, has_entered) = mpsc::channel();
        let actor = Hooked::<Option<Spiteful>>::new(move |_, _| {
            entered.send(()).unwrap();
            gate.take().unwrap().pass();
            Flow::Stop
        });
        let actor = node.spawn(actor).unwrap();
        actor.tell(None).unwrap();
        has_entered.recv().unwrap();
        (0..5).for_each(|_| actor.tell(Some(Spiteful(dropped.clone()))).unwrap());
        key.open();
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        spin_until(|| dropped.load(Ordering::Relaxed) == 5);
        assert_eq!(node.dead_letter_count() - before, 5);
        spin_until(|| node.actor_count() == 0);
    });
}

// L14
#[test]
fn a_sender_does_not_fail_for_the_message_that_its_own_displaces() {
    let (node, _clock) = local();
    for policy in [sinew_kernel::Policy::DropOldest, sinew_kernel::Policy::DropNewest] {
        let dropped = Arc::new(AtomicU64::new(0));
        let actor = Hooked::<Option<Spiteful>>::new(|message, _| {
            std::mem::forget(message);
            Flow::Continue
        });
        let actor = node.actor().mailbox(1).policy(policy).spawn(actor).unwrap();
        actor.tell(Some(Spiteful(dropped.clone()))).unwrap();
        actor.tell(Some(Spiteful(dropped.clone()))).unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
    node.run_until_idle();
}

// L15, T7
#[test]
fn a_zombie_is_reported_and_its_end_is_told_once() {
    // The node's own work must not depend on the worker that is stuck, whichever that is.
    for round in 0..8 {
        let _watchdog = Watchdog::new(format!("round {round}"));
        let clock = ManualClock::new();
        clock.hold(true);
        let runtime = Runtime::builder().workers(2).manual_clock(&clock);
        let node = Node::builder().runtime(runtime).build().unwrap();
        let go = Arc::new(AtomicBool::new(false));
        let (entered, has_entered) = mpsc::channel();
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
        let wait_for = go.clone();
        zombie
            .tell(act(move |_| {
                entered.send(()).unwrap();
                spin_until(|| wait_for.load(Ordering::Acquire));
                Flow::Continue
            }))
            .unwrap();
        has_entered.recv().unwrap();
        zombie.tell(Work::Number(1)).unwrap();
        zombie.kill();
        while zombie.join_timeout(Duration::from_millis(1)).unwrap().is_none() {
            clock.advance(Duration::from_secs(6));
        }
        assert_eq!(zombie.join().unwrap(), ExitReason::Killed);
        assert_eq!(node.zombies(), [id]);
        assert_eq!(told.recv().unwrap().reason, ExitReason::Killed);
        // Its name is free for the one that takes its place.
        let (replacement, _) = keeper();
        node.actor().name("stuck").spawn(replacement).unwrap();
        go.store(true, Ordering::Release);
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
        self.entered.send(()).unwrap();
        spin_until(|| self.go.load(Ordering::Acquire));
    }
}

// L22
#[test]
fn messages_that_a_zombie_leaves_behind_hold_up_neither_its_end_nor_any_timer() {
    for by_timer in [false, true] {
        let _watchdog = Watchdog::new(format!("with a timer's message: {by_timer}"));
        let clock = ManualClock::new();
        clock.hold(true);
        // One for the zombie, one for what it leaves behind, and one for everybody else.
        let runtime = Runtime::builder().workers(3).manual_clock(&clock);
        let node = Node::builder().runtime(runtime).build().unwrap();
        let go = Arc::new(AtomicBool::new(false));
        let (entered, has_entered) = mpsc::channel();
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
        let wait_for = go.clone();
        let stuck = act(move |ctx: &mut Ctx<Work>| {
            if let Some(heavy) = heavy {
                ctx.send_after(Duration::from_secs(3600), heavy).unwrap();
            }
            entered.send(()).unwrap();
            spin_until(|| wait_for.load(Ordering::Acquire));
            Flow::Continue
        });
        zombie.tell(stuck).unwrap();
        has_entered.recv().unwrap();
        in_mailbox.into_iter().for_each(|heavy| zombie.tell(heavy).unwrap());
        zombie.kill();
        while zombie.join_timeout(Duration::from_millis(1)).unwrap().is_none() {
            clock.advance(Duration::from_secs(6));
        }
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
        while ringing.join_timeout(Duration::from_millis(1)).unwrap().is_none() {
            clock.advance(Duration::from_secs(1));
        }
        rang.recv().unwrap();
        go.store(true, Ordering::Release);
        assert!(is_dropped.recv().is_err(), "it was dropped twice");
    }
}

// L23
#[test]
fn an_actor_that_waits_for_its_own_end_gets_an_error_at_once() {
    with_nodes(|node| {
        let (joins, joined) = mpsc::channel();
        let actor = node.spawn(keeper().0).unwrap();
        let waits = act(move |ctx: &mut Ctx<Work>| {
            let me = ctx.me();
            joins.send([me.join().map(Some), me.join_timeout(Duration::from_secs(3600))]).unwrap();
            Flow::Stop
        });
        actor.tell(waits).unwrap();
        for result in joined.recv().unwrap() {
            assert!(matches!(result, Err(JoinError::Itself)), "{result:?}");
        }
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
    });
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

// L18
#[test]
fn children_end_with_their_parent_and_the_parent_is_told_of_theirs() {
    with_nodes(|node| {
        let (exits, told) = mpsc::channel::<Exit>();
        let (children, have) = mpsc::channel();
        let parent = Hooked::<Work>::new(|work, ctx| match work {
            Work::Do(body) => body(ctx),
            _ => Flow::Continue,
        })
        .started(move |(), ctx| {
            for _ in 0..3 {
                children.send(ctx.child().spawn(keeper().0).unwrap()).unwrap();
            }
            Flow::Continue
        })
        .exit_of(move |exit, _| {
            exits.send(exit).unwrap();
            Flow::Continue
        });
        let parent = node.spawn(parent).unwrap();
        let children: Vec<ActorRef<Work>> = (0..3).map(|_| have.recv().unwrap()).collect();
        children[0].tell(act(|_| panic!("a child"))).unwrap();
        let exit = told.recv().unwrap();
        assert_eq!((exit.actor, message_of(&exit.reason)), (children[0].id(), "a child"));
        parent.stop();
        assert_eq!(parent.join().unwrap(), ExitReason::Shutdown);
        for child in &children[1..] {
            assert_eq!(child.join().unwrap(), ExitReason::Shutdown);
        }
    });
}

// L19
#[test]
fn a_child_whose_name_is_taken_is_refused_and_nobody_is_told_of_its_end() {
    let (node, _clock) = local();
    let lifecycle = node.lifecycle();
    let first = node.actor().name("first").spawn(keeper().0).unwrap();
    let exits = Arc::new(AtomicU64::new(0));
    let count = exits.clone();
    let parent = Hooked::<u64>::new(|_, _| Flow::Continue)
        .started(|(), ctx| {
            let refused = ctx.child().name("first").spawn(keeper().0).unwrap_err();
            assert!(matches!(refused, SpawnError::NameTaken(..)), "{refused}");
            Flow::Continue
        })
        .exit_of(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Flow::Continue
        });
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    assert_eq!(exits.load(Ordering::Relaxed), 0);
    assert_eq!(node.actor_count(), 2);
    let seen: Vec<Lifecycle> = lifecycle.try_iter().collect();
    let started = |id| Lifecycle::Started(id);
    let named = Lifecycle::NameRegistered { actor: first.id(), name: "first".into() };
    assert_eq!(seen, [named, started(first.id()), started(parent.id())]);
}

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

// D5
#[test]
fn dead_letters_say_why() {
    let (node, _clock) = local();
    let letters = node.dead_letters();
    let (actor, _) = keeper();
    let actor = node.spawn(actor).unwrap();
    actor.tell(act(|_| panic!("early"))).unwrap();
    (0..3).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    node.run_until_idle();
    let letters: Vec<_> = letters.try_iter().collect();
    assert_eq!(letters.len(), 3);
    for letter in letters {
        assert_eq!(letter.dest, actor.id());
        assert!(letter.type_name.contains("Work"), "{letter:?}");
        assert!(matches!(letter.why, Why::Ended(reason) if message_of(&reason) == "early"));
    }
}
