//! Supervisors: who is started, restarted and stopped, when, and in which order.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorId, ActorRef, AskError, Backoff, ChildInfo, ChildSpec, ChildState, Ctx, Exit, ExitReason,
    Failure, Flow, Kind, LocalNode, Message, Node, Process, Reply, Restart, SpawnError, Strategy, Supervisor,
    SupervisorError, SupervisorRef,
};
use sinew_sched::chan::oneshot;
use sinew_sched::{ManualClock, Runtime};

const SECOND: Duration = Duration::from_secs(1);
/// More time than a deadline is rounded up by.
const BIT: Duration = Duration::from_millis(1);

/// A node that runs when it is told to, on a clock that does so too.
struct Lab {
    node: LocalNode,
    clock: ManualClock,
    log: Log,
}

type Log = Arc<Mutex<Vec<String>>>;

impl Lab {
    fn new() -> Lab {
        let clock = ManualClock::new();
        clock.hold(true);
        let runtime = Runtime::builder().manual_clock(&clock);
        let node = Node::builder().runtime(runtime).stop_timeout(10 * SECOND).build_current_thread().unwrap();
        Lab { node, clock, log: Log::default() }
    }

    /// A child that notes when it starts and stops.
    fn child(&self, key: &'static str) -> ChildSpec {
        let log = self.log.clone();
        ChildSpec::new(key, move || Probe::new(key, &log))
    }

    fn start(&self, supervisor: Supervisor) -> SupervisorRef {
        let supervisor = supervisor.start().unwrap();
        self.node.run_until_idle();
        supervisor
    }

    fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> T {
        let result = self.node.runtime().run(body).unwrap();
        self.node.run_until_idle();
        result
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.node.run_until_idle();
    }

    fn tell(&self, supervisor: &SupervisorRef, key: &'static str, order: Order) {
        let supervisor = supervisor.clone();
        self.run(move || supervisor.child_ref::<Order>(key).unwrap().tell(order).unwrap());
    }

    fn infos(&self, supervisor: &SupervisorRef) -> Vec<ChildInfo> {
        let supervisor = supervisor.clone();
        self.run(move || supervisor.which_children().unwrap())
    }

    fn info(&self, supervisor: &SupervisorRef, key: &str) -> ChildInfo {
        self.infos(supervisor).into_iter().find(|info| &*info.key == key).unwrap()
    }

    fn states(&self, supervisor: &SupervisorRef) -> Vec<ChildState> {
        self.infos(supervisor).iter().map(|info| info.state).collect()
    }

    fn join(&self, supervisor: &SupervisorRef) -> ExitReason {
        assert!(supervisor.is_dead());
        let supervisor = supervisor.clone();
        self.run(move || supervisor.join().unwrap())
    }

    /// What was noted since the last time.
    fn log(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap()).join(" ")
    }
}

enum Order {
    Panic,
    Leave(ExitReason),
    /// Blocks until the other end is dropped.
    Block(oneshot::Receiver<()>),
    Id(Reply<ActorId>),
}

struct Probe {
    key: &'static str,
    log: Log,
}

impl Probe {
    fn new(key: &'static str, log: &Log) -> Probe {
        Probe { key, log: log.clone() }
    }

    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{what}{}", self.key));
    }
}

impl Actor for Probe {
    type Msg = Order;

    fn started(&mut self, _: &mut Ctx<Order>) -> Flow {
        self.note("+");
        Flow::Continue
    }

    fn handle(&mut self, order: Order, ctx: &mut Ctx<Order>) -> Flow {
        match order {
            Order::Panic => panic!("as ordered"),
            Order::Leave(reason) => return Flow::Exit(reason),
            Order::Block(mut receiver) => drop(receiver.recv()),
            Order::Id(reply) => reply.send(ctx.id()),
        }
        Flow::Continue
    }

    fn stopping(&mut self, _: &ExitReason, _: &mut Ctx<Order>) {
        self.note("-");
    }
}

fn error() -> ExitReason {
    Failure::new("as ordered").into()
}

fn three(lab: &Lab, strategy: Strategy) -> Supervisor {
    let supervisor = lab.node.supervisor(strategy).max_restarts(10, SECOND);
    supervisor.child(lab.child("a")).child(lab.child("b")).child(lab.child("c"))
}

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

