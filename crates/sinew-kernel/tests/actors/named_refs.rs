//! References by name: whom they lead to, and what they wait for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorRef, AskError, Ctx, Flow, LocalNode, NamedRef, NodeRef, Policy, Reply, Unsent,
};
use sinew_sched::{block_on, spawn};

use crate::kit::{Hooked, Work, keeper, local, wait, with_nodes};

/// Answers with its number.
struct Numbered(u64);

impl Actor for Numbered {
    type Msg = Reply<u64>;

    fn handle(&mut self, reply: Reply<u64>, _: &mut Ctx<Reply<u64>>) -> Flow {
        reply.send(self.0);
        Flow::Continue
    }
}

fn numbered(node: NodeRef, number: u64, name: &str) -> ActorRef<Reply<u64>> {
    node.actor().name(name).spawn(Numbered(number)).unwrap()
}

fn ask(named: &NamedRef<Reply<u64>>) -> u64 {
    named.ask(|reply| reply).unwrap()
}

fn end<M: Send + 'static>(actor: &ActorRef<M>) {
    actor.stop();
    actor.join().unwrap();
}

// N11
#[test]
fn a_reference_by_name_leads_to_whoever_has_the_name() {
    with_nodes(|node| {
        let named = node.named::<Reply<u64>>("it");
        assert_eq!(named.name(), "it");
        for number in 1..=3 {
            let actor = numbered(**node, number, "it");
            assert_eq!([ask(&named), ask(&named), ask(&named.clone())], [number; 3]);
            end(&actor);
        }
        // The name moves, and the actor that had it lives on.
        let [one, other] = [4, 5].map(|number| node.spawn(Numbered(number)).unwrap());
        for (holder, number) in [(&one, 4), (&other, 5), (&one, 4)] {
            node.register("it", holder.id()).unwrap();
            assert_eq!([ask(&named), ask(&named)], [number; 2]);
            assert!(node.unregister("it").is_some());
        }
        let error = named.ask_timeout(|reply| reply, Duration::ZERO).unwrap_err();
        assert!(matches!(&error, AskError::Unsent(Unsent::UnknownName(name)) if &**name == "it"), "{error}");
    });
}

// N11
#[test]
fn a_reference_by_path_follows_mounts_and_names() {
    with_nodes(|node| {
        let by_name = numbered(**node, 1, "it");
        let path = format!("/node/{}/it", node.identity());
        let named = node.named::<Reply<u64>>(&path);
        assert_eq!(ask(&named), 1);
        let by_path = numbered(**node, 2, &path); // hides the flat name
        assert_eq!(ask(&named), 2);
        let mounted = node.spawn(Numbered(3)).unwrap();
        node.mount(&path, mounted.id()).unwrap(); // hides the path
        assert_eq!(ask(&named), 3);
        end(&mounted);
        assert_eq!(ask(&named), 2);
        node.unregister(&path).unwrap();
        assert_eq!(ask(&named), 1);
        drop((by_name, by_path));
    });
}

type Outcome<T> = Arc<Mutex<Option<T>>>;

/// Runs `body` as a task of the node, until it ends or waits.
fn begin<T: Send + 'static>(node: &LocalNode, body: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    let outcome = Outcome::<T>::default();
    let kept = outcome.clone();
    node.handle().spawn(move || *kept.lock().unwrap() = Some(body())).detach();
    node.run_until_idle();
    outcome
}

// N12
#[test]
fn a_tell_and_an_ask_wait_until_the_name_is_registered() {
    let (node, clock) = local();
    clock.hold(true);
    for name in ["it", "/path/it"] {
        let [tells, asks] = [(); 2].map(|()| node.named::<Reply<u64>>(name));
        let (reply, answer) = reply_of(&node);
        let told = begin(&node, move || tells.tell(reply).is_ok());
        let asked = begin(&node, move || ask(&asks));
        assert!(told.lock().unwrap().is_none() && asked.lock().unwrap().is_none());
        let actor = numbered(*node, 7, name);
        node.run_until_idle();
        assert_eq!((*told.lock().unwrap(), *asked.lock().unwrap()), (Some(true), Some(7)));
        assert_eq!(*answer.lock().unwrap(), Some(7));
        actor.kill();
        node.run_until_idle();
    }
}

