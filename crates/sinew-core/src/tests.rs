//! How this crate's properties are tested: on random values, the same ones each time.

extern crate std;

use core::fmt;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Calls `property` with many values, and panics with the smallest for which it panics.
///
/// A normal run makes the same values each time; `PROPTEST_CASES=100000` makes that many new ones.
pub(crate) fn for_all<S: Strategy>(values: S, property: impl Fn(S::Value))
where
    S::Value: fmt::Debug,
{
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let rng_algorithm = RngAlgorithm::XorShift;
    let config = Config { rng_algorithm, failure_persistence: None, ..Config::default() };
    let mut runner = match is_asked {
        true => TestRunner::new(config),
        false => TestRunner::new_with_rng(config, TestRng::deterministic_rng(rng_algorithm)),
    };
    let result = runner.run(&values, |value| {
        property(value);
        Ok(())
    });
    match result {
        Ok(()) => (),
        Err(TestError::Fail(why, value)) => panic!("{why}, for {value:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
