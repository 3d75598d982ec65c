//! The whole machine against a small reference: random programs do the same on both.
//!
//! A normal run makes the same programs each time; `PROPTEST_CASES=100000` makes that many new ones. A
//! failure prints the smallest program that it found, and where the two logs part.
#![cfg(not(any(loom, shuttle)))]

mod calls;
mod coverage;
mod log;
mod program;
mod real;
mod reference;
mod signals;
mod state;
mod strategy;

use std::cell::RefCell;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use coverage::Coverage;
use program::{Make, Op, Program};

/// In a normal run; enough to reach everything that [`Coverage`] demands, many times.
const CASES: u32 = 3000;

#[test]
fn random_programs_do_what_the_rules_say() {
    let asked = std::env::var("PROPTEST_CASES").ok().map(|cases| cases.parse().expect("a number of cases"));
    let cases = asked.unwrap_or(CASES);
    // ChaCha, the default, takes most of the time in a debug build.
    let rng_algorithm = RngAlgorithm::XorShift;
    let config = Config { cases, rng_algorithm, failure_persistence: None, ..Config::default() };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(rng_algorithm)),
    };
    let coverage = RefCell::new(Coverage::default());
    let result = runner.run(&strategy::programs(), |program| {
        compare(&program, &mut coverage.borrow_mut()).map_err(TestCaseError::fail)
    });

    match result {
        Ok(()) => (),
        Err(TestError::Fail(difference, program)) => panic!("{difference}\n\n{program:?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
    let deep = compare(&deeper_than_allowed(), &mut coverage.borrow_mut());
    deep.unwrap_or_else(|difference| panic!("a chain as deep as it may be: {difference}"));
    let coverage = coverage.into_inner();
    println!("{cases} programs reached\n{coverage}");
    let missing = coverage.missing();
    assert!(cases < CASES || missing.is_empty(), "no program reached these: {missing:#?}");
}

/// The difference between what the machine and the reference do with `program`, if there is one.
fn compare(program: &Program, coverage: &mut Coverage) -> Result<(), String> {
    let expected = reference::run(program, coverage);
    let real = real::run(program);
    let same = expected.iter().zip(&real).take_while(|(expected, real)| expected == real).count();
    if same == expected.len() && same == real.len() {
        return Ok(());
    }
    let show =
        |event: Option<&log::Event>| event.map_or("nothing more".to_owned(), |event| format!("{event:?}"));
    let before: String =
        expected[same.saturating_sub(12)..same].iter().map(|event| format!("\n  {event:?}")).collect();
    Err(format!(
        "after{before}\nthe rules say\n  {}\nand the machine did\n  {}",
        show(expected.get(same)),
        show(real.get(same))
    ))
}

/// Fibers that resume one another until that is refused.
fn deeper_than_allowed() -> Program {
    let mut body = vec![Op::Yield];
    for _ in 0..=sinew_fiber::MAX_DEPTH {
        body = vec![Op::Run(Make { letters: String::new(), body: body.into() }), Op::Yield];
    }
    let catching = Make { letters: "y".to_owned(), body: body.into() };
    let body = vec![Op::Run(catching), Op::Resume(program::Target(usize::from(sinew_fiber::MAX_DEPTH)))];
    Program { roots: [None, None], runs: vec![(0, body.into())] }
}
