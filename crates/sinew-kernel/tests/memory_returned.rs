//! What a node used goes back when it is gone. A program of its own, because its allocator counts all that the process uses.

use std::time::Duration;

use sinew_kernel::{Actor, ChildSpec, Ctx, Flow, Level, Lifecycle, Node, Strategy};
use sinew_sched::Runtime;
use sinew_test_kit::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Bytes that `one` leaves behind each time, on average, when what is allocated once has been: the least of several rounds, since
/// a runtime that ends in its own time makes the next one allocate what later ones share.
fn left_by(mut one: impl FnMut()) -> isize {
    const TIMES: isize = 10;
    (0..5).for_each(|_| one());
    let round = |_| {
        let before = ALLOCATOR.in_use();
        (0..TIMES).for_each(|_| one());
        (ALLOCATOR.in_use() - before) / TIMES
    };
    (0..5).map(round).min().expect("there are rounds")
}

struct Member(usize);

impl Actor for Member {
    type Msg = u64;

    fn started(&mut self, ctx: &mut Ctx<u64>) -> Flow {
        ctx.register(&format!("member {}", self.0)).unwrap();
        ctx.join_group("all").unwrap();
        ctx.send_after(Duration::from_secs(3_600), 1).unwrap();
        ctx.log(Level::Info, "here");
        Flow::Continue
    }

    fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
        Flow::Continue
    }
}

/// A node that uses everything, with so many actors.
fn node_of(actors: usize) {
    let node = Node::builder().log_to(std::io::sink()).build_current_thread().unwrap();
    let subscriptions = (node.lifecycle(), node.dead_letters());
    for n in 0..actors {
        let member = node.spawn(Member(n)).unwrap();
        member.tell(1).unwrap();
    }
    node.supervisor(Strategy::OneForOne)
        .child(ChildSpec::new("child", || Member(usize::MAX)))
        .spawn()
        .unwrap();
    node.run_until_idle();
    assert_eq!(node.actor_count(), actors + 2);
    assert_eq!(node.shutdown(Duration::from_secs(60)).left, 0);
    drop(subscriptions);
}

fn runtime_of(tasks: usize) {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    for _ in 0..tasks {
        runtime.spawn(sinew_sched::yield_now).detach();
    }
    runtime.run_until_idle();
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

// H12
#[test]
fn a_node_that_is_gone_leaves_nothing_of_its_actors_behind() {
    for actors in [10, 2_000] {
        // What the runtime leaves behind is not the node's.
        let (node, runtime) = (left_by(|| node_of(actors)), left_by(|| runtime_of(actors)));
        let left = node - runtime;
        assert!(left < 12 * 1024, "{left} bytes of a node with {actors} actors");
    }
}

// H12
#[test]
fn subscribers_of_a_node_that_is_gone_get_what_was_told_and_then_its_end() {
    let node = Node::builder().log_off().build_current_thread().unwrap();
    let lifecycle = node.lifecycle();
    let member = node.spawn(Member(1)).unwrap();
    node.run_until_idle();
    assert_eq!(node.shutdown(Duration::from_secs(60)).left, 0);
    let ended = |event| matches!(event, Lifecycle::Ended { actor, .. } if actor == member.id());
    assert_eq!(lifecycle.iter().filter(|event| ended(event.clone())).count(), 1);
    assert!(lifecycle.recv().is_err());
    assert!(member.is_dead() && member.tell(1).is_err() && member.node().spawn(Member(2)).is_err());
}
