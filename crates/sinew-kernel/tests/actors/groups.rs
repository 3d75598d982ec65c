//! Groups of actors.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorId, ActorRef, Ctx, ExitReason, Flow, Kind, Message, NameError, Node, Policy, SendCounts,
    Unsent,
};
use sinew_sched::Runtime;

/// A member of some groups, that tells who it is and what it got.
struct Member {
    groups: Vec<&'static str>,
    told: mpsc::Sender<(ActorId, Got)>,
}

#[derive(PartialEq, Debug)]
enum Got {
    Joined(Vec<bool>),
    Typed(u32),
    Raw(Kind, Vec<u8>),
    Value(String),
    Left(bool),
}

#[derive(Clone, PartialEq, Debug)]
enum Msg {
    Number(u32),
    Leave(&'static str),
}

impl Member {
    fn tell(&self, ctx: &Ctx<Msg>, got: Got) -> Flow {
        let _ = self.told.send((ctx.id(), got)); // the test may be over
        Flow::Continue
    }
}

impl Actor for Member {
    type Msg = Msg;

    fn started(&mut self, ctx: &mut Ctx<Msg>) -> Flow {
        let joined = self.groups.iter().map(|group| ctx.join_group(group).unwrap()).collect();
        self.tell(ctx, Got::Joined(joined))
    }

    fn handle(&mut self, msg: Msg, ctx: &mut Ctx<Msg>) -> Flow {
        match msg {
            Msg::Number(number) => self.tell(ctx, Got::Typed(number)),
            Msg::Leave(group) => self.tell(ctx, Got::Left(ctx.leave_group(group))),
        }
    }

    fn raw(&mut self, message: Message, ctx: &mut Ctx<Msg>) -> Flow {
        match message.payload.downcast::<String>() {
            Ok(value) => self.tell(ctx, Got::Value(value)),
            Err(payload) => self.tell(ctx, Got::Raw(message.kind, payload.bytes().to_vec())),
        }
    }
}

struct Test {
    node: Node,
    sender: mpsc::Sender<(ActorId, Got)>,
    told: mpsc::Receiver<(ActorId, Got)>,
}

impl Test {
    fn new(workers: usize) -> Test {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let (sender, told) = mpsc::channel();
        Test { node, sender, told }
    }

