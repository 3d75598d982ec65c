//! Links, monitors and exits (`docs/semantics.md`, X).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use sinew_chan::chan::Receiver;
use sinew_kernel::{
    ActorId, ActorRef, Ctx, Exit, ExitReason, Flow, Kind, Lifecycle, Message, NodeId, NodeRef, Relation,
};

use crate::kit::{self, Work, act, keeper, local, spin_until, with_nodes};

/// Has an actor do something, and waits until it has.
fn does<T: Send + 'static>(
    actor: &ActorRef<Work>,
    body: impl FnOnce(&mut Ctx<Work>) -> T + Send + 'static,
) -> T {
    let (done, is_done) = mpsc::channel();
    actor
        .tell(act(move |ctx| {
            done.send(body(ctx)).unwrap();
            Flow::Continue
        }))
        .unwrap();
    is_done.recv().unwrap()
}

/// An actor that keeps the exits that it is told.
fn watcher(node: NodeRef) -> (ActorRef<Work>, Arc<Mutex<Vec<Exit>>>) {
    let exits = Arc::new(Mutex::new(Vec::new()));
    let kept = exits.clone();
    let (body, _) = keeper();
    let body = body.exit_of(move |exit, _| {
        kept.lock().unwrap().push(exit);
        Flow::Continue
    });
    (node.spawn(body).unwrap(), exits)
}

fn fails(actor: &ActorRef<Work>) {
    actor.tell(act(|_| panic!("failed"))).unwrap();
    actor.join().unwrap();
}

/// Waits until all are told of the end of an actor: subscribers are last.
fn all_are_told(lifecycle: &Receiver<Lifecycle>, id: ActorId) {
    lifecycle.iter().find(|event| matches!(event, Lifecycle::Ended { actor, .. } if *actor == id)).unwrap();
}

// X1
#[test]
fn a_failure_ends_those_who_are_linked_for_the_same_reason() {
    with_nodes(|node| {
        let actors: Vec<_> = (0..5).map(|_| node.spawn(keeper().0).unwrap()).collect();
        for pair in actors.windows(2) {
            let other = pair[1].id();
            does(&pair[0], move |ctx| ctx.link(other)).unwrap();
        }
        fails(&actors[2]);
        let reason = actors[2].join().unwrap();
        for actor in &actors {
            assert_eq!(actor.join().unwrap(), reason);
        }
    });
}

// X2
#[test]
fn a_normal_end_leaves_those_who_are_linked_alone() {
    with_nodes(|node| {
        let (one, other) = (node.spawn(keeper().0).unwrap(), node.spawn(keeper().0).unwrap());
        let id = other.id();
        does(&one, move |ctx| ctx.link(id)).unwrap();
        let lifecycle = node.lifecycle();
        other.tell(act(|_| Flow::Stop)).unwrap();
        assert_eq!(other.join().unwrap(), ExitReason::Normal);
        all_are_told(&lifecycle, id);
        assert!(does(&one, move |_| true));
        assert!(!one.is_dead());
    });
}

// X3
#[test]
fn one_that_traps_exits_is_told_once_and_goes_on() {
    with_nodes(|node| {
        let (one, exits) = watcher(kit::ByRef::node_ref(node));
        does(&one, |ctx| ctx.trap_exits(true));
        for normal in [true, false] {
            let other = node.spawn(keeper().0).unwrap();
            let id = other.id();
            does(&one, move |ctx| (ctx.link(id).unwrap(), ctx.link(id).unwrap()));
            if normal {
                other.tell(act(|_| Flow::Stop)).unwrap();
                other.join().unwrap();
            } else {
                fails(&other);
            }
            let reason = other.join().unwrap();
            spin_until(|| exits.lock().unwrap().len() == 1);
            let exit = exits.lock().unwrap().pop().unwrap();
            assert_eq!(exit, Exit { actor: id, reason, relation: Relation::Link });
        }
        assert!(does(&one, |_| true));
        assert!(exits.lock().unwrap().is_empty());
    });
}

