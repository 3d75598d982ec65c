//! Supervisors: how children stop, in which order, and in what time.

use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{Actor, ChildSpec, Ctx, Exit, ExitReason, Flow, Node, Strategy, Supervisor};
use sinew_sched::Runtime;

use crate::lab::{BIT, Lab, Log, Order, Probe, SECOND, three};

// S1
#[test]
fn children_start_in_order_and_stop_in_reverse_order() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let lab = Lab::new();
        let supervisor = lab.start(three(&lab, strategy));
        assert_eq!(lab.log(), "+a +b +c");
        supervisor.stop();
        lab.node.run_until_idle();
        assert_eq!(lab.log(), "-c -b -a");
        assert_eq!(lab.join(&supervisor), ExitReason::Shutdown);
        assert_eq!(lab.node.actor_count(), 0);
    }
}

#[test]
fn nested_supervisors_start_and_stop_depth_first() {
    let lab = Lab::new();
    let (node, log) = (*lab.node, lab.log.clone());
    let inner = move || {
        let specs = ["b", "c"].map(|key| {
            let log = log.clone();
            ChildSpec::new(key, move || Probe::new(key, &log))
        });
        specs.into_iter().fold(node.supervisor(Strategy::OneForOne), Supervisor::child)
    };
    let outer = lab.node.supervisor(Strategy::OneForOne).child(lab.child("a"));
    let outer = lab.start(outer.child(ChildSpec::supervisor("inner", inner)).child(lab.child("d")));
    lab.log();
    outer.stop();
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "-d -c -b -a");
}

// S11
#[test]
fn a_child_that_does_not_stop_in_its_time_is_killed() {
    let lab = Lab::new();
    let supervisor = lab.node.supervisor(Strategy::OneForOne).child(lab.child("a"));
    let supervisor = lab.start(supervisor.child(lab.child("b").shutdown(3 * SECOND)));
    let (_held, blocks) = oneshot::channel();
    lab.tell(&supervisor, "b", Order::Block(blocks));
    lab.log();
    supervisor.stop();
    lab.node.run_until_idle();
    lab.pass(3 * SECOND - BIT);
    assert_eq!(lab.log(), "", "the others wait for it");
    lab.pass(2 * BIT);
    assert_eq!(lab.log(), "-a", "one that is killed has no last words");
    assert!(supervisor.is_dead());
}

// S19
#[test]
fn a_dynamic_supervisor_stops_all_children_at_once_each_in_its_own_time() {
    for exceeded in [false, true] {
        let lab = Lab::new();
        let supervisor = lab.start(lab.node.supervisor(Strategy::Dynamic).max_restarts(0, SECOND));
        let mut held = Vec::new();
        for key in ["a", "b", "c"] {
            let (spec, adds) = (lab.child(key).shutdown(3 * SECOND), supervisor.clone());
            lab.run(move || adds.start_child(spec).unwrap());
            let (holds, blocks) = oneshot::channel();
            lab.tell(&supervisor, key, Order::Block(blocks));
            held.push(holds);
        }
        let (spec, adds) = (lab.child("d"), supervisor.clone());
        lab.run(move || adds.start_child(spec).unwrap());
        lab.log();
        if exceeded {
            lab.tell(&supervisor, "d", Order::Panic);
        } else {
            supervisor.stop();
        }
        lab.node.run_until_idle();
        assert_eq!(lab.log(), if exceeded { "" } else { "-d" }, "it waits for nobody");
        drop(held.remove(1));
        lab.node.run_until_idle();
        assert_eq!(lab.log(), "-b", "it was asked to stop as well");
        lab.pass(3 * SECOND - BIT);
        assert!(!supervisor.is_dead());
        lab.pass(2 * BIT);
        assert!(supervisor.is_dead(), "the times of two that need them pass together");
        assert_eq!(lab.log(), "", "those that are killed have no last words");
        let expected = if exceeded { ExitReason::RestartsExceeded } else { ExitReason::Shutdown };
        assert_eq!(lab.join(&supervisor), expected);
    }
}

