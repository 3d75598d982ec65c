//! Order of messages (`docs/semantics.md`, P).

mod kit;

use std::sync::{Arc, Mutex, mpsc};

use kit::{Hooked, Notes, Work, act, keeper, local, wait, with_nodes};
use sinew_kernel::{
    Actor, ActorId, ActorRef, Ctx, Exit, Flow, Kind, LocalNode, Message, Payload, Process, Received,
};
use sinew_sched::yield_now;

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

// P3
#[test]
fn what_the_system_sends_goes_before_what_others_have_sent() {
    let (node, _clock) = local();
    let (child, _) = keeper();
    let child = node.spawn(child).unwrap();
    let id = child.id();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (handled, exits) = (order.clone(), order.clone());
    let watcher = Hooked::<Work>::new(move |work, _| {
        match work {
            Work::Wait(_, gate) => drop(gate.pass()),
            _ => handled.lock().unwrap().push("message"),
        }
        Flow::Continue
    })
    .started(move |(), ctx| {
        ctx.monitor(id);
        Flow::Continue
    })
    .exit_of(move |_: Exit, _| {
        exits.lock().unwrap().push("exit");
        Flow::Continue
    });
    let watcher = node.spawn(watcher).unwrap();
    let (work, key, _entered) = wait();
    watcher.tell(work).unwrap();
    node.run_until_idle();
    (0..3).for_each(|n| watcher.tell(Work::Number(n)).unwrap());
    child.kill();
    node.run_until_idle();
    key.open();
    node.run_until_idle();
    assert_eq!(*order.lock().unwrap(), ["exit", "message", "message", "message"]);
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
    let (node, _clock) = local();
    let (seen, received) = mpsc::channel();
    let process = node.actor().spawn_process(move |own: &mut Process<u64>| {
        for _ in 0..2 {
            seen.send(own.recv().unwrap()).unwrap();
        }
        Flow::Stop
    });
    let process = process.unwrap();
    process.tell(1).unwrap();
    process.stop();
    node.run_until_idle();
    assert!(matches!(received.try_recv().unwrap(), Received::Stop(_)));
    assert!(matches!(received.try_recv().unwrap(), Received::Message(1)));
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
