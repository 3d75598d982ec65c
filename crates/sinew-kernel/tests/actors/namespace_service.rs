//! The services of a node: the namespace, called `ns`, and the capabilities (`docs/semantics.md`, K).

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use sinew_core::Path;
use sinew_core::payload::{
    NsList, NsLookup, NsMount, NsRegister, NsReply, NsStatus, NsUmount, SystemPayload,
};
use sinew_kernel::{
    ActorId, ActorRef, Flow, Identity, Kind, LookupError, Message, Node, NodeRef, Payload, Policy, Process,
    Received, RegisterError, SpawnError, Unsent,
};
use sinew_sched::Runtime;

use crate::kit::{self, Work, block, keeper, local, random, with_nodes};

const NONE: ActorId = ActorId::NOBODY;

fn alpha() -> Node {
    let runtime = Runtime::builder().workers(2);
    Node::builder().identity("alpha").id(3).runtime(runtime).build().unwrap()
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

/// Runs `act` as a process.
fn as_actor<T: Send + 'static>(
    node: NodeRef,
    act: impl FnOnce(&mut Process<'_, ()>) -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let actor = node.actor().spawn_process(move |process| {
        sender.send(act(process)).unwrap();
        Flow::Stop
    });
    let reason = actor.unwrap().join().unwrap();
    receiver.try_recv().unwrap_or_else(|_| panic!("{reason}"))
}

/// The next message, which is raw.
fn next(process: &mut Process<'_, ()>) -> Message {
    match process.recv_timeout(Duration::from_secs(60)) {
        Ok(Received::Raw(message)) => message,
        other => panic!("no message: {other:?}"),
    }
}

/// What `ns` answers to these bytes.
fn answer(process: &mut Process<'_, ()>, kind: Kind, bytes: &[u8]) -> NsReply {
    process.ctx().send_named("ns", kind, bytes).unwrap();
    let message = next(process);
    let ns = process.ctx().node().lookup("ns");
    assert_eq!((message.kind, Some(message.source)), (Kind::NS_REPLY, ns));
    assert_eq!(message.dest, process.ctx().id());
    NsReply::decode(message.payload.bytes()).unwrap()
}

/// What `ns` answers to this request: the status, and who has the path.
fn ask<P: SystemPayload>(process: &mut Process<'_, ()>, request: &P) -> (NsStatus, ActorId) {
    let reply = answer(process, P::KIND, &request.encode());
    assert_eq!(reply.data(), b"");
    (reply.status, reply.actor)
}

/// All names, paths and mounts.
fn everything(node: NodeRef) -> [Vec<(Box<str>, ActorId)>; 2] {
    [node.list(""), node.mounts()]
}

fn idle(node: NodeRef) -> ActorRef<Message> {
    node.actor().spawn_raw((), |(), _, _| Flow::Continue).unwrap()
}

// K1
#[test]
fn services_are_found_by_their_names_from_the_start() {
    let node = alpha();
    let (ns, caps) = (node.lookup("ns").unwrap(), node.lookup("/node/alpha/caps").unwrap());
    assert_eq!(node.names_of(ns), ["ns".into(), "/node/alpha".into(), "/sys/ns".into()]);
    assert_eq!(node.names_of(caps), ["/node/alpha/caps".into()]);
    assert!(ns != caps && ns.node() == node.id() && caps.node() == node.id());
    assert_eq!(node.list("/node"), [("/node/alpha".into(), ns), ("/node/alpha/caps".into(), caps)]);
}