/// A reply, and what it is sent.
fn reply_of(node: &LocalNode) -> (Reply<u64>, Outcome<u64>) {
    let (passes, passed) = std::sync::mpsc::channel();
    let keeps = node.spawn(Hooked::new(move |reply, _| {
        passes.send(reply).unwrap();
        Flow::Continue
    }));
    let keeps = keeps.unwrap();
    let answer = begin(node, move || keeps.ask(|reply: Reply<u64>| reply).unwrap());
    (passed.recv().unwrap(), answer)
}

// N12
#[test]
fn a_name_that_nobody_registers_is_an_error_when_the_time_is_up() {
    let (node, clock) = local();
    clock.hold(true);
    let named = node.named::<u32>("nobody");
    let tells = named.clone();
    let told = begin(&node, move || tells.tell(7).unwrap_err());
    let asks = node.named::<Reply<u64>>("nobody");
    let asked = begin(&node, move || asks.ask_timeout(|reply| reply, Duration::from_secs(2)).unwrap_err());
    let pass = |millis| {
        clock.advance(Duration::from_millis(millis));
        node.run_until_idle();
    };
    pass(1_990);
    assert!(asked.lock().unwrap().is_none());
    pass(20);
    let error = asked.lock().unwrap().take().unwrap();
    assert!(matches!(&error, AskError::Unsent(Unsent::UnknownName(name)) if &**name == "nobody"), "{error}");
    pass(2_980);
    assert!(told.lock().unwrap().is_none());
    pass(20);
    let error = told.lock().unwrap().take().unwrap();
    assert_eq!(error.item, 7);
    assert_eq!(
        error.to_string(),
        "no actor is called \"nobody\": it is being restarted, has ended, or has not registered"
    );
    // Calls that need not wait do not.
    let no_name = node.named::<u32>(&"x".repeat(64));
    let refused =
        begin(&node, move || [named.try_tell(8), no_name.tell(9)].map(|sent| sent.unwrap_err().why));
    let outcome = refused.lock().unwrap().take();
    assert!(matches!(outcome, Some([Unsent::UnknownName(_), Unsent::UnknownName(_)])));
}

// N13
#[test]
fn a_name_of_an_actor_whose_messages_are_of_another_type_is_an_error_at_once() {
    with_nodes(|node| {
        let actor = numbered(**node, 1, "it");
        let error = node.named::<u32>("it").tell(7).unwrap_err();
        assert_eq!(error.item, 7);
        assert!(
            matches!(&error.why, Unsent::OtherType { name, actor: other, wanted: "u32" }
                if &**name == "it" && *other == actor.id()),
            "{error}"
        );
        let error = node.named::<Reply<u32>>("ns").ask(|reply| reply).unwrap_err();
        assert!(matches!(&error, AskError::Unsent(Unsent::OtherType { .. })), "{error}");
    });
}

#[test]
fn a_message_for_one_that_drains_is_for_the_next_of_its_name() {
    let (node, clock) = local();
    clock.hold(true);
    let (drains, first) = keeper();
    let drains = node.actor().name("it").spawn(drains).unwrap();
    let named = node.named::<Work>("it");
    let (blocks, key, _entered) = wait();
    drains.try_tell(Work::Number(1)).unwrap();
    drains.try_tell(blocks).unwrap();
    node.run_until_idle();
    drains.drain();
    let why = named.try_tell(Work::Number(2)).unwrap_err().why;
    assert!(matches!(why, Unsent::UnknownName(_)), "{why}");
    let told = begin(&node, move || named.tell(Work::Number(3)).is_ok());
    assert!(told.lock().unwrap().is_none());
    key.open();
    node.run_until_idle();
    assert!(drains.is_dead() && told.lock().unwrap().is_none());
    let (next, second) = keeper();
    let _next = node.actor().name("it").spawn(next).unwrap();
    node.run_until_idle();
    assert_eq!(*told.lock().unwrap(), Some(true));
    assert_eq!((&*first.lock().unwrap(), &*second.lock().unwrap()), (&vec![1], &vec![3]));
}

