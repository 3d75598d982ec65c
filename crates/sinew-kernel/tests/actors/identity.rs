//! Ids of actors (`docs/semantics.md`, I).

use std::collections::BTreeSet;
use std::sync::mpsc;

use sinew_kernel::{ActorId, ActorRef, Ctx, Flow, Kind, Node, NodeId, Payload};

use crate::kit::{self, Hooked, Work, keeper, local, with_nodes};

// I1, I2
#[test]
fn an_id_is_its_node_and_a_local_number_and_none_is_nobody() {
    let node = Node::builder().id(7).build().unwrap();
    let actor = node.spawn(keeper().0).unwrap();
    let id = actor.id();
    assert_eq!(id.node(), NodeId(7));
    assert_eq!(id.to_string(), format!("7.{}", id.local()));
    assert_eq!(id.as_u64(), 7 << 32 | u64::from(id.local()));
    assert!(!id.is_nobody() && ActorId::NOBODY.is_nobody());
    assert_ne!(id.local(), 0);
}

// I3
#[test]
fn no_id_is_used_again_however_actors_come_and_go() {
    with_nodes(|node| {
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                let node = kit::ByRef::node_ref(node);
                node.handle().spawn(move || {
                    (0..kit::rounds(20_000))
                        .map(|_| {
                            let actor = node.spawn(Hooked::<u64>::new(|_, _| Flow::Stop)).unwrap();
                            actor.kill();
                            actor.join().unwrap();
                            actor.id().as_u64()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let ids: Vec<u64> = spawners.into_iter().flat_map(|spawner| spawner.join().unwrap()).collect();
        let distinct: BTreeSet<u64> = ids.iter().copied().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(!distinct.contains(&0));
    });
}

// I4
#[test]
fn an_id_leads_to_its_actor_until_that_has_ended_and_to_nobody_after() {
    with_nodes(|node| {
        let actors: Vec<_> = (0..1_000)
            .map(|_| {
                let (actor, numbers) = keeper();
                (node.spawn(actor).unwrap(), numbers)
            })
            .collect();
        let send = |to, n: usize| node.send(to, Kind(1), Payload::value(Work::Number(n as u64)));
        for (n, (actor, _)) in actors.iter().enumerate() {
            send(actor.id(), n).unwrap();
        }
        let end = |actor: &ActorRef<Work>| {
            actor.drain();
            actor.join().unwrap();
        };
        actors.iter().step_by(2).for_each(|(actor, _)| end(actor));
        for (n, (actor, _)) in actors.iter().enumerate() {
            assert_eq!(send(actor.id(), n).is_ok(), n % 2 == 1);
            assert_eq!(actor.is_dead(), n % 2 == 0);
        }
        actors.iter().skip(1).step_by(2).for_each(|(actor, _)| end(actor));
        for (n, (_, numbers)) in actors.iter().enumerate() {
            assert_eq!(*numbers.lock().unwrap(), vec![n as u64; 1 + n % 2], "what was sent to it alone");
        }
    });
}

// I4
#[test]
fn whoever_is_told_of_an_end_finds_the_id_unknown() {
    with_nodes(|node| {
        let (ids, told) = mpsc::channel();
        let parent = node.spawn(keeper().0.exit_of(move |exit, ctx| {
            let (node, id) = (ctx.node(), exit.actor);
            ids.send((id, node.stop(id) || node.cancel(id) || node.kill(id))).unwrap();
            Flow::Continue
        }));
        let parent = parent.unwrap();
        let ends: [fn(&ActorRef<Work>); 3] = [ActorRef::stop, ActorRef::drain, ActorRef::kill];
        for n in 0..kit::rounds(3_000) {
            let actor = node.spawn(keeper().0).unwrap();
            let (id, end) = (actor.id(), ends[n % 3]);
            end(&actor);
            if n % 2 == 0 {
                actor.join().unwrap();
            } else {
                kit::spin_until(|| actor.is_dead());
            }
            assert!(!node.stop(id) && !node.cancel(id) && !node.kill(id), "{id} is known in round {n}");
            assert!(node.inspect(id).is_none() && node.actor_ref::<Work>(id).is_err());

            let (sender, child) = mpsc::channel();
            let spawns = move |ctx: &mut Ctx<Work>| {
                let child = ctx.child().spawn(keeper().0).unwrap();
                ctx.monitor(child.id());
                sender.send(child).unwrap();
                Flow::Continue
            };
            parent.tell(kit::act(spawns)).unwrap();
            let child = child.recv().unwrap();
            end(&child);
            for relation in ["child", "monitor"] {
                assert_eq!(told.recv().unwrap(), (child.id(), false), "in round {n}, told of a {relation}");
            }
        }
    });
}

// I4
#[test]
fn an_id_does_not_lead_to_whoever_has_taken_its_place_in_the_table() {
    let (node, _clock) = local();
    let (stays, ended) = (node.spawn(keeper().0).unwrap(), node.spawn(keeper().0).unwrap());
    ended.kill();
    node.run_until_idle();
    // Places are used again after 1,024 ids.
    for _ in 0..2_500 {
        let other = node.spawn(keeper().0).unwrap();
        assert!(node.send(ended.id(), Kind(1), &b""[..]).is_err());
        assert!(node.send(stays.id(), Kind(1), &b""[..]).is_ok());
        other.kill();
        node.run_until_idle();
    }
    assert_eq!(node.actor_count(), 1);
}

// I5
#[test]
fn a_reference_outlives_its_actor_and_keeps_its_id() {
    with_nodes(|node| {
        let actor = node.spawn(keeper().0).unwrap();
        let (id, other) = (actor.id(), actor.clone());
        actor.kill();
        actor.join().unwrap();
        assert_eq!((other.id(), other.is_dead()), (id, true));
        assert!(other.tell(Work::Number(1)).is_err());
    });
}