#[test]
fn each_strategy_restarts_the_one_or_all_or_the_rest() {
    for (strategy, expected) in [
        (Strategy::OneForOne, "+b"),
        (Strategy::OneForAll, "-c -a +a +b +c"),
        (Strategy::RestForOne, "-c +b +c"),
    ] {
        let lab = Lab::new();
        let supervisor = lab.start(three(&lab, strategy));
        let before: Vec<_> = lab.infos(&supervisor).into_iter().map(|info| info.id).collect();
        lab.log();
        lab.tell(&supervisor, "b", Order::Panic);
        assert_eq!(lab.log(), expected, "{strategy}");
        let after = lab.infos(&supervisor);
        let renewed: Vec<_> = after.iter().zip(&before).map(|(info, before)| info.id != *before).collect();
        let expected = expected.split(' ').filter(|what| what.starts_with('+')).count();
        assert_eq!(renewed.iter().filter(|renewed| **renewed).count(), expected, "a restart is a new actor");
        assert!(after.iter().all(|info| info.state == ChildState::Running));
    }
}

#[test]
fn permanent_transient_and_temporary_children_are_restarted_as_they_are_called() {
    for reason in [ExitReason::Normal, ExitReason::Shutdown, error(), ExitReason::Killed] {
        let lab = Lab::new();
        let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, SECOND);
        let supervisor = supervisor
            .child(lab.child("permanent"))
            .child(lab.child("transient").restart(Restart::Transient))
            .child(lab.child("temporary").restart(Restart::Temporary));
        let supervisor = lab.start(supervisor);
        for key in ["permanent", "transient", "temporary"] {
            lab.tell(&supervisor, key, Order::Leave(reason.clone()));
        }
        let left: Vec<_> = lab.infos(&supervisor).into_iter().map(|info| (info.key, info.state)).collect();
        let transient = if reason.is_abnormal() { ChildState::Running } else { ChildState::Stopped };
        assert_eq!(left, [("permanent".into(), ChildState::Running), ("transient".into(), transient)]);
    }
}

#[test]
fn one_restart_too_many_stops_the_children_in_reverse_order_and_ends_the_supervisor() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne).max_restarts(2, SECOND));
    lab.tell(&supervisor, "a", Order::Panic);
    lab.tell(&supervisor, "b", Order::Panic);
    lab.pass(SECOND / 2);
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-c -b");
    assert_eq!(lab.join(&supervisor), ExitReason::RestartsExceeded);
    assert_eq!(lab.node.actor_count(), 0);
}

#[test]
fn restarts_outside_the_window_do_not_count() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne).max_restarts(1, SECOND));
    for _ in 0..20 {
        lab.tell(&supervisor, "a", Order::Panic);
        lab.pass(SECOND + BIT);
    }
    assert_eq!(lab.info(&supervisor, "a").restarts, 20);
}

#[test]
fn a_supervisor_that_gives_up_escalates_to_its_own() {
    let lab = Lab::new();
    let (node, log) = (*lab.node, lab.log.clone());
    let inner = move || {
        let log = log.clone();
        let child = ChildSpec::new("leaf", move || Probe::new("leaf", &log));
        node.supervisor(Strategy::OneForOne).max_restarts(1, SECOND).child(child)
    };
    let outer = lab.node.supervisor(Strategy::OneForAll).max_restarts(1, SECOND);
    let outer = lab.start(outer.child(lab.child("first")).child(ChildSpec::supervisor("inner", inner)));
    let leaf = |lab: &Lab| {
        let outer = outer.clone();
        lab.run(move || {
            let leaf = outer.child_supervisor("inner").unwrap().child_ref::<Order>("leaf").unwrap();
            leaf.tell(Order::Panic).unwrap();
        });
    };
    assert_eq!(lab.log(), "+first +leaf");
    leaf(&lab);
    assert_eq!(lab.log(), "+leaf");
    leaf(&lab);
    assert_eq!(lab.log(), "-first +first +leaf", "the inner one gave up, the outer one restarted both");
    let info = lab.info(&outer, "inner");
    assert_eq!((info.last_exit, info.is_supervisor), (Some(ExitReason::RestartsExceeded), true));
    leaf(&lab);
    leaf(&lab);
    assert_eq!(lab.log(), "+leaf -first", "the outer one gives up too");
    assert_eq!(lab.join(&outer), ExitReason::RestartsExceeded);
    assert_eq!(lab.node.actor_count(), 0);
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

#[test]
fn a_restart_waits_for_the_backoff_which_grows_and_starts_over() {
    let lab = Lab::new();
    let backoff = Backoff { initial: SECOND, factor: 2, max: 3 * SECOND, reset: 60 * SECOND };
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(100, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").backoff(backoff)).child(lab.child("b")));
    lab.log();
    let fails = |delay: u32| {
        lab.tell(&supervisor, "a", Order::Panic);
        assert_eq!(lab.info(&supervisor, "a").state, ChildState::Waiting);
        lab.pass(delay * SECOND - BIT);
        assert_eq!(lab.log(), "");
        lab.pass(2 * BIT);
        assert_eq!(lab.log(), "+a");
    };
    fails(1);
    fails(2);
    fails(3);
    fails(3);
    lab.pass(60 * SECOND);
    fails(1);
}

#[test]
fn a_group_stops_at_once_and_starts_after_the_backoff() {
    let lab = Lab::new();
    let backoff = Backoff { initial: SECOND, ..Backoff::default() };
    let supervisor = lab.node.supervisor(Strategy::OneForAll).max_restarts(10, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").backoff(backoff)).child(lab.child("b")));
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-b");
    assert_eq!(lab.states(&supervisor), [ChildState::Waiting; 2]);
    lab.pass(SECOND + BIT);
    assert_eq!(lab.log(), "+a +b");
}

#[test]
fn a_child_that_crashes_while_it_waits_to_be_stopped_with_others_is_not_counted() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForAll).max_restarts(1, SECOND));
    lab.log();
    let (supervisor_too, held) = (supervisor.clone(), oneshot::channel::<()>());
    lab.run(move || {
        let [a, b, c] = ["a", "b", "c"].map(|key| supervisor_too.child_ref::<Order>(key).unwrap());
        // The last one takes its time to stop; meanwhile the first one crashes.
        c.tell(Order::Block(held.1)).unwrap();
        b.tell(Order::Panic).unwrap();
        b.join().unwrap();
        a.tell(Order::Panic).unwrap();
        a.join().unwrap();
        drop(held.0);
    });
    assert_eq!(lab.log(), "-c +a +b +c");
    assert_eq!(lab.states(&supervisor), [ChildState::Running; 3]);
}

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
    assert!(failure.location.contains("supervision.rs"), "{}", failure.location);
}

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

