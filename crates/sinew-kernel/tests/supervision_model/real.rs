//! The supervisor, with children that do as they are told.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorRef, Backoff, ChildSpec, ChildState, Ctx, ExitReason, Failure, Flow, LocalNode,
    SupervisorError, SupervisorRef,
};
use sinew_sched::ManualClock;

use crate::case::{Case, How, Kid, MAX_DELAY, Op};
use crate::model::Answer;

pub(crate) struct Real<'a> {
    pub(crate) node: &'a LocalNode,
    pub(crate) clock: &'a ManualClock,
    pub(crate) supervisor: SupervisorRef,
    pub(crate) children: Vec<Shared>,
    log: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) bad_starts: Arc<AtomicU32>,
    running: Arc<Mutex<Option<ActorRef<How>>>>,
}

struct Child {
    number: usize,
    shared: Shared,
    log: Arc<Mutex<Vec<String>>>,
    leaves: bool,
}

impl Actor for Child {
    type Msg = How;

    fn started(&mut self, ctx: &mut Ctx<How>) -> Flow {
        *self.shared.running.lock().unwrap() = Some(ctx.me());
        self.log.lock().unwrap().push(format!("+{}", self.number));
        Flow::Continue
    }

    fn handle(&mut self, how: How, _: &mut Ctx<How>) -> Flow {
        self.leaves = true;
        match how {
            How::Normal => Flow::Stop,
            How::Shutdown => Flow::Exit(ExitReason::Shutdown),
            How::Error => Flow::Exit(Failure::new("as ordered").into()),
            How::Panic => panic!("as ordered"),
            How::Kill => unreachable!("that is no message"),
        }
    }

    fn stopping(&mut self, _: &ExitReason, _: &mut Ctx<How>) {
        if !self.leaves {
            self.log.lock().unwrap().push(format!("-{}", self.number));
        }
    }
}

pub(crate) fn milliseconds(tenths: u64) -> Duration {
    Duration::from_micros(100 * tenths)
}

fn spec(number: usize, kid: Kid, log: &Arc<Mutex<Vec<String>>>) -> (ChildSpec, Shared) {
    let shared = Shared { bad_starts: Arc::new(AtomicU32::new(kid.bad_starts)), running: Arc::default() };
    let (own, log) = (shared.clone(), log.clone());
    let spec = ChildSpec::new(number.to_string(), move || {
        if own.bad_starts.load(Ordering::Relaxed) > 0 {
            own.bad_starts.fetch_sub(1, Ordering::Relaxed);
            panic!("a bad start");
        }
        Child { number, shared: own.clone(), log: log.clone(), leaves: false }
    });
    let (initial, factor, reset) = kid.backoff;
    let [initial, max, reset] = [initial, MAX_DELAY, reset].map(milliseconds);
    (spec.restart(kid.restart).backoff(Backoff { initial, factor, max, reset }), shared)
}

impl Real<'_> {
    pub(crate) fn start<'a>(node: &'a LocalNode, clock: &'a ManualClock, case: &Case) -> Real<'a> {
        let log = Arc::default();
        let mut supervisor =
            node.supervisor(case.strategy).max_restarts(case.max_restarts, milliseconds(case.window));
        let mut children = Vec::new();
        for (number, kid) in case.children.iter().enumerate() {
            let (spec, shared) = spec(number, *kid, &log);
            supervisor = supervisor.child(spec);
            children.push(shared);
        }
        let supervisor = supervisor.spawn().unwrap();
        node.run_until_idle();
        Real { node, clock, supervisor, children, log }
    }

    pub(crate) fn ends(&self, children: &[usize], how: How) {
        for child in children {
            let child = self.children[*child].running.lock().unwrap().clone();
            let Some(child) = child.filter(|child| !child.is_dead()) else { continue };
            match how {
                How::Kill => child.kill(),
                how => child.tell(how).unwrap(),
            }
        }
        self.node.run_until_idle();
    }

    pub(crate) fn command(&mut self, op: &Op) -> Option<Answer> {
        let (supervisor, op, log) = (self.supervisor.clone(), op.clone(), self.log.clone());
        let number = self.children.len();
        let added = match op {
            Op::Add(kid) => Some(spec(number, kid, &log)),
            _ => None,
        };
        let added = added.map(|(spec, shared)| {
            self.children.push(shared);
            spec
        });
        let task = self.node.runtime().spawn(move || match op {
            Op::Add(_) => supervisor.start_child(added.unwrap()).map(drop),
            Op::Terminate(child) => supervisor.terminate_child(&child.to_string()),
            Op::Restart(child) => supervisor.restart_child(&child.to_string()).map(drop),
            Op::Delete(child) => supervisor.delete_child(&child.to_string()),
            _ => unreachable!("it is a command"),
        });
        self.node.run_until_idle();
        if !task.is_finished() {
            task.detach();
            return None;
        }
        Some(match task.join().unwrap() {
            Ok(()) => Answer::Done,
            Err(SupervisorError::Failed(_)) => Answer::Failed,
            Err(SupervisorError::NoChild(_)) => Answer::NoChild,
            Err(SupervisorError::NotStopped(_)) => Answer::NotStopped,
            Err(error) => panic!("{error}"),
        })
    }

    pub(crate) fn states(&self) -> Vec<(String, ChildState)> {
        let supervisor = self.supervisor.clone();
        let infos = self.node.runtime().run(move || supervisor.which_children().unwrap()).unwrap();
        infos.into_iter().map(|info| (info.key.to_string(), info.state)).collect()
    }

    pub(crate) fn ended(&self) -> Option<&'static str> {
        let supervisor = self.supervisor.clone();
        let is_dead = supervisor.is_dead();
        is_dead.then(|| self.node.runtime().run(move || supervisor.join().unwrap().name()).unwrap())
    }

    pub(crate) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}
