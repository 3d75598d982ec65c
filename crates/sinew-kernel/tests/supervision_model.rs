//! Supervisors against a model: random strategies, children, exits, failed starts, commands and times.
//!
//! The model knows no actors and nothing that takes time but the clock: in it, whoever is started or stopped is so at once. Both
//! tell in which order children have started and were stopped, how commands were answered, what each child does in between,
//! and how the supervisor ended.
//!
//! `PROPTEST_CASES` says how many cases there are; 10,000 with optimisation, and 500 without.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy as _, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sinew_kernel::{
    Actor, ActorRef, Backoff, ChildSpec, ChildState, Ctx, ExitReason, Failure, Flow, LocalNode, Node,
    Restart, Strategy, SupervisorError, SupervisorRef,
};
use sinew_sched::{ManualClock, Runtime};

// What happens. Times are in tenths of milliseconds; delays end between two whole milliseconds, and the clock is only
// looked at on whole ones, since deadlines are rounded up a bit.

#[derive(Clone, Debug)]
struct Case {
    strategy: Strategy,
    max_restarts: u32,
    window: u64,
    children: Vec<Kid>,
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug)]
struct Kid {
    restart: Restart,
    /// The first delay, the factor, and after how long it starts over.
    backoff: (u64, u32, u64),
    /// How many of its first starts fail.
    bad_starts: u32,
}

const MAX_DELAY: u64 = 505;

#[derive(Clone, Debug)]
enum Op {
    End(usize, How),
    EndBoth(usize, usize, How),
    /// The next starts of a child fail.
    Spoil(usize, u32),
    Pass(u64),
    Terminate(usize),
    Restart(usize),
    Delete(usize),
    Add(Kid),
    /// The supervisor is asked to stop, and that is all.
    Stop,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Normal,
    Shutdown,
    Error,
    Panic,
    Kill,
}

impl How {
    fn is_abnormal(self) -> bool {
        !matches!(self, How::Normal | How::Shutdown)
    }
}

fn kids() -> impl proptest::strategy::Strategy<Value = Kid> {
    let restart = prop_oneof![
        4 => Just(Restart::Permanent),
        2 => Just(Restart::Transient),
        1 => Just(Restart::Temporary),
    ];
    let backoff =
        (prop_oneof![3 => Just(0u64), 2 => Just(101)], 1..4u32, prop_oneof![Just(200u64), Just(100_000)]);
    let bad_starts = prop_oneof![6 => Just(0u32), 1 => 1..3u32];
    (restart, backoff, bad_starts).prop_map(|(restart, backoff, bad_starts)| Kid {
        restart,
        backoff,
        bad_starts,
    })
}

fn ops() -> impl proptest::strategy::Strategy<Value = Op> {
    let how = || {
        prop_oneof![
            Just(How::Normal),
            Just(How::Shutdown),
            Just(How::Error),
            Just(How::Panic),
            Just(How::Kill)
        ]
    };
    let child = || 0..7usize;
    prop_oneof![
        8 => (child(), how()).prop_map(|(child, how)| Op::End(child, how)),
        2 => (child(), child(), how()).prop_map(|(one, other, how)| Op::EndBoth(one, other, how)),
        1 => (child(), 1..4u32).prop_map(|(child, times)| Op::Spoil(child, times)),
        6 => (1..60u64).prop_map(|milliseconds| Op::Pass(10 * milliseconds)),
        2 => child().prop_map(Op::Terminate),
        2 => child().prop_map(Op::Restart),
        1 => child().prop_map(Op::Delete),
        1 => kids().prop_map(Op::Add),
    ]
}

fn cases() -> impl proptest::strategy::Strategy<Value = Case> {
    let strategy = prop_oneof![
        Just(Strategy::OneForOne),
        Just(Strategy::OneForAll),
        Just(Strategy::RestForOne),
        Just(Strategy::Dynamic)
    ];
    (strategy, 0..8u32, 1..100u64, vec(kids(), 0..5), vec(ops(), 0..25), any::<bool>()).prop_map(
        |(strategy, max_restarts, window, children, mut ops, stops)| {
            if stops {
                ops.push(Op::Stop);
            }
            Case { strategy, max_restarts, window: 10 * window, children, ops }
        },
    )
}

// The model.

#[derive(Default)]
struct Model {
    strategy: Strategy,
    max_restarts: usize,
    window: u64,
    now: u64,
    counted: Vec<u64>,
    children: Vec<Modelled>,
    /// To start in order, not before a time.
    pending: BTreeSet<usize>,
    not_before: u64,
    log: Vec<String>,
    ended: Option<&'static str>,
}

