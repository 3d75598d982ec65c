//! Supervisors: how children start, and what becomes of those that cannot.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    Actor, AskError, Backoff, ChildSpec, ChildState, Ctx, ExitReason, Flow, JoinError, Node, SpawnError,
    Strategy,
};
use sinew_sched::Runtime;

use crate::lab::{BIT, Lab, Log, Order, Probe, SECOND, error};

// S1
#[test]
fn the_next_child_starts_when_the_one_before_has_started() {
    let lab = Lab::new();
    let (open, gate) = oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    let log = lab.log.clone();
    let slow = ChildSpec::new("slow", move || {
        if let Some(mut gate) = gate.lock().unwrap().take() {
            let _ = gate.recv();
        }
        Probe::new("slow", &log)
    });
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(slow).child(lab.child("next")));
    assert_eq!(lab.log(), "");
    assert_eq!(lab.states(&supervisor), [ChildState::Starting, ChildState::Waiting]);
    drop(open);
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "+slow +next");
}

// S8
#[test]
fn a_crash_in_started_counts_as_a_restart() {
    struct Fails(Arc<AtomicU32>, bool);
    impl Actor for Fails {
        type Msg = ();
        fn started(&mut self, _: &mut Ctx<()>) -> Flow {
            self.0.fetch_add(1, Ordering::Relaxed);
            if self.1 { panic!("it cannot start") } else { Flow::Exit(error()) }
        }
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
    }
    for panics in [true, false] {
        let lab = Lab::new();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        let spec = ChildSpec::new("fails", move || Fails(counted.clone(), panics));
        let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(3, SECOND);
        let supervisor = lab.start(supervisor.child(lab.child("a")).child(spec).child(lab.child("never")));
        assert_eq!(starts.load(Ordering::Relaxed), 4);
        assert_eq!(lab.join(&supervisor), ExitReason::RestartsExceeded);
        assert_eq!(lab.log(), "+a -a");
    }
}

