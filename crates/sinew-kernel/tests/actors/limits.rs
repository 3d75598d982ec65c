//! Limits of a node: bytes that wait in mailboxes.

use std::sync::mpsc;
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    Actor, ActorBuilder, ActorRef, Ctx, ExitReason, Flow, Kind, Message, Node, Payload, Policy, Process,
    Received, Unsent,
};
use sinew_sched::Runtime;

const BYTES: Kind = Kind(7);

fn node(workers: usize, most: usize) -> Node {
    let runtime = Runtime::builder().workers(workers);
    Node::builder().runtime(runtime).max_queued_bytes(most).build().unwrap()
}

/// An actor that handles nothing until the gate is opened, and then everything until it is stopped.
fn gated<M: Send + 'static>(options: ActorBuilder) -> (ActorRef<M>, oneshot::Sender<()>) {
    let (open, mut gate) = oneshot::channel();
    let actor = options.spawn_process(move |process: &mut Process<'_, M>| {
        gate.recv().unwrap();
        // One says that it is to stop, another that there is nothing left.
        for _ in 0..2 {
            while !matches!(process.recv().unwrap(), Received::Stop(_)) {}
        }
        Flow::Stop
    });
    (actor.unwrap(), open)
}

fn bytes(len: usize) -> Vec<u8> {
    vec![7; len]
}

fn message<M>(to: &ActorRef<M>, len: usize) -> Message
where
    M: Send + 'static,
{
    Message::new(to.id(), BYTES, Payload::from(bytes(len)))
}

/// Has the actor handle what it has, and end.
fn finish<M: Send + 'static>(actor: &ActorRef<M>, open: oneshot::Sender<()>) {
    open.send(()).unwrap();
    actor.drain();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(actor.node().dead_letter_count(), 0);
}

// O13
#[test]
fn bytes_beyond_the_limit_are_refused_and_the_message_comes_back() {
    let node = node(2, 1000);
    let (actor, open) = gated::<()>(node.actor());
    let (other, open_other) = gated::<()>(node.actor());
    node.send(actor.id(), BYTES, bytes(400)).unwrap();
    node.send(other.id(), BYTES, bytes(400)).unwrap();
    assert_eq!(node.queued_bytes(), 800);
    let error = node.send(actor.id(), BYTES, bytes(201)).unwrap_err();
    assert!(matches!(error.why, Unsent::NodeFull { bytes: 201, queued: 800, most: 1000 }), "{error}");
    assert!(error.to_string().contains("max_queued_bytes"), "{error}");
    assert_eq!(error.item.payload.bytes(), bytes(201));
    node.send(actor.id(), BYTES, bytes(200)).unwrap();
    assert_eq!(node.queued_bytes(), 1000);
    finish(&other, open_other);
    assert_eq!(node.queued_bytes(), 600);
    finish(&actor, open);
    assert_eq!(node.queued_bytes(), 0);
}

#[test]
fn what_is_in_the_message_itself_and_typed_values_are_not_counted() {
    let node = node(2, 0);
    let (actor, open) = gated::<Vec<u8>>(node.actor());
    actor.tell(bytes(1000)).unwrap();
    node.send(actor.id(), BYTES, Payload::value(bytes(1000))).unwrap();
    node.send(actor.id(), BYTES, bytes(22)).unwrap();
    assert_eq!(node.queued_bytes(), 0);
    assert!(matches!(node.send(actor.id(), BYTES, bytes(23)).unwrap_err().why, Unsent::NodeFull { .. }));
    finish(&actor, open);
}

#[test]
fn a_node_without_a_limit_takes_what_its_mailboxes_take() {
    let node = Node::new();
    let (actor, open) = gated::<()>(node.actor());
    for _ in 0..100 {
        node.send(actor.id(), BYTES, bytes(1 << 20)).unwrap();
    }
    finish(&actor, open);
}

#[test]
fn bytes_are_given_back_when_their_actor_begins_to_handle_them() {
    struct Handles(mpsc::Sender<usize>);
    impl Actor for Handles {
        type Msg = ();
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
        fn raw(&mut self, _: Message, ctx: &mut Ctx<()>) -> Flow {
            self.0.send(ctx.node().queued_bytes()).unwrap();
            Flow::Continue
        }
    }
    let node = node(1, 1000);
    let (sender, queued) = mpsc::channel();
    let actor = node.spawn(Handles(sender)).unwrap();
    for _ in 0..100 {
        node.send(actor.id(), BYTES, bytes(1000)).unwrap();
        assert_eq!(queued.recv_timeout(Duration::from_secs(60)).unwrap(), 0);
    }
}

