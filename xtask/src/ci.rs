//! `cargo xtask ci`: the steps that every change passes, in order, each saying how much it ran.
//!
//! A step that ran nothing fails: a check that silently stopped checking is worse than none.

mod code;
mod hygiene;
pub(crate) mod layers;
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
    /// When it runs without being named.
    tier: Tier,
    /// How long it should take from a fresh clone on two cores. A step that takes longer is pointed out, and does not fail:
    /// machines differ.
    budget: Duration,
    run: fn() -> Result<Ran, Broken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// In `cargo xtask test`, which needs nothing but rustup and a C compiler, and in `ci`.
    Test,
    /// In `ci` alone.
    Ci,
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
    /// The tests and targets that failed, for the end of the run: build machines keep only the tail
    /// of the output.
    failures: Vec<String>,
}

impl From<String> for Broken {
    fn from(remedy: String) -> Broken {
        Broken { remedy, tests: Tests::default(), failures: Vec::new() }
    }
}

const STEPS: [Step; 14] = [
    Step {
        name: "formatting",
        about: "every file is as rustfmt writes it",
        tier: Tier::Test,
        budget: Duration::from_secs(20),
        run: steps::formatting,
    },
    Step {
        name: "hygiene",
        about: "atomics, threads and `unsafe` stay in their crates, and modules in their layers",
        tier: Tier::Test,
        budget: Duration::from_secs(20),
        run: hygiene::check,
    },
    Step {
        name: "clippy",
        about: "no warning in any target",
        tier: Tier::Test,
        budget: Duration::from_secs(90),
        run: steps::clippy,
    },
    Step {
        name: "tests",
        about: "unit and integration tests, debug",
        tier: Tier::Test,
        budget: Duration::from_secs(200),
        run: steps::tests,
    },
    Step {
        name: "doctests",
        about: "the examples in the API documentation",
        tier: Tier::Test,
        budget: Duration::from_secs(45),
        run: steps::doctests,
    },
    Step {
        name: "snippets",
        about: "the Rust code in README.md and docs/",
        tier: Tier::Test,
        budget: Duration::from_secs(20),
        run: snippets::check,
    },
    Step {
        name: "demo",
        about: "the demo of the README",
        tier: Tier::Test,
        budget: Duration::from_secs(60),
        run: steps::demo,
    },
    Step {
        name: "heavy",
        about: "clippy and the tests of sinew-wasm, sinew-wasm-seam and sinew-bench, whose dependencies are large",
        tier: Tier::Ci,
        budget: Duration::from_secs(420),
        run: steps::heavy,
    },
    Step {
        name: "docs",
        about: "the documentation builds without a warning",
        tier: Tier::Ci,
        budget: Duration::from_secs(30),
        run: steps::docs,
    },
    Step {
        name: "release-tests",
        about: "the tests of the crates from sinew-fiber to sinew-fd with optimisation",
        tier: Tier::Ci,
        budget: Duration::from_secs(420),
        run: steps::release_tests,
    },
    Step {
        name: "valgrind",
        about: "the tests of the crates with `unsafe` code under valgrind's memcheck, without an error",
        tier: Tier::Ci,
        budget: Duration::from_secs(420),
        run: valgrind::check,
    },
    Step {
        name: "models",
        about: "the concurrent protocols under loom and shuttle",
        tier: Tier::Ci,
        budget: Duration::from_secs(360),
        run: steps::models,
    },
    Step {
        name: "examples",
        about: "every example ends well and prints something",
        tier: Tier::Ci,
        budget: Duration::from_secs(90),
        run: steps::examples,
    },
    Step {
        name: "bench-smoke",
        about: "every benchmark runs, with tiny numbers",
        tier: Tier::Ci,
        budget: Duration::from_secs(120),
        run: steps::bench_smoke,
    },
];

pub(crate) fn help() -> String {
    let mut help =
        "cargo xtask ci [step]... [--beyond-test]\n\nRuns the named steps, or all of them:\n\n".to_owned();
    for step in &STEPS {
        let mark = if step.tier == Tier::Test { "*" } else { " " };
        help += &format!("  {:<14}{mark} {}\n", step.name, step.about);
    }
    help + "\n`cargo xtask test` runs those with a star, `cargo xtask ci --beyond-test` the others.\n\
            The first step that fails ends the run. The last line is `N passed, M failed`, counting tests;\n\
            the names of the tests that failed are right above it.\n"
}

pub(crate) const TEST_HELP: &str = "\
cargo xtask test

Runs the steps of `cargo xtask ci` that need nothing but rustup and a C compiler: formatting, lints, tests, examples of the
documentation, demo. `cargo xtask ci --help` lists them all.
";

