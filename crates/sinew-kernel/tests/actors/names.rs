//! Names, paths and mounts.

use std::sync::mpsc;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    ActorId, ActorRef, Flow, Kind, Lifecycle, LookupError, Message, NameError, Node, NodeId, NodeRef,
    Process, RegisterError, Resolved, SpawnError, Unsent,
};
use sinew_sched::Runtime;

const HELLO: Kind = Kind(7);

/// A raw behaviour that does nothing.
fn idle(node: &Node) -> ActorRef<Message> {
    node.actor().spawn_raw((), |_, _, _| Flow::Continue).unwrap()
}

/// The source, the kind and the bytes of a message.
type Seen = (ActorId, Kind, Vec<u8>);

/// A raw behaviour that hands on what it gets.
fn tap(node: &Node) -> (ActorRef<Message>, mpsc::Receiver<Seen>) {
    let (sender, receiver) = mpsc::channel();
    let tap = node.actor().spawn_raw(sender, |sender, message, _| {
        sender.send((message.source, message.kind, message.payload.bytes().to_vec())).unwrap();
        Flow::Continue
    });
    (tap.unwrap(), receiver)
}

/// Runs `act` as an actor.
fn as_actor<T: Send + 'static>(
    node: &Node,
    act: impl FnOnce(&sinew_kernel::Ctx<'_, ()>) -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let actor = node.actor().spawn_process::<(), _>(move |process| {
        sender.send(act(process.ctx())).unwrap();
        Flow::Stop
    });
    actor.unwrap().join().unwrap();
    receiver.recv().unwrap()
}

/// All names and paths that actors have: those of the node's services are left out.
fn registered(node: NodeRef) -> Vec<(Box<str>, ActorId)> {
    let services = [node.lookup("ns"), node.lookup(&format!("/node/{}/caps", node.identity()))];
    let mut all = node.list("");
    all.retain(|(_, holder)| !services.contains(&Some(*holder)));
    all
}

fn received<T>(receiver: &mpsc::Receiver<T>) -> T {
    receiver.recv_timeout(Duration::from_secs(60)).expect("it was sent")
}

// N1
#[test]
fn a_name_leads_to_the_actor_that_has_it() {
    let node = Node::new();
    let actor = idle(&node);
    node.register("counter", actor.id()).unwrap();
    assert_eq!(node.lookup("counter"), Some(actor.id()));
    assert_eq!(node.lookup("other"), None);
    assert_eq!(node.lookup(""), None);
    assert_eq!(node.names_of(actor.id()), ["counter".into()]);
}

// N2
#[test]
fn a_second_actor_is_refused_a_name_and_the_first_keeps_it() {
    let node = Node::new();
    let (first, second) = (idle(&node), idle(&node));
    node.register("counter", first.id()).unwrap();
    let taken = RegisterError::Taken { name: "counter".into(), holder: first.id() };
    assert_eq!(node.register("counter", second.id()), Err(taken.clone()));
    assert_eq!(node.register("counter", first.id()), Err(taken), "not even twice");
    let spawned = node.actor().name("counter").spawn_raw((), |_, _, _| Flow::Continue);
    assert_eq!(spawned.unwrap_err(), SpawnError::NameTaken("counter".into(), first.id()));
    assert_eq!(node.lookup("counter"), Some(first.id()));
    assert_eq!(node.names_of(second.id()), []);
}