    /// An actor that has joined these groups.
    fn member(&self, groups: &[&'static str]) -> ActorRef<Msg> {
        let member = Member { groups: groups.to_vec(), told: self.sender.clone() };
        let member = self.node.spawn(member).unwrap();
        assert_eq!(self.next(), (member.id(), Got::Joined(vec![true; groups.len()])));
        member
    }

    fn next(&self) -> (ActorId, Got) {
        self.told.recv_timeout(Duration::from_secs(60)).expect("it was sent")
    }
}

fn sent(accepted: usize, refused: usize) -> SendCounts {
    SendCounts { accepted, refused }
}

// N8
#[test]
fn what_is_sent_to_all_reaches_every_member_and_nobody_else() {
    let test = Test::new(2);
    let inside: Vec<_> = (0..10).map(|_| test.member(&["room"])).collect();
    let members: Vec<_> = inside.iter().map(ActorRef::id).collect();
    let outside = test.member(&["other"]);
    let room = test.node.group("room");
    assert_eq!(room.members(), members);

    assert_eq!(room.tell_all(Msg::Number(7)), sent(10, 0));
    let got: BTreeMap<_, _> = (0..10).map(|_| test.next()).collect();
    assert!(members.iter().all(|member| got[member] == Got::Typed(7)), "{got:?}");

    assert_eq!(room.send_all(Kind(9), b"bytes"), sent(10, 0));
    let got: BTreeMap<_, _> = (0..10).map(|_| test.next()).collect();
    assert!(members.iter().all(|member| got[member] == Got::Raw(Kind(9), b"bytes".to_vec())), "{got:?}");

    assert_eq!(room.tell_all("of another type".to_owned()), sent(10, 0));
    let got: BTreeMap<_, _> = (0..10).map(|_| test.next()).collect();
    assert!(members.iter().all(|member| got[member] == Got::Value("of another type".to_owned())), "{got:?}");
    for actor in inside.iter().chain([&outside]) {
        actor.drain();
        actor.join().unwrap();
    }
    assert!(test.told.try_recv().is_err(), "nobody gets more");
}

// N9
#[test]
fn what_is_sent_to_one_goes_round_the_members() {
    let test = Test::new(2);
    let members: Vec<_> = (0..3).map(|_| test.member(&["room"]).id()).collect();
    let room = test.node.group("room");
    for round in 0..4 {
        for member in &members {
            assert_eq!(room.tell_one(Msg::Number(round)).unwrap(), *member);
            assert_eq!(test.next(), (*member, Got::Typed(round)));
        }
    }
    assert_eq!(room.send_one(Kind(9), &b"bytes"[..]).unwrap(), members[0]);
    assert_eq!(test.next(), (members[0], Got::Raw(Kind(9), b"bytes".to_vec())));
}

#[test]
fn a_member_that_takes_nothing_is_passed_over_and_what_nobody_takes_comes_back() {
    let node = Node::new();
    let (joined, members) = mpsc::channel();
    let full = |gate: mpsc::Receiver<()>| {
        let joined = joined.clone();
        let full = node.actor().mailbox(1).policy(Policy::Refuse).spawn_process::<Msg, _>(move |process| {
            process.ctx().join_group("room").unwrap();
            process.ctx().me().try_tell(Msg::Number(0)).unwrap();
            joined.send(process.ctx().id()).unwrap();
            sinew_io::blocking(move || gate.recv()).unwrap().unwrap();
            Flow::Stop
        });
        (full.unwrap(), members.recv().unwrap())
    };
    let (open, gate) = mpsc::channel();
    let (one, _) = full(gate);
    let (open_other, gate) = mpsc::channel();
    let (other, _) = full(gate);
    let room = node.group("room");
    let error = room.tell_one(Msg::Number(7)).unwrap_err();
    assert_eq!(error.item, Msg::Number(7));
    assert!(matches!(error.why, Unsent::Full), "{error}");
    assert_eq!(room.tell_all(Msg::Number(7)), sent(0, 2));

    let (sender, told) = mpsc::channel();
    let taker = node.spawn(Member { groups: vec!["room"], told: sender }).unwrap();
    assert_eq!(told.recv().unwrap().1, Got::Joined(vec![true]));
    for _ in 0..3 {
        assert_eq!(room.tell_one(Msg::Number(7)).unwrap(), taker.id());
    }
    assert_eq!(room.tell_all(Msg::Number(7)), sent(1, 2));
    open.send(()).unwrap();
    open_other.send(()).unwrap();
    one.join().unwrap();
    other.join().unwrap();
}

#[test]
fn a_group_without_members_takes_nothing() {
    let node = Node::new();
    let room = node.group("room");
    assert_eq!(room.members(), []);
    assert_eq!(room.tell_all(Msg::Number(7)), sent(0, 0));
    let error = room.tell_one(Msg::Number(7)).unwrap_err();
    assert_eq!(error.item, Msg::Number(7));
    assert!(matches!(&error.why, Unsent::NoMembers(name) if &**name == "room"), "{error}");
    assert!(error.to_string().contains("room"));
}

#[test]
fn an_actor_joins_once_and_leaves_once() {
    let test = Test::new(2);
    let member = Member { groups: vec!["room", "room"], told: test.sender.clone() };
    let member = test.node.spawn(member).unwrap();
    assert_eq!(test.next().1, Got::Joined(vec![true, false]));
    assert_eq!(test.node.group("room").members(), [member.id()]);
    for left in [true, false] {
        member.tell(Msg::Leave("room")).unwrap();
        assert_eq!(test.next().1, Got::Left(left));
        assert_eq!(test.node.group("room").members(), []);
    }
}

#[test]
fn a_group_is_called_as_actors_are() {
    let node = Node::new();
    let process = node.actor().spawn_process::<(), _>(|process| {
        let ctx = process.ctx();
        let bad = |name: &str| ctx.join_group(name).expect_err("it is no name");
        assert_eq!(bad(""), NameError::Empty);
        assert!(matches!(bad(&"g".repeat(64)), NameError::TooLong { .. }));
        assert!(matches!(bad("a\0b"), NameError::Nul(_)));
        assert!(matches!(bad("/path"), NameError::IsAPath(_)));
        assert!(!ctx.leave_group(""));
        Flow::Stop
    });
    assert_eq!(process.unwrap().join().unwrap(), ExitReason::Normal);
}

// N10
#[test]
fn an_actor_has_left_its_groups_when_its_end_is_told() {
    for workers in [1, 2, 8] {
        let test = Test::new(workers);
        let stays = test.member(&["one", "two"]);
        for _ in 0..100 {
            let member = test.member(&["one", "two", "three"]);
            member.kill();
            member.join().unwrap();
            for (group, members) in [("one", 1), ("two", 1), ("three", 0)] {
                assert_eq!(test.node.group(group).members(), vec![stays.id(); members]);
            }
        }
    }
}

#[test]
fn no_member_outlives_its_actor_however_many_come_and_go() {
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let here = *node;
        node.run(move || {
            let actors: Vec<_> = (0..2_000)
                .map(|n| {
                    let body = move |process: &mut sinew_kernel::Process<'_, ()>| {
                        process.ctx().join_group("room").unwrap();
                        if n % 3 == 0 {
                            assert!(process.ctx().leave_group("room"));
                        }
                        if n % 2 == 0 {
                            let _ = process.recv();
                        }
                        Flow::Stop
                    };
                    here.actor().spawn_process(body).unwrap()
                })
                .collect();
            let sends = sinew_sched::spawn(move || {
                for _ in 0..100 {
                    let _ = here.group("room").tell_all(());
                    sinew_sched::yield_now();
                }
            });
            for actor in &actors {
                actor.kill();
            }
            for actor in actors {
                let reason = actor.join().unwrap();
                assert!(!matches!(reason, ExitReason::Error(_)), "{reason}");
            }
            sends.join().unwrap();
            assert_eq!(here.group("room").members(), []);
        })
        .unwrap();
    }
}
