//! Ending a node (`docs/semantics.md`, H).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sinew_kernel::store::{Store, StoreError};
use sinew_kernel::{ChildSpec, ExitReason, Flow, Node, Process, SpawnError, Strategy, Unsent};
use sinew_sched::{Runtime, sleep};

use crate::kit::{self, Hooked, Notes, Watchdog, Work, act, block, compute, keeper, noting};
use crate::store_support::Folder;

fn node(workers: usize) -> Node {
    Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap()
}

// H1, H2
#[test]
fn a_shutdown_stops_every_actor_and_runs_its_hooks() {
    for workers in [1, 2, 8] {
        let _watchdog = Watchdog::new(format!("{workers} workers"));
        let node = node(workers);
        let stopped = Arc::new(AtomicU64::new(0));
        let actors: Vec<_> = (0..100)
            .map(|_| {
                let (stopping, dropped) = (stopped.clone(), stopped.clone());
                let actor = Hooked::<u64>::new(|_, _| Flow::Continue)
                    .started(|(), ctx| {
                        let _ = ctx.child().spawn(keeper().0); // the node may shut down by now
                        Flow::Continue
                    })
                    .stopping(move |reason, _| {
                        assert_eq!(*reason, ExitReason::Shutdown);
                        stopping.fetch_add(1, Ordering::Relaxed);
                    })
                    .dropped(move || {
                        dropped.fetch_add(1, Ordering::Relaxed);
                    });
                node.spawn(actor).unwrap()
            })
            .collect();
        let report = node.shutdown(Duration::from_secs(30));
        assert_eq!(report.left, 0);
        assert_eq!(stopped.load(Ordering::Relaxed), 200);
        for actor in actors {
            assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        }
    }
}

// H3
#[test]
fn a_node_that_shuts_down_starts_nothing() {
    let node = node(2);
    let by_ref = kit::ByRef::node_ref(&node);
    let (tried, outcomes) = mpsc::channel();
    // It is stopped by the shutdown, so that goes on.
    let actor = keeper().0.stopping(move |_, ctx| {
        let node = ctx.node();
        let child = ChildSpec::new("child", || keeper().0);
        tried.send(node.spawn(keeper().0).map(drop)).unwrap();
        tried.send(node.actor().spawn_process(|_: &mut Process<()>| Flow::Stop).map(drop)).unwrap();
        tried.send(node.supervisor(Strategy::OneForOne).child(child).spawn().map(drop)).unwrap();
        tried.send(ctx.child().spawn(keeper().0).map(drop)).unwrap();
    });
    let actor = node.spawn(actor).unwrap();
    let _ = node.shutdown(Duration::from_secs(30));
    let outcomes: Vec<_> = outcomes.try_iter().collect();
    assert_eq!(outcomes, [const { Err(SpawnError::ShuttingDown) }; 4]);
    assert_eq!(by_ref.spawn(keeper().0).unwrap_err(), SpawnError::ShuttingDown);
    let error = actor.tell(Work::Number(1)).unwrap_err();
    assert!(matches!(error.why, Unsent::Stopped(ExitReason::Shutdown)), "{error}");
    assert_eq!(by_ref.actor_count(), 0);
}

// H4
#[test]
fn a_shutdown_cancels_what_does_not_end_in_time() {
    let _watchdog = Watchdog::new("a sleeper".to_owned());
    let node = node(2);
    let (actor, _) = keeper();
    let actor = node.spawn(actor).unwrap();
    let (entered, has_entered) = mpsc::channel();
    let sleeper = move |_: &mut sinew_kernel::Ctx<Work>| {
        entered.send(()).unwrap();
        sleep(Duration::from_secs(3600));
        Flow::Continue
    };
    actor.tell(Work::Do(Box::new(sleeper))).unwrap();
    has_entered.recv().unwrap();
    let notes = Notes::default();
    let deaf = node.spawn(noting(&notes)).unwrap();
    let (entered, has_entered) = mpsc::channel();
    let (_key, gate) = kit::gate();
    let noted = notes.clone();
    let shrugs = move |_: &mut sinew_kernel::Ctx<Work>| {
        entered.send(()).unwrap();
        let passed = gate.pass();
        noted.lock().unwrap().push(if passed { "passed" } else { "refused" });
        loop {
            let (_key, gate) = kit::gate();
            gate.pass();
        }
    };
    deaf.tell(Work::Do(Box::new(shrugs))).unwrap();
    has_entered.recv().unwrap();
    // As long again is there for the cancel, also on a machine that is busy.
    let report = node.shutdown(Duration::from_secs(2));
    assert_eq!(report.left, 0);
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert!(deaf.is_dead());
    assert_eq!(*notes.lock().unwrap(), ["started", "handle", "refused", "dropped"]);
}

// H5
#[test]
fn whoever_waits_for_an_actor_that_outlives_its_node_is_told() {
    let _watchdog = Watchdog::new("a spinner".to_owned());
    let node = node(2);
    let (actor, _) = keeper();
    let actor = node.actor().mailbox(1).spawn(actor).unwrap();
    let _computing = compute(&actor);
    actor.tell(Work::Number(1)).unwrap();
    let (joined, waiting) = (actor.clone(), actor.clone());
    let joiner = std::thread::spawn(move || joined.join().unwrap());
    let sender = std::thread::spawn(move || waiting.tell(Work::Number(2)).unwrap_err().why);
    let report = node.shutdown(Duration::from_millis(50));
    assert_eq!(report.left, 1);
    assert_eq!(joiner.join().unwrap(), ExitReason::Killed);
    let why = sender.join().unwrap();
    assert!(matches!(why, Unsent::Stopped(ExitReason::Killed)), "{why}");
}