// N3
#[test]
fn a_name_has_1_to_63_bytes_and_no_nul() {
    let node = Node::new();
    let actor = idle(&node);
    let long = "n".repeat(64);
    let bad = |name: &str| match node.register(name, actor.id()) {
        Err(RegisterError::Bad(error)) => error,
        other => panic!("{name:?}: {other:?}"),
    };
    assert_eq!(bad(""), NameError::Empty);
    assert_eq!(bad("a\0b"), NameError::Nul("a\0b".into()));
    assert!(matches!(bad(&long), NameError::TooLong { length: 64, most: 63, .. }));
    assert!(matches!(bad("/a//b"), NameError::EmptyComponent(_)));
    assert!(matches!(bad("/"), NameError::EmptyComponent(_)));
    node.register(&long[..63], actor.id()).unwrap();
    for name in ["", "a\0b", &long] {
        let spawned = node.actor().name(name).spawn_raw((), |_, _, _| Flow::Continue);
        assert!(matches!(spawned, Err(SpawnError::BadName(_))), "{name:?}");
    }
    assert_eq!(node.names_of(actor.id()), [long[..63].into()]);
}

#[test]
fn only_actors_that_are_there_get_names() {
    let node = Node::new();
    let ended = idle(&node);
    ended.kill();
    ended.join().unwrap();
    // Its end is told when its id is still known; it is unknown soon after.
    let unknown = ActorId::new(node.id(), u32::MAX);
    let foreign = ActorId::new(NodeId(2), ended.id().local());
    for actor in [ended.id(), unknown, foreign, ActorId::NOBODY] {
        assert_eq!(node.register("name", actor), Err(RegisterError::NoActor(actor)));
        assert_eq!(node.mount("/name", actor), Err(RegisterError::NoActor(actor)));
    }
    assert_eq!(node.lookup("name"), None);
}

/// Registers an actor when it is dropped, and says how that went.
struct Registers(NodeRef, ActorId, mpsc::Sender<[Result<(), RegisterError>; 2]>);

impl Drop for Registers {
    fn drop(&mut self) {
        let Registers(node, actor, told) = self;
        told.send([node.register("late", *actor), node.mount("/late", *actor)]).unwrap();
    }
}

#[test]
fn a_name_that_an_actor_gets_while_it_ends_is_free_when_its_end_is_told() {
    let node = Node::new();
    let (open, mut gate) = oneshot::channel();
    let actor = node.actor().spawn_process::<Registers, _>(move |_| {
        gate.recv().unwrap();
        Flow::Stop
    });
    let actor = actor.unwrap();
    let (sender, told) = mpsc::channel();
    // What is left in its mailbox is dropped when nothing gets into it any more, and before its names are freed.
    actor.tell(Registers(*node, actor.id(), sender)).unwrap();
    open.send(()).unwrap();
    assert_eq!(received(&told), [Ok(()), Ok(())]);
    actor.join().unwrap();
    assert_eq!((registered(*node), node.mounts()), (vec![], vec![]));
}

// L21
#[test]
fn an_actor_has_many_names_and_all_are_free_when_its_end_is_told() {
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        for _ in 0..200 {
            let actor = node.actor().name("first").spawn_raw((), |_, _, _| Flow::Continue).unwrap();
            node.register("second", actor.id()).unwrap();
            node.register("/a/path", actor.id()).unwrap();
            node.mount("/mounted", actor.id()).unwrap();
            assert_eq!(node.names_of(actor.id()).len(), 3);
            actor.stop();
            actor.join().unwrap();
            assert_eq!(registered(*node), []);
            assert_eq!(node.mounts(), []);
            assert_eq!(node.lookup("/mounted"), None);
        }
    }
}

// N4
#[test]
fn no_name_outlives_its_actor_whoever_registers_it_meanwhile() {
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let here = *node;
        node.run(move || {
            for round in 0..500 {
                let actor = here.actor().spawn_raw((), |_, _, _| Flow::Continue).unwrap();
                let id = actor.id();
                let registers =
                    sinew_sched::spawn(move || here.register(&format!("name{round}"), id).is_ok());
                let grouped = sinew_sched::spawn(move || here.mount(&format!("/{round}"), id).is_ok());
                actor.kill();
                let _ = (registers.join().unwrap(), grouped.join().unwrap());
                actor.join().unwrap();
                assert_eq!((registered(here), here.mounts()), (vec![], vec![]));
            }
        })
        .unwrap();
    }
}