struct Modelled {
    kid: Kid,
    state: State,
    bad_starts: u32,
    next_delay: u64,
    /// Somebody waits for it to start; true if it was added so.
    asked: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Up {
        since: u64,
    },
    /// It starts at this time, whatever the others do.
    Wait {
        until: u64,
    },
    Down,
    Gone,
}

impl Model {
    fn add(&mut self, kid: Kid) -> usize {
        let next_delay = kid.backoff.0;
        let bad_starts = kid.bad_starts;
        self.children.push(Modelled { kid, state: State::Down, bad_starts, next_delay, asked: None });
        self.children.len() - 1
    }

    /// Children are restarted without regard to the others.
    fn is_one_for_one(&self) -> bool {
        matches!(self.strategy, Strategy::OneForOne | Strategy::Dynamic)
    }

    /// Starts a child. True if it has started.
    fn start(&mut self, child: usize) -> bool {
        let now = self.now;
        let it = &mut self.children[child];
        if it.bad_starts > 0 {
            it.bad_starts -= 1;
            return false;
        }
        (it.state, it.asked) = (State::Up { since: now }, None);
        self.log.push(format!("+{child}"));
        true
    }

    /// Stops a child that runs.
    fn stop(&mut self, child: usize) {
        if let State::Up { .. } = self.children[child].state {
            self.log.push(format!("-{child}"));
            self.children[child].state = State::Down;
        }
    }

    fn end(&mut self, reason: &'static str) {
        (0..self.children.len()).rev().for_each(|child| self.stop(child));
        self.pending.clear();
        self.ended = Some(reason);
    }

    /// Children that are started together; those that fail do so when all have been tried.
    fn start_alone(&mut self, children: Vec<usize>) {
        let bad: Vec<usize> = children.into_iter().filter(|child| !self.start(*child)).collect();
        let bad = bad.into_iter().map(|child| (child, 0, How::Panic, false)).collect();
        self.have_ended(bad);
    }

    /// Children that have ended, how long they lived, how, and whether that was while they were started in order.
    fn have_ended(&mut self, ends: Vec<(usize, u64, How, bool)>) {
        let one_for_one = self.is_one_for_one();
        let mut alone = Vec::new();
        for (child, lived, how, in_order) in ends {
            let it = &mut self.children[child];
            let asked = it.asked.take();
            // Whoever is stopped with another has not failed.
            let stopped = self.pending.contains(&child) || self.ended.is_some();
            let Kid { restart, backoff, .. } = it.kid;
            if stopped && self.ended.is_none() && asked.is_none() {
                continue;
            }
            it.state = State::Down;
            if restart == Restart::Temporary || asked == Some(true) {
                it.state = State::Gone;
                continue;
            }
            let restarts = restart == Restart::Permanent || how.is_abnormal();
            if stopped || asked.is_some() || !restarts {
                continue;
            }
            let (now, window) = (self.now, self.window);
            if self.counted.iter().filter(|then| now - **then <= window).count() >= self.max_restarts {
                // Those that were just spawned get as far as they can before they are stopped.
                for child in std::mem::take(&mut alone) {
                    self.start(child);
                }
                self.end("restarts exceeded");
                continue;
            }
            self.counted.push(now);
            if lived >= backoff.2 {
                it.next_delay = backoff.0;
            }
            let delay = it.next_delay;
            it.next_delay = (delay * u64::from(backoff.1)).min(MAX_DELAY);
            let affected = match self.strategy {
                _ if one_for_one && !in_order && delay == 0 => {
                    alone.push(child);
                    continue;
                }
                _ if one_for_one && !in_order => {
                    it.state = State::Wait { until: now + delay };
                    continue;
                }
                Strategy::OneForOne | Strategy::Dynamic => child..child,
                Strategy::OneForAll => 0..self.children.len(),
                Strategy::RestForOne => child..self.children.len(),
            };
            for other in affected.rev() {
                if let State::Up { .. } = self.children[other].state
                    && other != child
                {
                    self.stop(other);
                    if self.children[other].kid.restart == Restart::Temporary {
                        self.children[other].state = State::Gone;
                    } else {
                        self.pending.insert(other);
                    }
                }
            }
            self.pending.insert(child);
            self.not_before = self.not_before.max(now + delay);
        }
        if !alone.is_empty() {
            self.start_alone(alone);
        }
    }