// S9
#[test]
fn a_factory_that_panics_is_a_start_that_failed_and_is_called_again() {
    let lab = Lab::new();
    let (log, mut calls) = (lab.log.clone(), 0);
    let spec = ChildSpec::new("a", move || {
        calls += 1;
        if calls < 3 {
            panic!("no state today");
        }
        Probe::new("a", &log)
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(5, SECOND);
    let supervisor = lab.start(supervisor.child(spec).child(lab.child("b")));
    assert_eq!(lab.log(), "+a +b");
    let info = lab.info(&supervisor, "a");
    assert_eq!(info.restarts, 2);
    let Some(ExitReason::Error(failure)) = info.last_exit else { panic!("{info:?}") };
    assert_eq!(failure.message, "no state today");
    assert!(failure.location.contains("supervision_starts.rs"), "{}", failure.location);
}

// S10
#[test]
fn a_factory_that_blocks_holds_up_neither_the_supervisor_nor_other_restarts() {
    let lab = Lab::new();
    let (open, gate) = oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    let (log, mut calls) = (lab.log.clone(), 0);
    let spec = ChildSpec::new("a", move || {
        calls += 1;
        if calls == 2
            && let Some(mut gate) = gate.lock().unwrap().take()
        {
            let _ = gate.recv();
        }
        Probe::new("a", &log)
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(5, SECOND);
    let supervisor = lab.start(supervisor.child(spec).child(lab.child("b")));
    lab.tell(&supervisor, "a", Order::Panic);
    lab.log();
    lab.tell(&supervisor, "b", Order::Panic);
    assert_eq!(lab.log(), "+b");
    assert_eq!(lab.states(&supervisor), [ChildState::Starting, ChildState::Running]);
    drop(open);
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "+a");
}

#[test]
fn a_factory_that_blocks_for_ever_is_killed_when_the_supervisor_stops() {
    let lab = Lab::new();
    let (_open, gate) = oneshot::channel::<()>();
    let mut gate = Some(gate);
    let log = lab.log.clone();
    let spec = ChildSpec::new("a", move || {
        let _ = gate.take().expect("it is called once").recv();
        sinew_sched::sleep(Duration::MAX);
        Probe::new("a", &log)
    });
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(spec.shutdown(2 * SECOND)));
    supervisor.stop();
    lab.node.run_until_idle();
    lab.pass(2 * SECOND - BIT);
    assert!(!supervisor.is_dead());
    lab.pass(2 * BIT);
    assert_eq!(lab.join(&supervisor), ExitReason::Shutdown);
    assert_eq!(lab.log(), "");
}

#[test]
fn a_name_that_is_taken_is_a_start_that_failed() {
    let lab = Lab::new();
    let squatter = lab.node.actor().name("db").spawn(Probe::new("squatter", &lab.log)).unwrap();
    let backoff = Backoff { initial: SECOND, factor: 1, ..Backoff::default() };
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, 100 * SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").name("db").backoff(backoff)));
    lab.pass(SECOND + BIT);
    let info = lab.info(&supervisor, "a");
    assert_eq!((info.state, info.restarts), (ChildState::Waiting, 1));
    assert!(info.last_exit.unwrap().to_string().contains("\"db\" is taken by actor"));
    squatter.stop();
    lab.node.run_until_idle();
    lab.pass(SECOND + BIT);
    assert_eq!(lab.info(&supervisor, "a").state, ChildState::Running);
}

#[test]
fn children_for_which_there_is_no_room_are_failures_and_do_not_hang_the_supervisor() {
    let runtime = Runtime::builder().workers(1);
    let node = Node::builder().runtime(runtime).max_actors(2).build().unwrap();
    let log = Log::default();
    let spec = |key: &'static str, log: &Log| {
        let log = log.clone();
        ChildSpec::new(key, move || Probe::new(key, &log))
    };
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(1000, SECOND);
    let supervisor = supervisor.child(spec("a", &log)).child(spec("b", &log)).spawn().unwrap();
    assert_eq!(supervisor.join().unwrap(), ExitReason::RestartsExceeded);
    assert_eq!(log.lock().unwrap().join(" "), "+a -a");
}

#[test]
fn two_first_children_with_one_key_are_refused() {
    let lab = Lab::new();
    let twice = || lab.node.supervisor(Strategy::OneForOne).child(lab.child("a")).child(lab.child("a"));
    assert_eq!(twice().spawn().unwrap_err(), SpawnError::DuplicateChild("a".into()));
    assert_eq!(lab.node.actor_count(), 0);

    let (node, log) = (*lab.node, lab.log.clone());
    let inner = move || {
        let [one, other] = [log.clone(), log.clone()];
        let supervisor =
            node.supervisor(Strategy::OneForOne).child(ChildSpec::new("a", move || Probe::new("a", &one)));
        supervisor.child(ChildSpec::new("a", move || Probe::new("a", &other)))
    };
    let inner =
        ChildSpec::supervisor("inner", inner).backoff(Backoff { initial: SECOND, ..Backoff::default() });
    let outer = lab.start(lab.node.supervisor(Strategy::OneForOne).child(inner));
    let info = lab.info(&outer, "inner");
    assert!(info.last_exit.unwrap().to_string().contains("child \"a\" already"));
    assert_eq!(lab.log(), "");
}

#[test]
fn a_factory_whose_destructor_panics_does_not_end_the_supervisor() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as ordered");
        }
    }
    let lab = Lab::new();
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(lab.child("a")));
    let (sup, log, bomb) = (supervisor.clone(), lab.log.clone(), Bomb);
    lab.run(move || {
        let spec = ChildSpec::new("b", move || {
            let _ = &bomb;
            Probe::new("b", &log)
        });
        sup.start_child(spec).unwrap();
        sup.terminate_child("b").unwrap();
        sup.delete_child("b").unwrap();
        assert_eq!(sup.count_children().unwrap().specs, 1);
    });
}

