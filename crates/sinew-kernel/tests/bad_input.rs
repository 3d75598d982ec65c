//! Input that is wrong, and limits that are reached (`docs/semantics.md`, E). A program of its own, because it measures
//! the memory of the process.

mod kit;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{Hooked, keeper, local, spin_until, with_nodes};
use sinew_kernel::{
    Actor, ActorId, Ctx, ExitReason, Flow, JoinError, Kind, Message, Node, NodeId, Payload, Policy,
    SendError, SpawnError, Unsent,
};
use sinew_sched::Runtime;

// E1
#[test]
fn messages_to_nobody_unknown_and_dead_ids_come_back() {
    with_nodes(|node| {
        let actor = node.spawn(keeper().0).unwrap();
        actor.kill();
        actor.join().unwrap();
        let unknown = ActorId::new(node.id(), 0x7fff_fff0);
        for dest in [ActorId::NOBODY, actor.id(), unknown, ActorId::new(node.id(), 0)] {
            let error = node.send(dest, Kind(7), &b"lost"[..]).unwrap_err();
            assert!(matches!(error.why, Unsent::Unknown(id) if id == dest), "{error}");
            assert_eq!((error.item.dest, error.item.kind), (dest, Kind(7)));
            assert_eq!(error.item.payload.bytes(), b"lost");
            assert!(!node.stop(dest) && !node.kill(dest));
        }
        assert_eq!(node.dead_letter_count(), 0, "they were not accepted");
    });
}

// E2
#[test]
fn an_id_of_another_node_never_reaches_an_actor_of_this_one() {
    with_nodes(|node| {
        let (actor, numbers) = keeper();
        let actor = node.spawn(actor).unwrap();
        let foreign = ActorId::new(NodeId(9), actor.id().local());
        let error = node.send(foreign, Kind(7), Payload::value(kit::Work::Number(1))).unwrap_err();
        assert!(matches!(error.why, Unsent::NoConnection(NodeId(9))), "{error}");
        assert!(!node.stop(foreign) && !node.kill(foreign));
        actor.drain();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert!(numbers.lock().unwrap().is_empty());
    });
}

// E3
#[test]
fn a_value_that_is_refused_comes_back_as_it_was_sent() {
    let (node, _clock) = local();
    let full = node.actor().mailbox(1).policy(Policy::Refuse).spawn(keeper().0).unwrap();
    let (work, key, _entered) = kit::wait();
    full.tell(work).unwrap();
    node.run_until_idle();
    full.tell(kit::Work::Number(1)).unwrap();
    let id = full.id();
    let sender = node.actor().spawn_raw((), move |(), _: &Message, ctx: &mut Ctx| {
        let error = ctx.send(id, Kind(42), Payload::value(kit::Work::Number(7))).unwrap_err();
        assert!(matches!(error.why, Unsent::Full), "{error}");
        let message = error.item;
        assert_eq!((message.source, message.dest, message.kind), (ctx.id(), id, Kind(42)));
        assert_eq!(kit::number(message.payload.downcast().unwrap()), 7);
        Flow::Stop
    });
    let sender = sender.unwrap();
    node.send(sender.id(), Kind(1), &b""[..]).unwrap();
    node.run_until_idle();
    assert_eq!(sender.join().unwrap(), ExitReason::Normal);
    key.open();
    node.run_until_idle();
}

// E3
#[test]
fn a_value_that_comes_too_late_comes_back_with_its_kind() {
    let (node, _clock) = local();
    let actor = node.spawn(Hooked::<u64>::new(|_, _| Flow::Continue)).unwrap();
    actor.kill();
    let error = node.send(actor.id(), Kind(42), Payload::value(7_u64)).unwrap_err();
    assert!(matches!(error.why, Unsent::Stopped(ExitReason::Killed)), "{error}");
    assert_eq!(error.item.kind, Kind(42));
    assert_eq!(error.item.payload.downcast::<u64>().unwrap(), 7);
    node.run_until_idle();
}