// N5
#[test]
fn the_owner_and_the_node_unregister_a_name_and_nobody_else_does() {
    let node = Node::new();
    let owner = idle(&node);
    node.register("name", owner.id()).unwrap();
    node.register("/path", owner.id()).unwrap();
    node.mount("/mount", owner.id()).unwrap();
    let stranger =
        as_actor(&node, |ctx| [ctx.unregister("name"), ctx.unregister("/path"), ctx.unmount("/mount")]);
    assert_eq!(stranger, [false; 3]);
    assert_eq!(node.lookup("name"), Some(owner.id()));

    assert_eq!(node.unregister("name"), Some(owner.id()));
    assert_eq!(node.unregister("name"), None);
    assert_eq!(node.unregister("/path"), Some(owner.id()));
    assert_eq!(node.unmount("/mount"), Some(owner.id()));
    assert_eq!(registered(*node), []);

    let of_own = as_actor(&node, |ctx| {
        ctx.register("mine").unwrap();
        ctx.register("/mine").unwrap();
        ctx.mount("/my/mount").unwrap();
        [ctx.unregister("mine"), ctx.unregister("/mine"), ctx.unmount("/my/mount"), ctx.unregister("mine")]
    });
    assert_eq!(of_own, [true, true, true, false]);
}

#[test]
fn the_name_that_is_told_of_an_end_is_one_that_the_actor_had() {
    let node = Node::new();
    let events = node.lifecycle();
    let ended_as = |actor: ActorRef<Message>| {
        actor.kill();
        actor.join().unwrap();
        loop {
            if let Lifecycle::Ended { name, .. } = events.recv().unwrap() {
                return name;
            }
        }
    };
    let actor = node.actor().name("old").spawn_raw((), |_, _, _| Flow::Continue).unwrap();
    node.register("new", actor.id()).unwrap();
    node.unregister("old");
    assert_eq!(ended_as(actor), Some("new".into()));

    let actor = node.actor().name("old").spawn_raw((), |_, _, _| Flow::Continue).unwrap();
    node.unregister("old");
    assert_eq!(ended_as(actor), None);
}

// N6
#[test]
fn a_message_is_sent_by_name_and_comes_back_if_there_is_nobody() {
    let node = Node::new();
    let (tap, received_by_tap) = tap(&node);
    node.register("tap", tap.id()).unwrap();
    node.register("/sys/tap", tap.id()).unwrap();
    node.send_named("tap", HELLO, &b"one"[..]).unwrap();
    assert_eq!(received(&received_by_tap), (ActorId::NOBODY, HELLO, b"one".to_vec()));
    let sender = as_actor(&node, |ctx| {
        ctx.send_named("/sys/tap", HELLO, &b"two"[..]).unwrap();
        ctx.id()
    });
    assert_eq!(received(&received_by_tap), (sender, HELLO, b"two".to_vec()));

    let error = node.send_named("nobody", HELLO, &b"three"[..]).unwrap_err();
    assert!(matches!(&error.why, Unsent::UnknownName(name) if &**name == "nobody"), "{error}");
    assert_eq!(error.item.payload.bytes(), b"three");
}

/// An actor that is called so, and ends with its first message.
fn receives_one(node: &Node) -> ActorRef<u32> {
    let actor = node.actor().name("actor").spawn_process(|process: &mut Process<u32>| {
        let _ = process.recv();
        Flow::Stop
    });
    actor.unwrap()
}

#[test]
fn a_reference_is_found_by_name_or_id_if_the_type_is_the_actors() {
    let node = Node::new();
    let actor = receives_one(&node);
    assert_eq!(node.actor_ref::<u32>(actor.id()).unwrap().id(), actor.id());
    node.lookup_as::<u32>("actor").unwrap().tell(1).unwrap();
    actor.join().unwrap();
}