#[test]
fn a_factory_that_is_killed_is_called_again() {
    let lab = Lab::new();
    let (made, mut calls) = (Arc::new(AtomicU32::new(0)), 0);
    let (counted, log) = (made.clone(), lab.log.clone());
    let spec = ChildSpec::new("a", move || {
        calls += 1;
        counted.store(calls, Ordering::Relaxed);
        // Whoever is cancelled or killed in here ends here; the factory is put back as it is.
        sinew_sched::sleep(Duration::MAX);
        Probe::new("a", &log)
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(2, SECOND).child(spec);
    let supervisor = lab.start(supervisor);
    for _ in 0..2 {
        let id = lab.info(&supervisor, "a").id.unwrap();
        lab.node.kill(id);
        lab.node.run_until_idle();
    }
    assert_eq!(made.load(Ordering::Relaxed), 3);
    assert_eq!(lab.info(&supervisor, "a").state, ChildState::Starting);
}

/// S18
#[test]
fn a_supervisor_has_started_when_its_children_have_however_deep() {
    struct Leaf;
    impl Actor for Leaf {
        type Msg = ();

        fn started(&mut self, _: &mut Ctx<()>) -> Flow {
            sinew_sched::yield_now(); // others go first
            Flow::Continue
        }

        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
    }
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        for _ in 0..50 {
            let node = *node;
            let leaves = move || {
                let leaf = |key: &'static str| ChildSpec::new(key, || Leaf);
                node.supervisor(Strategy::OneForAll).child(leaf("a")).child(leaf("b"))
            };
            let inner =
                move || node.supervisor(Strategy::OneForOne).child(ChildSpec::supervisor("leaves", leaves));
            let outer = node.supervisor(Strategy::OneForOne).child(ChildSpec::supervisor("inner", inner));
            let outer = outer.spawn().unwrap();
            outer.wait_started().unwrap();
            let leaves = outer.child_supervisor("inner").unwrap().child_supervisor("leaves").unwrap();
            assert_eq!(leaves.count_children().unwrap().active, 2);
            outer.stop();
            outer.join().unwrap();
        }
    }
}

// S21
#[test]
fn a_supervisor_with_a_child_that_cannot_be_is_refused() {
    let lab = Lab::new();
    let refused = |spec: ChildSpec| {
        let supervisor = lab.node.supervisor(Strategy::OneForOne).child(lab.child("fine"));
        supervisor.child(spec).spawn().map(|supervisor| supervisor.id()).unwrap_err()
    };
    assert!(matches!(refused(lab.child("a").name("")), SpawnError::BadName(_)));
    assert!(matches!(refused(lab.child("a").name("/a//b")), SpawnError::BadName(_)));
    assert_eq!(refused(lab.child("a").mailbox(0)), SpawnError::NoCapacity);
    assert_eq!(refused(lab.child("fine")), SpawnError::DuplicateChild("fine".into()));
    assert_eq!((lab.log().as_str(), lab.node.actor_count()), ("", 0));
}

#[test]
fn waits_for_the_start_and_the_end_of_a_supervisor_end_when_their_time_is_up() {
    let node = Node::new();
    let (open, gate) = oneshot::channel::<()>();
    let (log, gate) = (Log::default(), Mutex::new(Some(gate)));
    let slow = ChildSpec::new("slow", move || {
        if let Some(mut gate) = gate.lock().unwrap().take() {
            let _ = gate.recv();
        }
        Probe::new("slow", &log)
    });
    let supervisor = node.supervisor(Strategy::OneForOne).child(slow).spawn().unwrap();
    let waited = supervisor.wait_started_timeout(BIT);
    assert!(matches!(waited, Err(AskError::Timeout(BIT))), "{waited:?}");
    drop(open);
    supervisor.wait_started_timeout(60 * SECOND).unwrap();
    let early = supervisor.join_timeout(BIT);
    assert!(matches!(early, Err(JoinError::Timeout(BIT))), "{early:?}");
    supervisor.stop();
    assert_eq!(supervisor.join_timeout(60 * SECOND).unwrap(), ExitReason::Shutdown);
}