// X4
#[test]
fn a_link_that_was_taken_back_does_nothing() {
    with_nodes(|node| {
        let (one, other) = (node.spawn(keeper().0).unwrap(), node.spawn(keeper().0).unwrap());
        let id = other.id();
        does(&one, move |ctx| {
            ctx.link(id).unwrap();
            ctx.unlink(id);
        });
        let lifecycle = node.lifecycle();
        fails(&other);
        all_are_told(&lifecycle, id);
        assert!(does(&one, |_| true));
        assert!(!one.is_dead());
    });
}

// X5
#[test]
fn a_link_to_one_that_has_ended_is_refused_with_a_reason() {
    with_nodes(|node| {
        let ((one, exits), other) = (watcher(kit::ByRef::node_ref(node)), node.spawn(keeper().0).unwrap());
        does(&one, |ctx| ctx.trap_exits(true));
        fails(&other);
        spin_until(|| node.actor_count() == 1);
        for id in [other.id(), ActorId::NOBODY, ActorId::new(node.id(), 0x7fff_fff0)] {
            assert_eq!(does(&one, move |ctx| ctx.link(id)), Err(ExitReason::NoActor));
        }
        let elsewhere = ActorId::new(NodeId(9), 1);
        assert_eq!(does(&one, move |ctx| ctx.link(elsewhere)), Err(ExitReason::NoConnection));
        assert!(does(&one, |_| true));
        assert_eq!(*exits.lock().unwrap(), [], "whoever is refused is not told as well");
    });
}

// X6, X7
#[test]
fn a_monitor_tells_of_the_end_once_and_each_monitor_for_itself() {
    with_nodes(|node| {
        let ends: [fn(&ActorRef<Work>); 4] =
            [fails, ActorRef::stop, ActorRef::kill, |other| other.tell(act(|_| Flow::Stop)).unwrap()];
        for end in ends {
            let (one, exits) = watcher(kit::ByRef::node_ref(node));
            let other = node.spawn(keeper().0).unwrap();
            let id = other.id();
            let (first, second, third) =
                does(&one, move |ctx| (ctx.monitor(id), ctx.monitor(id), ctx.monitor(id)));
            assert!(does(&one, move |ctx| ctx.demonitor(second)));
            let lifecycle = node.lifecycle();
            end(&other);
            let reason = other.join().unwrap();
            all_are_told(&lifecycle, id);
            assert!(does(&one, move |ctx| !ctx.demonitor(first) && !ctx.demonitor(second)));
            let exit =
                |monitor| Exit { actor: id, reason: reason.clone(), relation: Relation::Monitor(monitor) };
            let mut told = exits.lock().unwrap().clone();
            told.sort_by_key(|exit| match exit.relation {
                Relation::Monitor(monitor) => Some(monitor),
                _ => None,
            });
            assert_eq!(told, [exit(first), exit(third)]);
            one.kill();
            spin_until(|| node.actor_count() == 0);
        }
    });
}

// X8
#[test]
fn a_monitor_of_one_that_has_ended_tells_so_at_once() {
    let (node, _clock) = local();
    let (one, exits) = watcher(kit::ByRef::node_ref(&node));
    let ended = node.spawn(keeper().0).unwrap();
    ended.tell(act(|_| panic!("ended"))).unwrap();
    node.run_until_idle();
    assert!(ended.is_dead());
    let [never_was, elsewhere] = [node.id(), NodeId(9)].map(|node| ActorId::new(node, 0xffff_ffff));
    let ids = [ActorId::NOBODY, ended.id(), never_was, elsewhere];
    let (monitors, made) = mpsc::channel();
    let monitored = act(move |ctx| {
        ids.iter().for_each(|id| monitors.send(ctx.monitor(*id)).unwrap());
        Flow::Continue
    });
    one.tell(monitored).unwrap();
    node.run_until_idle();
    let expected: Vec<_> = made
        .try_iter()
        .zip(ids)
        .map(|(monitor, actor)| {
            let reason = if actor == elsewhere { ExitReason::NoConnection } else { ExitReason::NoActor };
            Exit { actor, reason, relation: Relation::Monitor(monitor) }
        })
        .collect();
    assert_eq!(expected.len(), 4);
    assert_eq!(*exits.lock().unwrap(), expected);
}

