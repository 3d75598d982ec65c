//! What a snapshot says about actors, and that it balances the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorId, ActorRef, ActorState, ChildSpec, Ctx, ExitReason, Flow, Kind, Lifecycle, LifecycleStage,
    LocalNode, Node, NodeRef, Payload, Policy, Process, Reply, Snapshot, Strategy, WaitKind,
};
use sinew_sched::{ManualClock, Runtime, sleep, yield_now};

const LONG: Duration = Duration::from_secs(3600);

/// Does what it is told to.
struct Does;

type Deed = Box<dyn FnOnce(&mut Ctx<Do>) -> Flow + Send>;

enum Do {
    Deed(Deed),
    Answer(Reply<u32>),
}

impl Actor for Does {
    type Msg = Do;

    fn handle(&mut self, what: Do, ctx: &mut Ctx<Do>) -> Flow {
        match what {
            Do::Deed(deed) => return deed(ctx),
            Do::Answer(reply) => reply.send(7),
        }
        Flow::Continue
    }
}

fn deed(deed: impl FnOnce(&mut Ctx<Do>) -> Flow + Send + 'static) -> Do {
    Do::Deed(Box::new(deed))
}

fn nothing() -> Do {
    deed(|_| Flow::Continue)
}

/// A node on this thread, whose clock stands still.
fn local() -> (LocalNode, ManualClock) {
    let clock = ManualClock::new();
    clock.hold(true);
    let runtime = Runtime::builder().manual_clock(&clock);
    (Node::builder().runtime(runtime).build_current_thread().unwrap(), clock)
}

fn node(workers: usize) -> Node {
    Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap()
}

fn state(node: NodeRef, id: ActorId) -> ActorState {
    node.inspect(id).expect("the actor is there").state
}

fn asks(other: &ActorRef<Do>, timeout: Duration) -> Do {
    let other = other.clone();
    deed(move |_| {
        let _ = other.ask_timeout(Do::Answer, timeout);
        Flow::Continue
    })
}

fn spin_until(is: impl Fn() -> bool) {
    while !is() {
        std::thread::yield_now();
    }
}

#[test]
fn an_actor_is_seen_with_its_name_its_type_its_mailbox_and_its_counts() {
    let (node, _clock) = local();
    let actor = node.actor().name("worker").mailbox(3).policy(Policy::DropNewest).spawn(Does).unwrap();
    node.run_until_idle();
    for _ in 0..5 {
        actor.tell(nothing()).unwrap();
    }
    let seen = node.inspect(actor.id()).unwrap();
    assert_eq!((seen.id, seen.name.as_deref(), seen.parent), (actor.id(), Some("worker"), None));
    assert!(seen.type_name.ends_with("inspect::Does"), "{}", seen.type_name);
    assert_eq!((seen.queued, seen.capacity, seen.high_water, seen.dropped), (3, 3, 3, 2));
    assert_eq!((seen.accepted, seen.handled, seen.stage), (5, 0, LifecycleStage::Running));
    assert!(seen.spawned_at.unwrap().file().ends_with("inspect.rs"));
    node.run_until_idle();
    let snapshot = node.snapshot();
    let seen = snapshot.named("worker").unwrap();
    assert_eq!((seen.queued, seen.high_water, seen.handled), (0, 3, 3));
    assert!(snapshot.named("nobody").is_none() && snapshot.actor(ActorId::NOBODY).is_none());
    actor.stop();
    node.run_until_idle();
    assert!(node.inspect(actor.id()).is_none() && node.snapshot().actors.is_empty());
    let keeps = node.actor().name("worker").spawn(Does).unwrap();
    node.actor().name("worker").spawn(Does).unwrap_err();
    node.run_until_idle();
    let totals = node.snapshot().totals;
    assert_eq!((totals.actors, totals.ended), (1, 1), "one that was refused never was");
    drop(keeps);
}

