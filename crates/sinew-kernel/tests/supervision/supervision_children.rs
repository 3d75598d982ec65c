//! Supervisors: children that come and go at run time, and what is asked and told of them.

use std::sync::{Arc, Mutex};

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    ActorRef, AskError, ChildSpec, ChildState, Ctx, ExitReason, Flow, Kind, Message, Node, Restart, Strategy,
    SupervisorError,
};
use sinew_sched::Runtime;

use crate::lab::{Lab, Log, Order, Probe, SECOND, three};

// S13
#[test]
fn children_come_and_go_at_run_time() {
    let lab = Lab::new();
    let supervisor = lab.start(lab.node.supervisor(Strategy::OneForOne).child(lab.child("a")));
    let (spec, again) = (lab.child("b"), lab.child("b"));
    let sup = supervisor.clone();
    lab.run(move || {
        let id = sup.start_child(spec).unwrap();
        assert_eq!(sup.child_ref::<Order>("b").unwrap().id(), id);
        assert!(matches!(sup.start_child(again), Err(SupervisorError::Exists(key)) if &*key == "b"));
        assert!(matches!(sup.restart_child("b"), Err(SupervisorError::NotStopped(_))));
        assert!(matches!(sup.delete_child("b"), Err(SupervisorError::NotStopped(_))));
        assert!(matches!(sup.terminate_child("x"), Err(SupervisorError::NoChild(_))));
        assert!(matches!(sup.child_ref::<u8>("b"), Err(SupervisorError::OtherType(..))));

        sup.terminate_child("b").unwrap();
        assert!(matches!(sup.child_ref::<Order>("b"), Err(SupervisorError::NotRunning(_))));
        let counts = sup.count_children().unwrap();
        assert_eq!((counts.specs, counts.active, counts.supervisors), (2, 1, 0));
        assert_eq!(sup.which_children().unwrap()[1].last_exit, Some(ExitReason::Shutdown));

        let restarted = sup.restart_child("b").unwrap();
        assert_ne!(restarted, id);
        sup.terminate_child("b").unwrap();
        sup.terminate_child("b").unwrap();
        sup.delete_child("b").unwrap();
        assert!(matches!(sup.delete_child("b"), Err(SupervisorError::NoChild(_))));
        assert_eq!(sup.count_children().unwrap().specs, 1);
    });
    assert_eq!(lab.log(), "+a +b -b +b -b");
}

#[test]
fn a_child_that_was_terminated_is_not_started_with_others() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForAll));
    let sup = supervisor.clone();
    lab.run(move || sup.terminate_child("b").unwrap());
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-c +a +c");
}

#[test]
fn a_child_that_is_being_terminated_when_others_are_restarted_stays_down() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForAll));
    let (held, blocks) = oneshot::channel();
    lab.tell(&supervisor, "b", Order::Block(blocks));
    let sup = supervisor.clone();
    let terminated = lab.node.runtime().spawn(move || sup.terminate_child("b").unwrap());
    lab.node.run_until_idle();
    assert!(!terminated.is_finished());
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-c", "it is waited for");
    drop(held);
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "-b +a +c");
    assert!(terminated.is_finished());
    assert_eq!(lab.info(&supervisor, "b").state, ChildState::Stopped);
}

#[test]
fn a_child_that_fails_when_it_is_added_is_told_and_not_kept() {
    let lab = Lab::new();
    let supervisor = lab.start(lab.node.supervisor(Strategy::RestForOne).child(lab.child("a")));
    let sup = supervisor.clone();
    lab.run(move || {
        let spec = ChildSpec::new("b", || -> Probe { panic!("not today") });
        let Err(SupervisorError::Failed(ExitReason::Error(failure))) = sup.start_child(spec) else {
            panic!()
        };
        assert_eq!(failure.message, "not today");
        assert_eq!(sup.count_children().unwrap().specs, 1);
    });
    assert_eq!(lab.log(), "+a", "the others are not touched");
}

#[test]
fn whoever_waits_for_a_supervisor_that_ends_is_told() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne));
    let (held, blocks) = oneshot::channel();
    lab.tell(&supervisor, "a", Order::Block(blocks));
    supervisor.stop();
    lab.node.run_until_idle();
    let (sup, spec) = (supervisor.clone(), lab.child("late"));
    lab.run(move || {
        assert!(matches!(sup.start_child(spec), Err(SupervisorError::Ending)));
        assert!(matches!(sup.restart_child("c"), Err(SupervisorError::Ending)));
    });
    drop(held);
    lab.node.run_until_idle();
    assert!(supervisor.is_dead());
    let sup = supervisor.clone();
    lab.run(move || {
        assert!(matches!(sup.which_children(), Err(AskError::Stopped(ExitReason::Shutdown))));
    });
}

#[test]
fn a_raw_behaviour_is_told_of_its_childs_exit_as_bytes() {
    let lab = Lab::new();
    let (log, told) = (lab.log.clone(), Arc::new(Mutex::new(Vec::new())));
    let bytes = told.clone();
    let parent = lab.node.actor().spawn_raw(None, move |child, message: &Message, ctx: &mut Ctx| {
        if message.kind == Kind::CHILD_EXIT {
            bytes.lock().unwrap().push((child.unwrap(), message.payload.bytes().to_vec()));
        } else {
            let spawned = ctx.child().spawn(Probe::new("child", &log)).unwrap();
            *child = Some(spawned.id());
            spawned.tell(Order::Panic).unwrap();
        }
        Flow::Continue
    });
    let id = parent.unwrap().id();
    lab.node.send(id, Kind(1), Vec::new()).unwrap();
    lab.node.run_until_idle();
    let told = told.lock().unwrap();
    let [(child, bytes)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&bytes[..8], bytes[8], bytes.len()), (&child.as_u64().to_le_bytes()[..], 2, 16));
}

#[test]
fn a_supervisor_has_a_hundred_thousand_children() {
    let children: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, SECOND).spawn().unwrap();
    let (this, sup) = (*node, supervisor.clone());
    let counted = node.run(move || {
        for n in 0..children {
            let spec = ChildSpec::new(n.to_string(), || Probe::new("", &Log::default()));
            sup.start_child(spec.restart(Restart::Transient)).unwrap();
        }
        assert_eq!(this.actor_count(), children + 1);
        for n in (0..children).step_by(100) {
            let child: ActorRef<Order> = sup.child_ref(&n.to_string()).unwrap();
            child.tell(Order::Panic).unwrap();
            child.join().unwrap();
            let next: ActorRef<Order> = sup.child_ref(&n.to_string()).unwrap();
            assert_eq!(next.ask(Order::Id).unwrap(), next.id());
        }
        sup.count_children().unwrap()
    });
    let counted = counted.unwrap();
    assert_eq!((counted.specs, counted.active), (children, children));
    supervisor.stop();
    assert_eq!(supervisor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(node.shutdown(60 * SECOND).left, 0);
}