#[test]
fn bytes_are_given_back_when_a_message_is_dropped_or_refused() {
    let node = node(2, 1000);
    for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Refuse] {
        let (actor, open) = gated::<()>(node.actor().mailbox(2).policy(policy));
        for _ in 0..10 {
            let _ = node.send(actor.id(), BYTES, bytes(100));
        }
        assert_eq!(node.queued_bytes(), 200, "{policy:?}");
        actor.kill();
        actor.join().unwrap();
        drop(open);
        assert_eq!(node.queued_bytes(), 0, "{policy:?}");
        let error = node.send(actor.id(), BYTES, bytes(100)).unwrap_err();
        assert!(matches!(error.why, Unsent::Unknown(_) | Unsent::Stopped(_)), "{error}");
        assert_eq!(node.queued_bytes(), 0);
    }
}

#[test]
fn bytes_of_a_sender_that_waits_are_counted_until_it_gives_up() {
    let node = node(2, 1000);
    let (actor, open) = gated::<Message>(node.actor().mailbox(1));
    actor.tell(message(&actor, 400)).unwrap();
    let error = actor.tell_timeout(message(&actor, 500), Duration::from_millis(1)).unwrap_err();
    assert!(matches!(error.why, Unsent::Timeout(_)), "{error}");
    assert_eq!((error.item.kind, error.item.payload.bytes().len()), (BYTES, 500));
    assert_eq!(node.queued_bytes(), 400);
    let error = actor.tell(message(&actor, 601)).unwrap_err();
    assert!(matches!(error.why, Unsent::NodeFull { .. }), "the node refuses at once: {error}");
    assert_eq!(error.item.payload.bytes().len(), 601);
    finish(&actor, open);
    assert_eq!(node.queued_bytes(), 0);
}

#[test]
fn messages_of_bytes_arrive_as_what_they_are_whether_they_are_counted_or_not() {
    for most in [Some(1_000_000), None] {
        let mut builder = Node::builder();
        if let Some(most) = most {
            builder = builder.max_queued_bytes(most);
        }
        let node = builder.build().unwrap();
        let (sender, lengths) = mpsc::channel();
        let process = node.actor().spawn_process::<Message, _>(move |process| {
            while let Ok(Received::Message(message)) = process.recv() {
                assert_eq!(message.kind, BYTES);
                sender.send(message.payload.bytes().len()).unwrap();
            }
            Flow::Stop
        });
        let process = process.unwrap();
        let (sender, handled) = mpsc::channel();
        struct Typed(mpsc::Sender<usize>);
        impl Actor for Typed {
            type Msg = Message;
            fn handle(&mut self, message: Message, _: &mut Ctx<Message>) -> Flow {
                self.0.send(message.payload.bytes().len()).unwrap();
                Flow::Continue
            }
            fn raw(&mut self, _: Message, _: &mut Ctx<Message>) -> Flow {
                panic!("it is of this actor's type");
            }
        }
        let actor = node.spawn(Typed(sender)).unwrap();
        for len in [0, 22, 23, 1000] {
            node.send(process.id(), BYTES, bytes(len)).unwrap();
            process.tell(message(&process, len)).unwrap();
            node.send(actor.id(), BYTES, bytes(len)).unwrap();
            actor.tell(message(&actor, len)).unwrap();
            for lengths in [&lengths, &handled] {
                for _ in 0..2 {
                    assert_eq!(lengths.recv_timeout(Duration::from_secs(60)).unwrap(), len);
                }
            }
        }
    }
}

#[test]
fn a_storm_of_senders_does_not_exceed_the_limit_and_leaves_nothing_counted() {
    for workers in [1, 2, 8] {
        let node = node(workers, 10_000);
        let here = *node;
        node.run(move || {
            let sinks: Vec<_> = (0..4)
                .map(|n| {
                    let policy = [Policy::Park, Policy::Refuse, Policy::DropOldest, Policy::DropNewest][n];
                    let sink = here.actor().mailbox(16).policy(policy);
                    sink.spawn_raw((), |(), _, ctx| {
                        assert!(ctx.node().queued_bytes() <= 10_000); // one that fails does not end as it is told to
                        Flow::Continue
                    })
                    .unwrap()
                })
                .collect();
            let senders: Vec<_> = (0..8)
                .map(|n: usize| {
                    let sinks = sinks.clone();
                    sinew_sched::spawn(move || {
                        for round in 0..500 {
                            let sink = &sinks[(n + round) % 4];
                            let sent = here.send(sink.id(), BYTES, bytes(100 * n + round));
                            assert!(here.queued_bytes() <= 10_000);
                            if let Err(error) = sent {
                                let refused = matches!(error.why, Unsent::NodeFull { .. } | Unsent::Full);
                                assert!(refused, "{error}");
                            }
                            let _ = sink.tell(message(sink, round));
                            if round % 50 == 0 {
                                sinew_sched::yield_now();
                            }
                        }
                    })
                })
                .collect();
            for sender in senders {
                sender.join().unwrap();
            }
            for (n, sink) in sinks.iter().enumerate() {
                let expected = if n % 2 == 0 {
                    sink.drain();
                    ExitReason::Shutdown
                } else {
                    sink.kill();
                    ExitReason::Killed
                };
                assert_eq!(sink.join().unwrap(), expected);
            }
            assert_eq!(here.queued_bytes(), 0);
        })
        .unwrap();
    }
}