#[test]
fn actors_are_idle_or_ready_or_blocked_on_something() {
    let (node, clock) = local();
    let actor = node.spawn(Does).unwrap();
    assert_eq!(state(*node, actor.id()), ActorState::Ready);
    assert_eq!(node.inspect(actor.id()).unwrap().stage, LifecycleStage::Starting);
    node.run_until_idle();
    assert_eq!(state(*node, actor.id()), ActorState::Idle);
    actor.tell(nothing()).unwrap();
    assert_eq!(state(*node, actor.id()), ActorState::Ready);
    let sleeps = deed(|_| {
        sleep(Duration::from_secs(10));
        Flow::Continue
    });
    actor.tell(sleeps).unwrap();
    node.run_until_idle();
    let blocked = state(*node, actor.id());
    let on = &blocked.blocked().expect("it sleeps").on;
    assert_eq!((on.kind, on.deadline), (WaitKind::Sleep, Some(clock.now() + Duration::from_secs(10))));
    assert_eq!(blocked.to_string(), "blocked: sleep");
    clock.advance(Duration::from_secs(11));
    node.run_until_idle();
    assert_eq!(state(*node, actor.id()), ActorState::Idle);
    let waits = node.actor().spawn_process(|own: &mut Process<u32>| {
        let _ = own.recv();
        Flow::Stop
    });
    node.run_until_idle();
    assert_eq!(state(*node, waits.unwrap().id()), ActorState::Idle, "a process that receives");
}

#[test]
fn one_that_computes_is_seen_running_although_its_worker_never_comes_back() {
    let node = node(1);
    let (runs, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (began, may_end) = (runs.clone(), goes_on.clone());
    let actor = node.spawn(Does).unwrap();
    actor
        .tell(deed(move |_| {
            began.store(true, Ordering::Release);
            spin_until(|| may_end.load(Ordering::Acquire));
            Flow::Continue
        }))
        .unwrap();
    spin_until(|| runs.load(Ordering::Acquire));
    let seen = node.snapshot();
    assert_eq!(seen.actor(actor.id()).unwrap().state, ActorState::Running);
    goes_on.store(true, Ordering::Release);
}

#[test]
fn two_actors_that_ask_each_other_are_a_cycle_until_time_is_up() {
    let (node, clock) = local();
    let one = node.actor().name("one").spawn(Does).unwrap();
    let other = node.actor().name("other").spawn(Does).unwrap();
    one.tell(asks(&other, Duration::from_secs(60))).unwrap();
    other.tell(asks(&one, Duration::from_secs(60))).unwrap();
    node.run_until_idle();
    let snapshot = node.snapshot();
    assert_eq!(snapshot.cycles(), [[one.id(), other.id()]]);
    assert_eq!(state(*node, one.id()).to_string(), format!("blocked: ask to {}", other.id()));
    assert_eq!(state(*node, one.id()).blocked().unwrap().actor, Some(other.id()));
    let text = snapshot.to_string();
    let line = format!("these wait for each other: {} \"one\", {} \"other\"\n", one.id(), other.id());
    assert!(text.contains(&line), "{text}");
    let json = snapshot.to_json();
    assert!(json.contains(&format!("\"cycles\":[[\"{}\",\"{}\"]]", one.id(), other.id())), "{json}");
    let dump = node.handle().dump().to_string();
    assert!(dump.contains(&format!("waits for: ask, actor {}", other.id().local())), "{dump}");
    clock.advance(Duration::from_secs(61));
    node.run_until_idle();
    assert!(node.snapshot().cycles().is_empty());
    assert_eq!(state(*node, one.id()), ActorState::Idle);
}

#[test]
fn a_cycle_goes_through_full_mailboxes_and_waits_for_an_end_and_nobody_else_is_in_it() {
    let (node, _clock) = local();
    let [first, second, third, outside] = [(); 4].map(|()| node.actor().mailbox(1).spawn(Does).unwrap());
    node.run_until_idle();
    first.tell(asks(&second, LONG)).unwrap();
    let end = first.clone();
    third
        .tell(deed(move |_| {
            let _ = end.join();
            Flow::Continue
        }))
        .unwrap();
    let full = third.clone();
    second
        .tell(deed(move |_| {
            full.tell(nothing()).unwrap();
            full.tell(nothing()).map_or(Flow::Stop, |()| Flow::Continue)
        }))
        .unwrap();
    outside.tell(asks(&first, LONG)).unwrap();
    node.run_until_idle();
    let snapshot = node.snapshot();
    assert_eq!(snapshot.cycles(), [[first.id(), second.id(), third.id()]], "{snapshot}");
    assert_eq!(state(*node, second.id()).to_string(), format!("blocked: full mailbox of {}", third.id()));
    assert_eq!(state(*node, third.id()).to_string(), format!("blocked: end of {}", first.id()));
    assert!(snapshot.actor(third.id()).unwrap().has_waiting_senders);
    let alone = node.spawn(Does).unwrap();
    alone.tell(asks(&alone, LONG)).unwrap();
    node.run_until_idle();
    assert_eq!(node.snapshot().cycles().len(), 1, "one that asks itself does not wait");
    assert_eq!(state(*node, alone.id()), ActorState::Idle);
}

#[test]
fn actors_that_only_ask_one_another_in_turn_are_never_a_cycle() {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let [one, other] = [(); 2].map(|()| node.spawn(Does).unwrap());
        let stops = Arc::new(AtomicBool::new(false));
        let turn = Arc::new(AtomicBool::new(false));
        // Only one of them asks at a time, but each of them does right after the other.
        for (asks, answers, own) in [(&one, &other, true), (&other, &one, false)] {
            let (answers, stops, turn) = (answers.clone(), stops.clone(), turn.clone());
            asks.tell(deed(move |ctx| step(answers, stops, turn, own, ctx))).unwrap();
        }
        for _ in 0..200 {
            assert!(node.snapshot().cycles().is_empty());
        }
        stops.store(true, Ordering::Release);
    }
}