    /// Starts those whose turn it is.
    fn go_on(&mut self) {
        while self.ended.is_none()
            && self.not_before <= self.now
            && let Some(child) = self.pending.pop_first()
        {
            if !self.start(child) {
                self.have_ended(vec![(child, 0, How::Panic, true)]);
            }
        }
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        let due =
            |child: &usize| matches!(self.children[*child].state, State::Wait { until } if until <= self.now);
        let mut due: Vec<usize> = (0..self.children.len()).filter(due).collect();
        due.iter().for_each(|child| self.children[*child].state = State::Down);
        due.sort();
        self.start_alone(due);
        self.go_on();
    }

    /// Children that run end, one after the other.
    fn ends(&mut self, children: &[usize], how: How) {
        let mut ends = Vec::new();
        for child in children {
            if let State::Up { since } = self.children[*child].state {
                ends.push((*child, self.now - since, how, false));
            }
        }
        // In a group, the second one is stopped with the first if it is restarted with it.
        if self.is_one_for_one() {
            ends.iter().for_each(|(child, ..)| self.children[*child].state = State::Down);
            self.have_ended(ends);
        } else {
            for end in ends {
                if let State::Up { .. } = self.children[end.0].state {
                    self.have_ended(vec![end]);
                }
            }
        }
        self.go_on();
    }

    fn is_stopped(&self, child: usize) -> bool {
        self.children[child].state == State::Down && !self.pending.contains(&child)
    }

    /// Starts a child for somebody who waits for it, and says how that went; none if it does not start yet.
    fn start_for(&mut self, child: usize, new: bool) -> Option<Answer> {
        self.children[child].asked = Some(new);
        if self.is_one_for_one() && self.pending.is_empty() {
            self.start_alone(vec![child]);
        } else {
            self.pending.insert(child);
            self.go_on();
        }
        match self.children[child].state {
            _ if self.pending.contains(&child) => None,
            State::Up { .. } => Some(Answer::Done),
            _ => Some(Answer::Failed),
        }
    }

    fn command(&mut self, op: &Op) -> Option<Answer> {
        match *op {
            Op::Add(kid) => {
                let child = self.add(kid);
                self.start_for(child, true)
            }
            Op::Terminate(child) | Op::Restart(child) | Op::Delete(child)
                if self.children[child].state == State::Gone =>
            {
                Some(Answer::NoChild)
            }
            Op::Terminate(child) => {
                let was_asked = self.children[child].asked.take();
                self.pending.remove(&child);
                self.stop(child);
                let it = &mut self.children[child];
                it.state = State::Down;
                if it.kid.restart == Restart::Temporary || was_asked == Some(true) {
                    it.state = State::Gone;
                }
                Some(Answer::Done)
            }
            Op::Restart(child) if self.is_stopped(child) => self.start_for(child, false),
            Op::Delete(child) if self.is_stopped(child) => {
                self.children[child].state = State::Gone;
                Some(Answer::Done)
            }
            Op::Restart(_) | Op::Delete(_) => Some(Answer::NotStopped),
            _ => unreachable!("it is a command"),
        }
    }