#[test]
fn a_sender_that_waits_for_room_goes_on_to_the_next_of_the_name() {
    let (node, clock) = local();
    clock.hold(true);
    let options = || node.actor().name("it").mailbox(1).policy(Policy::Park);
    let first = options().spawn(keeper().0).unwrap();
    let (blocks, key, _entered) = wait();
    first.try_tell(blocks).unwrap();
    node.run_until_idle();
    first.try_tell(Work::Number(1)).unwrap();
    let named = node.named::<Work>("it");
    let told = begin(&node, move || named.tell(Work::Number(2)).is_ok());
    assert!(told.lock().unwrap().is_none());
    first.kill();
    node.run_until_idle();
    assert!(told.lock().unwrap().is_none());
    let (next, handled) = keeper();
    let _next = options().spawn(next).unwrap();
    node.run_until_idle();
    assert_eq!((*told.lock().unwrap(), &*handled.lock().unwrap()), (Some(true), &vec![2]));
    drop(key);
}

#[test]
fn a_caller_that_is_cancelled_while_it_waits_for_a_name_gets_its_message_back() {
    let (node, clock) = local();
    clock.hold(true);
    let named = node.named::<u32>("it");
    let outcome = begin(&node, move || {
        let waits = spawn(move || named.tell(7).unwrap_err());
        sinew_sched::yield_now();
        waits.cancel();
        waits.join().unwrap()
    });
    let error = outcome.lock().unwrap().take().unwrap();
    assert!(matches!(error.why, Unsent::Refused(_)), "{error}");
    assert_eq!(error.item, 7);
}

#[test]
fn inside_a_poll_nobody_waits_for_a_name() {
    with_nodes(|node| {
        let named = node.named::<Work>("it");
        let error = block_on(async { named.tell(Work::Number(1)).unwrap_err() }).unwrap();
        assert!(matches!(error.why, Unsent::Refused(_)), "{error}");
        let (actor, handled) = keeper();
        let actor = node.actor().name("it").spawn(actor).unwrap();
        block_on(async { named.tell(Work::Number(2)).unwrap() }).unwrap();
        actor.drain();
        actor.join().unwrap();
        assert_eq!(*handled.lock().unwrap(), [2]);
    });
}

#[test]
fn an_actor_that_asks_itself_by_name_gets_an_error_at_once() {
    with_nodes(|node| {
        let asks = Hooked::new(|reply: Reply<bool>, ctx: &mut Ctx<Reply<bool>>| {
            let error = ctx.named::<Reply<bool>>("it").ask(|reply| reply).unwrap_err();
            reply.send(matches!(error, AskError::ToItself));
            Flow::Continue
        });
        let actor = node.actor().name("it").spawn(asks).unwrap();
        assert!(actor.ask(|reply| reply).unwrap());
    });
}

#[test]
fn a_node_that_shuts_down_lets_nobody_wait_for_a_name() {
    let (node, clock) = local();
    clock.hold(true);
    let named = node.named::<u32>("it");
    let after = named.clone();
    let told = begin(&node, move || named.tell(7).unwrap_err().why);
    assert!(told.lock().unwrap().is_none());
    let _ = node.shutdown(Duration::from_secs(1));
    assert!(matches!(told.lock().unwrap().take(), Some(Unsent::UnknownName(_))));
    assert!(matches!(after.tell(8).unwrap_err().why, Unsent::UnknownName(_)));
}

#[test]
fn all_who_wait_for_a_name_are_woken() {
    with_nodes(|node| {
        let waits: Vec<_> = (0..100)
            .map(|_| {
                let named = node.named::<Reply<u64>>("it");
                node.handle().spawn(move || ask(&named))
            })
            .collect();
        let _actor = numbered(**node, 7, "it");
        assert!(waits.into_iter().all(|task| task.join().unwrap() == 7));
    });
}