// H6
#[test]
fn a_shutdown_that_races_with_spawns_leaves_no_actor() {
    for workers in [1, 2, 8] {
        for _ in 0..kit::rounds(100) {
            let _watchdog = Watchdog::new(format!("{workers} workers"));
            let node = node(workers);
            let by_ref = kit::ByRef::node_ref(&node);
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    std::thread::spawn(move || {
                        let mut actors = Vec::new();
                        while let Ok(actor) = by_ref.spawn(keeper().0) {
                            actors.push(actor);
                        }
                        actors
                    })
                })
                .collect();
            // The watchdog would bark if it waited for an actor that nobody had stopped.
            let report = node.shutdown(Duration::from_secs(3600));
            assert_eq!(report.left, 0);
            for actor in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
                actor.join().unwrap();
            }
            assert_eq!(by_ref.actor_count(), 0);
        }
    }
}

// H7
#[test]
fn dropping_a_node_shuts_it_down() {
    let node = node(2);
    let (actor, _) = keeper();
    let actor = node.spawn(actor).unwrap();
    let key = block(&actor);
    key.open();
    drop(node);
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
}

fn builder(folder: &Folder) -> sinew_kernel::Builder {
    Node::builder().runtime(Runtime::builder().workers(1)).store(Store::open(folder.file()).unwrap())
}

/// Has an actor called `name` count in its state that this is the round with this number.
fn count(node: sinew_kernel::NodeRef, name: &str, round: u64) -> sinew_kernel::ActorRef<Work> {
    let actor = node.actor().name(name).spawn(keeper().0).unwrap();
    let counts = act(move |ctx| {
        let before = ctx.state().load("rounds").unwrap().map_or(0, |bytes| bytes[0]);
        assert_eq!(u64::from(before), round);
        ctx.state().save("rounds", [before + 1]).unwrap();
        Flow::Continue
    });
    actor.tell(counts).unwrap();
    actor
}

const ROUNDS: u64 = 200;

// H10
#[test]
fn the_file_of_a_node_that_was_shut_down_can_be_opened_at_once() {
    let folder = Folder::new();
    for round in 0..ROUNDS {
        let node = builder(&folder).build().unwrap();
        let actor = count(*node, "counter", round);
        actor.drain();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        let _ = node.shutdown(Duration::from_secs(30));
    }
}

// H10
#[test]
fn the_file_of_a_node_that_was_dropped_can_be_opened_at_once() {
    let folder = Folder::new();
    for round in 0..ROUNDS {
        let node = builder(&folder).build().unwrap();
        let actor = count(*node, "counter", round);
        actor.drain();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        match round % 10 {
            // By a thread that unwinds, and by a task of another runtime.
            0 => {
                let unwinds = std::thread::spawn(move || {
                    let _node = node;
                    std::panic::resume_unwind(Box::new(()))
                });
                let _: Result<(), _> = unwinds.join();
            }
            1 => Runtime::builder().workers(1).build().unwrap().run(move || drop(node)).unwrap(),
            _ => drop(node),
        }
    }
}

// H10
#[test]
fn the_file_of_a_node_on_the_callers_thread_can_be_opened_at_once() {
    let folder = Folder::new();
    for round in 0..20 {
        let node = builder(&folder).build_current_thread().unwrap();
        let actor = count(*node, "counter", round);
        actor.drain();
        node.runtime().run(move || drop(actor.join().unwrap())).unwrap();
        match round % 2 {
            0 => drop(node),
            _ => drop(node.shutdown(Duration::from_secs(30))),
        }
    }
}

// H10
#[test]
fn an_actor_that_outlives_its_node_does_not_keep_the_file_open() {
    let _watchdog = Watchdog::new("a spinner with a state".to_owned());
    let folder = Folder::new();
    let node = builder(&folder).build().unwrap();
    let actor = count(*node, "zombie", 0);
    let (kept, state) = mpsc::channel();
    actor.tell(act(move |ctx| (kept.send(ctx.state()).unwrap(), Flow::Continue).1)).unwrap();
    let state = state.recv().unwrap();
    let computing = compute(&actor);
    assert_eq!(node.shutdown(Duration::from_millis(50)).left, 1);
    let store = Store::open(folder.file()).unwrap();
    assert_eq!(store.of("zombie").load("rounds").unwrap(), Some(vec![1]));
    assert!(matches!(state.save("rounds", [2]), Err(StoreError::Closed)));
    drop(computing);
}

// H11
#[test]
fn a_store_that_somebody_else_has_too_outlives_the_node() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let one = Node::builder().store(store.clone()).build().unwrap();
    let other = Node::builder().id(2).store(store).build().unwrap();
    other.store().of("a").save("k", "1").unwrap();
    drop(one);
    let state = other.store().of("a");
    assert_eq!(state.load("k").unwrap(), Some(b"1".to_vec()));
    drop(other);
    state.save("k", "2").unwrap();
    assert!(matches!(Store::open(folder.file()), Err(StoreError::InUse { .. })));
}

// H11
#[test]
fn the_store_of_a_node_can_be_closed_while_the_node_runs() {
    let folder = Folder::new();
    let node = builder(&folder).build().unwrap();
    node.store().of("a").save("k", "v").unwrap();
    node.store().close().unwrap();
    let store = Store::open(folder.file()).unwrap();
    assert_eq!(store.of("a").load("k").unwrap(), Some(b"v".to_vec()));
    assert!(matches!(node.store().of("a").load("k"), Err(StoreError::Closed)));
}