    fn states(&self) -> Vec<(String, ChildState)> {
        let all = self.children.iter().enumerate().filter(|(_, it)| it.state != State::Gone);
        all.map(|(child, it)| {
            let state = match it.state {
                State::Up { .. } => ChildState::Running,
                State::Wait { .. } => ChildState::Waiting,
                _ if self.pending.contains(&child) => ChildState::Waiting,
                _ => ChildState::Stopped,
            };
            (child.to_string(), state)
        })
        .collect()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    Done,
    Failed,
    NoChild,
    NotStopped,
}

// The supervisor.

struct Real<'a> {
    node: &'a LocalNode,
    clock: &'a ManualClock,
    supervisor: SupervisorRef,
    children: Vec<Shared>,
    log: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Shared {
    bad_starts: Arc<AtomicU32>,
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

fn milliseconds(tenths: u64) -> Duration {
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
    fn start<'a>(node: &'a LocalNode, clock: &'a ManualClock, case: &Case) -> Real<'a> {
        let log = Arc::default();
        let mut supervisor =
            node.supervisor(case.strategy).max_restarts(case.max_restarts, milliseconds(case.window));
        let mut children = Vec::new();
        for (number, kid) in case.children.iter().enumerate() {
            let (spec, shared) = spec(number, *kid, &log);
            supervisor = supervisor.child(spec);
            children.push(shared);
        }
        let supervisor = supervisor.start().unwrap();
        node.run_until_idle();
        Real { node, clock, supervisor, children, log }
    }

    fn ends(&self, children: &[usize], how: How) {
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

    fn command(&mut self, op: &Op) -> Option<Answer> {
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

    fn states(&self) -> Vec<(String, ChildState)> {
        let supervisor = self.supervisor.clone();
        let infos = self.node.runtime().run(move || supervisor.which_children().unwrap()).unwrap();
        infos.into_iter().map(|info| (info.key.to_string(), info.state)).collect()
    }

    fn ended(&self) -> Option<&'static str> {
        let supervisor = self.supervisor.clone();
        let is_dead = supervisor.is_dead();
        is_dead.then(|| self.node.runtime().run(move || supervisor.join().unwrap().name()).unwrap())
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

fn agree(node: &LocalNode, clock: &ManualClock, case: &Case) {
    let mut model = Model {
        strategy: case.strategy,
        max_restarts: case.max_restarts as usize,
        window: case.window,
        ..Model::default()
    };
    for kid in &case.children {
        let child = model.add(*kid);
        model.pending.insert(child);
    }
    model.go_on();
    let mut real = Real::start(node, clock, case);
    check(&mut model, &real, &Op::Pass(0), case.strategy == Strategy::Dynamic);
    for op in &case.ops {
        if model.ended.is_some() {
            break;
        }
        let known = model.children.len();
        // Dynamic children are stopped in no order.
        let mut any_order = case.strategy == Strategy::Dynamic;
        match *op {
            Op::End(child, how) if child < known => {
                model.ends(&[child], how);
                real.ends(&[child], how);
            }
            Op::EndBoth(one, other, how) if one != other && one.max(other) < known => {
                // The first of two that end at once is the one with which the other is restarted.
                let both = [one.min(other), one.max(other)];
                if both.iter().any(|child| model.children[*child].bad_starts > 0) {
                    continue; // how often one of them is tried before the other ends depends on who runs first
                }
                model.ends(&both, how);
                real.ends(&both, how);
                any_order = true;
            }
            Op::Spoil(child, times) if child < known => {
                model.children[child].bad_starts = times;
                real.children[child].bad_starts.store(times, Ordering::Relaxed);
            }
            Op::Pass(time) => {
                model.pass(time);
                real.clock.advance(milliseconds(time));
                real.node.run_until_idle();
                any_order = model.is_one_for_one();
            }
            Op::Terminate(child) | Op::Restart(child) | Op::Delete(child) if child >= known => (),
            Op::Add(_) | Op::Terminate(_) | Op::Restart(_) | Op::Delete(_) => {
                assert_eq!(model.command(op), real.command(op), "{op:?}");
            }
            Op::Stop => {
                model.end("shutdown");
                real.supervisor.stop();
                real.node.run_until_idle();
            }
            _ => (),
        }
        check(&mut model, &real, op, any_order);
    }
    real.supervisor.stop();
    node.run_until_idle();
    assert!(real.supervisor.is_dead());
    assert_eq!(node.actor_count(), 0);
}

fn check(model: &mut Model, real: &Real<'_>, op: &Op, any_order: bool) {
    let (mut expected, mut log) = (std::mem::take(&mut model.log), real.log());
    if let Op::EndBoth(one, other, _) = op {
        // Whether the second is stopped, or ends before that, depends on who runs first.
        let ended = [one, other].map(|child| format!("-{child}"));
        expected.retain(|what| !ended.contains(what));
        log.retain(|what| !ended.contains(what));
    }
    if any_order {
        expected.sort();
        log.sort();
    }
    assert_eq!(log, expected, "the order after {op:?}");
    assert_eq!(real.ended(), model.ended, "the end after {op:?}");
    if model.ended.is_none() {
        assert_eq!(real.states(), model.states(), "the children after {op:?}");
    }
}

#[test]
fn any_supervisor_does_what_the_model_does() {
    std::panic::set_hook(Box::new(|_| ()));
    let asked: Option<u32> = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let usual = if cfg!(debug_assertions) { 500 } else { 10_000 };
    let rng_algorithm = RngAlgorithm::XorShift;
    let config = Config {
        cases: asked.unwrap_or(usual),
        rng_algorithm,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(rng_algorithm)),
    };
    // A case that failed leaves its actors behind: the next one, a smaller one, has another node.
    let clean = RefCell::new(None);
    let result = runner.run(&cases(), |case| {
        let (node, clock) = clean.take().unwrap_or_else(node);
        agree(&node, &clock, &case);
        clean.replace(Some((node, clock)));
        Ok(())
    });
    match result {
        Ok(()) => (),
        Err(TestError::Fail(why, case)) => {
            let _ = std::panic::take_hook();
            panic!("{why}, for {case:#?}")
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

fn node() -> (LocalNode, ManualClock) {
    let clock = ManualClock::new();
    clock.hold(true);
    let runtime = Runtime::builder().manual_clock(&clock);
    (Node::builder().runtime(runtime).build_current_thread().unwrap(), clock)
}