// K2
#[test]
fn a_request_to_the_namespace_is_answered_with_its_status() {
    let node = alpha();
    as_actor(*node, |process| {
        let me = process.ctx().id();
        let lookup = |text: &str| NsLookup { path: path(text) };
        let register = NsRegister { path: path("/demo/me"), actor: me };
        assert_eq!(ask(process, &lookup("/demo/me")), (NsStatus::NotFound, NONE));
        assert_eq!(ask(process, &register), (NsStatus::Ok, NONE));
        assert_eq!(ask(process, &lookup("/demo/me")), (NsStatus::Ok, me));
        assert_eq!(process.ctx().node().lookup("/demo/me"), Some(me));
        assert_eq!(ask(process, &register), (NsStatus::Exists, NONE));

        let listed = answer(process, Kind::NS_LIST, &NsList::new("/demo").unwrap().encode());
        let line = format!("/demo/me={}\n", me.as_u64());
        assert_eq!((listed.status, listed.actor, listed.data()), (NsStatus::Ok, NONE, line.as_bytes()));
        let all = answer(process, Kind::NS_LIST, &NsList::new("").unwrap().encode());
        let all = String::from_utf8(all.data().to_vec()).unwrap();
        assert!(all.starts_with("ns=") && all.ends_with("\n") && all.contains(&line), "{all}");

        let mount = NsMount { point: path("/mnt"), target: me };
        assert_eq!(ask(process, &mount), (NsStatus::Ok, NONE));
        assert_eq!(ask(process, &mount), (NsStatus::Exists, NONE));
        assert_eq!(ask(process, &lookup("/mnt/far/below")), (NsStatus::Ok, me));
        let unmount = NsUmount { point: path("/mnt") };
        assert_eq!(ask(process, &unmount), (NsStatus::Ok, NONE));
        assert_eq!(ask(process, &unmount), (NsStatus::NotFound, NONE));
        assert_eq!(ask(process, &lookup("/mnt/far/below")), (NsStatus::NotFound, NONE));
    });
    assert_eq!((node.list("/demo"), node.mounts()), (vec![], vec![]), "they went with their actor");
}

// K2
#[test]
fn the_answer_to_a_request_is_in_the_layout_that_guests_know() {
    let node = alpha();
    let ns = node.lookup("ns").unwrap();
    as_actor(*node, move |process| {
        let mut request = [0; 128];
        request[..7].copy_from_slice(b"/sys/ns");
        process.ctx().send(ns, Kind(0xFF00_0015), &request[..]).unwrap();
        let answer = next(process);
        assert_eq!((answer.source, answer.kind), (ns, Kind(0xFF00_0019)));
        let mut expected = vec![0; 1048];
        expected[8..16].copy_from_slice(&ns.as_u64().to_le_bytes());
        assert_eq!(answer.payload.bytes(), expected);
    });
}

// K3
#[test]
fn a_malformed_request_is_answered_with_an_error_and_changes_nothing() {
    let node = alpha();
    let before = everything(*node);
    let (here, unchanged) = (*node, before.clone());
    as_actor(*node, move |process| {
        let me = process.ctx().id();
        let requests = [
            NsRegister { path: path("/a"), actor: me }.encode(),
            NsLookup { path: path("/sys/ns") }.encode(),
            NsList::new("/sys").unwrap().encode(),
            NsMount { point: path("/a"), target: me }.encode(),
            NsUmount { point: path("/a") }.encode(),
        ];
        for (kind, good) in (0xFF00_0014..).map(Kind).zip(&requests) {
            let unterminated = [b'/'].into_iter().chain([b'a'; 127]).chain(good[128..].iter().copied());
            let with = |text: &[u8]| {
                let mut bytes = good.clone();
                bytes[..128].fill(0);
                bytes[..text.len()].copy_from_slice(text);
                bytes
            };
            let mut malformed = vec![Vec::new(), good[1..].to_vec(), [&good[..], &[0]].concat()];
            malformed.extend([unterminated.collect(), with(b"/\xFF"), with(b"/a//b"), with(b"no/path")]);
            malformed.push(vec![255; 100_000]);
            for bytes in malformed {
                let reply = answer(process, kind, &bytes);
                assert_eq!(reply, NsReply::new(NsStatus::Invalid, NONE), "{kind}: {bytes:?}");
            }
            process.ctx().send_named("ns", kind, Payload::value(7)).unwrap();
            let reply = NsReply::decode(next(process).payload.bytes()).unwrap();
            assert_eq!(reply.status, NsStatus::Invalid, "a value is not bytes");
            assert_eq!(everything(here), unchanged, "{kind}");
        }
        let mut seed = kit::SEED;
        for (kind, good) in (0xFF00_0014..).map(Kind).zip(&requests) {
            for _ in 0..kit::rounds(1_000) {
                let mut bytes = good.clone();
                for _ in 0..random(&mut seed) % 4 {
                    let at = random(&mut seed) as usize % bytes.len();
                    bytes[at] = random(&mut seed) as u8;
                }
                answer(process, kind, &bytes); // whatever it is
            }
        }
    });
    assert_eq!(everything(*node), before);
}