fn step(
    other: ActorRef<Do>,
    stops: Arc<AtomicBool>,
    turn: Arc<AtomicBool>,
    own: bool,
    ctx: &mut Ctx<Do>,
) -> Flow {
    if stops.load(Ordering::Acquire) {
        return Flow::Stop;
    }
    if turn.load(Ordering::Acquire) == own {
        let _ = other.ask(Do::Answer);
        turn.store(!own, Ordering::Release);
    }
    yield_now();
    let me = ctx.me();
    let _ = me.try_tell(deed(move |ctx| step(other, stops, turn, own, ctx)));
    Flow::Continue
}

#[test]
fn children_are_under_their_parents() {
    let (node, _clock) = local();
    let root = node.actor().name("root").spawn(Does).unwrap();
    for name in ["a", "b"] {
        root.tell(deed(move |ctx| {
            let child = ctx.child().name(name).spawn(Does).unwrap();
            child
                .tell(deed(move |ctx| ctx.child().spawn(Does).map_or(Flow::Stop, |_| Flow::Continue)))
                .unwrap();
            Flow::Continue
        }))
        .unwrap();
    }
    node.run_until_idle();
    let snapshot = node.snapshot();
    assert_eq!(snapshot.roots().map(|actor| actor.id).collect::<Vec<_>>(), [root.id()]);
    let names: Vec<_> = snapshot.children(root.id()).map(|child| child.name.clone().unwrap()).collect();
    assert_eq!(names, ["a".into(), "b".into()]);
    let (a, b) = (snapshot.named("a").unwrap().id, snapshot.named("b").unwrap().id);
    let [under_a, under_b] = [a, b].map(|parent| snapshot.children(parent).next().unwrap().id);
    let does = snapshot.actors[0].type_name;
    let expected = format!(
        "{} \"root\" {does}: idle\n  {a} \"a\" {does}: idle\n    {under_a} {does}: idle\n  {b} \"b\" {does}: idle\n    {under_b} {does}: idle\n",
        root.id()
    );
    assert_eq!(snapshot.tree().to_string(), expected);
}

#[test]
fn a_table_has_a_line_for_each_actor_and_says_how_many_it_leaves_out() {
    let (node, _clock) = local();
    node.actor().name("the \"first\"").spawn(Does).unwrap();
    node.run_until_idle();
    let text = node.snapshot().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "node 1: 1 actors, 0 ended, 0 zombies, 0 timers");
    assert_eq!(lines[1], "messages: 0 accepted; 0 handled, 0 failed, 0 dead letters, 0 queued");
    assert!(lines[2].starts_with("id ") && lines[3].contains("idle") && lines.len() == 4, "{text}");
    (0..250).for_each(|_| drop(node.spawn(Does).unwrap()));
    let snapshot = node.snapshot();
    for text in [snapshot.to_string(), snapshot.tree().to_string()] {
        assert!(text.ends_with("and 51 more actors\n"), "{text}");
    }
    let json = snapshot.to_json();
    assert_eq!(json.matches("{\"id\":").count(), 251);
    assert!(json.contains("\"name\":\"the \\\"first\\\"\",\"parent\":null,"), "{json}");
    assert!(json.starts_with("{\"node\":1,\"now_ns\":0,\"totals\":{\"actors\":251,\"ended\":0,"), "{json}");
}