pub(crate) fn test(arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        Some(unknown) => {
            Err(Failure::Usage(format!("test takes no argument {unknown:?}; `cargo xtask ci` takes steps")))
        }
        None => run_steps(STEPS.iter().filter(|step| step.tier == Tier::Test)),
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let [only] = arguments
        && only == "--beyond-test"
    {
        return run_steps(STEPS.iter().filter(|step| step.tier == Tier::Ci));
    }
    if let Some(unknown) = arguments.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        return Err(Failure::Usage(format!("ci has no step {unknown:?}")));
    }
    let is_chosen = |step: &&Step| arguments.is_empty() || arguments.iter().any(|name| name == step.name);
    run_steps(STEPS.iter().filter(is_chosen))
}

fn run_steps<'a>(chosen: impl Iterator<Item = &'a Step>) -> Result<(), Failure> {
    let mut rows: Vec<Row> = Vec::new();
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
                rows.push(Row { step, ran: ran.what, took });
            }
            Err(broken) => {
                tests += broken.tests;
                rows.push(Row { step, ran: "FAILED".to_owned(), took });
                failed = Some((step.name, broken));
                break;
            }
        }
    }

    println!("\n{}\n{}", table(&rows), summary(failed.as_ref(), tests));
    if failed.is_some() { Err(Failure::Reported) } else { Ok(()) }
}

/// The lines below the table: the step that failed and what failed in it, then the number of tests.
fn summary(failed: Option<&(&str, Broken)>, tests: Tests) -> String {
    let Some((name, Broken { remedy, failures, .. })) = failed else {
        return format!("{} passed, {} failed", tests.passed, tests.failed);
    };
    let mut summary = format!("{name} failed: {remedy}\n`cargo xtask ci {name}` repeats this step alone\n\n");
    if !failures.is_empty() {
        summary += &format!("failed:\n  {}\n", failures.join("\n  "));
    }
    // A step can fail without a failed test; the last line must not look like a success.
    summary + &format!("{} passed, {} failed", tests.passed, tests.failed.max(1))
}

/// A line of the table: what a step ran, and how long that took.
struct Row<'a> {
    step: &'a Step,
    ran: String,
    took: Duration,
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.ran.chars().count()).max().unwrap_or(0).max(4);
    let mut table = format!("{:<14} {:<width$} {:>8} {:>8}\n", "step", "ran", "seconds", "budget");
    let mut line = |name: &str, ran: &str, took: Duration, budget: Duration| {
        let mark = if took > budget { "  <== OVER BUDGET" } else { "" };
        let (took, budget) = (took.as_secs_f64(), budget.as_secs());
        table += &format!("{name:<14} {ran:<width$} {took:>8.1} {budget:>8}{mark}\n");
    };
    rows.iter().for_each(|row| line(row.step.name, &row.ran, row.took, row.step.budget));
    let total = |of: fn(&Row) -> Duration| rows.iter().map(of).sum();
    line("total", "", total(|row| row.took), total(|row| row.step.budget));
    table
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
    fn the_table_ends_with_the_total_time_and_points_out_what_took_too_long() {
        let row = |at: usize, took| Row { step: &STEPS[at], ran: "12 tests".to_owned(), took };
        let table = table(&[row(0, Duration::from_millis(1500)), row(1, Duration::from_secs(1000))]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains("1.5") && !lines[1].contains("OVER BUDGET"), "{table}");
        assert!(lines[2].contains("1000.0") && lines[2].contains("OVER BUDGET"), "{table}");
        assert!(lines[3].starts_with("total") && lines[3].contains("1001.5"), "{table}");
    }

    #[test]
    fn the_summary_names_what_failed_right_before_its_last_line() {
        let tests = Tests { passed: 5, failed: 2, ..Tests::default() };
        let failures = vec!["a::b".to_owned(), "target `-p x --lib`".to_owned()];
        let broken = Broken { remedy: "mend it".to_owned(), tests, failures };
        let summary = summary(Some(&("tests", broken)), tests);
        assert!(summary.starts_with("tests failed: mend it\n"), "{summary}");
        assert!(
            summary.ends_with("\nfailed:\n  a::b\n  target `-p x --lib`\n5 passed, 2 failed"),
            "{summary}"
        );
    }

    #[test]
    fn a_step_that_fails_without_a_failed_test_is_not_summed_up_as_a_success() {
        let tests = Tests { passed: 5, ..Tests::default() };
        let summary_of_failure = summary(Some(&("docs", Broken::from("mend it".to_owned()))), tests);
        assert!(summary_of_failure.ends_with("alone\n\n5 passed, 1 failed"), "{summary_of_failure}");
        assert_eq!(summary(None, tests), "5 passed, 0 failed");
    }

    #[test]
    fn the_test_command_takes_no_steps() {
        assert!(matches!(test(&["models".to_owned()]), Err(Failure::Usage(what)) if what.contains("models")));
    }
}