// X9
#[test]
fn links_and_monitors_that_race_with_an_end_tell_of_it_once() {
    with_nodes(|node| {
        let lifecycle = node.lifecycle();
        for round in 0..kit::rounds(3_000) {
            let (one, exits) = watcher(kit::ByRef::node_ref(node));
            does(&one, |ctx| ctx.trap_exits(true));
            let other = node.spawn(keeper().0).unwrap();
            let killed = other.clone();
            let killer = node.handle().spawn(move || match round % 3 {
                0 => killed.kill(),
                1 => killed.stop(),
                _ => drop(killed.tell(act(|_| panic!("raced")))),
            });
            let id = other.id();
            let linked = does(&one, move |ctx| {
                ctx.monitor(id);
                ctx.link(id).is_ok()
            });
            killer.join().unwrap();
            other.join().unwrap();
            all_are_told(&lifecycle, id);
            one.drain();
            one.join().unwrap();
            let exits = exits.lock().unwrap();
            let monitors = exits.iter().filter(|exit| matches!(exit.relation, Relation::Monitor(_))).count();
            let links = exits.iter().filter(|exit| exit.relation == Relation::Link).count();
            assert_eq!(monitors, 1);
            assert_eq!(links, usize::from(linked), "by the event or by the refusal");
        }
    });
}

// X10
#[test]
fn two_linked_actors_that_are_killed_at_once_end_once_each() {
    with_nodes(|node| {
        let lifecycle = node.lifecycle();
        for _ in 0..kit::rounds(1_000) {
            let dropped = Arc::new(AtomicU64::new(0));
            let actors = [(); 2].map(|()| {
                let dropped = dropped.clone();
                let body = keeper().0.dropped(move || {
                    dropped.fetch_add(1, Ordering::Relaxed);
                });
                node.spawn(body).unwrap()
            });
            let other = actors[1].id();
            does(&actors[0], move |ctx| ctx.link(other)).unwrap();
            let killers = actors.clone().map(|actor| node.handle().spawn(move || actor.kill()));
            killers.into_iter().for_each(|killer| killer.join().unwrap());
            for actor in &actors {
                assert_eq!(actor.join().unwrap(), ExitReason::Killed);
            }
            assert_eq!(dropped.load(Ordering::Relaxed), 2);
            let ends = |event| match event {
                Lifecycle::Ended { actor, reason, .. } => Some((actor, reason)),
                _ => None,
            };
            let mut ended: Vec<_> = lifecycle.iter().filter_map(ends).take(2).collect();
            ended.sort_by_key(|(actor, _)| *actor);
            let mut expected = actors.map(|actor| (actor.id(), ExitReason::Killed));
            expected.sort_by_key(|(actor, _)| *actor);
            assert_eq!(ended, expected);
        }
        assert!(matches!(lifecycle.try_recv(), Ok(None)));
        assert_eq!(node.missed(), 0);
    });
}

// X11
#[test]
fn a_raw_behaviour_is_told_of_exits_as_bytes() {
    let (node, _clock) = local();
    let other = node.spawn(keeper().0).unwrap();
    let id = other.id();
    let (seen, messages) = mpsc::channel();
    let raw = node.actor().spawn_raw((), move |(), message: &Message, ctx: &mut Ctx| {
        if message.kind == Kind(1) {
            ctx.trap_exits(true);
            ctx.link(id).unwrap();
            ctx.monitor(id);
        } else {
            seen.send((message.kind, message.source, message.payload.bytes().to_vec())).unwrap();
        }
        Flow::Continue
    });
    node.send(raw.unwrap().id(), Kind(1), &b""[..]).unwrap();
    node.run_until_idle();
    other.kill();
    node.run_until_idle();
    let mut kinds = Vec::new();
    for (kind, source, bytes) in messages.try_iter() {
        assert_eq!(source, id);
        assert_eq!(bytes[..8], id.as_u64().to_le_bytes());
        assert_eq!(bytes[8], ExitReason::Killed.code());
        kinds.push(kind);
    }
    assert_eq!(kinds, [Kind::EXIT, Kind::DOWN]);
}
