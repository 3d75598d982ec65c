//! Children end with their parent, and before it (`docs/semantics.md`, L and S).

use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::{ActorRef, AskError, ChildSpec, ExitReason, Flow, LocalNode, Node, Reply, Strategy};
use sinew_sched::{ManualClock, Runtime, sleep};

use crate::kit::{self, Hooked, Work, act, keeper, with_nodes};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A node on this thread that waits 5 seconds for actors that are to stop, and its clock.
fn node() -> (LocalNode, ManualClock) {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().manual_clock(&clock);
    let node = Node::builder().runtime(runtime).stop_timeout(5 * SECOND).log_off();
    (node.build_current_thread().unwrap(), clock)
}

/// One that takes so long for each message.
fn slow(time: Duration) -> Hooked<u64> {
    Hooked::new(move |_, _| {
        sleep(time);
        Flow::Continue
    })
}

/// One that fails at each message, with a child that takes so long for each.
fn parent(time: Duration) -> Hooked<u64> {
    Hooked::new(|_, _| panic!("on purpose")).started(move |(), ctx| {
        ctx.child().name("child").spawn(slow(time)).unwrap();
        Flow::Continue
    })
}

fn tell(node: &LocalNode, name: &str) -> ActorRef<u64> {
    let actor = node.lookup_as::<u64>(name).unwrap();
    actor.tell(1).unwrap();
    node.run_until_idle();
    actor
}

// L18
#[test]
fn the_end_of_an_actor_is_told_when_its_children_have_ended() {
    let (node, clock) = node();
    let parent = node.actor().name("parent").spawn(parent(3 * SECOND)).unwrap();
    node.run_until_idle();
    let child = tell(&node, "child");
    tell(&node, "parent");
    assert!(!parent.is_dead() && !child.is_dead() && node.lookup("parent").is_some());
    clock.advance(4 * SECOND);
    node.run_until_idle();
    assert!(matches!(parent.join().unwrap(), ExitReason::Error(_)));
    assert_eq!(child.join().unwrap(), ExitReason::Shutdown);
    assert_eq!((node.lookup("parent"), node.lookup("child")), (None, None));
}

// L18
#[test]
fn a_kill_of_one_that_waits_for_its_children_kills_them() {
    let (node, _clock) = node();
    let parent = node.actor().name("parent").spawn(parent(HOUR)).unwrap();
    node.run_until_idle();
    let child = tell(&node, "child");
    tell(&node, "parent");
    assert!(!parent.is_dead());
    parent.kill();
    node.run_until_idle();
    assert_eq!(child.join().unwrap(), ExitReason::Killed);
    assert!(parent.is_dead(), "it had failed, and is not given up for its children");
    assert_eq!(node.zombies(), []);
}

// S20
#[test]
fn whoever_is_restarted_does_not_meet_the_children_of_the_one_before() {
    let (node, clock) = node();
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(1, HOUR);
    let spec = ChildSpec::new("parent", || parent(3 * SECOND)).name("parent");
    let supervisor = supervisor.child(spec).spawn().unwrap();
    node.run_until_idle();
    let before = tell(&node, "child");
    tell(&node, "parent");
    clock.advance(4 * SECOND);
    node.run_until_idle();
    assert!(!supervisor.is_dead());
    assert_ne!(node.lookup("child").unwrap(), before.id());
}

// S20
#[test]
fn a_supervisor_that_is_killed_in_a_tree_is_restarted_with_its_children() {
    let (node, _clock) = node();
    let by_ref = *node;
    let inner = move || {
        let inner = by_ref.supervisor(Strategy::OneForOne).max_restarts(0, HOUR);
        inner.child(ChildSpec::new("child", || slow(HOUR)).name("child"))
    };
    let outer = node.supervisor(Strategy::OneForOne).max_restarts(1, HOUR);
    let outer = outer.child(ChildSpec::supervisor("inner", inner).name("inner")).spawn().unwrap();
    node.run_until_idle();
    let before = tell(&node, "child");
    node.kill(node.lookup("inner").unwrap());
    node.run_until_idle();
    // Cancelled, and not killed: it may clean up.
    assert_eq!(before.join().unwrap(), ExitReason::Shutdown);
    assert!(!outer.is_dead());
    assert_ne!(node.lookup("child").unwrap(), before.id());
}

