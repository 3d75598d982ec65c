//! `cargo xtask ci`: the steps that every change passes, in order, each saying how much it ran.
//!
//! A step that ran nothing fails: a check that silently stopped checking is worse than none.

mod code;
mod hygiene;
mod snippets;
mod steps;
mod valgrind;

use std::time::{Duration, Instant};

use crate::Failure;
use crate::report::Tests;

/// One step of the run.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Ran, Broken>,
}

/// What a step that passed has done.
#[derive(Debug)]
struct Ran {
    /// How many things the step is about; none is a failure.
    amount: usize,
    /// The amount for people: "23 files".
    what: String,
    /// The tests among them, for the last line of the run.
    tests: Tests,
}

impl Ran {
    fn new(amount: usize, what: impl Into<String>) -> Ran {
        Ran { amount, what: what.into(), tests: Tests::default() }
    }
}

/// Why a step failed, and what to do about it.
#[derive(Debug)]
struct Broken {
    remedy: String,
    tests: Tests,
}

impl From<String> for Broken {
    fn from(remedy: String) -> Broken {
        Broken { remedy, tests: Tests::default() }
    }
}

const STEPS: [Step; 13] = [
    Step { name: "formatting", about: "every file is as rustfmt writes it", run: steps::formatting },
    Step {
        name: "hygiene",
        about: "atomics, threads and `unsafe` stay in their crates",
        run: hygiene::check,
    },
    Step { name: "clippy", about: "no warning in any target", run: steps::clippy },
    Step { name: "docs", about: "the documentation builds without a warning", run: steps::docs },
    Step { name: "tests", about: "unit and integration tests, debug", run: steps::tests },
    Step { name: "doctests", about: "the examples in the API documentation", run: steps::doctests },
    Step {
        name: "release-tests",
        about: "the tests of sinew-fiber, sinew-sched and sinew-kernel with optimisation",
        run: steps::release_tests,
    },
    Step {
        name: "valgrind",
        about: "the tests of sinew-fiber and sinew-sched under valgrind's memcheck, without an error",
        run: valgrind::check,
    },
    Step { name: "snippets", about: "the Rust code in README.md and docs/", run: snippets::check },
    Step { name: "models", about: "the concurrent protocols under loom and shuttle", run: steps::models },
    Step { name: "examples", about: "every example ends well and prints something", run: steps::examples },
    Step { name: "bench-smoke", about: "every benchmark runs, with tiny numbers", run: steps::bench_smoke },
    Step { name: "demo", about: "the demo of the README", run: steps::demo },
];

pub(crate) fn help() -> String {
    let mut help = "cargo xtask ci [step]...\n\nRuns the named steps, or all of them:\n\n".to_owned();
    for step in &STEPS {
        help += &format!("  {:<14} {}\n", step.name, step.about);
    }
    help + "\nThe first step that fails ends the run. The last line is `N passed, M failed`, counting tests.\n"
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        return Err(Failure::Usage(format!("ci has no step {unknown:?}")));
    }
    let chosen =
        STEPS.iter().filter(|step| arguments.is_empty() || arguments.iter().any(|name| name == step.name));

    let mut rows: Vec<(&str, String, Duration)> = Vec::new();
    let mut tests = Tests::default();
    let mut failed = None;
    for step in chosen {
        println!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = (step.run)().and_then(|ran| match ran.amount {
            0 => Err(Broken::from(
                "the step ran nothing, so it proves nothing: see why it found no work".to_owned(),
            )),
            _ => Ok(ran),
        });
        let took = started.elapsed();
        match outcome {
            Ok(ran) => {
                println!("{} ran: {}", step.name, ran.what);
                tests += ran.tests;
                rows.push((step.name, ran.what, took));
            }
            Err(broken) => {
                tests += broken.tests;
                rows.push((step.name, "FAILED".to_owned(), took));
                failed = Some((step.name, broken.remedy));
                break;
            }
        }
    }

    println!("\n{}", table(&rows));
    if let Some((name, remedy)) = &failed {
        println!("{name} failed: {remedy}\n`cargo xtask ci {name}` repeats this step alone\n");
        // A step can fail without a failed test; the last line must not look like a success.
        tests.failed = tests.failed.max(1);
    }
    println!("{} passed, {} failed", tests.passed, tests.failed);
    if failed.is_some() { Err(Failure::Reported) } else { Ok(()) }
}

fn table(rows: &[(&str, String, Duration)]) -> String {
    let width = rows.iter().map(|(_, what, _)| what.chars().count()).max().unwrap_or(0).max(4);
    let mut table = format!("{:<14} {:<width$} {:>8}\n", "step", "ran", "seconds");
    for (name, what, took) in rows {
        table += &format!("{name:<14} {what:<width$} {:>8.1}\n", took.as_secs_f64());
    }
    let total: Duration = rows.iter().map(|(_, _, took)| *took).sum();
    table + &format!("{:<14} {:<width$} {:>8.1}\n", "total", "", total.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_a_usage_error_that_names_it() {
        match run(&["formatting".to_owned(), "speling".to_owned()]) {
            Err(Failure::Usage(what)) => assert!(what.contains("speling"), "{what}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_help_lists_every_step() {
        let help = help();
        assert!(STEPS.iter().all(|step| help.contains(step.name)));
    }

    #[test]
    fn the_table_ends_with_the_total_time() {
        let rows = [("tests", "12 tests".to_owned(), Duration::from_millis(1500))];
        let table = table(&rows);
        assert!(table.lines().last().unwrap().starts_with("total"), "{table}");
        assert!(table.contains("1.5"), "{table}");
    }
}