// K4
#[test]
fn an_actor_registers_itself_and_undoes_its_own_mounts_alone() {
    let node = alpha();
    let other = idle(*node).id();
    node.mount("/others", other).unwrap();
    let before = everything(*node);
    let here = *node;
    as_actor(*node, move |process| {
        let invalid = (NsStatus::Invalid, NONE);
        let ns = here.lookup("ns").unwrap();
        for actor in [other, ns, NONE, ActorId::from_u64(u64::MAX)] {
            assert_eq!(ask(process, &NsRegister { path: path("/theirs"), actor }), invalid);
            assert_eq!(ask(process, &NsMount { point: path("/theirs"), target: actor }), invalid);
        }
        assert_eq!(ask(process, &NsUmount { point: path("/others") }), invalid);
        assert_eq!(ask(process, &NsUmount { point: path("/others/below") }), (NsStatus::NotFound, NONE));
        assert_eq!(everything(here), before);
    });
}

// K5
#[test]
fn nobody_asks_in_the_name_of_another() {
    let node = alpha();
    let victim = node.actor().spawn_raw((), |(), message, _| panic!("it was sent {message:?}")).unwrap();
    let (ns, caps) = (node.lookup("ns").unwrap(), node.lookup("/node/alpha/caps").unwrap());
    let before = everything(*node);
    let id = victim.id();
    as_actor(*node, move |process| {
        let me = process.ctx().id();
        let register = |actor| Payload::from(NsRegister { path: path("/forged"), actor }.encode());
        for source in [id, NONE] {
            let forged = Message { source, dest: ns, kind: Kind::NS_REGISTER, payload: register(id) };
            let error = process.ctx().forward(ns, forged).unwrap_err();
            assert!(matches!(error.why, Unsent::SystemKind(Kind::NS_REGISTER)), "{error}");
            let forged = Message { source, dest: caps, kind: Kind::CAPS_REQUEST, payload: Payload::empty() };
            process.ctx().forward(caps, forged).unwrap_err();
        }
        let own = Message { source: me, dest: NONE, kind: Kind::NS_REGISTER, payload: register(me) };
        process.ctx().forward(ns, own).unwrap();
        assert_eq!(next(process).kind, Kind::NS_REPLY, "its own request it may");
    });
    // From outside nobody asks: nothing is done, and nobody is answered.
    node.send(ns, Kind::NS_REGISTER, NsRegister { path: path("/outside"), actor: id }.encode()).unwrap();
    node.send(ns, Kind::NS_MOUNT, NsMount { point: path("/outside"), target: NONE }.encode()).unwrap();
    node.send(ns, Kind::NS_LOOKUP, &b"malformed"[..]).unwrap();
    node.send(caps, Kind::CAPS_REQUEST, &b""[..]).unwrap();
    assert_eq!(everything(*node), before);
    victim.drain();
    assert!(!victim.join().unwrap().is_abnormal());
    assert_eq!(node.dead_letter_count(), 0);
}

// K6
#[test]
fn a_full_mailbox_does_not_stop_answers() {
    let (node, _clock) = local();
    let (sender, kinds) = mpsc::channel();
    let options = node.actor().mailbox(1).policy(Policy::Refuse);
    let asks = options.spawn_raw(sender, |sender, message, ctx| {
        sender.send(message.kind).unwrap();
        if message.kind == Kind(1) {
            ctx.send(ctx.id(), Kind(2), &b""[..]).unwrap();
            assert!(matches!(ctx.send(ctx.id(), Kind(2), &b""[..]).unwrap_err().why, Unsent::Full));
            ctx.send_named("ns", Kind::NS_LIST, vec![0; 128]).unwrap();
            ctx.send_named("/sys/ns", Kind::NS_LIST, vec![0; 128]).unwrap();
        }
        Flow::Continue
    });
    node.send(asks.unwrap().id(), Kind(1), &b""[..]).unwrap();
    node.run_until_idle();
    assert_eq!(kinds.try_iter().collect::<Vec<_>>(), [Kind(1), Kind::NS_REPLY, Kind::NS_REPLY, Kind(2)]);
}