#[test]
fn memory_is_that_of_the_state_and_the_mailbox() {
    struct Large([u8; 10_000]);
    impl Actor for Large {
        type Msg = [u64; 16];

        fn handle(&mut self, msg: [u64; 16], _: &mut Ctx<[u64; 16]>) -> Flow {
            self.0[0] = msg[0] as u8;
            Flow::Continue
        }
    }
    let (node, _clock) = local();
    let small = node.spawn(Does).unwrap();
    let large = node.spawn(Large([0; 10_000])).unwrap();
    node.run_until_idle();
    let memory = |id| node.inspect(id).unwrap().memory;
    assert!((64..1_000).contains(&memory(small.id())), "{}", memory(small.id()));
    let empty = memory(large.id());
    assert!((10_000..11_000).contains(&empty), "{empty}");
    (0..1000).for_each(|_| large.tell([1; 16]).unwrap());
    assert!(memory(large.id()) >= empty + 1000 * 128, "{}", memory(large.id()));
}

#[test]
fn the_books_say_what_became_of_every_message() {
    let (node, _clock) = local();
    let drops = node.actor().mailbox(2).policy(Policy::DropOldest).spawn(Does).unwrap();
    let fails = node.spawn(Does).unwrap();
    let blocks = node.spawn(Does).unwrap();
    node.run_until_idle();
    (0..5).for_each(|_| drops.tell(nothing()).unwrap()); // three of them are dropped
    fails.tell(nothing()).unwrap();
    fails.tell(deed(|_| panic!("it fails"))).unwrap();
    fails.tell(nothing()).unwrap(); // a dead letter
    blocks
        .tell(deed(|_| {
            sleep(LONG);
            Flow::Continue
        }))
        .unwrap();
    blocks.tell(nothing()).unwrap();
    node.run_until_idle();
    let totals = node.snapshot().totals;
    assert_eq!((totals.actors, totals.ended), (2, 1));
    assert_eq!((totals.accepted(), totals.handled, totals.failed), (10, 4, 1));
    assert_eq!((totals.dead_letters, totals.queued), (4, 1));
    blocks.kill();
    node.run_until_idle();
    let totals = node.snapshot().totals;
    assert_eq!((totals.handled, totals.failed, totals.dead_letters, totals.queued), (3, 2, 5, 0));
    assert_eq!(totals.accepted(), 10);
}

#[test]
fn the_books_balance_after_a_storm_of_sends_and_ends() {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let reference = *node;
        let policies = [Policy::Park, Policy::Refuse, Policy::DropOldest, Policy::DropNewest];
        let accepted = node.run(move || {
            let mut accepted = 0;
            for round in 0..40 {
                let actors: Vec<_> = (0..8)
                    .map(|n| reference.actor().mailbox(4).policy(policies[n % 4]).spawn(Does).unwrap())
                    .collect();
                let senders: Vec<_> = (0..3)
                    .map(|_| {
                        let actors = actors.clone();
                        sinew_sched::spawn(move || {
                            let sends = actors.iter().cycle().take(200);
                            sends.filter(|actor| actor.tell(nothing()).is_ok()).count()
                        })
                    })
                    .collect();
                for (n, actor) in actors.iter().enumerate() {
                    yield_now();
                    match (n + round) % 4 {
                        0 => actor.stop(),
                        1 => actor.drain(),
                        2 => actor.kill(),
                        _ => {
                            let failing = actor.try_tell(deed(|_| panic!("it fails")));
                            accepted += usize::from(failing.is_ok());
                            actor.stop();
                        }
                    }
                }
                accepted += senders.into_iter().map(|sender| sender.join().unwrap()).sum::<usize>();
                actors.iter().for_each(|actor| drop(actor.join().unwrap()));
            }
            accepted
        });
        spin_until(|| node.actor_count() == 0);
        let totals = node.snapshot().totals;
        assert_eq!(totals.accepted(), accepted.unwrap() as u64, "{totals:?}");
        assert!(totals.queued == 0 && totals.ended == 320, "{totals:?}");
    }
}

