//! Order of messages (`docs/semantics.md`, P).

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorId, ActorRef, Ctx, Exit, ExitReason, Flow, Interest, Kind, LocalNode, Message, Payload,
    Process, Received,
};
use sinew_sched::{ManualClock, yield_now};

use crate::kit::{self, Hooked, Notes, Work, act, keeper, local, wait, with_nodes};

const SECOND: Duration = Duration::from_secs(1);

// P1
#[test]
fn messages_of_one_sender_to_one_actor_are_handled_in_the_order_in_which_they_were_sent() {
    with_nodes(|node| {
        for capacity in [1, 7, 1024] {
            let last = Arc::new(Mutex::new([0_u64; 4]));
            let seen = last.clone();
            let receiver = Hooked::<(usize, u64)>::new(move |(sender, n), _| {
                let mut seen = seen.lock().unwrap();
                assert_eq!(n, seen[sender] + 1);
                seen[sender] = n;
                drop(seen);
                if n % 64 == 0 {
                    yield_now(); // in the middle of a batch
                }
                Flow::Continue
            });
            let receiver = node.actor().mailbox(capacity).spawn(receiver).unwrap();
            let each = kit::rounds(20_000) as u64;
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let to = receiver.clone();
                    let sends = Hooked::<()>::new(move |(), _| {
                        (1..=each).for_each(|n| to.tell((sender, n)).unwrap());
                        Flow::Stop
                    });
                    let sender = node.spawn(sends).unwrap();
                    sender.tell(()).unwrap();
                    sender
                })
                .collect();
            senders.iter().for_each(|sender| drop(sender.join().unwrap()));
            receiver.drain();
            receiver.join().unwrap();
            assert_eq!(*last.lock().unwrap(), [each; 4]);
        }
    });
}

// P2
#[test]
fn messages_by_reference_and_by_id_keep_their_order_among_each_other() {
    struct Both(Arc<Mutex<Vec<u64>>>);
    impl Actor for Both {
        type Msg = u64;
        fn handle(&mut self, n: u64, _: &mut Ctx<u64>) -> Flow {
            self.0.lock().unwrap().push(n);
            Flow::Continue
        }
        fn raw(&mut self, message: Message, _: &mut Ctx<u64>) -> Flow {
            self.0.lock().unwrap().push(u64::from(message.kind.0));
            Flow::Continue
        }
    }
    with_nodes(|node| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let actor = node.spawn(Both(seen.clone())).unwrap();
        for n in 0..300_u64 {
            match n % 3 {
                0 => actor.tell(n).unwrap(),
                1 => node.send(actor.id(), Kind(n as u32), Payload::empty()).unwrap(),
                _ => node.send(actor.id(), Kind(0), Payload::value(n)).unwrap(),
            }
        }
        actor.drain();
        actor.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), (0..300).collect::<Vec<_>>());
    });
}

/// What the system sends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sends {
    Exit,
    Timer,
    Descriptor,
    Stop,
}

const ALL: [Sends; 4] = [Sends::Exit, Sends::Timer, Sends::Descriptor, Sends::Stop];

/// Has an actor that is blocked get messages, and then this. Returns what keeps the descriptor ready.
fn send(node: &LocalNode, clock: &ManualClock, sends: Sends, to: &ActorRef<Work>, end: Ends) -> PipeWriter {
    let Ends(mut writer, child) = end;
    (0..3).for_each(|n| to.tell(Work::Number(n)).unwrap());
    match sends {
        Sends::Exit => child.kill(),
        Sends::Timer => clock.advance(2 * SECOND),
        Sends::Descriptor => writer.write_all(b"x").unwrap(),
        Sends::Stop => to.stop(),
    }
    node.run_until_idle();
    writer
}

/// What an actor is to be told of: a descriptor that becomes ready, and another's end.
struct Ends(PipeWriter, ActorRef<Work>);

/// Has an actor be told of these.
fn expects(ctx: &mut Ctx<Work>, reader: &PipeReader, child: ActorId) {
    ctx.monitor(child);
    ctx.set_timer(SECOND, false).unwrap();
    ctx.watch_fd(reader, Interest::READ).unwrap();
}

fn kind(message: &Message) -> Sends {
    match message.kind {
        Kind::TIMER => Sends::Timer,
        Kind::FD_EVENT => Sends::Descriptor,
        kind => panic!("{kind:?}"),
    }
}

// P3
#[test]
fn what_the_system_sends_goes_before_what_others_have_sent() {
    struct Notes(PipeReader, ActorId, mpsc::Sender<Option<Sends>>);
    impl Notes {
        fn note(&self, what: Option<Sends>) {
            self.2.send(what).unwrap();
        }
    }
    impl Actor for Notes {
        type Msg = Work;
        fn started(&mut self, ctx: &mut Ctx<Work>) -> Flow {
            expects(ctx, &self.0, self.1);
            Flow::Continue
        }
        fn handle(&mut self, work: Work, _: &mut Ctx<Work>) -> Flow {
            match work {
                Work::Wait(_, gate) => assert!(gate.pass()),
                _ => self.note(None),
            }
            Flow::Continue
        }
        fn raw(&mut self, message: Message, ctx: &mut Ctx<Work>) -> Flow {
            ctx.unwatch_fd(&self.0);
            self.note(Some(kind(&message)));
            Flow::Continue
        }
        fn exit_of(&mut self, _: Exit, _: &mut Ctx<Work>) -> Flow {
            self.note(Some(Sends::Exit));
            Flow::Continue
        }
        fn stopping(&mut self, _: &ExitReason, _: &mut Ctx<Work>) {
            self.note(Some(Sends::Stop));
        }
    }
    for sends in ALL {
        let (node, clock) = local();
        clock.hold(true);
        let child = node.spawn(keeper().0).unwrap();
        let (reader, writer) = pipe().unwrap();
        let (noted, notes) = mpsc::channel();
        let actor = node.spawn(Notes(reader, child.id(), noted)).unwrap();
        let (work, key, _entered) = wait();
        actor.tell(work).unwrap();
        node.run_until_idle();
        let _open = send(&node, &clock, sends, &actor, Ends(writer, child));
        key.open();
        node.run_until_idle();
        let notes: Vec<_> = notes.try_iter().collect();
        match sends {
            Sends::Stop => assert_eq!((&notes[..], node.dead_letter_count()), (&[Some(sends)][..], 3)),
            _ => assert_eq!(notes, [Some(sends), None, None, None]),
        }
    }
}