// K7
#[test]
fn a_request_of_an_actor_that_handles_no_answers_comes_back_and_is_not_carried_out() {
    let node = alpha();
    as_actor(*node, |process| {
        let me = process.ctx().id();
        let register =
            |round| NsRegister { path: Path::new(&format!("/{round}")).unwrap(), actor: me }.encode();
        for round in 0..3 {
            for n in 0..64 {
                process.ctx().send_named("ns", Kind::NS_REGISTER, register(round * 100 + n)).unwrap();
            }
            let error = process.ctx().send_named("ns", Kind::NS_REGISTER, register(99)).unwrap_err();
            assert!(matches!(error.why, Unsent::TooManyAnswers(64)), "{error}");
            assert_eq!(error.item.payload.bytes(), register(99));
            assert_eq!(process.ctx().node().lookup("/99"), None);
            for _ in 0..64 {
                let reply = NsReply::decode(next(process).payload.bytes()).unwrap();
                assert_eq!(reply.status, NsStatus::Ok);
            }
        }
    });
}

// K8
#[test]
fn services_are_no_actors_and_nobody_stops_them() {
    let node = Node::builder().identity("alpha").max_actors(1).build().unwrap();
    assert_eq!(node.actor_count(), 0);
    let services = ["ns", "/node/alpha/caps"].map(|name| node.lookup(name).unwrap());
    for service in services {
        assert!(!node.stop(service) && !node.cancel(service) && !node.kill(service));
        assert!(node.inspect(service).is_none());
        let other_type = node.actor_ref::<Message>(service).unwrap_err();
        assert!(matches!(other_type, LookupError::OtherType { actor, .. } if actor == service));
        assert_eq!(node.register("mine", service), Err(RegisterError::NoActor(service)));
    }
    let here = *node;
    as_actor(*node, move |process| {
        let full = here.actor().spawn_raw((), |(), _, _| Flow::Continue).unwrap_err();
        assert_eq!(full, SpawnError::TooMany(1));
        for service in services {
            assert!(process.ctx().link(service).is_err());
            let error = process.ctx().send(service, Kind(1), &b"hello"[..]).unwrap_err();
            let (wanted, kind) = (service, Kind(1));
            assert!(
                matches!(error.why, Unsent::NotARequest { service, kind: of } if (service, of) == (wanted, kind)),
                "{error}"
            );
            assert_eq!(error.item.payload.bytes(), b"hello");
        }
        let lookup = NsLookup { path: path("/sys/ns") };
        assert_eq!(ask(process, &lookup), (NsStatus::Ok, services[0]));
    });
}

// K8
#[test]
fn services_answer_while_every_other_actor_is_blocked() {
    with_nodes(|node| {
        let actors: Vec<_> = (0..20).map(|_| node.spawn(keeper().0).unwrap()).collect();
        let keys: Vec<_> = actors.iter().map(block).collect();
        let ns = node.lookup("ns").unwrap();
        as_actor(kit::ByRef::node_ref(node), move |process| {
            assert_eq!(ask(process, &NsLookup { path: path("/sys/ns") }), (NsStatus::Ok, ns));
        });
        drop(keys);
        for actor in actors {
            actor.tell(Work::Number(1)).unwrap();
            actor.drain();
            actor.join().unwrap();
        }
    });
}

// K9
#[test]
fn the_names_of_services_are_neither_taken_nor_hidden() {
    let node = alpha();
    let (ns, caps) = (node.lookup("ns").unwrap(), node.lookup("/node/alpha/caps").unwrap());
    let names = [("ns", ns), ("/sys/ns", ns), ("/node/alpha", ns), ("/node/alpha/caps", caps)];
    let other = idle(*node).id();
    for (name, holder) in names {
        assert_eq!(node.unregister(name), None);
        let taken = RegisterError::Taken { name: name.into(), holder };
        assert_eq!(node.register(name, other), Err(taken));
    }
    for point in ["/sys", "/sys/ns", "/node", "/node/alpha", "/node/alpha/caps"] {
        node.mount(point, other).unwrap();
    }
    for (name, holder) in names {
        assert_eq!(node.lookup(name), Some(holder), "{name}");
    }
    assert_eq!(node.lookup("/sys/other"), Some(other));
    assert_eq!(node.lookup("/node/alpha/other"), Some(other));
}

// K10
#[test]
fn a_list_that_is_too_long_for_an_answer_has_its_first_lines_and_says_so() {
    let node = alpha();
    let holder = idle(*node).id();
    let lines = (0..50).map(|n| {
        let path = format!("/long/{n:02}{}", "x".repeat(20));
        node.register(&path, holder).unwrap();
        format!("{path}={}\n", holder.as_u64())
    });
    let lines: Vec<String> = lines.collect();
    let fit = NsReply::MAX_DATA / lines[0].len();
    as_actor(*node, move |process| {
        let reply = answer(process, Kind::NS_LIST, &NsList::new("/long").unwrap().encode());
        assert_eq!(reply.status, NsStatus::Full);
        assert_eq!(String::from_utf8(reply.data().to_vec()).unwrap(), lines[..fit].concat());
    });
}

