//! What tests of supervisors share: a node that runs when it is told to, and children that note what becomes of them.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    Actor, ActorId, ChildInfo, ChildSpec, ChildState, Ctx, ExitReason, Failure, Flow, LocalNode, Node, Reply,
    Strategy, Supervisor, SupervisorRef,
};
use sinew_sched::{ManualClock, Runtime};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// More time than a deadline is rounded up by.
pub(crate) const BIT: Duration = Duration::from_millis(1);

/// A node that runs when it is told to, on a clock that does so too.
pub(crate) struct Lab {
    pub(crate) node: LocalNode,
    clock: ManualClock,
    pub(crate) log: Log,
}

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

impl Lab {
    pub(crate) fn new() -> Lab {
        let clock = ManualClock::new();
        clock.hold(true);
        let runtime = Runtime::builder().manual_clock(&clock);
        let node = Node::builder().runtime(runtime).stop_timeout(10 * SECOND).build_current_thread().unwrap();
        Lab { node, clock, log: Log::default() }
    }

    /// A child that notes when it starts and stops.
    pub(crate) fn child(&self, key: &'static str) -> ChildSpec {
        let log = self.log.clone();
        ChildSpec::new(key, move || Probe::new(key, &log))
    }

    pub(crate) fn start(&self, supervisor: Supervisor) -> SupervisorRef {
        let supervisor = supervisor.spawn().unwrap();
        self.node.run_until_idle();
        supervisor
    }

    pub(crate) fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> T {
        let result = self.node.runtime().run(body).unwrap();
        self.node.run_until_idle();
        result
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.node.run_until_idle();
    }

    pub(crate) fn tell(&self, supervisor: &SupervisorRef, key: &'static str, order: Order) {
        let supervisor = supervisor.clone();
        self.run(move || supervisor.child_ref::<Order>(key).unwrap().tell(order).unwrap());
    }

    pub(crate) fn infos(&self, supervisor: &SupervisorRef) -> Vec<ChildInfo> {
        let supervisor = supervisor.clone();
        self.run(move || supervisor.which_children().unwrap())
    }

    pub(crate) fn info(&self, supervisor: &SupervisorRef, key: &str) -> ChildInfo {
        self.infos(supervisor).into_iter().find(|info| &*info.key == key).unwrap()
    }

    pub(crate) fn states(&self, supervisor: &SupervisorRef) -> Vec<ChildState> {
        self.infos(supervisor).iter().map(|info| info.state).collect()
    }

    pub(crate) fn join(&self, supervisor: &SupervisorRef) -> ExitReason {
        assert!(supervisor.is_dead());
        let supervisor = supervisor.clone();
        self.run(move || supervisor.join().unwrap())
    }

    /// What was noted since the last time.
    pub(crate) fn log(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap()).join(" ")
    }
}

pub(crate) enum Order {
    Panic,
    Leave(ExitReason),
    /// Blocks until the other end is dropped.
    Block(oneshot::Receiver<()>),
    Id(Reply<ActorId>),
}

pub(crate) struct Probe {
    key: &'static str,
    log: Log,
}

impl Probe {
    pub(crate) fn new(key: &'static str, log: &Log) -> Probe {
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

pub(crate) fn error() -> ExitReason {
    Failure::new("as ordered").into()
}

pub(crate) fn three(lab: &Lab, strategy: Strategy) -> Supervisor {
    let supervisor = lab.node.supervisor(strategy).max_restarts(10, SECOND);
    supervisor.child(lab.child("a")).child(lab.child("b")).child(lab.child("c"))
}