#[test]
fn names_and_ends_are_told_in_order() {
    let (node, _clock) = local();
    let events = node.lifecycle();
    let actor = node.actor().name("first").spawn(Does).unwrap();
    node.run_until_idle();
    actor.stop();
    node.run_until_idle();
    let name: Box<str> = "first".into();
    let told: Vec<Lifecycle> = events.try_iter().collect();
    let expected = [
        Lifecycle::NameRegistered { actor: actor.id(), name: name.clone() },
        Lifecycle::Started(actor.id()),
        Lifecycle::NameUnregistered { actor: actor.id(), name: name.clone() },
        Lifecycle::Ended { actor: actor.id(), name: Some(name), reason: ExitReason::Shutdown },
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_a_subscriber_misses_is_counted() {
    let (node, _clock) = local();
    let events = node.lifecycle();
    (0..1024 + 3).for_each(|_| drop(node.spawn(Does).unwrap()));
    node.run_until_idle();
    assert_eq!((events.try_iter().count(), node.snapshot().totals.missed), (1024, 3));
}

#[test]
fn a_zombie_is_told_counted_and_its_messages_are_in_the_books_when_it_ends() {
    let node = Node::builder()
        .runtime(Runtime::builder().workers(2))
        .stop_timeout(Duration::from_millis(1))
        .build()
        .unwrap();
    let events = node.lifecycle();
    let goes_on = Arc::new(AtomicBool::new(false));
    let may_end = goes_on.clone();
    let actor = node.spawn(Does).unwrap();
    let id = actor.id();
    actor
        .tell(deed(move |_| {
            spin_until(|| may_end.load(Ordering::Acquire));
            Flow::Continue
        }))
        .unwrap();
    actor.tell(nothing()).unwrap();
    spin_until(|| node.inspect(id).is_some_and(|seen| seen.handled == 1));
    actor.kill();
    actor.join().unwrap();
    let told: Vec<Lifecycle> = std::iter::from_fn(|| events.recv().ok()).take(2).collect();
    assert_eq!(told[1], Lifecycle::GivenUp(id), "{told:?}");
    let snapshot: Snapshot = node.snapshot();
    assert_eq!((snapshot.zombies.as_slice(), snapshot.totals.zombies), ([id].as_slice(), 1));
    assert!(snapshot.actor(id).is_none());
    goes_on.store(true, Ordering::Release);
    spin_until(|| node.zombies().is_empty());
    let totals = node.snapshot().totals;
    assert!(totals.accepted() == 2, "{totals:?}");
}

#[test]
fn tens_of_thousands_of_actors_are_seen_at_once() {
    let (node, _clock) = local();
    let actors: Vec<_> = (0..20_000).map(|_| node.spawn(Does).unwrap()).collect();
    node.run_until_idle();
    let snapshot = node.snapshot();
    assert_eq!(snapshot.actors.len(), actors.len());
    assert!(snapshot.actors.iter().all(|actor| actor.state == ActorState::Idle));
    assert!(snapshot.actors.is_sorted_by_key(|actor| actor.id));
}

#[test]
fn a_supervised_child_has_its_restarts_and_its_last_error_and_its_type() {
    let (node, _clock) = local();
    let events = node.lifecycle();
    let child = ChildSpec::new("worker", || Does).name("worker");
    let sup = node.supervisor(Strategy::OneForOne).child(child).spawn().unwrap();
    node.run_until_idle();
    let first = node.snapshot().named("worker").unwrap().clone();
    assert_eq!((first.parent, first.restarts, first.last_error), (Some(sup.id()), 0, None));
    assert!(first.type_name.ends_with("inspect::Does"), "{}", first.type_name);
    node.send(first.id, Kind(0), Payload::value(deed(|_| panic!("it fails")))).unwrap();
    node.run_until_idle();
    let snapshot = node.snapshot();
    let second = snapshot.named("worker").unwrap();
    assert_eq!((second.parent, second.restarts), (Some(sup.id()), 1));
    let error = second.last_error.clone().unwrap();
    assert!(error.to_string().starts_with("error: it fails, at "), "{error}");
    let tree = snapshot.tree().to_string();
    assert!(
        tree.starts_with(&format!(
            "{} sinew_kernel::Supervisor: idle\n  {} \"worker\" ",
            sup.id(),
            second.id
        )),
        "{tree}"
    );
    assert!(tree.contains(": idle; restarts: 1; last error: error: it fails, at "), "{tree}");
    let restarted = Lifecycle::Restarted {
        actor: second.id,
        name: Some("worker".into()),
        restarts: 1,
        after: Some(error),
    };
    assert!(events.try_iter().any(|event| event == restarted));
}

#[test]
fn names_do_not_steer_the_terminal_of_whoever_prints_a_snapshot() {
    let node = Node::new();
    let name = "a\u{1b}[2Jb\n\"c\"";
    node.actor().name(name).spawn_raw((), |(), _, _| Flow::Continue).unwrap();
    let snapshot = node.snapshot();
    for text in [snapshot.to_string(), snapshot.tree().to_string(), snapshot.to_json()] {
        assert!(!text.contains('\u{1b}') && !text.contains("b\n"), "{text}");
    }
}