#[test]
fn a_reference_that_is_not_had_says_whether_there_is_nobody_or_the_type_is_another() {
    let node = Node::new();
    let actor = receives_one(&node);
    let id = actor.id();
    let by_name = node.lookup_as::<u64>("actor").unwrap_err();
    let other_type = |name| LookupError::OtherType { name, actor: id, wanted: "u64" };
    assert_eq!(by_name, other_type(Some("actor".into())));
    assert_eq!(node.actor_ref::<u64>(id).unwrap_err(), other_type(None));
    let text = format!(
        "actor {id}, called \"actor\", takes messages of another type than u64: \
         ask for the type that it takes, or send to its id"
    );
    assert_eq!(by_name.to_string(), text);

    let nobody = |name: &str| LookupError::UnknownName(name.into());
    assert_eq!(node.lookup_as::<u32>("nobody").unwrap_err(), nobody("nobody"));
    actor.tell(1).unwrap();
    actor.join().unwrap();
    assert_eq!(node.lookup_as::<u32>("actor").unwrap_err(), nobody("actor"));
    assert_eq!(node.lookup_as::<u64>("actor").unwrap_err(), nobody("actor"));
    assert_eq!(node.actor_ref::<u32>(id).unwrap_err(), LookupError::NoActor(id));
}

// N7
#[test]
fn a_path_leads_to_the_longest_mount_before_who_has_registered_it() {
    let node = Node::new();
    let [exact, outer, inner] = [idle(&node), idle(&node), idle(&node)].map(|actor| actor.id());
    node.register("/node/alpha/log", exact).unwrap();
    assert_eq!(node.resolve("/node/alpha/log"), Some(Resolved::Exact(exact)));

    node.mount("/node", outer).unwrap();
    node.mount("/node/alpha", inner).unwrap();
    let at = |path| node.resolve(path);
    assert_eq!(at("/node/alpha/log"), Some(Resolved::Mount { target: inner, rest: "/log" }));
    assert_eq!(at("/node/alpha"), Some(Resolved::Mount { target: inner, rest: "" }));
    assert_eq!(at("/node/alphabet"), Some(Resolved::Mount { target: outer, rest: "/alphabet" }));
    assert_eq!(at("/nodes"), None, "not a component of its own");
    assert_eq!(node.lookup("/node/alpha/log"), Some(inner));
    assert_eq!(node.mounts(), [("/node".into(), outer), ("/node/alpha".into(), inner)]);

    let taken = RegisterError::Taken { name: "/node".into(), holder: outer };
    assert_eq!(node.mount("/node", inner), Err(taken));
    assert!(matches!(node.mount("node", inner), Err(RegisterError::Bad(NameError::NotAPath(_)))));
    node.unmount("/node/alpha");
    node.unmount("/node");
    assert_eq!(node.lookup("/node/alpha/log"), Some(exact), "what was hidden is there again");
}

#[test]
fn a_list_has_what_is_at_and_below_its_prefix() {
    let node = Node::new();
    let actor = idle(&node).id();
    for name in ["/a", "/a/b", "/ab", "/c/d", "ace", "bee", "sea"] {
        node.register(name, actor).unwrap();
    }
    let list = |prefix| {
        let listed = node.list(prefix).into_iter().filter(|(_, holder)| *holder == actor);
        listed.map(|(name, _)| name.into_string()).collect::<Vec<_>>()
    };
    assert_eq!(list("/a"), ["/a", "/a/b"]);
    assert_eq!(list("/a/"), ["/a", "/a/b"]);
    assert_eq!(list("/"), ["/a", "/a/b", "/ab", "/c/d"]);
    assert_eq!(list("a"), ["ace"]);
    assert_eq!(list(""), ["ace", "bee", "sea", "/a", "/a/b", "/ab", "/c/d"]);
    assert_eq!(list("/none"), [""; 0]);
}