// K11
#[test]
fn a_path_below_the_identity_of_this_node_leads_to_the_name_and_below_another_nowhere() {
    let node = alpha();
    let counter = node.actor().name("counter").spawn_raw((), |(), _, _| Flow::Continue).unwrap().id();
    assert_eq!(node.lookup("/node/alpha/counter"), Some(counter));
    assert_eq!(node.lookup("/node/alpha/ns"), node.lookup("ns"));
    node.send_named("/node/alpha/counter", Kind(1), &b""[..]).unwrap();
    let unknown = ["/node/beta/counter", "/node/beta", "/node/alphabet/counter", "/node/alpha/none", "/node"];
    for name in unknown {
        assert_eq!(node.lookup(name), None, "{name}");
        let error = node.send_named(name, Kind(1), &b""[..]).unwrap_err();
        assert!(matches!(&error.why, Unsent::UnknownName(unknown) if &**unknown == name), "{error}");
        assert_eq!(node.lookup_as::<Message>(name).unwrap_err(), LookupError::UnknownName(name.into()));
    }
    as_actor(*node, move |process| {
        let lookup = |text: &str| NsLookup { path: path(text) };
        assert_eq!(ask(process, &lookup("/node/alpha/counter")), (NsStatus::Ok, counter));
        for name in unknown {
            assert_eq!(ask(process, &lookup(name)), (NsStatus::NotFound, NONE), "{name}");
        }
    });
    // What is registered at the path itself goes first, and what is no path leads nowhere.
    let other = idle(*node).id();
    node.register("/node/alpha/counter", other).unwrap();
    assert_eq!(node.lookup("/node/alpha/counter"), Some(other));
    node.register("a//b", other).unwrap();
    assert_eq!(node.lookup("/node/alpha/a//b"), None);
}

// K12
#[test]
fn a_node_says_what_it_can_do_and_what_it_has() {
    for (node, max_actors) in [
        (Node::builder().identity("alpha").id(3).max_actors(7).build().unwrap(), 7),
        (Node::builder().identity("beta").id(4).build().unwrap(), 0xFFFF_FFEF_u32),
    ] {
        let idle = [idle(*node), idle(*node)];
        let expected = format!(
            "platform={}\nidentity={}\nnode_id={}\nwasm=false\ntls=false\nhttp=false\nmax_actors={max_actors}\n\
             actor_count={}\ntransports=0\n",
            std::env::consts::OS,
            node.identity(),
            node.id(),
            idle.len() + 1, // and the one that asks
        );
        let caps = node.lookup(&format!("/node/{}/caps", node.identity())).unwrap();
        as_actor(*node, move |process| {
            process.ctx().send(caps, Kind::CAPS_REQUEST, &b"whatever"[..]).unwrap();
            let answer = next(process);
            assert_eq!((answer.kind, answer.source), (Kind::CAPS_REPLY, caps));
            assert_eq!(String::from_utf8(answer.payload.bytes().to_vec()).unwrap(), expected);
            // Each service has its own requests.
            let error = process.ctx().send_named("ns", Kind::CAPS_REQUEST, &b""[..]).unwrap_err();
            assert!(matches!(error.why, Unsent::SystemKind(Kind::CAPS_REQUEST)), "{error}");
            let error = process.ctx().send(caps, Kind::NS_LIST, vec![0; 128]).unwrap_err();
            assert!(matches!(error.why, Unsent::SystemKind(Kind::NS_LIST)), "{error}");
        });
    }
}

// K13
#[test]
fn the_identity_of_a_node_is_given_or_made_of_the_hosts_name() {
    let host = Command::new("uname").arg("-n").output().unwrap().stdout;
    let of_host = Identity::of_host("linux", host.trim_ascii_end()).unwrap();
    assert_eq!(*Node::new().identity(), of_host);
    assert_eq!(Node::builder().identity("given").build().unwrap().identity().as_str(), "given");
    let too_long = "n".repeat(32);
    for bad in ["", "a/b", "a\0b", &too_long] {
        let error = Node::builder().identity(bad).build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    }
}