// E4
#[test]
fn a_value_of_another_type_is_a_raw_message() {
    struct Picky(std::sync::mpsc::Sender<&'static str>);
    impl Actor for Picky {
        type Msg = u64;
        fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
            self.0.send("typed").unwrap();
            Flow::Continue
        }
        fn raw(&mut self, message: Message, _: &mut Ctx<u64>) -> Flow {
            assert!(message.payload.downcast::<u32>().is_ok() || message.kind == Kind(2));
            self.0.send("raw").unwrap();
            Flow::Continue
        }
    }
    let (node, _clock) = local();
    let (seen, kinds) = std::sync::mpsc::channel();
    let actor = node.spawn(Picky(seen)).unwrap();
    node.send(actor.id(), Kind(1), Payload::value(1_u64)).unwrap();
    node.send(actor.id(), Kind(1), Payload::value(1_u32)).unwrap();
    node.send(actor.id(), Kind(2), vec![0; 100_000]).unwrap();
    node.run_until_idle();
    assert_eq!(kinds.try_iter().collect::<Vec<_>>(), ["typed", "raw", "raw"]);
}

// E5
#[test]
fn a_mailbox_for_nothing_is_refused() {
    with_nodes(|node| {
        let error = node.actor().mailbox(0).spawn(keeper().0).unwrap_err();
        assert_eq!(error, SpawnError::NoCapacity);
        assert_eq!(node.actor_count(), 0);
    });
}

// E6
#[test]
fn a_node_has_no_more_actors_than_it_may_and_room_again_when_some_have_ended() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers);
        let node = Node::builder().max_actors(10).runtime(runtime).build().unwrap();
        // Counted when they are there, and no more when they are about to leave.
        let living = Arc::new(AtomicUsize::new(0));
        let storms: Vec<_> = (0..4)
            .map(|_| {
                let (node, living) = (kit::ByRef::node_ref(&node), living.clone());
                node.handle().spawn(move || {
                    for _ in 0..200 {
                        let dies = living.clone();
                        let actor = keeper().0.stopping(move |_, _| {
                            dies.fetch_sub(1, Ordering::SeqCst);
                        });
                        match node.spawn(actor) {
                            Ok(actor) => {
                                let living = living.fetch_add(1, Ordering::SeqCst) + 1;
                                assert!(living <= 10, "{living} actors");
                                actor.stop();
                                if actor.id().local() % 2 == 0 {
                                    actor.join().unwrap();
                                }
                            }
                            Err(SpawnError::TooMany(_)) => (),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        storms.into_iter().for_each(|storm| storm.join().unwrap());
        spin_until(|| node.actor_count() == 0);
        let actors: Vec<_> = (0..10).map(|_| node.spawn(keeper().0).unwrap()).collect();
        let error = node.spawn(keeper().0).unwrap_err();
        assert!(matches!(error, SpawnError::TooMany(10)), "{error}");
        actors[0].kill();
        actors[0].join().unwrap();
        node.spawn(keeper().0).unwrap();
        assert!(matches!(node.spawn(keeper().0).unwrap_err(), SpawnError::TooMany(10)));
        assert_eq!(node.actor_count(), 10);
    }
}

// E6
#[test]
fn an_actor_whose_end_was_told_takes_no_room() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers);
        let node = Node::builder().max_actors(1).runtime(runtime).build().unwrap();
        for n in 0..kit::rounds(3_000) {
            let actor = node.spawn(keeper().0).unwrap_or_else(|error| panic!("round {n}: {error}"));
            if n % 2 == 0 {
                actor.stop()
            } else {
                actor.kill()
            }
            actor.join().unwrap();
        }
    }
}

// E7
#[test]
fn a_child_of_one_that_has_ended_is_refused() {
    let (node, _clock) = local();
    let (sent, spawns) = std::sync::mpsc::channel();
    let parent = Hooked::<u64>::new(|_, _| Flow::Continue)
        .started(|(), _| Flow::Stop)
        .stopping(move |_, ctx| sent.send(ctx.child().spawn(keeper().0).map(drop)).unwrap());
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    assert_eq!(spawns.recv().unwrap(), Err(SpawnError::ParentEnded(parent.id())));
    assert_eq!(node.actor_count(), 0);
}

/// Bytes of memory that this process has.
/// Held by tests that measure the memory of the process, or need much.
static MEMORY: Mutex<()> = Mutex::new(());

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

// E8
#[test]
fn joins_that_time_out_leave_nothing_behind() {
    let _alone = MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.spawn(actor).unwrap();
    let other = actor.clone();
    let waits = node.runtime().spawn(move || other.join().unwrap());
    node.run_until_idle();
    let joined = actor.clone();
    let grown = node.runtime().run(move || {
        let join = |timeout| assert!(matches!(joined.join_timeout(timeout), Err(JoinError::Timeout(_))));
        let joins = |times| (0..times).for_each(|n| join(Duration::from_nanos(n % 2)));
        joins(10_000);
        let before = resident();
        joins(200_000);
        resident().saturating_sub(before)
    });
    // What one would leave behind has 80 bytes at least.
    let grown = grown.unwrap();
    assert!(grown < 200_000 * 40, "{grown} bytes are left of 200,000 joins");
    actor.tell(kit::Work::Number(1)).unwrap();
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), [1]);
    assert!(!waits.is_finished(), "one that has time waits on");
    actor.stop();
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(waits.join().unwrap(), ExitReason::Shutdown);
}

