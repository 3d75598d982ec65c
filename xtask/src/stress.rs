//! `cargo xtask stress`: the release tests again and again, to meet the schedule that fails once in many.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::options::Options;
use crate::process::{self, Show};
use crate::programs::{self, Program};
use crate::report::{Tests, ended_test};
use crate::workspace;

pub(crate) const HELP: &str = "\
cargo xtask stress [--runs N] [--scale N] [--limit SECONDS]

Builds the release tests of the crates that switch stacks, schedule and run actors, and runs them N times with 1, 2
and 8 test threads in turn. The first failure ends the run. `stress_kernel` kills actors of a tree of 10,000 at random,
for as many seconds as the scale says, and balances the books of their messages.

  --runs N          how often (20)
  --scale N         how much longer than in ci the stress tests run (5), by SINEW_STRESS
  --limit SECONDS   how long one test program may take before it counts as hanging (900)
";

/// The crates whose tests depend on timing and on the optimiser.
const STRESSED: [&str; 5] = ["sinew-fiber", "sinew-sched", "sinew-chan", "sinew-io", "sinew-kernel"];

const TEST_THREADS: [&str; 3] = ["1", "2", "8"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(arguments);
    let runs = options.number("--runs", 20)?;
    let scale = options.number("--scale", 5)?;
    let limit = Duration::from_secs(options.number("--limit", 900)?);
    options.finish()?;

    let programs = programs::build(&STRESSED, "release-test", |_| {}).map_err(Failure::Work)?;
    let started = Instant::now();
    let mut total = Tests::default();
    for run in 1..=runs {
        let threads = TEST_THREADS[(run - 1) as usize % TEST_THREADS.len()];
        let mut tests = Tests::default();
        for program in &programs {
            tests += run_once(program, threads, scale, limit).map_err(Failure::Work)?;
        }
        total += tests;
        println!(
            "run {run} of {runs}, test threads {threads}: {tests}, {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
    if total.passed == 0 {
        return Err(Failure::Work(format!("no test ran: {} have none", STRESSED.join(" and "))));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(())
}

fn run_once(program: &Program, threads: &str, scale: u64, limit: Duration) -> Result<Tests, String> {
    let mut command = program.command();
    command.env("RUST_TEST_THREADS", threads).env("SINEW_STRESS", scale.to_string());
    let finished = process::run_within(&mut command, Show::Nothing, limit, |process, printed| {
        println!("{} hangs after {} s", program.name(), limit.as_secs());
        print_threads(process);
        match program.tests() {
            Ok(tests) => {
                unfinished(&tests, printed).iter().for_each(|test| println!("  not finished: {test}"));
            }
            Err(error) => println!("  its tests cannot be listed: {error}"),
        }
    })?;
    if !finished.end.is_success() {
        finished.lines().for_each(|line| println!("{line}"));
        return Err(format!(
            "{} failed with RUST_TEST_THREADS={threads} SINEW_STRESS={scale}: {}",
            program.name(),
            finished.end
        ));
    }
    Ok(Tests::count(finished.lines()))
}

/// The tests that `printed` does not report as ended.
fn unfinished(listed: &[String], printed: &[String]) -> Vec<String> {
    let ended: BTreeSet<&str> = printed.iter().filter_map(|line| ended_test(line)).collect();
    listed.iter().filter(|test| !ended.contains(test.as_str())).cloned().collect()
}

/// The threads of a process and what each is doing; the test harness names a thread after its test.
fn print_threads(process: u32) {
    for task in workspace::entries(Path::new(&format!("/proc/{process}/task"))) {
        let read = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("?").trim();
        println!("  thread {:<16} {state}", read("comm").trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_a_verdict_is_unfinished() {
        let printed = ["running 3 tests", "test a ... ok", "test b - should panic ... ok"].map(str::to_owned);
        assert_eq!(unfinished(&["a", "b", "c"].map(str::to_owned), &printed), ["c"]);
    }
}