// P4
#[test]
fn an_event_overtakes_the_messages_that_were_taken_in_a_batch() {
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.spawn(actor).unwrap();
    let me = actor.clone();
    (0..5).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    let acts = act(move |_| {
        me.stop();
        Flow::Continue
    });
    actor.tell(acts).unwrap();
    (5..20).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(node.dead_letter_count(), 15);
}

/// An actor on this thread that notes what it comes to, what it has noted, and the id of one that has ended.
fn noting_and_a_dead_one() -> (LocalNode, ActorRef<Work>, Notes, ActorId) {
    let (node, _clock) = local();
    let dead = node.spawn(keeper().0).unwrap();
    dead.kill();
    node.run_until_idle();
    let order = Notes::default();
    let (messages, exits) = (order.clone(), order.clone());
    let actor = Hooked::<Work>::new(move |work, ctx| match work {
        Work::Do(body) => body(ctx),
        _ => {
            messages.lock().unwrap().push("message");
            Flow::Continue
        }
    });
    let actor = actor.exit_of(move |_: Exit, _| {
        exits.lock().unwrap().push("exit");
        Flow::Continue
    });
    let actor = node.spawn(actor).unwrap();
    (node, actor, order, dead.id())
}

// P4
#[test]
fn an_exit_overtakes_the_messages_that_were_taken_in_a_batch() {
    let (node, actor, order, dead) = noting_and_a_dead_one();
    let acts = act(move |ctx| {
        ctx.monitor(dead); // it is told at once
        Flow::Continue
    });
    actor.tell(acts).unwrap();
    (0..9).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    node.run_until_idle();
    assert_eq!(order.lock().unwrap()[..2], ["exit", "message"]);
}

// P3
#[test]
fn a_stop_does_not_overtake_an_exit() {
    let (node, actor, order, dead) = noting_and_a_dead_one();
    let me = actor.clone();
    let acts = act(move |ctx| {
        ctx.monitor(dead); // it is told at once
        me.stop();
        Flow::Continue
    });
    actor.tell(acts).unwrap();
    node.run_until_idle();
    assert!(actor.is_dead());
    assert_eq!(*order.lock().unwrap(), ["exit"]);
}

// P3
#[test]
fn what_the_system_sends_to_a_process_goes_before_what_others_have_sent() {
    for sends in ALL {
        let (node, clock) = local();
        clock.hold(true);
        let child = node.spawn(keeper().0).unwrap();
        let ((reader, writer), id) = (pipe().unwrap(), child.id());
        let (noted, notes) = mpsc::channel();
        let (key, gate) = kit::gate();
        let process = node.actor().spawn_process(move |own: &mut Process<Work>| {
            expects(own.ctx(), &reader, id);
            assert!(gate.pass());
            for _ in 0..4 {
                let noting = match own.recv().unwrap() {
                    Received::Message(_) => None,
                    Received::Raw(message) => Some(kind(&message)),
                    Received::Exit(_) => Some(Sends::Exit),
                    Received::Stop(_) => Some(Sends::Stop),
                };
                own.ctx().unwatch_fd(&reader);
                noted.send(noting).unwrap();
            }
            Flow::Stop
        });
        let process = process.unwrap();
        node.run_until_idle();
        let _open = send(&node, &clock, sends, &process, Ends(writer, child));
        key.open();
        node.run_until_idle();
        assert_eq!(notes.try_iter().collect::<Vec<_>>(), [Some(sends), None, None, None]);
    }
}

// P5
#[test]
fn a_message_that_is_forwarded_keeps_its_source() {
    let (node, _clock) = local();
    let (seen, sources) = mpsc::channel();
    let last = node.actor().spawn_raw((), move |(), message: &Message, _| {
        seen.send(message.source).unwrap();
        Flow::Continue
    });
    let last = last.unwrap();
    let to = last.id();
    let middle = Hooked::<Message>::new(move |message, ctx| {
        ctx.forward(to, message).unwrap();
        Flow::Continue
    });
    let middle = node.spawn(middle).unwrap();
    let to = middle.id();
    let first = Hooked::<u64>::new(move |_, ctx| {
        ctx.send(to, Kind(3), &b"x"[..]).unwrap();
        Flow::Continue
    });
    let first = node.spawn(first).unwrap();
    first.tell(1).unwrap();
    node.run_until_idle();
    assert_eq!(sources.try_recv().unwrap(), first.id());
}