// S19
#[test]
fn a_dynamic_supervisor_restarts_the_child_that_ended_alone() {
    let lab = Lab::new();
    let supervisor = lab.start(lab.node.supervisor(Strategy::Dynamic).max_restarts(1, SECOND));
    for key in ["a", "b", "c"] {
        let (spec, adds) = (lab.child(key), supervisor.clone());
        lab.run(move || adds.start_child(spec).unwrap());
    }
    let ids = || ["a", "b", "c"].map(|key| lab.info(&supervisor, key).id.unwrap());
    let before = ids();
    lab.log();
    lab.tell(&supervisor, "b", Order::Panic);
    assert_eq!(lab.log(), "+b");
    let after = ids();
    assert_eq!([0, 1, 2].map(|n| after[n] == before[n]), [true, false, true]);
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.join(&supervisor), ExitReason::RestartsExceeded);
}

#[test]
fn a_child_without_time_to_stop_is_killed_at_once() {
    let lab = Lab::new();
    let spec = lab.child("a").shutdown(Duration::ZERO);
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(spec).child(lab.child("b")));
    lab.log();
    supervisor.stop();
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "-b");
    assert!(supervisor.is_dead());
}

#[test]
fn a_supervisor_has_the_time_that_its_children_need() {
    let lab = Lab::new();
    let spec = lab.child("a").shutdown(100 * SECOND);
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(spec).child(lab.child("b")));
    let (held, blocks) = oneshot::channel();
    lab.tell(&supervisor, "a", Order::Block(blocks));
    lab.log();
    supervisor.stop();
    lab.node.run_until_idle();
    lab.pass(90 * SECOND);
    assert!(!supervisor.is_dead(), "the node's time-out is 10 seconds");
    drop(held);
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "-b -a");
    assert_eq!(lab.join(&supervisor), ExitReason::Shutdown);
}

// S14
#[test]
fn a_killed_supervisor_takes_its_children_with_it() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne));
    lab.log();
    supervisor.kill();
    lab.node.run_until_idle();
    assert_eq!(lab.join(&supervisor), ExitReason::Killed);
    let log = lab.log();
    assert!(["-a", "-b", "-c"].iter().all(|stopped| log.contains(stopped)), "{log}");
    assert_eq!(lab.node.actor_count(), 0);
}

// S15
#[test]
fn a_supervisor_may_be_the_child_of_any_actor() {
    struct Owner(Log);
    impl Actor for Owner {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            let log = self.0.clone();
            let child = ChildSpec::new("leaf", move || Probe::new("leaf", &log)).name("leaf");
            ctx.supervisor(Strategy::OneForOne).max_restarts(0, SECOND).child(child).spawn().unwrap();
            Flow::Continue
        }
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
        fn exit_of(&mut self, exit: Exit, _: &mut Ctx<()>) -> Flow {
            self.0.lock().unwrap().push(exit.reason.name().to_owned());
            Flow::Continue
        }
    }
    for fails in [false, true] {
        let lab = Lab::new();
        let owner = lab.node.spawn(Owner(lab.log.clone())).unwrap();
        lab.node.run_until_idle();
        assert_eq!(lab.log(), "+leaf");
        if fails {
            let leaf = lab.node.lookup_as::<Order>("leaf").unwrap();
            lab.run(move || leaf.tell(Order::Panic).unwrap());
            assert_eq!(lab.log(), ExitReason::RestartsExceeded.name(), "it is told of the supervisor's end");
            assert_eq!(lab.node.actor_count(), 1);
        }
        owner.stop();
        lab.node.run_until_idle();
        assert_eq!(lab.log(), if fails { "" } else { "-leaf" });
        assert_eq!(lab.node.actor_count(), 0);
    }
}

// H8
#[test]
fn a_node_that_shuts_down_stops_its_trees_in_order() {
    let log = Log::default();
    let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
    let spec = |key: &'static str| {
        let log = log.clone();
        ChildSpec::new(key, move || Probe::new(key, &log))
    };
    let supervisor = node.supervisor(Strategy::OneForOne).child(spec("a")).child(spec("b")).child(spec("c"));
    supervisor.spawn().unwrap().wait_started().unwrap();
    assert_eq!(node.shutdown(60 * SECOND).left, 0);
    assert_eq!(log.lock().unwrap().join(" "), "+a +b +c -c -b -a");
}
