//! Nodes inside of other programs (`docs/semantics.md`, M).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sinew_kernel::{AskError, ExitReason, Flow, Kind, Node, NodeId, Payload, Reply, SpawnError, Unsent};
use sinew_sched::sleep;

use crate::kit::{self, Hooked, Work, keeper, local, wait};

// M1
#[test]
fn nothing_runs_on_the_callers_thread_until_it_says_so() {
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.spawn(actor).unwrap();
    (0..10).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    assert!(numbers.lock().unwrap().is_empty());
    assert!(node.step());
    node.run_until_idle();
    assert!(!node.step());
    assert_eq!(numbers.lock().unwrap().len(), 10);
}

// M2
#[test]
fn an_actor_on_the_callers_thread_may_block_while_others_run() {
    let (node, clock) = local();
    let (blocked, _) = keeper();
    let blocked = node.spawn(blocked).unwrap();
    let slept = Work::Do(Box::new(|_| {
        sleep(Duration::from_secs(60));
        Flow::Stop
    }));
    blocked.tell(slept).unwrap();
    let (other, numbers) = keeper();
    let other = node.spawn(other).unwrap();
    node.run_until_idle();
    other.tell(Work::Number(1)).unwrap();
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), [1]);
    assert!(!blocked.is_dead());
    clock.advance(Duration::from_secs(61));
    node.run_until_idle();
    assert_eq!(blocked.join().unwrap(), ExitReason::Normal);
}

// M3
#[test]
fn a_shutdown_on_the_callers_thread_ends_all_actors_well() {
    let stopped = Arc::new(AtomicU64::new(0));
    let node = Node::builder().build_current_thread().unwrap();
    let by_ref = kit::ByRef::node_ref(&node);
    let actors: Vec<_> = (0..10)
        .map(|_| {
            let stopped = stopped.clone();
            let actor = Hooked::<Work>::new(|_, _| Flow::Continue).stopping(move |_, _| {
                stopped.fetch_add(1, Ordering::Relaxed);
            });
            node.spawn(actor).unwrap()
        })
        .collect();
    let report = node.shutdown(Duration::from_secs(30));
    assert_eq!((report.left, by_ref.actor_count()), (0, 0));
    assert_eq!(stopped.load(Ordering::Relaxed), 10);
    assert!(actors.iter().all(|actor| actor.join().unwrap() == ExitReason::Shutdown));
}

// M4
#[test]
fn dropping_a_node_on_the_callers_thread_ends_its_actors() {
    let (node, _clock) = local();
    let by_ref = kit::ByRef::node_ref(&node);
    let (blocked, idle) = (node.spawn(keeper().0).unwrap(), node.spawn(keeper().0).unwrap());
    let (work, _key, _entered) = wait();
    blocked.tell(work).unwrap();
    node.run_until_idle();
    drop(node);
    for actor in [blocked, idle] {
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    }
    assert_eq!(by_ref.spawn(keeper().0).unwrap_err(), SpawnError::ShuttingDown);
}

// M5
#[test]
fn a_task_of_the_node_tells_and_asks_like_any_other() {
    let (node, _clock) = local();
    let mut sum = 0;
    let adds = Hooked::<(u64, Option<Reply<u64>>)>::new(move |(n, reply), _| {
        sum += n;
        reply.into_iter().for_each(|reply| reply.send(sum));
        Flow::Continue
    });
    let actor = node.actor().mailbox(4).spawn(adds).unwrap();
    let asked = actor.clone();
    let answers = node.runtime().run(move || {
        (1..=100).for_each(|n| asked.tell((n, None)).unwrap()); // it waits for room
        let first = asked.ask(|reply| (0, Some(reply))).unwrap();
        let again = sinew_sched::spawn(move || asked.ask(|reply| (50, Some(reply))).unwrap());
        (first, again.join().unwrap())
    });
    assert_eq!(answers.unwrap(), (5_050, 5_100), "a question is behind what was told");
    actor.kill();
    let error = node.runtime().run(move || actor.ask(|reply| (0, Some(reply))).unwrap_err()).unwrap();
    assert!(matches!(error, AskError::Stopped(ExitReason::Killed)), "{error}");
}

// M6
#[test]
fn two_nodes_in_one_program_have_nothing_to_do_with_each_other() {
    let one = Node::builder().id(1).build().unwrap();
    let other = Node::builder().id(2).build().unwrap();
    let (actor, numbers) = keeper();
    let actor = one.actor().name("name").spawn(actor).unwrap();
    let stranger = other.actor().name("name").spawn(keeper().0).unwrap();
    assert_eq!((one.lookup("name"), other.lookup("name")), (Some(actor.id()), Some(stranger.id())));
    assert!(!other.stop(actor.id()) && !other.kill(actor.id()));
    let number = || Payload::value(Work::Number(1));
    let error = other.send(actor.id(), Kind(1), number()).unwrap_err();
    assert!(matches!(error.why, Unsent::NoConnection(NodeId(1))), "{error}");
    assert!(other.actor_ref::<Work>(actor.id()).is_err());
    assert_eq!((one.actor_count(), other.actor_count()), (1, 1));
    drop(other);
    assert_eq!(stranger.join().unwrap(), ExitReason::Shutdown);
    one.send(actor.id(), Kind(1), number()).unwrap();
    actor.drain();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(*numbers.lock().unwrap(), [1]);
}