#[test]
fn a_name_leads_to_whoever_was_started_last() {
    let lab = Lab::new();
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(100, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").name("db")));
    for _ in 0..50 {
        let id = lab.info(&supervisor, "a").id;
        assert_eq!(lab.node.lookup("db"), id);
        assert_eq!(lab.node.lookup_as::<Order>("db").map(|db| db.id()), id);
        lab.tell(&supervisor, "a", Order::Panic);
        assert_ne!(lab.info(&supervisor, "a").id, id);
    }
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
    let supervisor = supervisor.child(spec("a", &log)).child(spec("b", &log)).start().unwrap();
    assert_eq!(supervisor.join().unwrap(), ExitReason::RestartsExceeded);
    assert_eq!(log.lock().unwrap().join(" "), "+a -a");
}

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
fn a_temporary_child_that_is_stopped_with_others_is_gone() {
    let lab = Lab::new();
    let supervisor = lab.node.supervisor(Strategy::OneForAll).child(lab.child("a"));
    let supervisor = lab.start(supervisor.child(lab.child("b").restart(Restart::Temporary)));
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-b +a");
    assert_eq!(lab.infos(&supervisor).len(), 1);
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
fn two_first_children_with_one_key_are_refused() {
    let lab = Lab::new();
    let twice = || lab.node.supervisor(Strategy::OneForOne).child(lab.child("a")).child(lab.child("a"));
    assert_eq!(twice().start().unwrap_err(), SpawnError::DuplicateChild("a".into()));
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

#[test]
fn raw_behaviours_and_processes_are_restarted_like_actors() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU32::new(0));
    let factory = {
        let made = made.clone();
        move || made.fetch_add(1, Ordering::Relaxed)
    };
    let raw = ChildSpec::raw("raw", factory, |_: &mut u32, message: &Message, _: &mut Ctx| {
        if message.kind == Kind(1) { panic!("as ordered") } else { Flow::Continue }
    });
    let mut runs = 0;
    let process = ChildSpec::process("process", move |own: &mut Process<'_, ()>| {
        runs += 1;
        match own.recv().unwrap().message() {
            Some(()) => Flow::Exit(Failure::new(runs.to_string()).into()),
            None => Flow::Stop,
        }
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, SECOND);
    let supervisor = lab.start(supervisor.child(raw).child(process));
    for round in 1..4 {
        let id = lab.info(&supervisor, "raw").id.unwrap();
        let (node, sup) = (*lab.node, supervisor.clone());
        lab.run(move || {
            node.send(id, Kind(1), Vec::new()).unwrap();
            sup.child_ref::<()>("process").unwrap().tell(()).unwrap();
        });
        assert_eq!(made.load(Ordering::Relaxed), round + 1);
        let last = lab.info(&supervisor, "process").last_exit.unwrap();
        assert_eq!(last.to_string(), format!("error: {round}"));
    }
    assert_eq!(lab.states(&supervisor), [ChildState::Running; 2]);
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
fn a_supervisor_may_be_the_child_of_any_actor() {
    struct Owner(Log);
    impl Actor for Owner {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            let log = self.0.clone();
            let child = ChildSpec::new("leaf", move || Probe::new("leaf", &log));
            ctx.supervisor(Strategy::OneForOne).max_restarts(0, SECOND).child(child).start().unwrap();
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
    let lab = Lab::new();
    let owner = lab.node.spawn(Owner(lab.log.clone())).unwrap();
    lab.node.run_until_idle();
    owner.stop();
    lab.node.run_until_idle();
    assert_eq!(lab.log(), "+leaf -leaf");
    assert_eq!(lab.node.actor_count(), 0);
}

#[test]
fn a_child_that_spins_is_replaced_when_it_was_given_up() {
    struct Spins(Arc<AtomicU32>, mpsc::Sender<()>);
    impl Actor for Spins {
        type Msg = ();
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            self.1.send(()).unwrap();
            while self.0.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            Flow::Continue
        }
    }
    let runtime = Runtime::builder().workers(2);
    let node = Node::builder().runtime(runtime).stop_timeout(Duration::from_millis(20)).build().unwrap();
    let end = Arc::new(AtomicU32::new(0));
    let (shared, (spins, spinning)) = (end.clone(), mpsc::channel());
    let spec = ChildSpec::new("spins", move || Spins(shared.clone(), spins.clone()));
    let supervisor = node.supervisor(Strategy::OneForOne).child(spec).start().unwrap();
    supervisor.wait_started().unwrap();
    let first: ActorRef<()> = supervisor.child_ref("spins").unwrap();
    first.tell(()).unwrap();
    spinning.recv().unwrap();
    first.kill();
    assert_eq!(first.join().unwrap(), ExitReason::Killed);
    let second: ActorRef<()> = supervisor.child_ref("spins").unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(node.zombies(), [first.id()]);
    end.store(1, Ordering::Relaxed);
}

#[test]
fn a_node_that_shuts_down_stops_its_trees_in_order() {
    let log = Log::default();
    let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
    let spec = |key: &'static str| {
        let log = log.clone();
        ChildSpec::new(key, move || Probe::new(key, &log))
    };
    let supervisor = node.supervisor(Strategy::OneForOne).child(spec("a")).child(spec("b")).child(spec("c"));
    supervisor.start().unwrap().wait_started().unwrap();
    assert_eq!(node.shutdown(60 * SECOND).left, 0);
    assert_eq!(log.lock().unwrap().join(" "), "+a +b +c -c -b -a");
}

#[test]
fn a_supervisor_has_a_hundred_thousand_children() {
    let children: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, SECOND).start().unwrap();
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

#[test]
fn crashes_on_all_workers_at_once_leave_every_child_running() {
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, SECOND);
        let keys: Vec<String> = (0..16).map(|n| n.to_string()).collect();
        let supervisor = keys.iter().fold(supervisor, |supervisor, key| {
            let spec = ChildSpec::new(key.as_str(), || Probe::new("", &Log::default()));
            supervisor.child(spec.name(key.as_str()))
        });
        let supervisor = supervisor.start().unwrap();
        supervisor.wait_started().unwrap();
        let rounds = if cfg!(debug_assertions) { 20 } else { 200 };
        let killers: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let (node, supervisor) = (*node, supervisor.clone());
                node.handle().spawn(move || {
                    for round in 0..rounds {
                        let child: ActorRef<Order> = supervisor.child_ref(&key).unwrap();
                        match round % 3 {
                            0 => child.tell(Order::Panic).unwrap(),
                            1 => child.kill(),
                            _ => child.stop(),
                        }
                        child.join().unwrap();
                    }
                })
            })
            .collect();
        killers.into_iter().for_each(|killer| killer.join().unwrap());
        supervisor.stop();
        assert_eq!(supervisor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(node.shutdown(60 * SECOND).left, 0);
    }
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
            let outer = outer.start().unwrap();
            outer.wait_started().unwrap();
            let leaves = outer.child_supervisor("inner").unwrap().child_supervisor("leaves").unwrap();
            assert_eq!(leaves.count_children().unwrap().active, 2);
            outer.stop();
            outer.join().unwrap();
        }
    }
}