// L18
#[test]
fn a_deep_tree_ends_with_its_root() {
    fn deep(levels: u32) -> Hooked<Work> {
        keeper().0.started(move |(), ctx| {
            if levels > 0 {
                ctx.child().spawn(deep(levels - 1)).unwrap();
            }
            Flow::Continue
        })
    }
    with_nodes(|node| {
        for end in [ActorRef::stop, ActorRef::kill] {
            let root = node.spawn(deep(500)).unwrap();
            kit::spin_until(|| node.actor_count() == 501);
            end(&root);
            root.join().unwrap();
            assert_eq!(node.actor_count(), 0);
        }
    });
}

// L18
#[test]
fn a_child_that_asks_a_parent_which_fails_hears_of_it_at_once() {
    let (node, _clock) = node();
    let (sender, answers) = mpsc::channel();
    let parent = Hooked::<Reply<u64>>::new(|_, _| panic!("on purpose")).started(move |(), ctx| {
        let (parent, sender) = (ctx.me(), sender.clone());
        let child = Hooked::<u64>::new(move |_, _| {
            sender.send(parent.ask_timeout(|reply| reply, HOUR)).unwrap();
            Flow::Continue
        });
        ctx.child().name("child").spawn(child).unwrap();
        Flow::Continue
    });
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    tell(&node, "child");
    assert!(matches!(answers.try_recv().unwrap(), Err(AskError::Stopped(ExitReason::Error(_)))));
    assert!(parent.is_dead());
}

// A14
#[test]
fn whoever_asks_an_actor_that_fails_does_not_wait_for_its_children() {
    let (node, _clock) = node();
    let parent = Hooked::<Reply<u64>>::new(|_, _| panic!("on purpose")).started(|(), ctx| {
        ctx.child().name("child").spawn(slow(HOUR)).unwrap();
        Flow::Continue
    });
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    tell(&node, "child");
    let asks = parent.clone();
    let asker = node.runtime().spawn(move || asks.ask_timeout(|reply| reply, HOUR));
    node.run_until_idle();
    assert!(asker.is_finished() && !parent.is_dead());
    assert!(matches!(asker.join().unwrap(), Err(AskError::Stopped(ExitReason::Error(_)))));
    let totals = node.snapshot().totals;
    assert_eq!((totals.failed, totals.handled), (1, 1), "the child is at its message");
}

// L18
#[test]
fn children_of_one_that_is_stopped_have_the_time_that_they_may_take() {
    let (node, clock) = node();
    let parent = Hooked::<u64>::new(|_, _| Flow::Continue).started(|(), ctx| {
        let spec = ChildSpec::new("slow", || slow(60 * SECOND)).name("slow").shutdown(120 * SECOND);
        ctx.supervisor(Strategy::OneForOne).child(spec).spawn().unwrap();
        Flow::Continue
    });
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    let slow = tell(&node, "slow");
    parent.stop();
    for _ in 0..30 {
        clock.advance(2 * SECOND);
        node.run_until_idle();
    }
    assert!(!slow.is_dead() && !parent.is_dead(), "the node's time-out is 5 seconds");
    clock.advance(2 * SECOND);
    node.run_until_idle();
    assert_eq!(slow.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(parent.join().unwrap(), ExitReason::Shutdown);
}

// L27
#[test]
fn a_cancel_ends_the_message_that_the_actor_is_at_and_runs_its_hook() {
    let (node, _clock) = node();
    let notes = kit::Notes::default();
    let actor = node.spawn(kit::noting(&notes)).unwrap();
    actor
        .tell(act(|_| {
            sleep(HOUR);
            Flow::Continue
        }))
        .unwrap();
    node.run_until_idle();
    actor.cancel();
    node.run_until_idle();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(*notes.lock().unwrap(), ["started", "handle", "stopping", "dropped"]);
    let other = node.spawn(keeper().0).unwrap();
    assert!(node.cancel(other.id()) && !node.cancel(actor.id()));
}