/// Nanoseconds for which this thread has had a processor.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

// E8: the least of some runs, so that nothing but the number of joins matters.
#[test]
fn joins_of_one_actor_that_time_out_at_once_cost_as_much_each_however_many_there_are() {
    let _alone = MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let times_out = |joins: usize| {
        let (node, clock) = local();
        clock.hold(true);
        let actor = node.spawn(keeper().0).unwrap();
        let joins: Vec<_> = (0..joins)
            .map(|_| {
                let actor = actor.clone();
                node.runtime().spawn(move || actor.join_timeout(Duration::from_secs(1)).unwrap_err())
            })
            .collect();
        node.run_until_idle();
        let before = cpu_time();
        clock.advance(Duration::from_secs(2));
        node.run_until_idle();
        let took = cpu_time() - before;
        assert_eq!(joins.iter().filter(|join| join.is_finished()).count(), joins.len());
        took
    };
    let (few, many) = (1_000, 8_000);
    let least = |joins| (0..3).map(|_| times_out(joins)).min().unwrap();
    let (each_of_few, each_of_many) = (least(few) / few as u64, least(many) / many as u64);
    assert!(
        each_of_many < 4 * each_of_few + 10_000, // the kernel counts in steps, which may be longer than few joins take
        "{each_of_few} ns each, and {each_of_many} ns when there are more"
    );
}

// E10
#[test]
fn nobody_but_the_system_sends_what_the_system_tells() {
    let (node, _clock) = local();
    let raw = node.actor().spawn_raw((), |(), _, _| panic!("nothing is for it")).unwrap();
    let to = raw.id();
    // All that have a name, some that have none, and both ends of the range.
    let unnamed = (0xFF00_0000..=0xFF00_0100).chain([0xFFFF_FFFF]).map(Kind);
    for kind in Kind::NAMED.iter().copied().chain(unnamed) {
        let refused = |error: SendError<Message>| {
            assert!(matches!(error.why, Unsent::SystemKind(refused) if refused == kind), "{error}");
            assert_eq!(error.item.payload.bytes(), [0; 16]);
        };
        let message = || Message::new(to, kind, Payload::copy(&[0; 16]));
        refused(node.send(to, kind, &[0; 16][..]).unwrap_err());
        refused(raw.tell(message()).unwrap_err());
        refused(raw.try_tell(message()).unwrap_err());
        refused(raw.tell_timeout(message(), Duration::ZERO).unwrap_err());
    }
    let forges = node.actor().spawn_raw((), move |(), message: &Message, ctx: &mut Ctx| {
        for kind in [Kind::CHILD_EXIT, Kind::EXIT, Kind::NS_REPLY, Kind::CAPS_REPLY, Kind(0xFF00_0020)] {
            ctx.send(to, kind, &[0; 16][..]).unwrap_err();
            let forged = Message::new(to, kind, Payload::copy(message.payload.bytes()));
            ctx.forward(to, forged).unwrap_err();
        }
        Flow::Stop
    });
    node.send(forges.unwrap().id(), Kind(1), Payload::empty()).unwrap();
    node.send(to, Kind(0xFEFF_FFFF), Payload::empty()).unwrap();
    assert_eq!(node.inspect(to).unwrap().queued, 1, "the last kind that is not the system's");
    raw.kill();
    node.run_until_idle();
    assert_eq!(node.actor_count(), 0);
}
