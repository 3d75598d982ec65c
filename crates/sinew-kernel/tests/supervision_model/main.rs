//! Supervisors against a model: random strategies, children, exits, failed starts, commands and times.
//!
//! The model knows no actors and nothing that takes time but the clock: in it, whoever is started or stopped is so at once. Both
//! tell in which order children have started and were stopped, how commands were answered, what each child does in between,
//! and how the supervisor ended.
//!
//! A program of its own, because it silences the panic hook of the process.
//!
//! `PROPTEST_CASES` says how many cases there are; 10,000 with optimisation, and 500 without.

mod case;
mod model;
mod real;

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sinew_kernel::{LocalNode, Node, Strategy};
use sinew_sched::{ManualClock, Runtime};

use case::{Case, Op, cases};
use model::Model;
use real::{Real, milliseconds};

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

// S16
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
